"""Reads the records of newline-delimited JSON, and their schemas.

Values get the form that Avro would have decoded: bytes for base64 and decimals, days for dates, floats for numbers.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, Callable

from sluice.changes.dialects.registry import Translate
from sluice.changes.source_tables import source_table
from sluice.config import placeholders as unavailable
from sluice.config.json_types import BASE64, HEX, JSON_TEXT, declared_type
from sluice.config.limits import Limits
from sluice.errors import EmptyObject, SluiceError
from sluice.schema.avro import MESSAGES, WriterForm, WriterSchema, read_writer_schema
from sluice.schema.avro_types import NamedTypes
from sluice.schema.capture_order import clock_count, day_count, declared_days, moment_count, moment_nanos
from sluice.schema.columns import (
    DATE,
    SEMANTIC_TYPES,
    TIME_MICROS,
    TIME_MILLIS,
    TIME_NANOS,
    TIMESTAMP_KINDS,
    TIMESTAMP_NANOS,
    ZONED_TIMESTAMP,
)
from sluice.schema.connect import avro_form
from sluice.schema.meaning import NUMBER_TEXT, timestamp_text
from sluice.schema.temporal import days_of
from sluice_formats.errors import DamagedJson, NotJsonLines, SchemaNotInferred, UndecodableValue
from sluice_formats.gzip import most_text
from sluice_formats.json import lines as json_lines
from sluice_formats.json.schema import METADATA, Inference, is_whole
from sluice_formats.json.text import NumberText, to_text
from sluice_formats.records import BrokenRecord, Chunk, Record, Records, most_rows
from sluice_formats.zstd import unpacked_text


def json_records(
    body: bytes,
    inferred: str | None,
    limits: Limits,
    shape: WriterForm = None,
    translate: Translate = json_lines.BY_FIELDS,
) -> Records:
    """The object's records. `inferred` is the schema (Avro form, as JSON) of records that carry none.

    A record that can't be read, or whose values don't match its schema, is a BrokenRecord in its place. Raises
    DamagedGzip, ExpansionLimit, NotJsonLines, TooManySchemas, UnusableSchema and UnsupportedType.
    """
    text = unpacked_text(body, most_text(limits))
    return Records(lambda: sum(1 for _ in json_lines.lines(text)), _chunks(text, inferred, limits, shape, translate))


def json_schemas(
    body: bytes,
    types: Mapping[str, str],
    limits: Limits,
    unavailable_value: str = unavailable.DEFAULT,
    shape: str | None = None,
    translate: Translate = json_lines.BY_FIELDS,
) -> tuple[list[dict[str, Any]], bool]:
    """The different schemas of an object's records in Avro form, and whether they were inferred.

    `types` are the table's `types`. Broken records are skipped, unless all are broken. Raises what `json_records`
    raises, EmptyObject and Incompatible.
    """
    if not body:
        raise EmptyObject("The object has no bytes")
    text = unpacked_text(body, most_text(limits))
    inference: Inference | None = None
    frame = False  # whether the only record is one of pandas
    carried: dict[int, Mapping[str, Any]] = {}
    broken: SluiceError | None = None
    for schema, value, *_ in json_lines.records(text, limits, translate):
        if isinstance(value, SluiceError):
            broken = broken or value
        elif schema is None:
            frame = inference is None and _holds_columns(value)
            inference = inference or Inference(types, unavailable.placeholders(unavailable_value).texts, shape)
            inference.add(value)
        else:
            carried[id(schema)] = schema
    if frame:
        raise NotJsonLines(
            "The object has columns and not rows: each field has the values of all rows by their numbers, as pandas' "
            "to_json writes them",
            next_step="Let pandas write records: to_json(path, orient='records', lines=True)",
        )
    if inference is not None:
        schema = inference.schema()
        if broken is not None and schema.get(MESSAGES):  # nothing else would show it where there is no table yet
            raise broken
        return [schema], True
    if not carried:
        raise broken or NotJsonLines("The object has no record", bytes=len(body))
    return [avro_form(schema) for schema in carried.values()], False


def _holds_columns(record: Mapping[str, Any]) -> bool:
    """Whether a record may be a frame of pandas by columns (`orient='columns'`, the default of `to_json`)."""
    labels = None
    for column in record.values():
        if not isinstance(column, dict) or not column or labels not in (None, column.keys()):
            return False
        labels = column.keys()
    return len(record) > 1 and labels is not None and all(map(str.isdecimal, labels))


def source_tables(body: bytes, limits: Limits, translate: Translate) -> list[str]:
    """The different source tables that an object's changes name, in order."""
    sources = (
        line.value["source"]
        for line in json_lines.records(unpacked_text(body, most_text(limits)), limits, translate)
        if isinstance(line.value, dict) and isinstance(line.value.get("source"), dict)
    )
    return list(dict.fromkeys(filter(None, (source_table(*map(it.get, ("db", "schema", "table"))) for it in sources))))


