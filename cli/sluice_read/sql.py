"""One SELECT over silver tables in DuckDB, which opens the tables and reads the columns that it names."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import duckdb
import pyarrow as pa

from sluice.catalog.history_view import DUCKDB, history_view_sql
from sluice.changes import hidden_columns
from sluice.errors import SluiceError
from sluice_read import query_mistakes
from sluice_read.errors import InvalidParameters, InvalidQuery, Unreadable
from sluice_read.moments import NOW, Span
from sluice_read.past_states import CHANGES, PastStates, open_as_of
from sluice_read.place import SilverPlace, tables_in
from sluice_read.reading import ALL, BATCH_ROWS, Shown, SilverTable

_INTERRUPTED = "Query interrupted"  # DuckDB's RuntimeError for Ctrl-C while it works in the main thread
_INTERRUPTED_AGAIN_S = 0.2
_Result = TypeVar("_Result")
_WHOLE_OR_DECIMAL = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL.*")
_TIME_OF_DAY = re.compile(r"[0-9][Tt ]+([0-9:.]+)")  # without an offset, which a date doesn't heed
_MAY_BE_CUT = re.compile(r"(?=.*[.:eE])[-+0-9.:eETtZz ]+")  # a number with a fraction, a time of day
_OWN_SCHEMAS = frozenset({"information_schema", "pg_catalog", "system", "temp"})  # no table can be made there


def table_references(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[tuple[str, str], ...]:
    """The (schema, table) pairs that a SELECT names, each once, in the order of the statement.

    DuckDB's own parser finds them. Names without a schema are defined in the statement (WITH) and left out. Raises
    InvalidQuery for other than one statement and for anything but a SELECT.
    """
    tables: dict[tuple[str, str], None] = {}
    for node in _nodes(_parsed(connection, sql)):
        if isinstance(node, dict) and node.get("type") == "SHOW_REF" and not node.get("query"):
            raise InvalidQuery(
                "SHOW lists nothing here: tables are opened when a statement names them",
                next_step="`sluice status` lists them",
            )
        if isinstance(node, dict) and node.get("type") == "BASE_TABLE" and node.get("schema_name"):
            tables[node["schema_name"], node["table_name"]] = None
    return tuple(tables)


def parameter_names(connection: duckdb.DuckDBPyConnection, sql: str) -> tuple[str, ...]:
    """The names of a SELECT's parameters (`$name`), each once, in their order; of `?` and `$1` their numbers.

    Raises InvalidQuery.
    """
    places: dict[str, int] = {}
    for node in _nodes(_parsed(connection, sql)):
        if isinstance(node, dict) and node.get("class") == "PARAMETER":
            place = int(node.get("query_location") or 0)
            places[node["identifier"]] = min(place, places.get(node["identifier"], place))
    return tuple(sorted(places, key=lambda name: places[name]))


def named_columns(connection: duckdb.DuckDBPyConnection, sql: str) -> frozenset[str] | None:
    """Every word of a SELECT that may be a column's name, in lower case; None where it may need all columns.

    These need all: `*` and COLUMNS, a natural join, the name of a table in place of a column, which is the row, and a
    table's own names for its columns (`t(a, b)`), which go by their places.
    Raises InvalidQuery.
    """
    words, tables, last = set[str](), set[str](), set[str]()
    for node in _nodes(_parsed(connection, sql)):
        if isinstance(node, str):
            words.add(node.lower())
        elif isinstance(node, dict):
            if node.get("type") in ("STAR", "PIVOT", "SHOW_REF") or node.get("ref_type") == "NATURAL":
                return None
            if node.get("type") == "BASE_TABLE" and node.get("column_name_alias"):
                return None
            tables |= {str(node[key]).lower() for key in ("alias", "table_name") if node.get(key)}
            last |= {str(name).lower() for name in (node.get("column_names") or ())[-1:]}
    return None if last & tables else frozenset(words)


def _parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """The tree of one SELECT by DuckDB's own parser. Raises InvalidQuery."""
    if not isinstance(sql, str):
        raise InvalidQuery(f"A statement is text, not {sql!r}", next_step="Give one, such as SELECT * FROM crm.orders")
    (serialized,) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()[0]
    parsed = json.loads(serialized)
    if parsed.get("error"):
        if parsed.get("error_type") == "not implemented":
            raise InvalidQuery(
                "The statement is not a SELECT, and a query only reads", next_step=query_mistakes.ALLOWED
            )
        offset = parsed.get("position")
        raise query_mistakes.unparsed(str(parsed.get("error_message")), sql, None if offset is None else int(offset))
    if not parsed["statements"]:
        raise InvalidQuery("No statement was given", next_step="Give one, such as SELECT * FROM crm.orders")
    if len(parsed["statements"]) != 1:
        raise InvalidQuery(
            f"{len(parsed['statements'])} statements were given, and one is allowed", next_step="Run each by itself"
        )
    return parsed["statements"][0]["node"]


