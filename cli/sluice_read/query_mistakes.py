"""What DuckDB refuses of a statement, in one sentence with the place, and the next step.

DuckDB's messages begin with their kind (`Binder Error:`), and end with the line of the statement and a mark below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches

import duckdb

from sluice.changes import hidden_columns
from sluice.names import did_you_mean
from sluice_read.errors import InvalidQuery

RESERVED = 'Reserved words are quoted: crm."user"'
STATEMENTS = ("SELECT", "WITH", "FROM", "DESCRIBE", "SUMMARIZE")
_CLAUSES = (
    "FROM",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "UNION",
    "QUALIFY",
)  # misspelt, and more
ALLOWED = f"Write {', '.join(STATEMENTS[:-1])} or {STATEMENTS[-1]}"
_OF_THE_PROMPT = (
    "Commands that begin with a dot belong to the prompt, which `sluice query` opens in a terminal. `sluice status` "
    "lists the tables"
)
_DESCRIBE = "`sluice query 'describe DATABASE.TABLE'` lists a table's columns and types"
_FUNCTIONS_SHOWN, _TABLES_SHOWN = 3, 20
_LIKENESS = 0.75  # of a word and the clause that it means: `form` and FROM
_KIND = re.compile(r"[A-Z][A-Za-z/]*(?: [A-Za-z]+){0,3} Error: ")
_PLACE = re.compile(r"^LINE ([0-9]+): (.*)\n( *)\^", re.MULTILINE)
# The first line of a message, and what is said instead. Groups of the pattern are kept.
_SENTENCES = tuple(
    (re.compile(pattern, re.DOTALL), sentence)
    for pattern, sentence in (
        (r'Referenced column (".*") not found in FROM clause!', r"No table of the statement has a column \1"),
        (r'Table (".*") does not have a column named (".*")', r"\1 has no column \2"),
        (r'Column (".*") in (EXCLUDE|REPLACE) list not found in FROM clause', r"\2 names \1, which is not a column"),
        (r'Referenced table (".*") not found!', r"\1 is used, and FROM names no such table"),
        (r"Table with name (.*?) does not exist.*", r"There is no table \1"),
        (r"(?:\w+ )*Function with name (.*) does not exist!", r"DuckDB has no function \1"),
        (r"Type with name (.*) does not exist!", r"DuckDB has no type \1"),
        (r"No function matches the given name and argument types '(.*)'\..*", r"DuckDB has no function or operator \1"),
        (
            r'column (".*") must appear in the GROUP BY clause.*',
            r"Column \1 is neither in GROUP BY nor in an aggregate function",
        ),
        (r"Ambiguous reference to column name (\".*\") \(use: (.*)\)", r"Several tables have a column \1"),
        (r"Could not convert string (.*) to (\S+)( when casting.*)?", r"The text \1 can't be converted to \2\3"),
        (r"syntax error at or near (\".*\")", r"The SQL can't be parsed at \1"),
    )
)
_CANDIDATES = {"bindings": "Columns with similar names", "tables": "Tables of the statement"}


def plain(message: str) -> str:
    """The first line of a message of DuckDB, without its kind and in plain words where they are known."""
    if message.startswith("Out of Memory Error"):
        return "DuckDB has no memory left"
    first = _KIND.sub("", (message.strip().splitlines() or ["no reason is given"])[0], count=1)
    for pattern, sentence in _SENTENCES:
        if found := pattern.fullmatch(first):
            return found.expand(sentence)
    return first[:1].upper() + first[1:].rstrip(".!")


def is_of_duckdb(error: OSError) -> bool:
    """True for an error of DuckDB that comes through Arrow, while rows are read."""
    return error.errno is None and _KIND.match(str(error)) is not None


def explained(
    connection: duckdb.DuckDBPyConnection, sql: str, error: duckdb.Error | OSError, tables: Callable[[], Sequence[str]]
) -> InvalidQuery:
    """The error of Sluice for DuckDB's error about a statement. `tables` returns the tables that there are."""
    message = str(error)
    place = _place(message, sql) or _place_by_explaining(connection, sql, message)
    return InvalidQuery(f"{plain(message)}{place}", next_step=_next_step(error, message, tables, sql))


def unparsed(message: str, sql: str, offset: int | None) -> InvalidQuery:
    """The error of Sluice for SQL that DuckDB's parser refuses at an offset in bytes."""
    sentence = plain(message)
    if "can't be parsed" not in sentence:
        first = sentence[:1] if sentence[1:2].isupper() else sentence[:1].lower()  # a keyword stays as it is
        sentence = f"The SQL can't be parsed: {first}{sentence[1:]}"
    place, step = "", RESERVED
    if offset is not None:
        step = _statement_meant(sql, offset) or _clause_meant(sql, offset) or RESERVED
        if "unterminated" in sentence:
            step = "Close what opens there: a quote, or a comment"
        elif sql.lstrip().startswith("."):
            step = _OF_THE_PROMPT
        before = sql.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore")
        place = f" (line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))})"
    return InvalidQuery(f"{sentence}{place}", next_step=step)


