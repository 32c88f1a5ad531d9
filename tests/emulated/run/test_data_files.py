"""A task's data files in S3."""

from __future__ import annotations

import secrets
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from emulation.deployment import SILVER

from sluice_aws.s3.objects import Objects
from sluice_spark.errors import WriteUndone
from sluice_spark.hudi.own_files import NewFiles
from sluice_spark.hudi.table_files import READ_WHOLE_BYTES, files_below, open_parquet, write_data_file

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


def test_of_a_large_parquet_file_only_the_columns_that_are_asked_for_are_read(
    deployment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, count = Objects(deployment.s3), 20_000
    rows = pa.table({"id": range(count), "text": [secrets.token_hex(100) for _ in range(count)], "n": [7] * count})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=count // 2)
    body = sink.getvalue().to_pybytes()
    objects.put(SILVER, "db/t/large.parquet", body)
    taken: list[int] = []
    ranged = Objects.data_range

    def counted(self: Objects, bucket: str, key: str, start: int, length: int) -> bytes:
        taken.append(length)
        return ranged(self, bucket, key, start, length)

    monkeypatch.setattr(Objects, "data_range", counted)
    file = open_parquet(objects, f"s3://{SILVER}/db/t/large.parquet", len(body))
    groups = [file.read_row_group(number, columns=["id", "n"], use_threads=False) for number in range(2)]
    assert pa.concat_tables(groups).equals(rows.select(["id", "n"]))
    assert len(body) > READ_WHOLE_BYTES > 4 * sum(taken) > 0
    small = open_parquet(objects, f"s3://{SILVER}/db/t/large.parquet", 10)
    assert small.read().equals(rows), "a small one is read whole"


@pytest.mark.parametrize(
    ("partitioned", "names"),
    [
        (True, ["place=A/.0a_1.log.1_0-1-1", "place=A/0a_1.parquet", "place=B/x=1/0b_1.parquet"]),
        (False, [".0a_1.log.1_0-1-1", ".zz_1.log.1_0-1-1", "0a_1.parquet"]),
    ],
    ids=["partitions", "flat"],
)
def test_files_of_a_table_are_listed_without_those_of_its_timeline(
    deployment: Any, partitioned: bool, names: list[str]
) -> None:
    objects = Objects(deployment.s3)
    for name in (*names, ".hoodie/hoodie.properties", ".hoodie/.temp/1/a.marker", ".hoodie/metadata/files/a.hfile"):
        objects.put(SILVER, f"db/t/{name}", b"bytes")
    objects.put(SILVER, "db/t2/0c_1.parquet", b"another table's")
    files = files_below(objects, f"s3://{SILVER}/db/t", partitioned=partitioned)
    assert sorted(files) == sorted((name, 5) for name in names)