def _nodes(tree: Any) -> Iterator[Any]:
    """Every mapping, list and value of a tree, in the order of the statement."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed([*(node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())])


@contextmanager
def run_query(
    place: SilverPlace,
    sql: str,
    *,
    with_deleted: bool = False,
    lineage: bool = False,
    span: Span = NOW,
    files: bool = False,
    note: Callable[[str], None] = lambda sentence: None,
    parameters: Mapping[str, str] | None = None,
    memory_mib: int | None = None,
    within: Callable[[duckdb.DuckDBPyConnection], AbstractContextManager[None]] = lambda connection: nullcontext(),
) -> Iterator[tuple[duckdb.DuckDBPyConnection, duckdb.DuckDBPyRelation]]:
    """Run one SELECT: a DuckDB with the tables that it names, and its result, readable inside the `with`.

    Every table is read over the same span. One whose own files begin later is read from its history table, where it
    has one: `note` gets a sentence that says so. With `files` the statement may also read files of this machine.
    `parameters` are the values of `$name` in it, which DuckDB binds. All of its work is done `within` a context. Raises
    InvalidQuery and what `open_table` does.
    """
    with opened_duckdb(files=files, memory_mib=memory_mib) as connection, within(connection):
        # DuckDB compares names without case, so two spellings are one table.
        used = {(schema.lower(), table.lower()): (schema, table) for schema, table in table_references(connection, sql)}
        _refuse_shadowed(place, [".".join(words) for (schema, _), words in used.items() if schema in _OWN_SCHEMAS])
        columns, shown = named_columns(connection, sql), Shown(with_deleted=with_deleted, lineage=lineage)
        opened = {
            f"{quoted(schema)}.{quoted(table)}": open_as_of(
                place, f"{schema}.{table}", span=span, states=not (with_deleted or lineage)
            )
            for (folded, _), (schema, table) in used.items()
            if folded not in _OWN_SCHEMAS
        }
        for schema in (schema for (folded, _), (schema, _) in used.items() if folded not in _OWN_SCHEMAS):
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
        try:
            # Bound to empty tables first: a mistake in the statement is found before anything is read.
            for name, table in opened.items():
                _declare(connection, name, table, shown)
            connection.sql(sql, params=parameters)
            _refuse_inexact(connection, sql, parameters or {})
            for name, table in opened.items():
                if isinstance(table, PastStates):
                    note(table.note)
                    connection.execute(f"DROP TABLE {_changes_of(name)}")
                    load_past(connection, table, _changes_of(name), _other_table(name, "rows"))
                    continue
                stored, read = name, _only(shown, table.schema(shown).names, columns)
                if _shows_states(table, shown):
                    stored, read = _changes_of(name), CHANGES
                connection.execute(f"DROP TABLE {stored}")
                load(connection, stored, table.reader(read))
            yield connection, connection.sql(sql, params=parameters)
        except (duckdb.Error, OSError) as error:
            if isinstance(error, OSError) and not query_mistakes.is_of_duckdb(error):
                raise
            raise query_mistakes.explained(error, lambda: tables_in(place)) from error


def _refuse_inexact(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, str]) -> None:
    """Raise InvalidParameters for a text that DuckDB would round or cut to the type that it stands for.

    It would find the rows of another value. The plan before it is optimized names the types.
    """
    given = {name: text for name, text in parameters.items() if _MAY_BE_CUT.fullmatch(text)}
    plan = connection.execute(f"EXPLAIN (FORMAT json) {sql}", parameters).fetchall()[0][1] if given else ""
    for name, text in given.items():
        for kind in set(re.findall(rf"CAST\('{re.escape(text)}' AS (\w+(?:\(\d+,\d+\))?)\)", plan)):
            ((held,),) = connection.execute(f"SELECT CAST(CAST(? AS {kind}) AS VARCHAR)", [text]).fetchall()
            if not is_exact(text, held, kind):
                raise InvalidParameters(f"{name} stands for {kind}, and {text!r} would be cut to {held}")


def is_exact(text: str, held: str, kind: str) -> bool:
    """Whether a value of DuckDB's type `kind` is what its text says: DuckDB rounds 7.6 to 8, and cuts times of dates.

    Then the comparison would be with another value. A text in a form that is not known here counts as exact.
    """
    if _WHOLE_OR_DECIMAL.fullmatch(kind):
        try:
            return Decimal(text.strip()) == Decimal(held)
        except InvalidOperation:
            return True
    if kind == "DATE":
        time_of_day = _TIME_OF_DAY.search(text)
        return time_of_day is None or not time_of_day[1].strip("0:.")
    return True  # a table has no parts of a microsecond either


def _refuse_shadowed(place: SilverPlace, names: Sequence[str]) -> None:
    """Raise InvalidQuery for a table of the place whose database has the name of a schema of DuckDB's own."""
    shadowed = set(names) & set(tables_in(place)) if names else set()
    for name in shadowed:
        raise InvalidQuery(
            f"{name} can't be named in a statement: its database has the name of a schema of DuckDB's own",
            next_step=f"`sluice query {name}` reads the table without one",
        )