def _chunks(
    text: bytes, inferred: str | None, limits: Limits, shape: WriterForm, translate: Translate
) -> Iterator[Chunk]:
    number = 0
    early: list[json_lines.Line] = []  # broken records before the first schema: they join its chunk
    forms: dict[int, tuple[Any, WriterSchema, RecordForm]] = {}
    for _, group in groupby(json_lines.records(text, limits, translate), lambda line: id(line.schema)):
        most = 1  # until the first record shows the number of columns
        while True:
            taken = list(islice(group, most))  # noqa: B031  # goes on where the last slice ended
            if not taken:
                break
            schema = taken[0].schema
            if schema is None and inferred is None and all(isinstance(line.value, SluiceError) for line in taken):
                early += taken
                continue
            if id(schema) not in forms:
                forms[id(schema)] = (schema, *_form(schema, inferred, shape))
            _, writer, form = forms[id(schema)]
            if most == 1:
                most = most_rows(len(writer.row.columns))
                taken += islice(group, most - 1)  # noqa: B031
            taken = early + taken
            numbers = [line.record for line in taken]
            in_places = numbers if numbers[-1] - number != len(taken) - 1 else None
            yield Chunk(writer, [_record(line, form, number + at) for at, line in enumerate(taken)], in_places)
            early = []
            number += len(taken)
    if early and isinstance(early[0].value, SluiceError):
        raise early[0].value


def _record(line: json_lines.Line, form: RecordForm, number: int) -> Record:
    if isinstance(line.value, SluiceError):
        return BrokenRecord(line.content, line.value)
    try:
        return form.convert(line.value, number)
    except UndecodableValue as error:
        return BrokenRecord(line.content, error)


def _form(schema: Mapping[str, Any] | None, inferred: str | None, shape: WriterForm) -> tuple[WriterSchema, RecordForm]:
    if schema is None and inferred is None:
        raise SchemaNotInferred("The records carry no schema, and none was inferred")
    return _understood(json.dumps(avro_form(schema), sort_keys=True) if schema is not None else inferred or "", shape)


@lru_cache(maxsize=256)
def _understood(text: str, shape: WriterForm) -> tuple[WriterSchema, RecordForm]:
    schema = json.loads(text)
    writer = read_writer_schema(schema, shape)
    return writer, RecordForm(schema, untyped=writer.untyped)


_Convert = Callable[[Any], Any]
_WRITTEN = re.compile(r"[+-]?\d{4,9}-\d\d-\d\dT.*(?:Z|[+-]\d\d:\d\d)|-?infinity", re.S)  # as Debezium writes it
MAX_EXPONENT = 400  # of a number that becomes a decimal: more can't fit, and 10 ** 10**9 takes forever


