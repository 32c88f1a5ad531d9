"""Newline-delimited JSON: the records of an object, with the schema that each carries, if any."""

from __future__ import annotations

import codecs
import re
from array import array
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from sluice.changes.dialects.nested import Reading
from sluice.changes.dialects.registry import Translate, changes_by_fields
from sluice.changes.dialects.varied_envelopes import TICDC
from sluice.config.limits import DEFAULTS, Limits
from sluice.errors import ExpansionLimit, SchemaTooComplex, SluiceError, UnusableSchema
from sluice.schema.connect import avro_form
from sluice_formats.errors import DamagedJson, NotJsonLines, TooManySchemas, begins_as
from sluice_formats.json.text import parse, parse_prefix

BY_FIELDS: Translate = partial(changes_by_fields, reading=Reading(parse=parse))

_BEGIN = re.compile(r'\s*\{\s*"schema"\s*:\s*')
_BETWEEN = re.compile(r'\s*,\s*"payload"\s*:\s*')
_BLANK = re.compile(rb"[ \t\r\n]*")
_PARSED = 8  # of the limit of a block, since a byte of JSON takes up to 48 bytes of memory while it is parsed
_OF_RECORD = (DamagedJson, NotJsonLines, ExpansionLimit, SchemaTooComplex, UnusableSchema)  # errors that leave the rest
MAX_SCHEMAS = 64  # of one object: schemas change rarely


class Wrapped:
    """Reads records in Connect's wrapper {"schema": ..., "payload": ...}; parses a repeated schema once."""

    def __init__(self) -> None:
        self._prefix: str | None = None
        self._schemas: dict[str, Mapping[str, Any]] = {}
        self._schema: Mapping[str, Any] = {}

    def read(self, line: str, record: int) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """The record's Connect schema (the same object for the same text) and its payload.

        Raises DamagedJson, NotJsonLines and TooManySchemas.
        """
        if self._prefix is not None and line.startswith(self._prefix):
            payload, end = parse_prefix(line, len(self._prefix))
            if line[end:].strip() == "}":
                return self._schema, self._object(payload, record)
        document = parse(line)
        if not is_wrapped(document):
            raise NotJsonLines(
                "Some records of the object have Connect's schema wrapper, and some don't", record=record
            )
        self._take(line, document["schema"])
        return self._schema, self._object(document["payload"], record)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema of the last record."""
        return self._schema

    def _take(self, line: str, schema: Mapping[str, Any]) -> None:
        text = repr(schema)
        if len(self._schemas) >= MAX_SCHEMAS and text not in self._schemas:
            raise TooManySchemas(f"The object's records carry more than {MAX_SCHEMAS} different schemas")
        self._schema = self._schemas.setdefault(text, schema)
        part = _schema_part(line)
        self._prefix = line[: part[1]] if part is not None else None

    def _object(self, payload: Any, record: int) -> dict[str, Any]:
        if not isinstance(payload, dict):
            raise NotJsonLines("A record's payload is not an object", record=record)
        return payload


def is_wrapped(value: Any) -> bool:
    """Whether a parsed record is Connect's wrapper with a schema in it."""
    schema = value["schema"] if _is_wrapper(value) else None
    return isinstance(schema, dict) and isinstance(schema.get("type"), str)


def _is_wrapper(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"schema", "payload"}


def lines(text: bytes) -> Iterator[bytes]:
    """The lines that aren't blank. Raises NotJsonLines for an object of another format, by its first byte."""
    if text.startswith(codecs.BOM_UTF8):
        text = text[len(codecs.BOM_UTF8) :]
    _check_begin(text)
    begin = _blank_until(text, 0)  # passed over as one: a small gzip can hold a thousand million blank lines
    if text[begin : begin + 1] == b"[":
        yield from _documents(text, begin + 1)
        return
    while begin < len(text):
        end = text.find(b"\n", begin)
        end = len(text) if end < 0 else end
        line = text[begin:end].rstrip(b" \t\r")
        after = _blank_until(text, end)
        if line == b"{" and text[after : after + 1] in (b'"', b"}"):
            yield from _documents(text, begin)
            return
        yield from _values(line)
        begin = after


