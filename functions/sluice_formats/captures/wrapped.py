"""Refuses records of known forms whose row lies in a field, where nothing says how to read them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from sluice.changes.capture_marks import says_operation
from sluice.changes.dialects.registry import shown_by
from sluice.changes.dialects.wrappers import around, beside_operation, wrapper_of
from sluice.config.delete_when import DeleteWhen
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import holds_records
from sluice_formats.errors import DamagedJson, DeletionsUnmarked
from sluice_formats.json.text import parse

_METADATA = re.compile(r"(?i)meta|header|event|info$|cdc|source|attributes")
_DEBEZIUM, _SIDES = {"op", "source"}, ("before", "after")


def nested_rows(
    writer: WriterSchema, *, append_only: bool, rule: DeleteWhen, fields: Collection[str] = ()
) -> DeletionsUnmarked | None:
    """Why records are no rows of a table but hold them in a field, by a form of another product's; None for rows.

    `fields` are those of a record: the schema that is made of an object's JSON lacks those that are null everywhere.
    A table that is `append_only` or whose `rule` is off takes the fields as columns.
    """
    if append_only or not rule.on or writer.of_changes:
        return None
    written = [column.written_name for column in writer.row.columns]
    written += [f"{column.written_name}.{field.name}" for column in writer.row.columns for field in column.fields]
    nested = [column.written_name for column in writer.row.columns if holds_records(column)]
    wrapper = wrapper_of({*written, *fields}, nested)
    return None if wrapper is None else DeletionsUnmarked.nested(wrapper)


def changes_in(column: str, value: Any) -> DeletionsUnmarked | None:
    """Why records are no rows of a table, by a value of a column: a change of a known form, also as JSON text."""
    if isinstance(value, str) and value.startswith("{"):
        try:
            value = parse(value)
        except DamagedJson:
            return None
    if not isinstance(value, dict):
        return None
    inner = value["payload"] if value.keys() == {"schema", "payload"} and isinstance(value["payload"], dict) else value
    if inner.keys() >= _DEBEZIUM and isinstance(inner["source"], Mapping) and not inner.keys().isdisjoint(_SIDES):
        return DeletionsUnmarked.nested(around(column, "debezium"))
    dialect = shown_by(inner)
    if dialect is not None:
        return DeletionsUnmarked.nested(around(column, dialect.name))
    said = (name for name, word in inner.items() if says_operation(name, word)) if _METADATA.search(column) else ()
    return next((DeletionsUnmarked.nested(beside_operation(f"{column}.{name}")) for name in said), None)
