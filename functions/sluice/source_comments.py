"""What a source says of its columns: the comments that came with a writer schema."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from sluice.avro_schema import ENVELOPE, shape_of
from sluice.column_names import stored_name
from sluice.avro_types import NamedTypes
from sluice.errors import UnsupportedType


def source_comments(schema: Any) -> Dict[str, str]:
    """Comments by column of a writer schema (as JSON values); empty where it has none, or can't be understood.

    Debezium sends a column's comment with `include.schema.comments`; Confluent's converter writes it as the field's `doc` or as
    `connect.doc` of its type (AvroData of the schema registry's converter).
    """
    if not isinstance(schema, Mapping):
        return {}
    types = NamedTypes(schema)
    found: Dict[str, str] = {}
    try:
        record = types.resolve(schema, "")
        if shape_of(record) == ENVELOPE:
            sides = {
                field["name"]: field["type"] for field in record["fields"] if field.get("name") in ("after", "before")
            }
            record, _ = types.non_null(sides.get("after", sides.get("before")), "after")
        for field in record.get("fields", ()):
            kind, _ = types.non_null(field.get("type"), str(field.get("name")))
            told = field.get("doc") or kind.get("connect.doc")
            if isinstance(told, str):
                found[stored_name(str(field.get("name")))] = told
    except (UnsupportedType, AttributeError, KeyError, TypeError):
        return {}  # admission says what is wrong with a schema; here it has no comments, no more
    return found
