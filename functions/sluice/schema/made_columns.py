"""Makes columns of a table that its source's rows lack: of metadata, and of values for the partition path.

Metadata say where a change is from: server, database, schema and table. Values of the path are in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any
from zlib import crc32

from sluice.config.rules.partition_fields import BUCKET, DAY, HOUR, MONTH, YEAR, PartitionField
from sluice.config.table import TableConfig
from sluice.config.values import source_column
from sluice.errors import PUSH_AND_RETRY, Incompatible
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import DATE, INT, STRING, Column, RowSchema, plain_column
from sluice.schema.meaning import stored_value, value_text
from sluice.schema.temporal import civil_of, date_text

_KINDS = {YEAR: INT, MONTH: STRING, DAY: DATE, HOUR: STRING, BUCKET: INT}
_HOUR_US, _DAY_US = 3_600 * 10**6, 86_400 * 10**6


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


def with_partition_columns(row: RowSchema, config: TableConfig) -> RowSchema:
    """The row with a column for each transform of `partition_by` whose source columns it has.

    The column's field is the transform, which no source column is called: `evolution.evolve_table` refuses a source
    with a column of its own under the name.
    """
    made = []
    for field, written in zip(config.partition_fields, config.partition_by):
        if field.transform and all(row.column(name) is not None for name in sources_of(field, config.record_key)):
            made.append(replace(plain_column(field.column, _KINDS[field.transform], True, written), field=written))
    return RowSchema((*row.columns, *made)) if made else row


def sources_of(field: PartitionField, record_key: Sequence[str]) -> tuple[str, ...]:
    """The columns of which a transform makes its values."""
    return tuple(record_key) if field.source is None else (field.source,)


def check_sources(row: RowSchema, config: TableConfig) -> None:
    """Raise Incompatible where a column that a transform takes the time of is stored as something else."""
    for field, written in zip(config.partition_fields, config.partition_by):
        column = row.column(field.source or "") if field.transform else None
        if column is None or column.spark_type in ("timestamp", "date" if field.transform != HOUR else ""):
            continue
        raise Incompatible(
            f"{written} of partition_by needs a {'' if field.transform == HOUR else 'date or '}timestamp, and column "
            f"{column.name} is {column.source_type or column.spark_type}",
            column=column.name,
            types=[column.spark_type, "timestamp"],
            next_step="Let the source send a time with its type, or name the type of JSON and CSV in the rule's "
            f"`types`, {PUSH_AND_RETRY}",
        )


def partition_value(field: PartitionField, raw: Sequence[Any], columns: Sequence[Column]) -> int | str | None:
    """The raw value of a transform's column, of those that `columns` have in a row; None where the source has none.

    A day is a count of days since 1970-01-01, an hour `2026-11-28-13`, a month `2026-11`, a year and a bucket a number.
    """
    values = [stored_value(value, column) for value, column in zip(raw, columns)]
    if None in values:
        return None
    if field.transform == BUCKET:
        return crc32(",".join(map(_text, values, columns)).encode("utf-8")) % field.buckets
    (value,), (column,) = values, columns
    days = value if column.spark_type == "date" else value // _DAY_US
    if field.transform == DAY:
        return int(days)
    if field.transform == YEAR:
        return civil_of(days)[0]
    text = date_text(days, plus=True)
    return text.rpartition("-")[0] if field.transform == MONTH else f"{text}-{value % _DAY_US // _HOUR_US:02d}"


def _text(value: Any, column: Column) -> str:
    """A text that a value of the key has in whatever type it comes: a number as itself, a time as its count."""
    return value_text(value, column) if isinstance(value, Decimal) else str(value)