# Amazon Data Firehose puts records one after the other without a line break.
_JOINED = re.compile(rb"\}[ \t\r]*\{")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[{}]', re.DOTALL)


def _values(line: bytes) -> Iterator[bytes]:
    """The objects of a line, one after the other. What ends too early or goes on after the last one is one more."""
    if _JOINED.search(line) is None:
        yield line
        return
    begin = depth = 0
    for token in _TOKEN.finditer(line):
        if token[0] in (b"{", b"}"):
            depth += 1 if token[0] == b"{" else -1
            if depth <= 0 and (_JOINED.match(line, token.start()) or depth < 0):
                yield line[begin : token.end()].strip(b" \t\r")
                begin, depth = token.end(), 0
    rest = line[begin:].strip(b" \t\r")
    if rest:
        yield rest


_BESIDE = re.compile(rb"[ \t\r\n,\[\]]*")  # of one array after the other, too


def _documents(text: bytes, begin: int) -> Iterator[bytes]:
    """The objects of arrays, or of a text in which they have several lines. The last one may be cut."""
    while True:
        beside = _BESIDE.match(text, begin)
        begin = beside.end() if beside is not None else begin
        if begin >= len(text):
            return
        depth, end = 0, len(text)
        for token in _TOKEN.finditer(text, begin):
            depth += {b"{": 1, b"}": -1}.get(token[0], 0)
            if depth <= 0 and token[0] == b"}":
                end = token.end()
                break
        yield text[begin:end].strip(b" \t\r\n")
        begin = end


def _blank_until(text: bytes, begin: int) -> int:
    blank = _BLANK.match(text, begin)
    return blank.end() if blank is not None else begin


class Line(NamedTuple):
    """A record, or one of the changes in it: its Connect schema (None where it carries none), and its fields or the
    error that replaces them. `record` is its number: the changes in one record share it.
    """

    schema: Mapping[str, Any] | None
    value: dict[str, Any] | SluiceError
    content: bytes
    record: int


def records(text: bytes, limits: Limits = DEFAULTS, translate: Translate = BY_FIELDS) -> Iterator[Line]:
    """Every record of an object. A record that can't be read, or exceeds a limit, has an error in its place.

    `translate` gives the changes in a record of another capture.

    The first sound record decides whether all must be wrapped. Raises NotJsonLines and TooManySchemas for the object
    as a whole.
    """
    wrapped: Wrapped | None = None
    first, of_changes, most = True, False, limits.block_bytes // _PARSED
    nulls = array("Q")  # numbers of lines before the first sound record, which tells what they are
    for number, content in enumerate(lines(text)):
        limits.check_rows(number + 1)
        if content == b"null" and (first or of_changes):  # a tombstone: the deletion before it names its row
            if first:
                nulls.append(number)
            continue
        schema: Mapping[str, Any] | None = None
        broken: SluiceError | None = None
        try:
            if len(content) > most:
                message = f"The record is longer than {most:,} bytes"
                raise ExpansionLimit.beyond("block_bytes", message, most, record=number)
            line = content.decode("utf-8")
            if wrapped is not None:
                schema, value = wrapped.read(line, number)
            else:
                value = _parsed(line)
                if _is_wrapper(value) and value["schema"] is None and isinstance(value["payload"], dict):
                    value = value["payload"]
                if first and is_wrapped(value):
                    wrapped = Wrapped()
                    schema, value = wrapped.read(line, number)
                elif not isinstance(value, dict) or is_wrapped(value):
                    raise NotJsonLines(
                        "The record is not a JSON object, or has a schema where others have none", record=number
                    )
            if schema is not None:
                _check_placed(value)
            changes = [value] if schema is not None else translate(value)
            for change in changes:
                _no_wider(change, limits, number)
        except _OF_RECORD as error:
            broken = error
        except UnicodeDecodeError as error:
            broken = NotJsonLines("The record is not UTF-8", record=number, cause=str(error)[:100])
        if broken is not None:
            yield Line(wrapped.schema if wrapped is not None else None, broken, content, number)
            continue
        first = False
        of_changes = of_changes or any(_OF_ENVELOPE <= change.keys() for change in changes)
        yield from () if of_changes else map(_null_line, nulls)
        nulls = array("Q")
        for change in changes:
            yield Line(schema, change, content, number)
    yield from map(_null_line, nulls)


