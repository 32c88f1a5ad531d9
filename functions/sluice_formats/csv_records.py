"""Reads the records of CSV by RFC 4180, with values as Avro would have decoded them.

Arrow splits blocks of the text into columns of text, and each is converted by its type.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Callable

import pyarrow as pa
import pyarrow.csv as arrow_csv

from sluice.config.csv_form import CsvForm
from sluice.config.json_types import BASE64, declared_type
from sluice.config.key_pattern import folder_values
from sluice.config.limits import Limits
from sluice.config.table import TableConfig
from sluice.errors import ExpansionLimit
from sluice.names import counted
from sluice.schema import columns as kinds
from sluice.schema.avro import WriterForm, WriterSchema, read_writer_schema
from sluice.schema.avro_types import NamedTypes
from sluice.schema.capture_order import INFINITE_TEXTS, clock_count, declared_days, moment_count, moment_nanos
from sluice.schema.columns import Column
from sluice.schema.meaning import NANOS, timestamp_text
from sluice_formats.csv_text import BOM, CsvColumns, csv_columns, has_open_quote, strict_rows, unescaped, without_mark
from sluice_formats.errors import NotCsv, RaggedCsv, SchemaNotInferred, UndecodableValue
from sluice_formats.gzip import most_text, unpacked
from sluice_formats.json.records import bytes_reader, decimal_reader
from sluice_formats.json.schema import METADATA
from sluice_formats.records import BrokenRecord, Chunk, Record, Records, most_rows

_BLOCKS = 8  # a block of text takes up to so many times its size as columns of short values
_QUOTE, _BACKSLASHED = b'"', b'\\"'
_CELL = 200  # characters that an error quotes


def csv_records(body: bytes, schema: str | None, form: CsvForm, limits: Limits, shape: WriterForm = None) -> Records:
    """The object's records. `schema` is that of `csv_schema`, as JSON.

    A record with a value that its type can't hold is a BrokenRecord in its place. Raises NotCsv, RaggedCsv,
    ExpansionLimit, DamagedGzip, EmptyObject, CsvWithoutHeader, UnusableSchema and UnsupportedType.
    """
    if schema is None:
        raise SchemaNotInferred("The object was read before its schema was made")
    text = without_mark(unpacked(body, most_text(limits)))
    _check_open_quotes(text, form)
    text = unescaped(text, form)
    if not text.endswith((b"\n", b"\r")):
        text += b"\n"  # without it Arrow takes an empty last value for quoted
    columns = csv_columns(text, form, limits)
    _check_escaped_quotes(text, form)
    _check_closing_quotes(text, form)
    if len(columns.names) == 1 and columns.in_first_row:
        text = text.lstrip(b"\r\n")
    return Records(
        lambda: sum(batch.num_rows for batch in _batches(text, columns, form, limits)),
        _chunks(text, columns, form, limits, _understood(schema, shape)),
    )


def _check_open_quotes(text: bytes, form: CsvForm) -> None:
    """Raise NotCsv for a quote that is open at the end, which Arrow takes without a word."""
    if text.count(_QUOTE) % 2 if form.escape is None else has_open_quote(text, form.escape):
        raise NotCsv("The object has an odd number of quotes: it ends within a value, or a quote in one isn't doubled")


def _check_escaped_quotes(text: bytes, form: CsvForm) -> None:
    """Raise NotCsv for text behind a closing quote, which Arrow drops, where quotes are escaped and no rule says so."""
    if form.escape is not None or _BACKSLASHED not in text:
        return
    try:  # slower, and strict where Arrow isn't
        lines = io.TextIOWrapper(io.BytesIO(text), "utf-8", errors="replace", newline="")
        for _ in strict_rows(lines, form):
            pass
    except csv.Error as error:
        raise NotCsv(
            "A quote follows a backslash, and is not doubled",
            cause=str(error)[:_CELL],
            next_step="Add `csv: {escape: '\\'}` to the table's rule and push it, then `sluice quarantine retry "
            "--code not_csv`",
        ) from error


def _check_closing_quotes(text: bytes, form: CsvForm) -> None:
    """Raise NotCsv for text behind a closing quote, which Arrow joins to the value without the quotes, and for an open
    one among other quotes.

    Writers that never quote write so: of `"Crocodile" Dundee` nothing tells which quotes belong to the value.
    """
    if _QUOTE not in text:
        return
    ends = b"\r\n" + re.escape(form.delimiter.encode())
    reduced = text.replace(b'""', b"")  # doubled quotes belong to their value, and those of an empty one tell nothing
    for value in re.finditer(b"(?<![^" + ends + b'])"(?:[^"]*"([^' + ends + b"]*)|)", reduced):
        if value[1] is None or value[1].strip(b" \t"):
            line, found = reduced.count(b"\n", 0, value.start()) + 1, value[0][:_CELL].decode("utf-8", "replace")
            raise NotCsv(
                f"Line {line} has {'an open quote' if value[1] is None else f'text behind a closing quote: {found!r}'}",
                line=line,
                next_step="Let the writer put values with quotes in quotes, and double these (Redshift: UNLOAD CSV, "
                "Snowflake: FIELD_OPTIONALLY_ENCLOSED_BY='\"'), then upload the object again",
            )


def _chunks(
    text: bytes, columns: CsvColumns, form: CsvForm, limits: Limits, understood: _Understood
) -> Iterator[Chunk]:
    writer, readers = understood
    most = most_rows(len(columns.names))
    number = 0
    for batch in _batches(text, columns, form, limits):
        for begin in range(0, batch.num_rows, most):
            part = batch.slice(begin, most)
            yield Chunk(writer, _records(part, columns.names, readers, number))
            number += part.num_rows


def _batches(text: bytes, columns: CsvColumns, form: CsvForm, limits: Limits) -> Iterator[pa.RecordBatch]:
    """The rows in columns of text, named by number, without the first row if it names the columns."""
    names = [str(number) for number in range(len(columns.names))]
    block = max(limits.block_bytes // _BLOCKS, 1)
    ragged: list[arrow_csv.InvalidRow] = []

    def refuse(row: Any) -> str:
        ragged.append(row)
        return "error"

    try:
        reader = arrow_csv.open_csv(
            io.BytesIO(text),
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=block, column_names=names),
            parse_options=arrow_csv.ParseOptions(
                delimiter=form.delimiter,
                newlines_in_values=True,
                ignore_empty_lines=len(names) > 1,  # of one column, an empty line is a row with no value
                invalid_row_handler=refuse,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[form.null_text],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        skipped = 1 if columns.in_first_row else 0
        for batch in reader:
            yield batch.slice(skipped)
            skipped = 0
    except pa.ArrowInvalid as error:
        if ragged:
            raise _ragged(ragged[0]) from error
        if "straddl" in str(error):
            raise ExpansionLimit.beyond("block_bytes", f"A row takes more than {block:,} bytes", block) from error
        if "UTF8" in str(error):
            row = re.search(r"Row #([0-9]+)", str(error))
            where = f"Row {row[1]}" if row else "A value"
            raise NotCsv(f"{where} is not UTF-8", row=int(row[1]) if row else None) from error
        raise NotCsv("The object can't be read as CSV", cause=str(error)[:_CELL]) from error


def _ragged(row: Any) -> RaggedCsv:
    where = "A row" if row.number is None else f"Row {row.number}"
    actual, expected = row.actual_columns, row.expected_columns
    message = f"{where} has {counted(actual, 'value')} for {counted(expected, 'column')}: {row.text[:_CELL]!r}"
    return RaggedCsv(message, row=row.number, expected=expected, found=actual)


_Reader = Callable[[str], Any]
_Understood = tuple[WriterSchema, Mapping[str, _Reader]]


def _records(
    batch: pa.RecordBatch, names: tuple[str, ...], readers: Mapping[str, _Reader], first: int
) -> Sequence[Record]:
    texts = [column.to_pylist() for column in batch.columns]
    broken: dict[int, UndecodableValue] = {}
    columns = []
    for name, column in zip(names, texts):
        reader = readers.get(name)
        columns.append(column if reader is None else _read(name, column, reader, first, broken))
    records: list[Record] = [dict(zip(names, row)) for row in zip(*columns)]
    begins = (names[0], f"{BOM}{names[0]}", f'{BOM}"{names[0]}"')
    if not set(begins).isdisjoint(texts[0]):  # files with a header each, and a byte order mark, were put together
        broken.update(
            (at, UndecodableValue("The row is the header once more", column=names[0][:100], record=first + at))
            for at, row in enumerate(zip(*texts))
            if row[0] in begins and row[1:] == names[1:] and len(names) > 1
        )
    for at, error in broken.items():
        records[at] = BrokenRecord({name: column[at] for name, column in zip(names, texts)}, error)
    return records


def _read(
    name: str, texts: Sequence[str | None], reader: _Reader, first: int, broken: dict[int, UndecodableValue]
) -> list[Any]:
    """The values of one column. Empty text is null: only text has an empty value. Adds to `broken`, by the row."""
    values: list[Any] = []
    for at, text in enumerate(texts):
        value = None
        if text:
            try:
                value = reader(text)
            except (ValueError, ArithmeticError) as error:
                message = f"Column {name[:100]} holds {text[:100]!r}, which is not what its type in `types` says"
                facts: dict[str, Any] = {"column": name[:100], "record": first + at, "cause": str(error)[:_CELL]}
                broken.setdefault(at, UndecodableValue(message, **facts))
        values.append(value)
    return values


def path_values(key: str, config: TableConfig) -> Chunk:
    """One record of the columns that a table takes from a key's folders, with the types that its rule declares.

    A column without a folder is null. Raises UndecodableValue for a folder's text that its type can't hold.
    """
    declared = {name: declared_type(config.json_types.get(name, kinds.STRING)) for name in config.path_columns}
    fields = [{"name": name, "type": ["null", kind]} for name, kind in declared.items()]
    writer, readers = _understood(json.dumps({"type": "record", "name": "sluice.csv.Path", "fields": fields}))
    values_by_name = {name.lower(): text for name, text in folder_values(key).items()}  # Hive writes lower case
    values: dict[str, Any] = {}
    for name in declared:
        broken: dict[int, UndecodableValue] = {}
        reader, text = readers.get(name), values_by_name.get(name.lower())
        values[name] = text if reader is None else _read(name, [text], reader, 0, broken)[0]
        if broken:
            raise broken[0]
    return Chunk(writer, [values])


def unfit_texts(kind: str, texts: Iterable[str | None]) -> list[str]:
    """The texts of CSV that a column can't hold whose type `types` declares as `kind`. Empty text is null."""
    fields = [{"name": "value", "type": ["null", declared_type(kind)]}]
    _, readers = _understood(json.dumps({"type": "record", "name": "sluice.csv.Row", "fields": fields}))
    listed, broken = list(texts), dict[int, UndecodableValue]()
    if "value" in readers:
        _read("value", listed, readers["value"], 0, broken)
    return [text for at, text in enumerate(listed) if at in broken and text]