def _statement_meant(sql: str, offset: int) -> str:
    """The next step where the word at the offset, in bytes, is the statement's first; "" for other words."""
    word = re.match(rb"\w+", sql.encode("utf-8", "replace")[offset:])
    if word is None or any(at < offset and kind is not duckdb.token_type.comment for at, kind in duckdb.tokenize(sql)):
        return ""
    meant = did_you_mean(word[0].decode("ascii"), STATEMENTS).removeprefix("; ")
    return f"{meant[:1].upper()}{meant[1:]}" or ALLOWED


def _clause_meant(sql: str, offset: int) -> str:
    """The next step where the word at the offset, in bytes, or the one before it is a misspelt clause; "" otherwise.

    DuckDB takes a misspelt `WHERE` for the alias of the table, and stumbles over the word behind it.
    """
    written = sql.encode("utf-8", "replace")
    before, after = written[:offset].decode("utf-8", "ignore"), written[offset:].decode("utf-8", "ignore")
    for found in (re.match(r"()([A-Za-z]+)", after), re.search(r"(^|[^\w.\"'])([A-Za-z]+)\s+$", before)):
        word = found[2] if found is not None else ""
        near = get_close_matches(word.upper(), _CLAUSES, 1, _LIKENESS)
        if near and word.upper() != near[0]:
            return f"Did you mean {near[0]} in place of {word}?"
    return ""


def _place_by_explaining(connection: duckdb.DuckDBPyConnection, sql: str, message: str) -> str:
    """The place of an error that binding a relation found: only the message about a statement has it."""
    before = "EXPLAIN\n"
    try:
        connection.execute(before + sql)
    except duckdb.Error as error:
        if plain(str(error)) == plain(message):
            return _place(str(error), before + sql, lines_before=1)
    return ""


def _place(message: str, sql: str, *, lines_before: int = 0) -> str:
    """` (line 1, column 8)` of a message with a place. A column is left out where the mark doesn't tell it."""
    found, lines = _PLACE.search(message), sql.split("\n")
    if found is None or not lines_before < int(found[1]) <= len(lines):
        return ""
    number, line, shown = int(found[1]) - lines_before, lines[int(found[1]) - 1], found[2].strip(".")
    begins = line.find(shown)
    if begins < 0 or not line.isascii():  # cut, or characters of several widths
        return f" (line {number})"
    mark = len(found[3]) - len(f"LINE {found[1]}: ") - (len(found[2]) - len(found[2].lstrip(".")))
    return f" (line {number}, column {begins + mark + 1})"


def _next_step(error: duckdb.Error | OSError, message: str, tables: Callable[[], Sequence[str]], sql: str) -> str:
    first = (message.splitlines() or [""])[0]
    advice = _advice([line.strip() for line in message.splitlines()[1:]])
    if text := _text_meant(first, sql):
        return f"A text stands in single quotes: {text}{f'. {advice}' if advice else ''}"
    if isinstance(error, duckdb.CatalogException) and "Table with name" in first:
        known = ", ".join(tables()[:_TABLES_SHOWN])
        return f"Tables are named database.table: {known}" if known else "Tables are named database.table"
    if isinstance(error, duckdb.BinderException) and any(
        name in first for name in ("_sluice_", "_hoodie_", hidden_columns.DELETED)
    ):
        return (
            "_sluice_* and _hoodie_* columns need --lineage, __deleted needs --with-deleted "
            "(in Python lineage=True, with_deleted=True)"
        )
    if isinstance(error, duckdb.PermissionException):
        return "A query reads silver tables and nothing else; `sluice query --files` lets it read files of this machine"
    if found := re.search(r'Function "(\w+)" is a table function', first):
        files = "; files are read by `sluice query --files` alone" if _READS_FILES.match(found[1]) else ""
        return f"Call it in FROM: SELECT * FROM {found[1]}(...){files}"
    if isinstance(error, duckdb.OutOfMemoryException):
        return "Read fewer columns or rows, or free memory"
    if "Could not convert" in first:
        return "TRY_CAST gives NULL where a value can't be converted"
    if found := re.search(r"\(use: (.*)\)$", first):
        return f"Write {found[1].replace(chr(39), '')}"
    return advice or (
        _DESCRIBE if isinstance(error, duckdb.BinderException) else "Correct the statement and run it again"
    )


def _text_meant(first: str, sql: str) -> str:
    """The text, in its quotes, where a word that is compared with something is taken for a column; "" otherwise."""
    found = re.search(r'Referenced column "(.*)" not found', first)
    if found is None:
        return ""
    compared = rf"(?:[=<>]|\bi?like\b|\bin\s*\([^()]*)\s*\"?{re.escape(found[1])}(?:\"|\b)"
    return f"'{found[1]}'" if re.search(compared, sql, re.IGNORECASE) else ""


_READS_FILES = re.compile("read_|glob$|sniff_|parquet_")


def _advice(lines: Sequence[str]) -> str:
    """What DuckDB itself suggests, in the lines after the first one."""
    for number, line in enumerate(lines):
        if found := re.fullmatch(r"Candidate (bindings|tables)[: ]+(.+)", line):
            return f"{_CANDIDATES[found[1]]}: {found[2]}"
        if line == "Candidate functions:":
            listed = [each for each in lines[number + 1 :] if " -> " in each]
            listed = listed or [each for each in lines[number + 1 :] if each]  # functions of FROM have no result
            return f"Convert with CAST to what it takes: {'; '.join(listed[:_FUNCTIONS_SHOWN])}"
        if line.startswith(("Did you mean", "Either add")):
            return line.rstrip(".")
    return ""
