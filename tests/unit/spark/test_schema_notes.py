"""What a merge writes down of the schemas that it met."""

import json
from dataclasses import replace

from sluice.config.rules.columns import ColumnRules
from sluice.config.rules.expectations import Expectations
from sluice.config.table import TableConfig
from sluice.schema.avro import read_writer_schema
from sluice.schema.evolution import evolve
from sluice_spark.merge.prepare import unknown_columns_notes
from sluice_spark.merge.schemas import remember_schemas

CONFIG = TableConfig(table="db.t", database="db", name="t", topic="x", record_key=("id",))
STORED = {"id": "bigint", "a": "bigint", "b": "string"}


class Notes:
    def __init__(self) -> None:
        self.taken: list[tuple[str, str]] = []

    def note(self, schema) -> None:
        self.taken.append((schema.fingerprint, schema.verdict))


def schema(**columns: str) -> dict:
    return {
        "type": "record",
        "name": "V",
        "fields": [{"name": name, "type": ["null", kind]} for name, kind in columns.items()],
    }


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


def test_of_inferred_schemas_only_those_that_change_the_table_are_noted() -> None:
    carried, part, more = schema(id="long", b="string"), schema(id="long", a="long"), schema(id="long", new="string")
    writers = [read_writer_schema(each) for each in (carried, part, more)]
    verdicts = {
        writer.fingerprint: evolve(STORED, writer.row, record_key=("id",), partition_by=()) for writer in writers
    }
    notes = Notes()
    remember_schemas(
        notes,
        CONFIG,
        writers=writers,
        inferred=[json.dumps(part), json.dumps(more), json.dumps(part)],
        verdicts=verdicts,
        at=1,
        batch="b",
    )
    assert notes.taken == [(writers[0].fingerprint, "dropped"), (writers[2].fingerprint, "added")]
