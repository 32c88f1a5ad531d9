"""Reads the records of newline-delimited JSON, and finds out which schemas they have."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import groupby, islice
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

from sluice import json_lines, unavailable
from sluice.avro_schema import WriterSchema, read_writer_schema
from sluice.connect_schema import avro_form
from sluice.errors import EmptyObject, SluiceError
from sluice.gzip_bytes import unpacked
from sluice.json_inference import Inference
from sluice.limits import Limits
from sluice_spark.json_values import RecordForm
from sluice_spark.records import BrokenRecord, Chunk, Record, Records, most_rows
from sluice_spark.row_quarantine import UndecodableValue


class SchemaNotInferred(SluiceError):
    """Records without a schema whose schema was not inferred before they were read: a mistake of the program."""

    code = "schema_not_inferred"


def json_records(body: bytes, inferred: Optional[str], limits: Limits) -> Records:
    """The object's records. `inferred` is the schema (Avro form, as JSON) of records that carry none.

    A record that can't be read, or whose values aren't what its schema says, is broken in its place. Raises DamagedGzip,
    ExpansionLimit, NotJsonLines, TooManySchemas, UnusableSchema or UnsupportedType.
    """
    text = unpacked(body, limits.decoded_bytes)
    return Records(lambda: sum(1 for _ in json_lines.lines(text)), _chunks(text, inferred, limits))


def json_schemas(
    body: bytes, types: Mapping[str, str], limits: Limits, unavailable_value: str = unavailable.DEFAULT
) -> Tuple[List[Dict[str, Any]], bool]:
    """The different schemas of an object's records in Avro form, and whether they had to be inferred.

    `types` are the table's `json_types`. Broken records say nothing, unless all are. Raises as `json_records` does, EmptyObject and Incompatible.
    """
    if not body:
        raise EmptyObject("The object has no bytes")
    text = unpacked(body, limits.decoded_bytes)
    inference: Optional[Inference] = None
    carried: Dict[int, Mapping[str, Any]] = {}
    broken: Optional[SluiceError] = None
    for schema, value, _ in json_lines.records(text, limits):
        if isinstance(value, SluiceError):
            broken = broken or value
        elif schema is None:
            inference = inference or Inference(types, unavailable.placeholders(unavailable_value).texts)
            inference.add(value)
        else:
            carried[id(schema)] = schema
    if inference is not None:
        return [inference.schema()], True
    if not carried:
        raise broken or json_lines.NotJsonLines("The object holds no record", bytes=len(body))
    return [avro_form(schema) for schema in carried.values()], False


def _chunks(text: bytes, inferred: Optional[str], limits: Limits) -> Iterator[Chunk]:
    number = 0
    early: List[BrokenRecord] = []  # broken records before the first that brings a schema: they go with it
    forms: Dict[int, Tuple[Any, WriterSchema, RecordForm]] = {}
    for _, group in groupby(json_lines.records(text, limits), lambda line: id(line.schema)):
        most = 1  # until the first record has told how many columns there are
        while True:
            taken = list(islice(group, most))
            if not taken:
                break
            schema = taken[0].schema
            if schema is None and inferred is None and all(isinstance(line.value, SluiceError) for line in taken):
                early += [_broken(line, line.value) for line in taken if isinstance(line.value, SluiceError)]
                number += len(taken)
                continue
            if id(schema) not in forms:
                forms[id(schema)] = (schema, *_form(schema, inferred))
            _, writer, form = forms[id(schema)]
            if most == 1:
                most = most_rows(len(writer.row.columns))
                taken += islice(group, most - 1)
            yield Chunk(writer, early + [_record(line, form, number + at) for at, line in enumerate(taken)])
            early = []
            number += len(taken)
    if early:
        raise early[0].error


def _record(line: json_lines.Line, form: RecordForm, number: int) -> Record:
    if isinstance(line.value, SluiceError):
        return _broken(line, line.value)
    try:
        return form.convert(line.value, number)
    except UndecodableValue as error:
        return _broken(line, error)


def _broken(line: json_lines.Line, error: SluiceError) -> BrokenRecord:
    return BrokenRecord(line.content, error)


def _form(schema: Optional[Mapping[str, Any]], inferred: Optional[str]) -> Tuple[WriterSchema, RecordForm]:
    if schema is None and inferred is None:
        raise SchemaNotInferred("The records carry no schema, and none was inferred")
    return _understood(json.dumps(avro_form(schema), sort_keys=True) if schema is not None else inferred or "")


@lru_cache(maxsize=256)
def _understood(text: str) -> Tuple[WriterSchema, RecordForm]:
    schema = json.loads(text)
    return read_writer_schema(schema), RecordForm(schema)
