"""Reads the writer schema from the head of an object: the first bytes of Avro and JSON, the last ones of Parquet."""

from __future__ import annotations

from typing import Any, Callable

from sluice.admission.routing import AVRO, CSV, JSON, PARQUET
from sluice.config.limits import DEFAULTS, Limits
from sluice.errors import EmptyObject
from sluice.objects import ObjectId
from sluice.schema.limits import check_schema
from sluice_aws.s3.objects import Objects
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.csv_text import check_head
from sluice_formats.errors import CorruptObject, HeaderCut, NotParquet
from sluice_formats.gzip import ZSTD_MAGIC, unpacked_head
from sluice_formats.json.lines import schema_in_head
from sluice_formats.parquet_footer import TAIL_BYTES, footer_bytes, read_footer

FIRST_READ_BYTES = 64 * 1024
HEAD_LIMIT_BYTES = 1024 * 1024
# Memory of a head, per byte of it: objects of one entry take 45 bytes of memory for each byte of JSON, and texts are
# copied. Above the most, the limits of schemas and footers hold.
_MEMORY_PER_BYTE, _MOST_MEMORY = 48, 80 * 1024**2


def memory_of(head_bytes: int) -> int:
    """Most bytes of memory that it takes to read a head of so many bytes, and the schema in it."""
    return min(_MEMORY_PER_BYTE * head_bytes, _MOST_MEMORY)


def _no_bound(size: int) -> None:
    """For a process that reads one head at a time."""


class Heads:
    """Reads heads of object versions, and remembers the topics with long ones. Thread-safe."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._long: set[str] = set()

    def read(
        self,
        id: ObjectId,
        topic: str,
        limits: Limits = DEFAULTS,
        format: str = AVRO,
        more_memory: Callable[[int], None] = _no_bound,
    ) -> Any:
        """The writer schema of one object version, in Avro's form; None for CSV, and for JSON whose head holds none.

        Reads 64 KiB in one call, for which the caller holds memory.

        A longer head takes a second call (1 MiB of Avro, the footer's length of Parquet). Later objects of the same
        topic are then read at 1 MiB at once (Avro). `more_memory` is called before with the bytes of memory that it
        takes, in place of those for 64 KiB. Raises a SluiceError that isn't retriable for an object that is
        gone (ObjectGone), damaged, not of the format in its name, or has a schema beyond the limits.
        """
        if format == JSON:
            return self._json(id, limits, more_memory)
        if format == CSV:
            check_head(_not_empty(self._objects.head_bytes(id, FIRST_READ_BYTES)).data)
            return None
        if format == PARQUET:
            return self._parquet(id, limits, more_memory)
        return self._avro(id, topic, limits, more_memory)

    def _avro(self, id: ObjectId, topic: str, limits: Limits, more_memory: Callable[[int], None]) -> Any:
        if topic not in self._long:
            try:
                return parse_header(self._objects.head_bytes(id, FIRST_READ_BYTES), limits).schema
            except HeaderCut:
                self._long.add(topic)  # and read more below
        more_memory(memory_of(HEAD_LIMIT_BYTES))
        try:
            return parse_header(self._objects.head_bytes(id, HEAD_LIMIT_BYTES), limits).schema
        except HeaderCut as error:
            raise CorruptObject(
                f"The Avro header does not end within {HEAD_LIMIT_BYTES} bytes", bytes=HEAD_LIMIT_BYTES
            ) from error

    def _json(self, id: ObjectId, limits: Limits, more_memory: Callable[[int], None]) -> Any:
        head = _not_empty(self._objects.head_bytes(id, FIRST_READ_BYTES))
        if head.data.startswith(ZSTD_MAGIC):  # whose head can't be unpacked alone
            return None
        text = unpacked_head(head.data, HEAD_LIMIT_BYTES)
        if len(text) > FIRST_READ_BYTES:
            more_memory(memory_of(len(text)))
        # The compressed object may continue after the part that was decompressed.
        schema = schema_in_head(text, head.whole and len(text) < HEAD_LIMIT_BYTES)
        if schema is not None:
            check_schema(schema, limits)
        return schema

    def _parquet(self, id: ObjectId, limits: Limits, more_memory: Callable[[int], None]) -> Any:
        tail = _not_empty(self._objects.tail_bytes(id, FIRST_READ_BYTES))
        try:
            length = footer_bytes(tail.data, tail.whole)
        except NotParquet:
            raise NotParquet.of(self._objects.head_bytes(id, FIRST_READ_BYTES).data, tail.data) from None
        if length > len(tail.data):
            more_memory(memory_of(length))
            tail = self._objects.tail_bytes(id, max(length, TAIL_BYTES))
        schema = read_footer(tail.data, tail.whole).schema
        check_schema(schema, limits)
        return schema


def _not_empty(head: Head) -> Head:
    if head.whole and not head.data:
        raise EmptyObject("The object has no bytes")
    return head


def read_head(objects: Objects, id: ObjectId, format: str, limits: Limits = DEFAULTS) -> Any:
    """The writer schema in a single head, as `Heads.read` reads it."""
    return Heads(objects).read(id, "", limits, format)
