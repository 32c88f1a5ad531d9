"""What a merge writes down of the schemas that it met."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.builders import avro_record
from support.shapes import config

from sluice.batch.manifest import ManifestObject
from sluice.config.rules.columns import ColumnRules
from sluice.config.rules.expectations import Expectations
from sluice.schema.avro import fingerprint, read_writer_schema
from sluice.schema.evolution import evolve
from sluice.silver_keys import schema_key
from sluice_aws.s3.objects import Document
from sluice_spark.merge.prepare import unknown_columns_notes
from sluice_spark.merge.schemas import remember_schemas, writer_schemas

CONFIG = config()
STORED = {"id": "bigint", "a": "bigint", "b": "string"}


class Notes:
    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []
        self.times: list[int] = []

    def note(self, schema) -> None:
        self.times.append(schema.judged[0].at)
        self.taken.append((schema.fingerprint, schema.verdict))


def schema(**columns: str) -> dict:
    return avro_record({name: ["null", kind] for name, kind in columns.items()}, name="V")


def test_expected_columns_that_neither_the_table_nor_an_object_has_are_noted() -> None:
    expecting = replace(CONFIG, expect=Expectations(columns={"A": {"min": 1}, "emial": {"not_null": True}}))
    assert unknown_columns_notes([], expecting, columns=("id", "a", "email"), empty=False) == (
        "`expect` names emial, which neither the table nor an object has: check the names",
    )
    assert unknown_columns_notes([], CONFIG, columns=("id",), empty=False) == ()


def test_misspelt_columns_rules_are_noted_of_a_first_batch() -> None:
    ruled = replace(CONFIG, columns=ColumnRules(("emial",)))
    writers = [read_writer_schema(schema(id="long", email="string"))]
    note = "`columns` names emial, which no object has: check the names"
    assert unknown_columns_notes(writers, ruled, columns=("id", "email"), empty=True) == (note,)
    assert unknown_columns_notes(writers, ruled, columns=("id", "email"), empty=False) == ()


def remembered(writers: list, *, at: int, stored: dict | None = None, inferred: tuple[dict, ...] = ()) -> Notes:
    keys: dict = {"record_key": ("id",), "partition_by": ()}
    verdicts = {writer.fingerprint: evolve(stored, writer.row, **keys) for writer in writers}
    of_batch, notes = {"verdicts": verdicts, "at": at, "batch": "b"}, Notes()
    remember_schemas(notes, CONFIG, writers=writers, inferred=list(map(json.dumps, inferred)), **of_batch)
    return notes


def test_of_inferred_schemas_only_those_that_change_the_table_are_noted() -> None:
    carried, part, more = schema(id="long", b="string"), schema(id="long", a="long"), schema(id="long", new="string")
    writers = [read_writer_schema(item) for item in (carried, part, more)]
    notes = remembered(writers, at=1, stored=STORED, inferred=(part, more, part))
    assert notes.taken == [(writers[0].fingerprint, "dropped"), (writers[2].fingerprint, "added")]


def test_schemas_of_one_batch_are_noted_a_millisecond_apart_in_their_order() -> None:
    writers = [read_writer_schema(schema(id="long", **{name: "string"})) for name in ("b", "c", "a")]
    notes = remembered(writers, at=1_000)
    assert notes.taken == [(writer.fingerprint, "new_table") for writer in writers]
    assert notes.times == [1_000, 1_001, 1_002]


class Schemas:
    """A silver bucket with one schema for each name, whose fingerprint an item carries."""

    def __init__(self, *names: str) -> None:
        self.of = {name: schema(id="long", **{name: "string"}) for name in names}
        self._texts = {schema_key(fingerprint(item)): json.dumps(item) for item in self.of.values()}

    def get(self, bucket: str, key: str) -> Document:
        return Document(self._texts[key].encode(), "etag")

    def item(self, name: str, *, at: int, partition: int | None = 0, offset: int | None = None) -> ManifestObject:
        key = f"{at}-{partition}-{offset}-{name}"
        return ManifestObject("b", key, "v", 1, fingerprint(self.of[name]), "avro", "x", partition, offset, at)

    def order(self, *items: ManifestObject) -> list[str]:
        names = {fingerprint(item): name for name, item in self.of.items()}
        result = writer_schemas(self, "silver", items, scan=lambda _: pytest.fail("nothing to scan"))
        return [names[writer.fingerprint] for writer in result.in_order]


def test_schemas_of_one_kafka_partition_come_in_the_order_of_its_offsets() -> None:
    schemas = Schemas("old", "new")
    old, new = schemas.item("old", at=9, offset=100), schemas.item("new", at=1, offset=200)
    assert schemas.order(new, old) == schemas.order(old, new) == ["old", "new"]


def test_schemas_of_several_kafka_partitions_come_as_they_were_admitted() -> None:
    schemas = Schemas("old", "new", "newest")
    items = [
        schemas.item("new", at=2, partition=0, offset=9),
        schemas.item("old", at=5, partition=0, offset=1),
        schemas.item("newest", at=7, partition=1, offset=3),
    ]
    assert schemas.order(*items) == ["old", "new", "newest"]
    assert schemas.order(*items, schemas.item("newest", at=4, partition=1, offset=2)) == ["newest", "old", "new"]


def test_schemas_of_objects_without_an_offset_come_as_they_were_admitted() -> None:
    schemas = Schemas("old", "new")
    items = [schemas.item("new", at=3, partition=None), schemas.item("old", at=2, partition=None)]
    assert schemas.order(*items) == ["old", "new"]
