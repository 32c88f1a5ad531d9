"""Refuses records of known forms whose row lies in a field, where nothing says how to read them."""

from __future__ import annotations

from sluice.changes.dialects.wrappers import wrapper_of
from sluice.config.delete_when import DeleteWhen
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import holds_records
from sluice_formats.errors import DeletionsUnmarked


def nested_rows(writer: WriterSchema, *, append_only: bool, rule: DeleteWhen) -> DeletionsUnmarked | None:
    """Why records are no rows of a table but hold them in a field, by a form of another product's; None for rows.

    A table that is `append_only` or whose `rule` is off takes the fields as columns.
    """
    if append_only or not rule.on or writer.of_changes:
        return None
    written = [column.written_name for column in writer.row.columns]
    written += [f"{column.written_name}.{field.name}" for column in writer.row.columns for field in column.fields]
    nested = [column.written_name for column in writer.row.columns if holds_records(column)]
    wrapper = wrapper_of(written, nested)
    return None if wrapper is None else DeletionsUnmarked.nested(wrapper)
