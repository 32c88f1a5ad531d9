"""Finds the stored rows of a batch's keys in file slices, reading only the keys and Sluice's own columns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.changes import hidden_columns as hidden
from sluice.hudi.file_slices import Committed, DataFile, FileSlice
from sluice.hudi.write_choices import MIB
from sluice_aws.s3.objects import Objects
from sluice_spark.hudi.logs import RECORD_KEY, LogBlock, UnreadableLog, read_log, rows_in_logs
from sluice_spark.hudi.table_files import open_parquet, read_file
from sluice_spark.merge.by_arrow.base_file import key_text, widened
from sluice_spark.merge.by_arrow.keyed_rows import Key, StoredRow, as_counts, flat, keys_of
from sluice_spark.merge.by_arrow.rewrite import FileWork
from sluice_spark.merge.driver_limits import MOST_DECODED_BYTES
from sluice_spark.merge.key_index import BaseKeys, Entry, KeyIndex
from sluice_spark.merge.rows import LeftToSpark

READ_IN_DRIVER = 64 * MIB  # bytes of files whose rows are read, and of logs; more are read in Spark tasks
NO_COLUMNS = pa.schema([])
_ROWS_AT_ONCE = 4 * 1024  # of a base file, of whose values few are wanted
# A join asks a Bloom filter first: a row of a file takes 3 ns, in place of 13. It costs more for few rows, and for many
# wanted keys, of which it makes a table for each file; and it imports modules of Arrow (13 ms, once).
_ROWS_JOINED, _FILE_ROWS_JOINED, _ROWS_PER_WANTED = 1_000_000, 16_000, 4
_READ = (hidden.POSITION, hidden.OWED, RECORD_KEY, hidden.PARTITION, hidden.SOURCE_TS_MS)


@dataclass(frozen=True)
class WantedKeys:
    """The keys to look for: the columns `record_key` of `rows`, which have a position, too. `has_plain_key` holds."""

    rows: pa.Table
    record_key: tuple[str, ...]

    @cached_property
    def positions(self) -> Mapping[Key, str]:
        """The position of each key's change."""
        return dict(zip(keys_of(self.rows, self.record_key), self.rows.column(hidden.POSITION).to_pylist()))

    @cached_property
    def by_text(self) -> Mapping[str, Key]:
        """Each key by Hudi's text of it."""
        return dict(zip(key_text(self.rows, self.record_key).to_pylist(), self.positions))

    @cached_property
    def texts(self) -> Mapping[Key, str]:
        """Hudi's text of each key."""
        return {key: text for text, key in self.by_text.items()}

    def typed(self, keys: pa.Table) -> pa.Table:
        """The keys of a file in the types of these. An older file may have a narrower type than the table."""
        names = list(self.record_key)
        return keys.select(names).cast(pa.schema([self.rows.schema.field(name) for name in names]))

    @cached_property
    def _first(self) -> pa.Array:
        return as_counts(self.rows.column(self.record_key[0]).combine_chunks())

    def places(self, keys: pa.Table) -> pa.Array:
        """The numbers of the rows whose first column of the key is one of these."""
        own = as_counts(keys.column(self.record_key[0]).combine_chunks())
        return pc.indices_nonzero(pc.is_in(own, value_set=self._first))

    def candidates(self, keys: pa.Table, *, may_join: bool) -> pa.Table:
        """The rows whose first column of the key is one of these, in any order."""
        if not may_join or keys.num_rows < max(_FILE_ROWS_JOINED, _ROWS_PER_WANTED * self.rows.num_rows):
            return keys.take(self.places(keys))
        name = self.record_key[0]
        return keys.join(self.rows.select([name]), name, join_type="left semi", use_threads=False)

    @cached_property
    def bounds(self) -> Mapping[str, Mapping[str, Any]]:
        """The least and the greatest value of the key's columns, of numbers and texts, as `min` and `max`."""
        columns = {name: self.rows.column(name) for name in self.record_key}
        ordered = {
            name: values
            for name, values in columns.items()
            if pa.types.is_integer(values.type) or pa.types.is_string(values.type)
        }
        return {name: pc.min_max(values).as_py() for name, values in ordered.items()}

    def may_be_in(self, group: pq.RowGroupMetaData) -> bool:
        """Whether a row group's statistics allow such keys. The positions in a history table's keys only rise."""
        for number in range(group.num_columns):
            chunk = group.column(number)
            wanted, own = self.bounds.get(chunk.path_in_schema), chunk.statistics
            if wanted is None or own is None or not own.has_min_max or type(own.max) is not type(wanted["max"]):
                continue
            if own.max < wanted["min"] or own.min > wanted["max"]:
                return False
        return True