def _declare(connection: duckdb.DuckDBPyConnection, name: str, table: SilverTable | PastStates, shown: Shown) -> None:
    """Create a table without rows; of a history table its changes, and a view of the states that follow from them."""
    changes = _changes_of(name)
    if isinstance(table, PastStates):
        shown_by, states = table.changes, table.select(changes)
    elif _shows_states(table, shown):
        shown_by, states = table, _states(table, changes)
    else:
        load(connection, name, table.schema(shown).empty_table().to_reader())
        return
    load(connection, changes, shown_by.schema(CHANGES).empty_table().to_reader())
    connection.execute(f"CREATE VIEW {name} AS {states}")


def _shows_states(table: SilverTable, shown: Shown) -> bool:
    """True for a history table, unless its changes themselves are asked for."""
    all_columns = shown.with_deleted or shown.lineage or table.span.changes
    return hidden_columns.POSITION in table.record_key and not all_columns


def rows_reader(table: SilverTable, shown: Shown) -> pa.RecordBatchReader:
    """The rows of a table as an Arrow reader, as a SELECT shows them: of a history table the states.

    DuckDB loads its changes when the states are read. Raises UnknownColumn, and what `load` does.
    """
    if not _shows_states(table, shown):
        return table.reader(shown)
    changes = quoted("changes")
    with opened_duckdb() as empty:
        load(empty, changes, table.schema(CHANGES).empty_table().to_reader())
        schema = table.chosen(list(empty.sql(_states(table, changes)).to_arrow_table().schema), shown.columns)

    def batches() -> Iterator[pa.RecordBatch]:
        with opened_duckdb() as connection:
            load(connection, changes, table.reader(CHANGES))
            names = ", ".join(map(quoted, schema.names))
            states = connection.sql(f"SELECT {names} FROM ({_states(table, changes)}) AS states")
            yield from states.to_arrow_reader(BATCH_ROWS)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _states(table: SilverTable, changes: str) -> str:
    """The SELECT of a history table's states over a quoted table of its changes."""
    key = [column for column in table.record_key if column != hidden_columns.POSITION]
    return history_view_sql(table.schema().names, record_key=key, source=changes, dialect=DUCKDB)


def _changes_of(name: str) -> str:
    return _other_table(name, "changes")


def _other_table(name: str, what: str) -> str:
    """The quoted name of a further table of DuckDB's; no table of the place has a blank in its name."""
    return f"{name[:-1]} {what}{name[-1]}"


def _only(shown: Shown, names: Sequence[str], columns: frozenset[str] | None) -> Shown:
    """What of a table is read: the columns that may be named, and at least one, for the number of rows."""
    if columns is None:
        return shown
    # DuckDB compares names without case, by rules of its own for letters beyond ASCII.
    wanted = tuple(name for name in names if name.lower() in columns or not name.isascii())
    return replace(shown, columns=wanted or tuple(names[:1]))