@lru_cache(maxsize=64)
def _understood(schema: str, shape: WriterForm = None) -> _Understood:
    """The schema, and the readers of its columns that aren't text."""
    fields = json.loads(schema)
    writer, types = read_writer_schema(fields, shape), NamedTypes(fields)
    stored = {column.written_name: column for column in writer.row.columns}
    readers = {}
    for field in fields["fields"]:
        avro, _ = types.non_null(field["type"], field["name"])
        reader = _metadata if avro.get("connect.name") == METADATA else _reader(avro, stored.get(field["name"]))
        if reader is not None:
            readers[field["name"]] = reader
    return writer, readers


def _reader(avro: Mapping[str, Any], column: Column | None) -> _Reader | None:
    kind = column.kind if column is not None else kinds.STRING
    if kind == kinds.DATE:
        return declared_days
    if kind in kinds.TIMESTAMP_KINDS:
        return lambda text: moment_count(text, kind)
    if kind in kinds.TIME_KINDS:
        return lambda text: (
            clock_count(int(text), kind) if _WHOLE.fullmatch(text) else _clock_nanos(text) // NANOS[kind]
        )
    if kind == kinds.ZONED_TIMESTAMP:
        return lambda text: (
            text if text in INFINITE_TEXTS else timestamp_text(moment_nanos(text), kinds.TIMESTAMP_NANOS)
        )
    if avro.get("logicalType") == "decimal":
        decimal = decimal_reader(avro)
        # base64 of a declared `base64 decimal` goes through as it is.
        return lambda text: decimal(text if _NUMBER.fullmatch(text) or BASE64 in avro else _no(text))
    if avro["type"] == "bytes":
        return bytes_reader(avro)
    return _PLAIN.get(avro["type"])