class RecordForm:
    """Converts the records of one schema (Avro form) in place. Those of an `untyped` one have types of the rule."""

    def __init__(self, schema: Mapping[str, Any], *, untyped: bool = False) -> None:
        self._untyped = untyped
        self._types = NamedTypes(schema)
        self._names = frozenset(field["name"] for field in schema["fields"])
        self._absent: dict[str, Any] = dict.fromkeys(self._names)
        self._conversions: list[tuple[str, _Convert]] = self._of_fields(schema["fields"])

    def convert(self, record: dict[str, Any], number: int) -> dict[str, Any]:
        """The record with every field of the schema. Raises UndecodableValue."""
        name = ""
        try:
            for name, convert in self._conversions:
                value = record.get(name)
                if value is not None:
                    record[name] = convert(value)
        except (DamagedJson, ValueError, TypeError, ArithmeticError, AttributeError) as error:
            raise UndecodableValue(
                f"Column {name[:100]} holds a value that doesn't match its schema",
                column=name[:100],
                record=number,
                cause=str(error)[:200],
            ) from error
        return record if self._names <= record.keys() else {**self._absent, **record}

    def _of_fields(self, fields: list[Mapping[str, Any]]) -> list[tuple[str, _Convert]]:
        made = ((field["name"], self._of(field["type"], field["name"])) for field in fields)
        return [(name, convert) for name, convert in made if convert is not None]

    def _of(self, written: Any, name: str) -> _Convert | None:
        avro, _ = self._types.non_null(written, name)
        base = avro["type"]
        if base == "bytes":
            if avro.get("logicalType") == "decimal":
                return decimal_reader(avro)
            return bytes_reader(avro) if self._untyped else _octets
        if base in ("float", "double"):
            return _float
        kind = SEMANTIC_TYPES.get((base, avro.get("connect.name", "")))
        if base in ("int", "long"):
            if self._untyped and kind in TIMESTAMP_KINDS:
                return lambda value: moment_count(_fourteen_digits(value) or str(_integer(value)), str(kind))
            if self._untyped and kind in (TIME_MILLIS, TIME_MICROS, TIME_NANOS):
                return lambda value: clock_count(_integer(value), str(kind))
            if kind == DATE:
                return _declared_days if self._untyped else _days
            return _declared_integer if self._untyped else _integer
        if base == "boolean":
            return _boolean
        if avro.get("connect.name") == METADATA:
            return None
        if self._untyped and kind == ZONED_TIMESTAMP:
            return _moment
        if base == "string":
            return _text if avro.get("connect.name") in (JSON_TEXT, NUMBER_TEXT) else _string
        if base == "array":
            return self._list(avro, name)
        if base == "map":
            inner = self._of(avro["values"], name)
            return lambda value: {
                key: None if item is None else inner(item) if inner else item for key, item in value.items()
            }
        if base == "record":
            return self._record(avro)
        return None

    def _list(self, avro: Mapping[str, Any], name: str) -> _Convert:
        inner = self._of(avro["items"], name)

        def convert(value: Any) -> list[Any]:
            if not isinstance(value, list):
                raise TypeError("not an array")
            return [None if item is None else inner(item) if inner else item for item in value]

        return convert

    def _record(self, avro: Mapping[str, Any]) -> _Convert:
        conversions = self._of_fields(avro["fields"])
        absent = dict.fromkeys(field["name"] for field in avro["fields"])

        def convert(value: Any) -> dict[str, Any]:
            if isinstance(value, list) and len(value) == len(absent):
                value = dict(zip(absent, value))  # an entry of a map whose keys aren't text
            if not isinstance(value, dict):
                raise TypeError("not an object")
            made = {**absent, **value}
            for name, of in conversions:
                if made[name] is not None:
                    made[name] = of(made[name])
            return made

        return convert


def _octets(value: Any) -> bytes:
    data: bytes = base64.b64decode(value, validate=True)
    return data


_WHOLE_TEXT = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_HEX = re.compile(r"(?:0[xX]|\\x)?((?:[0-9A-Fa-f]{2})*)")
_BARE_HEX = re.compile(r"0[xX](?:[0-9A-Fa-f]{2})+|[0-9a-f]{4,}|[0-9A-F]{4,}")


