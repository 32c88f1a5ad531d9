"""Takes the writer schema from the part of an object that tells it: Avro's and JSON's first bytes, Parquet's last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.admission.routing import AVRO, JSON, PARQUET
from sluice.config.limits import DEFAULTS, Limits
from sluice.errors import EmptyObject
from sluice.objects import ObjectId
from sluice.schema.limits import check_schema
from sluice_aws.s3.objects import Objects
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.errors import CorruptObject, HeaderCut
from sluice_formats.json_lines import schema_in_head
from sluice_formats.json_text import unpacked_head
from sluice_formats.parquet_footer import TAIL_BYTES, footer_bytes, read_footer

FIRST_READ_BYTES = 64 * 1024
HEAD_LIMIT_BYTES = 1024 * 1024


@dataclass(frozen=True)
class ObjectHead:
    """What an object's head tells: the writer schema (in Avro form), None where only all of its records tell one."""

    schema: Any


class Heads:
    """Reads heads of object versions; remembers which topics' heads are long. Safe to use from several threads."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._long: set[str] = set()

    def read(self, id: ObjectId, topic: str, limits: Limits = DEFAULTS, format: str = AVRO) -> ObjectHead:
        """Read the head of one object version in one call: 64 KiB of it.

        Where that is too little, more in a second call (of Avro 1 MiB, of Parquet the footer's length), and for
        Avro at once for the topic's later objects. Raises a SluiceError that isn't retriable for an object that
        isn't what its name says, is damaged, has a schema beyond the limits, or is gone (ObjectGone).
        """
        if format == JSON:
            return self._json(id, limits)
        if format == PARQUET:
            return self._parquet(id, limits)
        return self._avro(id, topic, limits)

    def _avro(self, id: ObjectId, topic: str, limits: Limits) -> ObjectHead:
        if topic not in self._long:
            try:
                return ObjectHead(parse_header(self._objects.head_bytes(id, FIRST_READ_BYTES), limits).schema)
            except HeaderCut:
                self._long.add(topic)  # the read below is the answer to it
        try:
            return ObjectHead(parse_header(self._objects.head_bytes(id, HEAD_LIMIT_BYTES), limits).schema)
        except HeaderCut as error:
            raise CorruptObject(
                f"The Avro header does not end within {HEAD_LIMIT_BYTES} bytes", bytes=HEAD_LIMIT_BYTES
            ) from error

    def _json(self, id: ObjectId, limits: Limits) -> ObjectHead:
        head = _not_empty(self._objects.head_bytes(id, FIRST_READ_BYTES))
        text = unpacked_head(head.data, HEAD_LIMIT_BYTES)
        # What was packed may go on behind what was unpacked of it.
        schema = schema_in_head(text, head.whole and len(text) < HEAD_LIMIT_BYTES)
        if schema is not None:
            check_schema(schema, limits)
        return ObjectHead(schema)

    def _parquet(self, id: ObjectId, limits: Limits) -> ObjectHead:
        tail = _not_empty(self._objects.tail_bytes(id, FIRST_READ_BYTES))
        length = footer_bytes(tail.data, tail.whole)
        if length > len(tail.data):
            tail = self._objects.tail_bytes(id, max(length, TAIL_BYTES))
        schema = read_footer(tail.data, tail.whole).schema
        check_schema(schema, limits)
        return ObjectHead(schema)


def _not_empty(head: Head) -> Head:
    if head.whole and not head.data:
        raise EmptyObject("The object has no bytes")
    return head


def read_head(objects: Objects, id: ObjectId, format: str, limits: Limits = DEFAULTS) -> ObjectHead:
    """Read one head, for those who read few. As `Heads.read`."""
    return Heads(objects).read(id, "", limits, format)
