"""What a merge writes down of the schemas that it met."""

import json

from sluice.config.table import TableConfig
from sluice.schema.avro import read_writer_schema
from sluice.schema.evolution import evolve
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