def bytes_reader(avro: Mapping[str, Any]) -> Callable[[Any], bytes]:
    """Return what gives the bytes of text in a column that `types` declares: of base64, or hexadecimal digits.

    Raises ValueError for text that reads as both, where the type doesn't say which it is.
    """
    if avro.get(HEX):
        return _from_hex

    def convert(value: Any) -> bytes:
        if not avro.get(BASE64) and type(value) is str and _BARE_HEX.fullmatch(value):
            raise ValueError("hexadecimal digits or base64? Declare the column as `hex bytes` or `base64 bytes`")
        return _octets(value)

    return convert


def _from_hex(value: Any) -> bytes:
    match = _HEX.fullmatch(_string(value))
    if match is None:
        raise ValueError("not hexadecimal digits")
    return bytes.fromhex(match[1])


def decimal_reader(avro: Mapping[str, Any]) -> Callable[[Any], bytes]:
    """Return what gives a decimal's unscaled bytes from base64, Connect's default, or from a number.

    Numbers come of `json.decimal.format=NUMERIC`, and of text.
    """
    scale = avro.get("scale", 0)
    as_bytes = "connect.name" in avro or avro.get(BASE64, False)

    def convert(value: Any) -> bytes:
        if as_bytes and type(value) is str:
            return _octets(value)
        if type(value) is bool:
            raise TypeError("not a number")
        number = Decimal(value)
        sign, digits, exponent = number.as_tuple()
        if not isinstance(exponent, int) or abs(exponent) > MAX_EXPONENT:
            raise ValueError("not a number that a decimal can hold")
        places = exponent + scale
        unscaled: int = int("".join(map(str, digits)))
        if places < 0:
            unscaled, rest = divmod(unscaled, 10**-places)
            if rest:
                raise ValueError(f"more than {scale} digits after the point")
        else:
            unscaled *= 10**places
        unscaled = -unscaled if sign else unscaled
        converted: bytes = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
        return converted

    return convert


def _float(value: Any) -> float:
    """Jackson writes NaN and the infinities as text."""
    if type(value) is bool:
        raise TypeError("not a number")
    return float(value)


def _integer(value: Any) -> int:
    """A whole number, which may be written 5.0 or 1E2."""
    if isinstance(value, NumberText) and is_whole(value):
        return int(Decimal(value))
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value


def _declared_integer(value: Any) -> int:
    """A whole number, also as text: BigQuery's export and Protobuf's JSON write those of 64 bits so."""
    return int(value) if type(value) is str and _WHOLE_TEXT.fullmatch(value) else _integer(value)


def _fourteen_digits(value: Any) -> str | None:
    return value if type(value) is str and len(value) == 14 and value.isdecimal() else None


def unfit_values(kind: str, values: Iterable[Any]) -> list[Any]:
    """The values of JSON without a schema that a column can't hold whose type `types` declares as `kind`."""
    fields = [{"name": "value", "type": ["null", declared_type(kind)]}]
    form = RecordForm({"type": "record", "name": "sluice.Column", "fields": fields}, untyped=True)
    return [value for value in values if value is not None and not _fits(form, kind, value)]


def _fits(form: RecordForm, kind: str, value: Any) -> bool:
    try:
        read = form.convert({"value": value}, 0)["value"]
    except UndecodableValue:
        return False
    return kind != ZONED_TIMESTAMP or _WRITTEN.fullmatch(read) is not None


def _days(value: Any) -> int:
    """Days since 1970-01-01, from a number or an ISO 8601 date."""
    return _integer(value) if type(value) is not str else days_of(value)


def _declared_days(value: Any) -> int:
    return day_count(_integer(value)) if type(value) is not str else declared_days(value)


def _moment(value: Any) -> str:
    """A point in time in ISO 8601 as Debezium writes it: with T, and in UTC where it names no zone, as in CSV.

    Other text stays: its row is set aside where all text of the column is looked at.
    """
    text = _string(value)
    try:
        return text if _WRITTEN.fullmatch(text) else timestamp_text(moment_nanos(text), TIMESTAMP_NANOS)
    except ValueError:
        return text


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise TypeError("neither true nor false")
    return value


def _string(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("not text")
    return value


def _text(value: Any) -> str:
    """Text and NumberText unchanged; any other value as its JSON."""
    return value if isinstance(value, str) else to_text(value)