def _null_line(number: int) -> Line:
    return Line(None, NotJsonLines("The record is null, and no JSON object", record=number), b"null", number)


def _check_placed(value: dict[str, Any]) -> None:
    """Raise UnusableSchema for a record with a schema that TiCDC wrote: the schema lacks what orders it."""
    if isinstance(source := value.get("source"), dict) and source.get("connector") == TICDC:
        raise UnusableSchema(
            "The changes are TiCDC's in Debezium's form, and the place in TiDB's log is not in their schema",
            next_step="Set debezium-disable-schema=true of the changefeed, or let it write canal-json or CSV",
        )


# wal2json 2.5 writes a message outside of a transaction so, after the changes of another one.
_COMMA_BEFORE_MESSAGE = re.compile(r'\A(\{\s*"change"\s*:\s*\[\s*),(?=\s*\{\s*"kind"\s*:\s*"message")')


def _parsed(line: str) -> Any:
    try:
        return parse(line)
    except DamagedJson:
        mended, commas = _COMMA_BEFORE_MESSAGE.subn(r"\1", line)
        if not commas:
            raise
        return parse(mended)


def _no_wider(value: dict[str, Any], limits: Limits, number: int) -> None:
    """Check the number of fields, of a record and of an envelope's sides."""
    for record in (value, *(member for member in value.values() if isinstance(member, dict))):
        if len(record) > limits.schema_columns:
            message = f"The record has more than {limits.schema_columns:,} fields"
            raise limits.too_complex("schema_columns", message, "fields", record=number)


def schema_in_head(head: bytes, whole: bool) -> dict[str, Any] | None:
    """The writer schema (Avro form) in the first bytes of an object; None when records carry none or the head cuts it.

    Raises NotJsonLines and UnusableSchema. A damaged first record gives None.
    """
    begin = head[len(codecs.BOM_UTF8) :] if head.startswith(codecs.BOM_UTF8) else head
    _check_begin(begin)
    line, newline, _ = begin.lstrip(b" \t\r\n").partition(b"\n")
    if line.startswith(b"[") or newline and line.rstrip(b" \t\r") == b"{":
        return None  # an array, or an object over several lines: the job reads on
    text = line.decode("utf-8", errors="ignore")  # the last character may be cut
    if newline or whole:
        if not line:
            raise NotJsonLines("The object has no record", empty=not head)
        for record in records(line):
            return None if record.schema is None else avro_form(record.schema)
    try:
        part = _schema_part(text)
    except DamagedJson:  # the head cuts it
        return None
    return avro_form(part[0]) if part is not None and isinstance(part[0], dict) else None


def _schema_part(text: str) -> tuple[Any, int] | None:
    """The schema of a wrapper that begins with it, as Connect's converter writes it, and the place of its payload."""
    begins = _BEGIN.match(text)
    if begins is None:
        return None
    schema, end = parse_prefix(text, begins.end())
    between = _BETWEEN.match(text, end)
    return (schema, between.end()) if between is not None else None


_OF_ENVELOPE = frozenset(("before", "after", "source", "op"))
_NULL_LINE = re.compile(rb"null[ \t\r]*(?:\n|\Z)")  # a tombstone that is its object's first record
_ARRAY_OF_OBJECTS = re.compile(rb"\[[ \t\r\n]*([{\]]|\Z)")


def _check_begin(text: bytes) -> None:
    begin = _blank_until(text, 0)
    first = text[begin : begin + 1]
    if first and first != b"{" and not _ARRAY_OF_OBJECTS.match(text, begin) and not _NULL_LINE.match(text, begin):
        other = begins_as(text, NotJsonLines.code)
        raise NotJsonLines(
            f"The object does not begin as a JSON object but as {other.name if other else 'something else'}",
            next_step=other and other.next_step,
            begins=text[:16].hex(),
            record=0,
        )
