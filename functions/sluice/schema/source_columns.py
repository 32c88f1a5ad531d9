"""Makes columns of a table of the metadata that say where a change is from: server, database, schema and table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluice.config.values import source_column
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import STRING, RowSchema, plain_column


def with_source_columns(writer: WriterSchema, words: Sequence[str]) -> WriterSchema:
    """The writer with a column of its row for each of the words (`TableConfig.source_words`) that its records carry.

    Rows that aren't Debezium's have no such metadata: their columns are their own.
    """
    taken = {name.lower() for name in writer.row.names}
    fields = dict(writer.meta.source_fields)
    columns = []
    for word in words:
        name = source_column(word)
        if word in fields and name not in taken:
            own = name if writer.dialect.holds_rows else fields[word]
            columns.append(replace(plain_column(name, STRING, True, "string"), field=own))
    return replace(writer, row=RowSchema((*writer.row.columns, *columns))) if columns and writer.row.columns else writer


def with_source_values(record: Mapping[str, Any], writer: WriterSchema, words: Sequence[str]) -> dict[str, Any]:
    """An envelope with the values of `with_source_columns` in its rows, before and after the change."""
    dialect = writer.dialect
    source = dialect.metadata(record) or {}
    values = {source_column(word): source.get(field) for word, field in writer.meta.source_fields if word in words}
    sides = {side: {**values, **record[side]} for side in dialect.sides or () if isinstance(record.get(side), Mapping)}
    return {**record, **sides}
