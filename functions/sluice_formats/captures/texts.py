"""Objects of other formats whose rows are JSON text in a field (PeerDB, Airbyte's CSV), as lines of JSON."""

from __future__ import annotations

import io
import json
from typing import Any

from sluice.admission.routing import AVRO, CSV
from sluice.changes.dialects.nested import CaptureDialect
from sluice.changes.dialects.registry import text_field
from sluice.config.csv_form import CsvForm
from sluice.config.limits import Limits
from sluice_formats.avro import avro_records
from sluice_formats.csv_records import csv_records
from sluice_formats.csv_text import HEADER_BYTES, csv_columns, unescaped, without_mark
from sluice_formats.gzip import beyond, most_text, unpacked_head
from sluice_formats.parquet_records import parquet_records
from sluice_formats.records import BrokenRecord, Records


def lines_of_texts(
    body: bytes, format: str, dialect: CaptureDialect | None, csv: CsvForm, limits: Limits
) -> bytes | None:
    """The object's records as lines of JSON; None for one that its own reader reads.

    Raises what that reader raises, and ExpansionLimit for more text than an object may have.
    """
    field = text_field(dialect, format)
    if field is None:
        return None
    records = _records(body, format, field, csv, limits)
    if records is None:
        return None
    lines, room = io.BytesIO(), most_text(limits)
    for chunk in records.chunks:
        for record in chunk.records:
            if isinstance(record, BrokenRecord):
                raise record.error
            room -= lines.write(json.dumps(record, default=_text, separators=(",", ":")).encode() + b"\n")
            if room < 0:
                raise beyond(most_text(limits))
    return lines.getvalue()


def _records(body: bytes, format: str, field: str, csv: CsvForm, limits: Limits) -> Records | None:
    if format == AVRO:
        return avro_records(body, limits)
    if format != CSV:
        return parquet_records(body, limits)
    names = csv_columns(unescaped(without_mark(unpacked_head(body, HEADER_BYTES)), csv), csv, limits).names
    if field not in names:
        return None
    fields = [{"name": name, "type": ["null", "string"]} for name in names]
    return csv_records(body, json.dumps({"type": "record", "name": "sluice.csv.Row", "fields": fields}), csv, limits)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
