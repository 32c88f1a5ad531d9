"""Sets deletions aside that carry no key (`sluice.changes.keyless_deletion`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sluice.changes import hidden_columns as hidden
from sluice.changes.keyless_deletion import DeletionColumns, seen_null, without_key
from sluice.changes.position import OFFSET_ONLY, POSTGRES
from sluice.schema.avro import WriterSchema
from sluice.schema.concealment import ruled
from sluice_formats.errors import DeleteWithoutKey
from sluice_formats.records import BrokenRecord, Chunk, ReaderPlan, Record

DELETED = ("true", True)  # Debezium's mark


def keyless_set_aside(chunk: Chunk, first: int, plan: ReaderPlan) -> Chunk:
    """The chunk with a BrokenRecord for each deletion without a key. `first` is the number of its first record.

    Only PostgreSQL's changes can lack it: other logs hold whole rows, or the key.
    """
    writer = chunk.writer
    if plan.append_only or not writer.of_changes or writer.meta.position.kind not in (POSTGRES, OFFSET_ONLY):
        return chunk
    op, flag = writer.meta.op, writer.meta.deleted
    marked = (
        at
        for at, record in enumerate(chunk.records)
        if isinstance(record, dict)
        and (op is not None and record.get(op) == hidden.DELETE or flag is not None and record.get(flag) in DELETED)
    )
    deleted = {at: row for at in marked if (row := _row_of(chunk.records[at], writer)) is not None}
    if not deleted:
        return chunk
    ruled_row = ruled(writer.row, plan.rules)
    key = tuple(column.written_name for column in map(ruled_row.column, plan.record_key) if column is not None)
    columns = DeletionColumns(
        key,
        tuple(column.written_name for column in writer.row.columns if column.written_name not in key),
        frozenset(column.written_name for column in writer.row.columns if column.nullable),
        writer.defaults,
    )
    if writer.defaults is None or not columns.nullable.isdisjoint(key):  # the schema doesn't say what may be null
        living = (_row_of(record, writer) for at, record in enumerate(chunk.records) if at not in deleted)
        whole = (row for row in living if row is not None)
        columns = replace(columns, nullable=seen_null(whole, columns.others))
    lacking = {number for number, lacks in zip(deleted, without_key(list(deleted.values()), columns)) if lacks}
    if not key or not lacking:
        return chunk
    return replace(
        chunk,
        records=[
            BrokenRecord(record, _error(plan, first + number))
            if number in lacking and isinstance(record, dict)
            else record
            for number, record in enumerate(chunk.records)
        ],
    )


def _row_of(record: Record, writer: WriterSchema) -> Mapping[str, Any] | None:
    row = writer.dialect.row(record) if isinstance(record, dict) else None
    return row if isinstance(row, Mapping) else None


def _error(plan: ReaderPlan, number: int) -> DeleteWithoutKey:
    return DeleteWithoutKey(
        f"A deletion has no value in {', '.join(plan.record_key)} but the default of its type",
        column=plan.record_key[0],
        record=number,
    )
