"""The driver reports the versions of its engine, and refuses an engine without Hudi."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from sluice_local.images.jars import hudi_bundle
from sluice_spark.engine import session, versions
from sluice_spark.errors import NoBundle


def test_versions_are_the_engines_own(spark, jars):
    engine = versions.engine_versions(spark)
    assert engine["spark"] == spark.version and hudi_bundle(jars).stem.endswith(f"-{engine['hudi']}")
    assert engine["scala"].startswith("2.12.") and engine["hadoop"] and engine["java"].startswith("17")


def test_a_session_without_hudi_is_stopped_and_refused(spark, monkeypatch):
    monkeypatch.setattr(versions, "BUNDLE_CLASS", "org.apache.hudi.NotThere")
    stopped = []
    monkeypatch.setattr(SparkSession, "stop", lambda self: stopped.append(self))
    with pytest.raises(NoBundle):
        session.create_session()
    assert stopped == [spark]
