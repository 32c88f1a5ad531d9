"""A task's data files in S3."""

from __future__ import annotations

from typing import Any

import pytest
from emulation.deployment import SILVER

from sluice_aws.s3.objects import Objects
from sluice_spark.errors import WriteUndone
from sluice_spark.hudi.own_files import NewFiles
from sluice_spark.hudi.table_files import write_data_file

NEW = NewFiles("20261122205211687", "{}", ".hoodie/20261122205211687.deltacommit.inflight")


def test_a_file_in_s3_stays_only_while_its_write_is_begun(deployment: Any) -> None:
    objects = Objects(deployment.s3)
    own: Any = {"objects": objects, "table_uri": f"s3://{SILVER}/db/t", "body": b"rows", "new": NEW, "kind": "CREATE"}
    objects.put(SILVER, f"db/t/{NEW.inflight}", b"")
    write_data_file(path="early.parquet", **own)
    objects.delete(SILVER, f"db/t/{NEW.inflight}")
    with pytest.raises(WriteUndone):
        write_data_file(path="late.parquet", **own)
    assert [key for key in objects.keys(SILVER, "db/t/") if key.endswith(".parquet")] == ["db/t/early.parquet"]