@dataclass(frozen=True)
class SliceFiles:
    """The files of slice `number` by URI: its base file, of `size` bytes, and its logs, oldest first."""

    number: int
    base: str
    size: int
    logs: tuple[str, ...] = ()

    @classmethod
    def of(cls, number: int, item: FileSlice, root: str) -> SliceFiles:
        """Those of a slice with a base file; `root` is the URI of the table's folder."""
        assert item.base is not None
        logs = tuple(f"{root}/{log.path}" for log in item.logs)
        return cls(number, f"{root}/{item.base.path}", item.base.size, logs)


def stored_rows(
    root: str,
    slices: Sequence[FileSlice],
    wanted: WantedKeys,
    *,
    committed: Committed,
    rows: int,
    index: KeyIndex | None,
    work: Callable[..., FileWork],
) -> dict[Key, StoredRow]:
    """The rows of a table of some `rows` rows with these keys; `root` is the URI of its folder.

    Where an index has room for its keys they are read once in a run, in the driver, and a slice is read for more than
    them only where a change may be older than its row, whose position is then exact. Raises LeftToSpark.
    """
    entries = None if index is None else _entries(root, slices, wanted, rows=rows, index=index, work=work)
    by_index: Sequence[list[tuple[Key, StoredRow]] | None] = [None] * len(slices)
    if entries is not None:
        may_join = rows >= _ROWS_JOINED
        look_up = partial(rows_by_index, entries=entries, wanted=wanted, committed=committed, may_join=may_join)
        by_index = [look_up(number, item) for number, item in enumerate(slices)]
    with_base = [(number, item) for number, item in enumerate(slices) if item.base is not None]
    unclear = [SliceFiles.of(number, item, root) for number, item in with_base if by_index[number] is None]
    by_slice: list[list[tuple[Key, StoredRow]] | None] = [rows for rows in by_index if rows is not None]
    if unclear:
        in_tasks = sum(files.size for files in unclear) > READ_IN_DRIVER
        by_slice += work(in_tasks=in_tasks).each(partial(rows_of_slice, wanted=wanted, committed=committed), unclear)
    if None in by_slice:
        raise LeftToSpark("logs", "of another writer")
    return by_key(row for rows in by_slice if rows is not None for row in rows)


