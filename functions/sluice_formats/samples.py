"""Reads the first records of an object from its first bytes: the whole blocks or lines in them."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sluice.admission.routing import AVRO, CSV, JSON
from sluice.changes.dialects.nested import CaptureDialect, Reading
from sluice.changes.dialects.registry import shown_by, translator
from sluice.config.csv_form import CsvForm
from sluice.config.limits import DEFAULTS
from sluice.errors import SluiceError
from sluice.names import counted, stored_name
from sluice_formats.avro import blocks_of, decoded, decompressed
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.avro_values import decoder_of
from sluice_formats.csv_text import csv_columns, unescaped, without_mark
from sluice_formats.errors import CorruptObject, NotCsv
from sluice_formats.gzip import ZSTD_MAGIC, unpacked_head
from sluice_formats.json.lines import records as json_records
from sluice_formats.json.text import parse
from sluice_formats.zstd import unpacked_text

BLOCK_BYTES = 16 * 1024**2  # of a block once decompressed
_DELIMITERS = (";", "\t", "|")


@dataclass(frozen=True)
class ObjectSample:
    """The writer schema in Avro form, if the records carry one, and the first records as plain values.

    `problem` says why reading stopped early. `whole` is true if every record was read. `delimiter` is that of CSV where
    it is another one than the comma and no rule says so. `dialect` is the form of another capture's changes that the
    records of JSON have.
    """

    schema: Mapping[str, Any] | None
    records: tuple[dict[str, Any], ...]
    problem: str | None = None
    whole: bool = False
    delimiter: str | None = None
    dialect: str | None = None


def sample_head(
    head: Head, format: str, rows: int, limit: int, form: CsvForm | None = None, dialect: CaptureDialect | None = None
) -> ObjectSample:
    """Read up to `rows` records of Avro, JSON or CSV from the head of an object, of which `limit` bytes are unpacked.

    `form` is that of CSV; None guesses the delimiter. `dialect` is that of the records' rule. Raises a SluiceError if
    the head can't be read. Damage behind it is the sample's `problem`.
    """
    if format == JSON:
        return _json(head, rows, limit, dialect)
    if format == CSV:
        return _csv(head, rows, limit, form)
    return _avro(head, rows)


def _avro(head: Head, rows: int) -> ObjectSample:
    """Read the records of the blocks that are whole in `head`."""
    header = parse_header(head)
    values_read: list[dict[str, Any]] = []
    problem = None
    whole = head.whole
    try:
        decode = decoder_of(header.schema, "replace")
        for number, block in enumerate(blocks_of(head.data, header.end, header.sync)):
            if len(values_read) >= rows:
                whole = False
                break
            wanted = min(block.records, rows - len(values_read))
            whole = whole and wanted == block.records
            plain, place = decompressed(block, header.codec, BLOCK_BYTES), 0
            for _ in range(wanted):
                (record,), place = decoded(decode, plain, place, 1, block=number)
                values_read.append(record)
    except CorruptObject as error:
        if head.whole or "cause" in error.facts:  # otherwise the head ends inside a block
            problem = str(error)
    except SluiceError as error:
        problem = str(error)
    return ObjectSample(header.schema, tuple(values_read), problem, whole and problem is None)


def _json(head: Head, rows: int, limit: int, of_rule: CaptureDialect | None) -> ObjectSample:
    text, whole = _lines(head, limit)
    shown: set[str] = set()

    def translate(record: dict[str, Any]) -> Sequence[dict[str, Any]]:
        dialect = shown_by(record) if of_rule is None else None
        shown.update((dialect.name,) if dialect else ())
        return translator(of_rule or dialect, (), Reading(parse=parse))(record)

    schema: Mapping[str, Any] | None = None
    values_read: list[dict[str, Any]] = []
    problem = None
    for line in json_records(text, translate=translate):
        if isinstance(line.value, SluiceError):
            problem = str(line.value)
            continue
        if len(values_read) >= rows:
            whole = False
            break
        schema = line.schema if line.schema is not None else schema
        values_read.append(line.value)
    dialect = shown.pop() if len(shown) == 1 else None
    return ObjectSample(schema, tuple(values_read), problem, whole and problem is None, dialect=dialect)


def _csv(head: Head, rows: int, limit: int, ruled: CsvForm | None) -> ObjectSample:
    """The first rows as text, empty text as null: whether a value was quoted is not looked at here."""
    text, whole = _lines(head, limit)
    delimiter = _delimiter(without_mark(text)) if ruled is None else None
    form = ruled or (CsvForm() if delimiter is None else CsvForm(delimiter=delimiter))
    text = unescaped(without_mark(text), form)
    columns = csv_columns(text, form, DEFAULTS)
    values_read: list[dict[str, Any]] = []
    problem = None
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        problem = f"line {line:,} is not UTF-8, so the object would be quarantined as {NotCsv.code}"
    plain = io.StringIO(text.decode("utf-8", errors="replace"), newline="")
    reader = csv.reader(plain, delimiter=form.delimiter)
    try:
        for row in islice(filter(None, reader), int(columns.in_first_row), None):
            if len(row) != len(columns.names):
                expected = counted(len(columns.names), "column")
                problem = f"line {reader.line_num:,} has {counted(len(row), 'value')} for {expected}"
                break
            if len(values_read) >= rows:
                whole = False
                break
            values = (None if value in ("", form.null_text) else value for value in row)
            values_read.append(dict(zip(columns.names, values, strict=True)))
    except csv.Error as error:
        problem = f"line {reader.line_num:,} can't be read: {error}"
    fields = [{"name": name, "type": ["null", "string"]} for name in columns.names]
    schema = {"type": "record", "name": "sluice.csv.Row", "fields": fields}
    return ObjectSample(schema, tuple(values_read), problem, whole and problem is None, delimiter)


def _delimiter(text: bytes) -> str | None:
    """The character that seems to stand between values, where the first line has no comma outside quotes."""
    first = text.lstrip(b"\r\n").splitlines()[:1]
    line = re.sub(rb'"[^"]*"', b"", first[0]) if first else b""
    delimiter = max(_DELIMITERS, key=lambda letter: line.count(letter.encode()))
    return delimiter if delimiter.encode() in line and b"," not in line else None


def _lines(head: Head, limit: int) -> tuple[bytes, bool]:
    """The unpacked text up to `limit`, without a line that is cut, and whether that is all of it."""
    is_zstd = head.whole and head.data.startswith(ZSTD_MAGIC)
    text = unpacked_text(head.data, limit) if is_zstd else unpacked_head(head.data, limit)
    whole = head.whole and len(text) < limit
    return text if whole else text[: text.rfind(b"\n") + 1], whole


def key_fields(head: Head, format: str, limit: int) -> tuple[str, ...] | None:
    """Return the fields of the Kafka keys in an object of keys, as a table would call them.

    None if they are no records or can't be read. `limit` is in bytes.
    """
    try:
        if format == AVRO:
            schema = parse_header(head, DEFAULTS).schema
            fields = schema.get("fields") if isinstance(schema, dict) else None
            return tuple(stored_name(str(field["name"])) for field in fields) if fields else None
        line = unpacked_head(head.data, limit).lstrip().partition(b"\n")[0]
        value = json.loads(line)
    except (SluiceError, ValueError, KeyError, TypeError, RecursionError):
        return None
    value = value.get("payload", value) if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value
    return tuple(map(stored_name, value)) if isinstance(value, dict) and value else None
