"""Reads the first records of an object version, and the fields of Kafka keys.

Reads are bounded: the first bytes of an object; small Parquet objects whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.admission.routing import AVRO, JSON, PARQUET
from sluice.batch.claim import PendingObject
from sluice.changes.dialects.nested import CaptureDialect
from sluice.config.csv_form import CsvForm
from sluice.config.limits import Limits
from sluice.config.values import MIB
from sluice.errors import ExpansionLimit, ObjectTooLarge, SluiceError
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.admission.heads import read_head
from sluice_aws.s3.objects import Objects
from sluice_formats.gzip import unpacked_head
from sluice_formats.parquet_records import parquet_records
from sluice_formats.samples import ObjectSample, key_fields, sample_head

READ_BYTES = 1024 * 1024
KEY_BYTES = 256 * 1024  # how far Kafka keys are searched
_KEY_FORMATS = {".keys.avro": AVRO, ".keys.json": JSON}
PARQUET_LIMITS = Limits(object_bytes=8 * MIB, decoded_bytes=64 * MIB)  # of a Parquet object that is read whole


def sample_object(
    objects: Objects,
    id: ObjectId,
    format: str,
    rows: int,
    limit: int = READ_BYTES,
    form: CsvForm | None = None,
    dialect: CaptureDialect | None = None,
) -> ObjectSample:
    """Read up to `rows` records of the first `limit` bytes of one version; of a large Parquet object only the schema.

    `form` is that of CSV; None guesses the delimiter. `dialect` is that of the records' rule. Raises a SluiceError if
    the head can't be read. Damage behind it is the sample's `problem`.
    """
    if format == PARQUET:
        return _parquet(objects, id, rows)
    return sample_head(objects.head_bytes(id, limit), format, rows, limit, form, dialect)


def _parquet(objects: Objects, id: ObjectId, rows: int) -> ObjectSample:
    schema = read_head(objects, id, PARQUET)
    records: list[dict[str, Any]] = []
    try:
        for chunk in parquet_records(objects.whole(id, PARQUET_LIMITS.object_bytes), PARQUET_LIMITS).chunks:
            records += [record for record in chunk.records if isinstance(record, dict)]
            if len(records) > rows:
                break
    except (ObjectTooLarge, ExpansionLimit):
        return ObjectSample(schema, (), "rows of large Parquet objects are not sampled: only the schema is known")
    return ObjectSample(schema, tuple(records[:rows]), whole=len(records) <= rows)


def format_of(objects: Objects, id: ObjectId) -> str | None:
    """The format of an object by its first bytes: Avro or JSON, plain or gzipped; None for any other."""
    try:
        head = unpacked_head(objects.head_bytes(id, KEY_BYTES).data, 64).lstrip()
    except SluiceError:
        return None
    return AVRO if head.startswith(b"Obj\x01") else JSON if head.startswith(b"{") else None


def kafka_key_of(
    objects: Objects, records: Sequence[ObjectRecord | PendingObject]
) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the fields of the Kafka keys beside the newest object that has keys, and the name of their file."""
    for record in reversed(records):
        stem = record.id.key.rpartition(".")[0]
        for version in objects.version_page(record.id.bucket, prefix=f"{stem}.keys.", page_size=4).versions:
            format = _KEY_FORMATS.get(version.key[len(stem) :])
            if format is None:
                continue
            head = objects.head_bytes(ObjectId(version.bucket, version.key, version.version_id), KEY_BYTES)
            fields = key_fields(head, format, KEY_BYTES)
            if fields:
                return fields, version.key.rpartition("/")[2]
    return None, None
