"""Rows of a table as of a moment before its own files begin, from the changes in its history table.

The table's files know the times of its commits, the history table those of the source's. So this is the table as the
source had it. It is known only where the state of every row is known: a history that began after its table, or was
switched off for a while, lacks changes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from sluice.catalog.history_view import DUCKDB, IS_CURRENT, history_view_sql, names_in_states
from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import NEVER
from sluice_read.errors import NotRetained
from sluice_read.moments import NOW, Span, moment_of, ms_of
from sluice_read.place import READ_OPTIMIZED, SilverPlace, find_table, history_folder
from sluice_read.reading import Shown, SilverTable, open_table

CHANGES = Shown(with_deleted=True, lineage=True)  # how a history table is read


@dataclass(frozen=True)
class PastStates:
    """A table as of `asked`, an instant. `now` is its newest state, `changes` its history table.

    `refused` is the error of reading the table's own files as of then.
    """

    now: SilverTable
    changes: SilverTable
    asked: str
    refused: NotRetained

    @property
    def instant(self) -> str:
        """The moment, which is no commit of the table."""
        return self.asked

    @property
    def note(self) -> str:
        """A sentence that says where the rows come from."""
        return (
            f"{self.now.table} as of {self.asked} ({moment_of(self.asked)}) by the source's times, from "
            f"{self.changes.table}: its own files begin with {self.refused.facts['earliest']}"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows: those of the table. The history table has none that a partition transform makes.

        Raises NotRetained where it lacks another.
        """
        names, kept = self.now.schema().names, set(self.changes.schema().names)
        made = [name for name in names if name not in kept and name in self.now.partition_fields]
        lost = [name for name in names if name not in kept and name not in made]
        if lost:
            raise NotRetained(
                f"{self.refused.message}. {self.changes.table} has no column {lost[0]}",
                **self.refused.facts,
                next_step=self._next_step,
            )
        return tuple(name for name in names if name not in made)

    @property
    def _next_step(self) -> str:
        rebuild = f"`sluice rebuild table {self.now.table}` fills in the changes that bronze still has"
        return f"Ask for {self.refused.facts['earliest']} or later; {rebuild}"

    @property
    def rows(self) -> Shown:
        """What to read of `now` for `unknown`: which change of each row it has, and what it owes."""
        columns = (*self.now.record_key, hidden.POSITION, hidden.OWED)
        return Shown(with_deleted=True, lineage=True, columns=columns)

    def select(self, changes: str) -> str:
        """The SELECT of the rows over a table of all changes. The names of tables are quoted."""
        names = self.columns
        until = f"(SELECT * FROM {changes} WHERE {hidden.SOURCE_TS_MS} <= {ms_of(self.asked)}) AS until"
        states = history_view_sql(names, record_key=self.now.record_key, source=until, dialect=DUCKDB)
        shown = ", ".join(
            f"{DUCKDB.quoted(among)} AS {DUCKDB.quoted(name)}" for name, among in names_in_states(names).items()
        )
        return f"SELECT {shown} FROM ({states}) AS states WHERE {IS_CURRENT}"

    def unknown(self, changes: str, rows: str) -> str:
        """The SELECT of the number of rows whose state at the moment isn't known, over two quoted tables.

        Such a row is newer in the table than in its history; or it was there before its first change in the history,
        which isn't its creation, and came later, or a column's value did that the table has; or the time of a change is
        not known.
        """
        key = ", ".join(map(DUCKDB.quoted, self.now.record_key))
        position, at, of_source = hidden.POSITION, ms_of(self.asked), hidden.SOURCE_TS_MS
        others = [name for name in self.columns if name not in self.now.record_key]
        lacks = " OR ".join(
            f"NOT bool_or({_names('its_owed', name)} = 0) AND NOT bool_or({_names('now_owed', name, NEVER)} > 0)"
            for name in others
        )
        return f"""
            WITH ordered AS (
                SELECT row({key}) AS own_key, {position} AS position, {hidden.OWED} AS owed,
                    {of_source} AS came, {hidden.OP} AS op, {hidden.DELETED} AS deleted,
                    row_number() OVER life AS number, lead({position}) OVER life AS next, lead({of_source}) OVER life
                    AS ends, max(CASE WHEN {of_source} <= {at} THEN {position} END) OVER (PARTITION BY {key}) AS chosen,
                    first_value({hidden.OP}) OVER life AS first_op
                FROM {changes} WINDOW life AS (PARTITION BY {key} ORDER BY {position})
            ), lacking AS (
                SELECT own_key FROM ordered
                    JOIN (SELECT row({key}) AS its_key, {position} AS its_position, {hidden.OWED} AS its_owed
                        FROM {changes}) ON its_key = own_key AND its_position <= chosen
                    LEFT JOIN (SELECT row({key}) AS now_key, {hidden.OWED} AS now_owed FROM {rows}) ON now_key = own_key
                WHERE position = chosen AND first_op IS DISTINCT FROM '{hidden.CREATE}' AND owed IS NOT NULL
                GROUP BY own_key HAVING {lacks or "false"}
            )
            SELECT (SELECT count(*) FROM ordered WHERE
                number = 1 AND (came IS NULL OR came > {at} AND op IS DISTINCT FROM '{hidden.CREATE}')
                OR position = chosen AND own_key IN (SELECT own_key FROM lacking)
                OR position = chosen AND NOT deleted AND next IS NOT NULL AND ends IS NULL)
            + (SELECT count(*) FROM {rows} ANTI JOIN {changes} USING ({key}, {position}))"""

    def lacking(self, rows: int) -> NotRetained:
        """The error where the state of so many rows isn't known."""
        history = self.changes.table
        return NotRetained(
            f"{self.refused.message}. {history} doesn't know the state of {rows:,} of its rows then",
            **{**self.refused.facts, "rows": rows},
            next_step=self._next_step,
        )


def _names(owed: str, column: str, known_at: str | None = None) -> str:
    """SQL: the place, from 1, of a column in what a row owes; 0 for none. `known_at`: where its value is of then.

    A table has JSON of both forms, with characters beyond ASCII and without.
    """
    value = "" if known_at is None else json.dumps(known_at)
    forms = {f"{json.dumps(column, ensure_ascii=ascii)}:{value}" for ascii in (True, False)}
    places = ", ".join(f"strpos({owed}, {DUCKDB.literal(form)})" for form in sorted(forms))
    return f"coalesce(greatest({places}), 0)"


def newest_of(opened: SilverTable | PastStates) -> SilverTable:
    """The table itself, by which a past state has its name, columns and key."""
    return opened.now if isinstance(opened, PastStates) else opened


def open_as_of(place: SilverPlace, name: str, *, span: Span = NOW, states: bool = True) -> SilverTable | PastStates:
    """Open a table, by its history table where the span is a moment before its files begin and `states` are asked for.

    Raises what `open_table` does.
    """
    try:
        return open_table(place, name, span=span)
    except NotRetained as refused:
        folder, view = find_table(place, name)
        history = history_folder(place, folder.table)
        if history is None or view == READ_OPTIMIZED or span.changes or span.as_of is None or not states:
            raise
        return PastStates(open_table(place, name), open_table(place, history.table), span.as_of, refused)
