"""The first row of CSV and the schema that follows from it. Without Arrow, since admission looks at it too."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TextIO

from sluice.config.csv_form import CsvForm
from sluice.config.limits import Limits
from sluice.config.table import TableConfig
from sluice.errors import EmptyObject
from sluice.names import stored_name
from sluice.schema.avro import metadata_names
from sluice.schema.limits import MAX_NAME
from sluice_formats.errors import CsvWithoutHeader, NotCsv, begins_as
from sluice_formats.gzip import unpacked_head
from sluice_formats.json.schema import told_type

HEADER_BYTES = 1024**2  # the longest first row
_LOOKED_AT = 4096
BOM = "\ufeff"
_WIDE = ((codecs.BOM_UTF16_LE, "UTF-16"), (codecs.BOM_UTF16_BE, "UTF-16"))
_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is not UTF-8
_VALUE = re.compile(r"[+-]?[0-9][0-9.,: TZ/+-]*")  # a number, a date or a time: the name of no column


@dataclass(frozen=True)
class CsvColumns:
    """The columns of an object in their order, and whether its first row names them."""

    names: tuple[str, ...]
    in_first_row: bool


def without_mark(text: bytes) -> bytes:
    """Text without its byte order mark. Raises NotCsv for bytes of another format or encoding."""
    other = begins_as(text, NotCsv.code, in_csv=True)
    looks = other.name if other else next((name for begins, name in _WIDE if text.startswith(begins)), None)
    if looks is None and b"\0" in text[:_LOOKED_AT]:
        looks = "binary data"
    if looks is not None:
        raise NotCsv(
            f"The object does not begin as CSV in UTF-8 but as {looks}",
            next_step=other and other.next_step,
            begins=text[:16].hex(),
        )
    return text[len(codecs.BOM_UTF8) :] if text.startswith(codecs.BOM_UTF8) else text


def unescaped(text: bytes, form: CsvForm) -> bytes:
    """Text by RFC 4180: with a second quote where the rule's `escape` precedes one. Only quoted values are escaped.

    MySQL's INTO OUTFILE escapes line ends, too. Others escape each `escape`, so that none is left before a line end.
    """
    if form.escape is None:
        return text
    mark = re.escape(form.escape.encode())
    pair = re.compile(mark + b'(["\r\n' + mark + b"])")

    def within(value: re.Match[bytes]) -> bytes:
        inner = pair.sub(lambda match: b'""' if match[1] == b'"' else match[1], value[0][1:-1])
        return b'"' + inner + b'"'

    return _quoted(form.escape).sub(within, text)


def has_open_quote(text: bytes, escape: str) -> bool:
    """Whether a quote is left beside the values in quotes, where `escape` stands before a quote in them."""
    return b'"' in _quoted(escape).sub(b"", text)


def _quoted(escape: str) -> re.Pattern[bytes]:
    """The values in quotes."""
    mark = re.escape(escape.encode())
    return re.compile(b'"(?:[^"' + mark + b"]|" + mark + b'.)*"', re.DOTALL)


def check_head(head: bytes) -> None:
    """Raise NotCsv, EmptyObject and DamagedGzip for an object that can't be CSV, by its first bytes."""
    if not without_mark(unpacked_head(head, _LOOKED_AT)).strip():
        raise EmptyObject("The object has no bytes")


def csv_columns(text: bytes, form: CsvForm, limits: Limits) -> CsvColumns:
    """The columns of an object, by its first row or by the rule. `text` is its begin, without a byte order mark.

    Raises NotCsv, EmptyObject, SchemaTooComplex, and CsvWithoutHeader where the first row holds values.
    """
    first = _first_row(text, form)
    if len(first) > limits.schema_columns:
        message = f"The first row has more than {limits.schema_columns:,} values"
        raise limits.too_complex("schema_columns", message, "columns")
    if form.columns:
        if sorted(first) == sorted(form.columns):  # a header: its own order counts
            return CsvColumns(tuple(first), True)
        # In another case, as Snowflake and Oracle write names. Of one value, or in another order, it may be a row.
        folded = [name.casefold() for name in form.columns]
        return CsvColumns(form.columns, len(first) > 1 and [name.casefold() for name in first] == folded)
    value = next((it for it in first if not it.strip() or len(it) > MAX_NAME or _VALUE.fullmatch(it.strip())), None)
    if value is not None:
        raise CsvWithoutHeader(
            f"The first row has {value[:100]!r}, which names no column", names=[name[:100] for name in first[:20]]
        )
    return CsvColumns(tuple(first), True)


_OF_AIVEN = (
    "If Aiven's S3 sink wrote it, its one column is the whole record in base64: let it write "
    "format.output.type=jsonl, avro or parquet with format.output.envelope=false"
)


def csv_schema(body: bytes, config: TableConfig) -> dict[str, Any]:
    """The schema of an object in Avro form: text, but for the columns that the rule's `types` names.

    It follows from the first row and the rule alone, never from values, so that it is the same for every object with
    these columns. Raises what `csv_columns` raises, CsvWithoutHeader where no column has the name of the record key,
    and DamagedGzip.
    """
    text = unescaped(without_mark(unpacked_head(body, HEADER_BYTES)), config.csv)
    columns = csv_columns(text, config.csv, config.limits)
    stored = {config.columns.table_name(name) for name in (*map(stored_name, columns.names), *config.path_columns)}
    key = () if config.append_only else config.record_key
    absent = [name for name in key if name not in stored]
    if absent:
        raise CsvWithoutHeader(
            f"The first row does not name {', '.join(absent)} of the record key",
            names=[name[:100] for name in columns.names[:20]],
            next_step=_OF_AIVEN
            if columns.names == ("value",)
            else "If the first row names the columns, correct `record_key` in tables.yaml, `sluice config push`,"
            f" then `sluice quarantine retry --code {CsvWithoutHeader.code}`. If not: {CsvWithoutHeader.next_step}",
        )
    metadata = metadata_names(columns.names)
    kinds = ((name, told_type(name, config.json_types, metadata) or "string") for name in columns.names)
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds]
    return {"type": "record", "name": "sluice.csv.Row", "fields": fields}


def strict_rows(lines: TextIO, form: CsvForm) -> Iterator[list[str]]:
    """The rows of a text. Raises csv.Error for quotes out of place."""
    csv.field_size_limit(2**31 - 1)  # not Python's 128 KiB: rows and texts are limited elsewhere
    return csv.reader(lines, delimiter=form.delimiter, strict=True)


def _first_row(text: bytes, form: CsvForm) -> list[str]:
    """The values of the first row that isn't blank."""
    try:
        begin = text[:HEADER_BYTES].decode("utf-8", errors="surrogateescape")  # it may end within a character
        first = next(filter(None, strict_rows(io.StringIO(begin, newline=""), form)), None)
    except csv.Error as error:
        raise NotCsv(f"The first row can't be read: {error}", row=1) from error
    if first is None:
        raise EmptyObject("The object has no row")
    if any(not name.isascii() and _SURROGATE.search(name) for name in first):
        raise NotCsv("The first row is not UTF-8", row=1)
    return first
