"""What the driver itself reads is bounded: the rest is left to tasks, which keep the limits of the table."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any, cast

import pytest
from support.shapes import batch_plan, config, item

from sluice.batch.manifest import ManifestObject
from sluice.objects import ObjectId
from sluice_aws.s3.objects import Objects, ObjectSource
from sluice_formats.json.records import json_schemas
from sluice_spark.merge import driver_limits
from sluice_spark.merge.by_arrow.driver_read import decoded_objects
from sluice_spark.merge.by_arrow.rewrite import FileWork
from sluice_spark.merge.rows import LeftToSpark
from sluice_spark.merge.schemas import scan_in_driver

TABLE = config(json_types={"id": "long"})
ROW = b'{"id": 1, "name": "x"}\n'


class Stored:
    """S3 with one body for every key that ends alike."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = bodies
        self.items = [replace(item("json"), key=f"{number}.json") for number in range(len(bodies))]

    def whole(self, id: ObjectId, limit: int | None = None) -> bytes:
        return self.bodies[int(id.key.partition(".")[0])]

    @property
    def s3(self) -> Objects:
        return cast(Objects, self)

    def scan(self) -> Any:
        return scan_in_driver(self.s3, objects=self.items, config=TABLE)

    def decoded(self) -> Any:
        schemas, _ = json_schemas(ROW, {"id": "long"}, TABLE.limits)
        plan = batch_plan(TABLE, schemas[0]).plan
        inferred = {item.id.hash: json.dumps(schemas[0]) for item in self.items}
        work = FileWork(cast(Any, None), self.s3, cast(ObjectSource, None), in_tasks=False)
        return decoded_objects(work, [cast("list[ManifestObject]", self.items)], replace(plan, inferred=inferred))


def test_text_that_unpacks_to_more_than_the_driver_reads_is_left_to_tasks() -> None:
    large = Stored(gzip.compress(ROW * (driver_limits.TEXT_BYTES_IN_DRIVER // len(ROW) + 1)))
    assert large.scan() is None
    with pytest.raises(LeftToSpark, match="expansion_limit"):
        large.decoded()


@pytest.mark.long
def test_all_objects_of_a_part_share_the_text_that_the_driver_reads() -> None:
    half = gzip.compress(ROW * (driver_limits.TEXT_BYTES_IN_DRIVER // len(ROW) // 2 - 1))
    two, three = Stored(half, half), Stored(half, half, ROW)
    assert len(two.scan().of_object) == 2
    assert three.scan() is None
    with pytest.raises(LeftToSpark, match="expansion_limit"):
        three.decoded()


def test_more_bad_rows_than_the_driver_keeps_are_left_to_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_limits, "BAD_ROWS_IN_DRIVER", 2)
    assert [len(item.rows) for item in Stored(ROW + b"no\n" * 2).decoded().objects] == [2]
    with pytest.raises(LeftToSpark, match="too_many_bad_rows"):
        Stored(ROW + b"no\n" * 3).decoded()


def test_an_object_that_cant_be_read_is_an_error_beside_the_others() -> None:
    read = Stored(b"\x1f\x8bdamaged", ROW).decoded()
    assert [error.code for error in read.errors] == ["damaged_gzip"] and len(read.objects) == 1
