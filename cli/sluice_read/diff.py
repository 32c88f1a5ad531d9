"""The difference between two moments of a table: rows added, removed, and changed, with the columns that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from sluice.hudi.file_slices import FileSlice
from sluice_read.errors import NotComparable
from sluice_read.moments import refuse_backwards
from sluice_read.past_states import PastStates, newest_of
from sluice_read.reading import COMMIT_TIME, RECORD_KEY, Shown, SilverTable
from sluice_read.sql import load, load_past, opened_duckdb, quoted
from sluice_read.values import rows_of

ADDED, CHANGED, REMOVED = "added", "changed", "removed"
_BATCH_ROWS = 2_000


@dataclass(frozen=True)
class RowDifference:
    """A row that differs, with JSON values by column. `before` of an added and `after` of a removed row is None."""

    kind: str
    key: tuple[Any, ...]
    columns: tuple[str, ...]
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def refuse_wrong_order(before: str | None, after: str | None) -> None:
    """Refuse a first moment after the second. Raises InvalidMoment."""
    refuse_backwards("the first moment", before, "the second", after)


@contextmanager
def differences(before: SilverTable | PastStates, after: SilverTable | PastStates) -> Iterator[Iterator[RowDifference]]:
    """Find the rows that differ, in no order, readable inside the `with`. Rows that the source deleted count as absent.

    They are read into a DuckDB that spills to disk, and joined by the record's key, so a row that moved to another
    partition is one row. Of two moments of the table's own files only file slices that differ are read.
    Raises NotComparable, InvalidMoment, Unreadable, NotRetained.
    """
    then, now = newest_of(before), newest_of(after)
    if then.table != now.table or then.view != now.view:
        raise NotComparable(
            f"{then.table}{then.view} and {now.table}{now.view} are two tables", tables=(then.table, now.table)
        )
    refuse_wrong_order(_asked(before), _asked(after))
    # Both are read with the newest columns, so that they can be compared; a later column is null before. A past state
    # may lack columns that are made of others.
    compared = [set(opened.columns) for opened in (before, after) if isinstance(opened, PastStates)]
    columns = tuple(name for name in now.schema().names if all(name in names for names in compared))
    with opened_duckdb() as connection:
        if isinstance(before, SilverTable) and isinstance(after, SilverTable):
            shown = Shown(lineage=True, columns=(RECORD_KEY, COMMIT_TIME, *columns))
            old, new = differing_slices(before, after)
            load(connection, "before", before.reader(shown, slices=old))
            load(connection, "after", after.reader(shown, slices=new))
        else:
            _load_states(connection, "before", before, columns)
            _load_states(connection, "after", after, columns)
        difference = connection.sql(
            _STATEMENT.format(
                key=quoted(RECORD_KEY),
                time=quoted(COMMIT_TIME),
                before=", ".join(f"b.{quoted(name)}" for name in columns),
                after=", ".join(f"a.{quoted(name)}" for name in columns),
                differ=", ".join(f"b.{quoted(name)} IS DISTINCT FROM a.{quoted(name)}" for name in columns),
            )
        )
        yield _differences(difference.to_arrow_reader(_BATCH_ROWS), columns, key_columns(now))


def _asked(opened: SilverTable | PastStates) -> str | None:
    return opened.asked if isinstance(opened, PastStates) else opened.span.as_of


def _load_states(
    connection: duckdb.DuckDBPyConnection, name: str, opened: SilverTable | PastStates, columns: Sequence[str]
) -> None:
    """Load a table's rows as `name`. The rows of a past state have no record key and commit time of Hudi's.

    So the key is that of its columns, and the time differs from that of the other moment.
    """
    past_rows = f'"{name} rows"'
    if isinstance(opened, PastStates):
        changes = f'"{name} changes"'
        load_past(connection, opened, changes, past_rows)
        rows = f"({opened.select(changes)})"
    else:
        load(connection, past_rows, opened.reader(Shown(columns=tuple(columns))))
        rows = past_rows
    key = ", ".join(map(quoted, newest_of(opened).record_key))
    connection.execute(
        f"CREATE VIEW {name} AS SELECT row({key}) AS {quoted(RECORD_KEY)}, '{name}' AS {quoted(COMMIT_TIME)}, * "
        f"FROM {rows} AS states"
    )


# Equal commit times of a key mean one and the same write, which needs no comparison.
_STATEMENT = """
SELECT coalesce(b.{key}, a.{key}), b.{key} IS NULL, a.{key} IS NULL, [{differ}], {before}, {after}
FROM before b FULL OUTER JOIN after a ON b.{key} = a.{key}
WHERE b.{key} IS NULL OR a.{key} IS NULL OR (b.{time} <> a.{time} AND list_contains([{differ}], true))
"""


def differing_slices(before: SilverTable, after: SilverTable) -> tuple[tuple[FileSlice, ...], tuple[FileSlice, ...]]:
    """The file slices of each moment without those that are the same at both: one base file without logs."""

    def whole(item: FileSlice) -> str | None:
        return item.base.path if item.base is not None and not item.logs else None

    old, new = before.slices(), after.slices()
    same = {whole(item) for item in old} & {whole(item) for item in new} - {None}
    return tuple(item for item in old if whole(item) not in same), tuple(
        item for item in new if whole(item) not in same
    )


def key_columns(table: SilverTable) -> tuple[str, ...]:
    """The columns that name a row: its key's, or Hudi's own record key where those are hidden (append-only tables)."""
    key = table.record_key
    return key if key and set(key) <= set(table.schema().names) else (RECORD_KEY,)


def _differences(reader: Any, columns: tuple[str, ...], key: tuple[str, ...]) -> Iterator[RowDifference]:
    count = len(columns)
    for batch in reader:
        for record_key, is_new, is_gone, differ, *values in rows_of(batch):
            old, new = dict(zip(columns, values[:count], strict=True)), dict(zip(columns, values[count:], strict=True))
            row = {RECORD_KEY: record_key, **(old if is_gone else new)}
            key_values = tuple(row[name] for name in key)
            if is_new or is_gone:
                yield RowDifference(
                    ADDED if is_new else REMOVED, key_values, columns, None if is_new else old, None if is_gone else new
                )
            else:
                changed = tuple(name for name, other in zip(columns, differ, strict=True) if other)
                yield RowDifference(CHANGED, key_values, changed, old, new)
