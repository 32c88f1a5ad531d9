"""Sets deletions aside that carry no key (`sluice.changes.keyless_deletion`), and deletes rows whose key changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluice.changes import hidden_columns as hidden
from sluice.changes.capture_marks import is_marked_deleted
from sluice.changes.keyless_deletion import DeletionColumns, seen_null, without_key
from sluice.changes.position import OFFSET_ONLY, POSTGRES
from sluice.config.table import TableConfig
from sluice.schema.avro import WriterSchema
from sluice.schema.concealment import ruled
from sluice_formats.errors import DeleteWithoutKey
from sluice_formats.records import BrokenRecord, Chunk, Record

_IMAGE = "BI_"  # of DMS's transformation add-before-image-columns, by its documentation's examples


def keyless_set_aside(chunk: Chunk, first: int, config: TableConfig) -> Chunk:
    """The chunk with a BrokenRecord for each deletion without a key. `first` is the number of its first record.

    Only PostgreSQL's changes can lack it: other logs hold whole rows, or the key.
    """
    writer = chunk.writer
    if config.append_only or not writer.of_changes or writer.meta.position.kind not in (POSTGRES, OFFSET_ONLY):
        return chunk
    op, flag = writer.meta.op, writer.meta.deleted
    deleted = {}
    for at, record in enumerate(chunk.records):
        by_op = op is not None and isinstance(record, dict) and record.get(op) == hidden.DELETE
        if by_op or flag is not None and isinstance(record, dict) and is_marked_deleted(record.get(flag)):
            if (row := _row_of(record, writer)) is not None:
                deleted[at] = row
    lacking = _lacking(deleted, deleted, chunk, config)
    if not lacking:
        return chunk
    records = list(chunk.records)
    for number in lacking:
        if isinstance(record := records[number], dict):
            records[number] = BrokenRecord(record, _error(config, first + number))
    return replace(chunk, records=records)


def _written(writer: WriterSchema, config: TableConfig, names: Sequence[str]) -> tuple[str, ...]:
    """The written names of some of the table's columns, as far as the writer has them."""
    row = ruled(writer.row, config.columns)
    return tuple(column.written_name for column in map(row.column, names) if column is not None)


def _lacking(
    rows: Mapping[int, Mapping[str, Any]], deleted: Collection[int], chunk: Chunk, config: TableConfig
) -> set[int]:
    """Which of a chunk's former rows, by the numbers of their records, carry no key."""
    writer, key = chunk.writer, _written(chunk.writer, config, config.record_key)
    if not rows or not key:
        return set()
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
    return {number for number, lacks in zip(rows, without_key(list(rows.values()), columns)) if lacks}


def with_former_rows(chunk: Chunk, begin: int, config: TableConfig) -> Chunk:
    """The chunk with a deletion of the former row before each update that changes the record key, where it shows.

    Envelopes show it by the row before the update, rows of AWS DMS by columns of the before-image (`BI_`). A capture
    writes no deletion where the record key is not the source's primary key. `begin` is the place of the first record.
    """
    writer, key = chunk.writer, () if config.append_only else _written(chunk.writer, config, config.record_key)
    if not key:
        return chunk
    made = _former_envelopes(chunk, key, config) if writer.dialect.sides else _former_rows(chunk, key, config)
    if not made:
        return chunk
    records: list[Record] = []
    places: list[int] = []
    for at, (record, place) in enumerate(zip(chunk.records, chunk.places or range(begin, begin + len(chunk.records)))):
        changes = [made[at], record] if at in made else [record]
        records += changes
        places += [place] * len(changes)
    return Chunk(writer, records, places)


def _former_envelopes(chunk: Chunk, key: Sequence[str], config: TableConfig) -> dict[int, Record]:
    op = chunk.writer.meta.op or ""
    former = {
        at: before
        for at, record in enumerate(chunk.records)
        if isinstance(record, dict)
        and record.get(op) == hidden.UPDATE
        and (before := record.get("before"))
        and (after := record.get("after"))
        and any(before.get(name) != after.get(name) for name in key)
        and all(before.get(name) is not None for name in key)
    }
    lacking = _lacking(former, (), chunk, config)
    places = _written(
        chunk.writer, config, config.position_columns
    )  # those of the change count, not of the row before it
    made: dict[int, Record] = {}
    for at, before in former.items():
        if at not in lacking and isinstance(record := chunk.records[at], dict):
            row = {**before, **{name: record["after"][name] for name in places}}
            made[at] = {**record, op: hidden.DELETE, "before": row, "after": None}
    return made


def _former_rows(chunk: Chunk, key: Sequence[str], config: TableConfig) -> dict[int, Record]:
    written = {column.written_name for column in chunk.writer.row.columns}
    column = ruled(chunk.writer.row, config.columns).column(config.marks_of_rows.column or "")
    if column is None or not config.marks_of_rows.values or not written.issuperset(_IMAGE + name for name in key):
        return {}
    mark, made = column.written_name, dict[int, Record]()
    kept = {mark, *_written(chunk.writer, config, config.position_columns)}
    imaged = [name for name in written - kept if _IMAGE + name in written]
    for at, record in enumerate(chunk.records):
        if isinstance(record, dict) and not config.marks_of_rows.is_deletion(record[mark]):
            former = {name: record[_IMAGE + name] for name in imaged}
            held = [former[name] for name in key]
            if None in held or all(str(value) == str(record[name]) for name, value in zip(key, held)):
                continue
            made[at] = {**record, **former, mark: config.marks_of_rows.values[0]}
    return made


def _row_of(record: Record, writer: WriterSchema) -> Mapping[str, Any] | None:
    row = writer.dialect.row(record) if isinstance(record, dict) else None
    return row if isinstance(row, Mapping) else None


def _error(config: TableConfig, number: int) -> DeleteWithoutKey:
    return DeleteWithoutKey(
        f"A deletion has no value in {', '.join(config.record_key)} but the default of its type",
        column=config.record_key[0],
        record=number,
    )