def stored_values(
    root: str,
    slices: Mapping[int, FileSlice],
    wanted: WantedKeys,
    columns: pa.Schema,
    *,
    committed: Committed,
    work: Callable[..., FileWork],
) -> dict[Key, StoredRow]:
    """The rows of these slices, by their numbers, with the wanted keys, and with the values of `columns`.

    Raises LeftToSpark for too many bytes: what changes leave unchanged are large values.
    """
    files = [SliceFiles.of(number, item, root) for number, item in slices.items()]
    most_bytes = max(MIB, MOST_DECODED_BYTES // max(1, len(files)))
    find = partial(rows_of_slice, wanted=wanted, committed=committed, columns=columns, most_bytes=most_bytes)
    by_slice = work(in_tasks=sum(own.size for own in files) > READ_IN_DRIVER).each(find, files)
    if None in by_slice:
        raise LeftToSpark("size", "stored values")
    return by_key(row for rows in by_slice if rows is not None for row in rows)


def _entries(
    root: str,
    slices: Sequence[FileSlice],
    wanted: WantedKeys,
    *,
    rows: int,
    index: KeyIndex,
    work: Callable[..., FileWork],
) -> Mapping[str, Entry] | None:
    """What the index has of each file, after what is missing has been read; None where it has no room."""
    columns = wanted.rows.select(list(wanted.record_key))
    files = {file.path: file for item in slices for file in item.files}
    if not index.has_room(columns.nbytes * rows // max(columns.num_rows, 1)):
        return None
    entries = index.take(root, files)
    missing = [file for path, file in files.items() if path not in entries]
    if sum(file.size for file in missing if file.is_log) > READ_IN_DRIVER:
        return None
    try:
        read = work(in_tasks=False).each(partial(_read_entry, root=root, wanted=wanted), missing)
    except UnreadableLog:
        raise LeftToSpark("logs", "of another writer") from None
    made = {file.path: entry for file, entry in zip(missing, read)}
    index.keep(root, made)
    return {**entries, **made}


def _read_entry(objects: Objects, token: str, number: int, file: DataFile, *, root: str, wanted: WantedKeys) -> Entry:
    uri = f"{root}/{file.path}"
    if file.is_log:
        return read_log(read_file(objects, uri))
    return read_keys(open_parquet(objects, uri, file.size), wanted)


def read_keys(file: pq.ParquetFile, wanted: WantedKeys) -> BaseKeys:
    """The keys of a base file."""
    columns = file.read(columns=[*wanted.record_key, RECORD_KEY], use_threads=False)
    keys, highest = wanted.typed(columns).combine_chunks(), _highest(file)
    if not pc.all(pc.equal(key_text(keys, wanted.record_key), columns[RECORD_KEY])).as_py():
        highest = None
    return BaseKeys(keys, highest)


def _highest(file: pq.ParquetFile) -> str | None:
    """The highest position of a file's rows by its footer; None where that has none, and where a row owes columns."""
    footer, highest = file.metadata, ""
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        position = group.column(places[hidden.POSITION]).statistics if hidden.POSITION in places else None
        if position is None or not position.has_min_max or not isinstance(position.max, str):
            return None
        owed = group.column(places[hidden.OWED]).statistics if hidden.OWED in places else None
        if hidden.OWED in places and (owed is None or owed.null_count != group.num_rows):
            return None
        highest = max(highest, position.max)
    return highest


def rows_by_index(
    number: int,
    item: FileSlice,
    *,
    entries: Mapping[str, Entry],
    wanted: WantedKeys,
    committed: Committed,
    may_join: bool,
) -> list[tuple[Key, StoredRow]] | None:
    """The rows of slice `number` with the wanted keys by the index; None where it isn't certain that a change is newer.

    The position of a base file's row is then the file's highest.
    """
    base = entries[item.base.path] if item.base is not None else None
    if not isinstance(base, BaseKeys):
        return None
    rows_there = wanted.candidates(wanted.typed(base.keys), may_join=may_join)
    in_base = [key for key in keys_of(rows_there, wanted.record_key) if key in wanted.positions]
    if in_base and base.highest is None:
        return None
    blocks: list[LogBlock] = []
    for log in item.logs:
        entry = entries[log.path]
        blocks += () if isinstance(entry, BaseKeys) else entry
    logged = rows_in_logs(blocks, keys=wanted.by_text.keys(), holds=committed.holds)
    rows = {key: StoredRow(base.highest or "", None, wanted.texts[key], number) for key in in_base}
    newest = {key: wanted.positions[key] for key in in_base}
    for text, row in logged.items():
        key = wanted.by_text[text]
        if row is None:
            rows.pop(key, None)
            newest.pop(key, None)
        else:
            rows[key] = StoredRow(row.position, row.owed, text, number, row.partition, row.source_ts_ms)
            if key in newest:
                newest[key] = row.position
    if any(position <= (base.highest or "") for position in newest.values()):
        return None
    return list(rows.items())


def rows_of_slice(
    objects: Objects,
    token: str,
    number: int,
    files: SliceFiles,
    *,
    wanted: WantedKeys,
    committed: Committed,
    columns: pa.Schema = NO_COLUMNS,
    most_bytes: int = 0,
) -> list[tuple[Key, StoredRow]] | None:
    """The rows of a slice with the wanted keys, each with its key; None where only Hudi reads its logs.

    They have the values of `columns`; None, too, for more than `most_bytes` of these. The arguments in front are those
    of `FileWork.each`.
    """
    rows_by_key = dict(rows_in(open_parquet(objects, files.base, files.size), wanted, files.number, columns))
    if columns and sum(_bytes_of(row.values) for row in rows_by_key.values()) > most_bytes:
        return None
    if not files.logs:
        return list(rows_by_key.items())
    texts = wanted.by_text
    try:
        blocks = [block for log in files.logs for block in read_log(read_file(objects, log), texts, columns.names)]
    except UnreadableLog:
        return None
    for text, row in rows_in_logs(blocks, keys=texts.keys(), holds=committed.holds).items():
        key = texts[text]
        held = rows_by_key.get(key)
        if row is None:
            rows_by_key.pop(key, None)
        elif held is None or row.position >= held.position:
            source = (row.partition, row.source_ts_ms)
            rows_by_key[key] = StoredRow(row.position, row.owed, text, files.number, *source, row.values)
    return list(rows_by_key.items())


def _bytes_of(values: Mapping[str, Any]) -> int:
    return sum(len(value) for value in values.values() if isinstance(value, (str, bytes, list)))


def rows_in(
    file: pq.ParquetFile, wanted: WantedKeys, number: int, columns: pa.Schema = NO_COLUMNS
) -> list[tuple[Key, StoredRow]]:
    """The rows of the base file of slice `number` with the wanted keys, each with its key and values of `columns`."""
    keyed_rows = []
    for group in range(file.num_row_groups):
        if not wanted.may_be_in(file.metadata.row_group(group)):
            continue
        keys = wanted.typed(file.read_row_group(group, columns=list(wanted.record_key), use_threads=False))
        places = wanted.places(keys)
        candidates = zip(keys_of(keys.take(places), wanted.record_key), places.to_pylist())
        present = [(key, place) for key, place in candidates if key in wanted.positions]
        if not present:
            continue
        own = _rows_at(file, group, [*_READ, *columns.names], [place for _, place in present], whole=not columns)
        rows = own.select([name for name in _READ if name in own.schema.names]).to_pylist()
        for (key, _), row, values in zip(present, rows, _values(own, columns)):
            position, owed, text, partition, source_ts_ms = (row.get(name) for name in _READ)
            keyed_rows.append((key, StoredRow(position, owed, text, number, partition, source_ts_ms, values)))
    return keyed_rows


def _rows_at(file: pq.ParquetFile, group: int, names: Sequence[str], places: Sequence[int], *, whole: bool) -> pa.Table:
    """The rows at these places of a row group, in order. It is read at once where it is held `whole`."""
    at_once = max(1, file.metadata.row_group(group).num_rows) if whole else _ROWS_AT_ONCE
    begin, next_place = 0, 0
    rows = []
    for batch in file.iter_batches(at_once, row_groups=[group], columns=list(names), use_threads=False):
        end = bisect_left(places, begin + batch.num_rows, next_place)
        rows.append(batch.take(pa.array([place - begin for place in places[next_place:end]], pa.int64())))
        begin, next_place = begin + batch.num_rows, end
    return pa.Table.from_batches(rows)


def _values(rows: pa.Table, columns: pa.Schema) -> list[dict[str, Any]]:
    """Each row's values of these columns in their present types. An older file may lack some."""
    held = set(rows.schema.names)
    values = [
        as_counts(widened(flat(rows.column(item.name)), item.type)).to_pylist()
        if item.name in held
        else [None] * rows.num_rows
        for item in columns
    ]
    return [dict(zip(columns.names, row)) for row in zip(*values)] if values else [{}] * rows.num_rows


def by_key(rows: Iterable[tuple[Key, StoredRow]]) -> dict[Key, StoredRow]:
    """The stored rows of all files by key. Raises LeftToSpark for a key that is stored twice."""
    rows_by_key: dict[Key, StoredRow] = {}
    for key, row in rows:
        if key in rows_by_key:
            raise LeftToSpark("stored_twice")  # without the key: the reason is logged
        rows_by_key[key] = row
    return rows_by_key