_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_INFINITE = frozenset(("NaN", "Infinity", "-Infinity", "inf", "-inf"))  # the last as Python writes them
_CLOCK = re.compile(r"(-?)([0-9]{1,3}):([0-5][0-9])(?::([0-5][0-9])(?:\.([0-9]{1,9}))?)?")
_TRUE, _FALSE = frozenset(("true", "t", "1")), frozenset(("false", "f", "0"))


def _no(text: str) -> Any:
    raise ValueError(f"{text[:40]!r} is not a number")


def _whole(text: str) -> int:
    whole, point, zeros = text.partition(".")  # pandas writes 1.0 in a column that also has nulls
    return int(whole) if _WHOLE.fullmatch(whole) and not zeros.strip("0") and (zeros or not point) else _no(text)


def _float(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) or text in _INFINITE else _no(text)


def _boolean(text: str) -> bool:
    said = text.lower()
    if said not in _TRUE and said not in _FALSE:
        raise ValueError("neither true nor false")
    return said in _TRUE


def _clock_nanos(text: str) -> int:
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError("no time of day")
    minus, hours, minutes, seconds, fraction = match.groups()
    whole = int(hours) * 3_600 + int(minutes) * 60 + int(seconds or 0)
    nanos = whole * 10**9 + int((fraction or "").ljust(9, "0"))
    return -nanos if minus else nanos


def _metadata(text: str) -> Any:
    """A field that a connector added, as it was before it became text: a position's numbers are compared as such."""
    return int(text) if _WHOLE.fullmatch(text) else text


_PLAIN: dict[str, _Reader] = {"int": _whole, "long": _whole, "float": _float, "double": _float, "boolean": _boolean}