@contextmanager
def opened_duckdb(*, files: bool = False, memory_mib: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a separate DuckDB, which spills tables that don't fit in memory to a temporary folder.

    Statements reach no file and no network, or with `files` the files of this machine. `memory_mib` None: DuckDB's own
    limit, four fifths of the machine's memory.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-query-") as spill:
        # No extension is downloaded, and no Python variable becomes a table by its name.
        config: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": spill,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",
        }
        with duckdb.connect(config=config) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            if memory_mib is not None:
                connection.execute(f"SET memory_limit = '{memory_mib:d}MiB'")
            # On by itself where Python runs no file (`python -c`): it would be written between the rows on stdout.
            connection.execute("SET enable_progress_bar = false")
            connection.execute("SET explain_output = 'all'")
            if not files:  # the folder for spilling stays reachable: DuckDB lists it when access ends
                connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            try:
                yield connection
            except RuntimeError as error:
                if str(error) == _INTERRUPTED:
                    raise KeyboardInterrupt from None
                raise


def interruptible(connection: duckdb.DuckDBPyConnection, work: Callable[[], _Result]) -> _Result:
    """Let DuckDB work beside the main thread, which Ctrl-C reaches at once: KeyboardInterrupt ends the work.

    In the main thread DuckDB looks at signals late or not at all, and raises an error of its own.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="query") as pool:
        working = pool.submit(work)
        try:
            return working.result()
        except KeyboardInterrupt:
            while not working.done():  # before the statement has begun, an interruption is lost
                connection.interrupt()
                wait([working], timeout=_INTERRUPTED_AGAIN_S)
            raise


def load(connection: duckdb.DuckDBPyConnection, name: str, reader: pa.RecordBatchReader) -> None:
    """Load batches into a new table, one by one. The caller quotes `name`. Raises what the reader does, Unreadable."""
    try:
        with registered(connection, "sluice_reader", reader):
            connection.execute(f"CREATE TABLE {name} AS FROM sluice_reader")
            connection.unregister("sluice_reader")
    except duckdb.Error as error:
        raise Unreadable(
            f"{name} could not be loaded into DuckDB: {query_mistakes.plain(str(error))}",
            table=name,
            next_step="Free some disk or memory, or read less: `sluice query TABLE` holds one batch at a time",
        ) from error


def load_past(
    connection: duckdb.DuckDBPyConnection,
    past: PastStates,
    changes: str,
    rows: str,
    read: Callable[[SilverTable, Shown], pa.RecordBatchReader] = SilverTable.reader,
) -> None:
    """Load what tells a past state into two new tables, by `read`, and check that it tells the state of every row.

    The caller quotes the names. Raises NotRetained, and what `load` does.
    """
    load(connection, changes, read(past.changes, CHANGES))
    load(connection, rows, read(past.now, past.rows))
    ((unknown,),) = connection.execute(past.unknown(changes, rows)).fetchall()
    if unknown:
        raise past.lacking(unknown)


@contextmanager
def past_rows(past: PastStates, shown: Shown = ALL) -> Iterator[pa.RecordBatchReader]:
    """Read the rows of a past state, inside the `with`. Raises UnknownColumn, and what `load_past` does."""
    visible = [past.now.schema().field(name) for name in past.columns]
    names = ", ".join(map(quoted, past.now.chosen(visible, shown.columns).names))
    with opened_duckdb() as connection:
        changes = quoted("changes")
        load_past(connection, past, changes, quoted("rows"))
        yield connection.sql(f"SELECT {names} FROM ({past.select(changes)}) AS states").to_arrow_reader(BATCH_ROWS)


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, name: str, reader: pa.RecordBatchReader) -> Iterator[None]:
    """Give batches a name that one statement may read. Raises what the reader does, inside the `with`."""
    failed: list[SluiceError] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from reader
        except SluiceError as error:
            failed.append(error)
            raise

    connection.register(name, pa.RecordBatchReader.from_batches(reader.schema, batches()))
    try:
        yield
    except duckdb.Error:
        if failed:  # DuckDB's own error has it only as text, with its traceback
            raise failed[0] from None
        raise


def quoted(identifier: str) -> str:
    """Quote a name for SQL."""
    return '"' + identifier.replace('"', '""') + '"'
