"""The engine has what its Hudi bundle links to, or no table is written; asked of the JVM by reflection, once."""

from __future__ import annotations

import json

import pytest
from workbench import change, flattened, table

from sluice.engine.links import INTERFACE_METHOD, METHOD, Link
from sluice.engine.report import REPORTS_PREFIX
from sluice.errors import EngineDoesNotFit
from sluice_local.images.jars import hudi_bundle
from sluice_spark.engine import check as engine_check
from sluice_spark.engine.check import EngineCheck, bundle_links
from sluice_spark.engine.pinned_classes import PINNED_CLASSES
from sluice_spark.engine.session import SparkProcess
from sluice_spark.run.spark_engine import SparkMerger

ROW = "org/apache/spark/sql/Row"
# Declared by the class itself, above it, by an interface above it, by Object for an interface, and a constructor of another.
THERE = [
    Link(ROW, INTERFACE_METHOD, "size", "()I"), Link("org/apache/spark/sql/catalyst/expressions/GenericInternalRow", METHOD, "getInt", "(I)I"),
    Link("org/apache/spark/sql/types/StructType", METHOD, "size", "()I"), Link(ROW, INTERFACE_METHOD, "hashCode", "()I"),
    Link("org/apache/hadoop/fs/Path", METHOD, "<init>", "(Ljava/lang/String;)V"),
]  # fmt: skip
GONE = Link("org/apache/spark/sql/SparkSession", METHOD, "thatNobodyWrote", "(ILjava/lang/String;)V")


@pytest.fixture
def checking(bench, monkeypatch):
    """A new run's check of a bundle that isn't the pinned one."""
    monkeypatch.setattr(engine_check, "PINNED_BUNDLE", "another")
    return lambda: EngineCheck(bench.services.objects, bench.silver, bench.services.clock, bench.events)


def reports(bench):
    return [
        json.loads(bench.s3.get_object(Bucket=bench.silver, Key=key)["Body"].read())
        for key in bench.services.objects.keys(bench.silver, REPORTS_PREFIX)
    ]


def test_the_pinned_bundle_on_the_pinned_spark_is_not_asked_for_again(bench, spark):
    EngineCheck(bench.services.objects, bench.silver, bench.services.clock, bench.events).require(spark)
    assert (reports(bench), bench.events.seen) == ([], [])


def test_the_pinned_spark_has_all_that_the_pinned_bundle_links_to_and_is_asked_once(bench, spark, jars, checking):
    checking().require(spark)
    (report,) = reports(bench)
    assert (report["missing"], report["unknown"], report["unchecked"]) == ([], [], 0)
    assert report["links"] > 4_000 and report["engine"]["spark"] == spark.version and report["hudi"] == "1.0.2"
    checking().require(spark)
    assert bench.events.names() == ["engine_checked"]
    links = {link.owner for link in bundle_links(hudi_bundle(jars))}
    assert links == PINNED_CLASSES, "run `make pinned-classes`"


def test_a_member_that_the_engine_lacks_ends_the_run_with_its_name_before_a_table_is_written(
    bench, spark, checking, monkeypatch
):
    monkeypatch.setattr(
        engine_check, "bundle_links", lambda jar: {link: ["org/apache/hudi/SparkAdapter"] for link in (*THERE, GONE)}
    )
    config, schema = table(), flattened({"id": "long"})
    merger = SparkMerger(SparkProcess(lambda: spark), bench.services, bench.events, checking())
    manifest = bench.manifest(config, [bench.put([change("c", 1, id=1)], schema)])
    for _ in range(2):  # the second is remembered
        with pytest.raises(EngineDoesNotFit) as refused:
            merger.merge(manifest, config.table, lambda: True)
        assert (
            "links to: org.apache.spark.sql.SparkSession.thatNobodyWrote(int, java.lang.String): void is not there"
            in str(refused.value)
        )
    assert not bench.local_path(config).exists()
    (report,) = reports(bench)
    assert len(report["missing"]) == 1 and report["links"] == len(THERE) + 1
    with pytest.raises(EngineDoesNotFit):
        checking().require(spark)
    assert bench.events.names() == ["engine_checked"]
