"""What a connector writes in place of a value that a change left unchanged and its log didn't hold."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

DEFAULT = "__debezium_unavailable_value"
_HEX_PREFIX = "hex:"

# What stands for an unchanged geometry, geography or point, whatever the configured placeholder is: points that are nowhere, or nobody's.
# https://github.com/debezium/debezium, connector/postgresql/UnchangedToastedPlaceholder.java, since 3.3
_GEOMETRY = bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1")  # SRID=4326;POINT(-99999999 -99999999)
_GEOGRAPHY = bytes.fromhex(
    "0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640"
)  # SRID=4326;POINT(179.999999 89.999999)
_POINT = struct.pack("<BIdd", 1, 1, -99_999_999, -99_999_999)


@dataclass(frozen=True)
class Placeholders:
    """The forms that one placeholder takes, by the raw type of the column.

    `texts` are those of text columns, arrays as JSON text among them, and of an array's single item, `bytes_` those of byte strings, `codes`
    the whole of an array of integers, `pair` the single key and value of a map.
    """

    texts: frozenset[str]
    bytes_: frozenset[bytes]
    codes: tuple[int, ...]
    pair: tuple[str, str]

    @property
    def text_lengths(self) -> frozenset[int]:
        """Lengths in bytes of the texts: a column without a text so long holds no placeholder."""
        return frozenset(len(text.encode("utf-8")) for text in self.texts)


@lru_cache(maxsize=64)
def placeholders(value: str = DEFAULT) -> Placeholders:
    """The forms of a connector's `unavailable.value.placeholder` (text, or "hex:" and hexadecimal digits).

    Binary columns come as bytes, as base64, as URL-safe base64 or as hexadecimal digits, by the connector's
    `binary.handling.mode`; hstore as JSON or as a map; an array of uuid holds the UUID that Java names by the bytes. A geometry
    is a point of its own, as the text that the column holds.
    https://debezium.io/documentation/reference/3.5/connectors/postgresql.html#postgresql-property-unavailable-value-placeholder
    Raises ValueError for an empty placeholder and for digits that aren't hexadecimal.
    """
    raw = bytes.fromhex(value[len(_HEX_PREFIX) :]) if value.startswith(_HEX_PREFIX) else value.encode("utf-8")
    if not raw:
        raise ValueError("The placeholder of unavailable values is empty")
    text = raw.decode("utf-8", "replace")
    signed = tuple(byte - 256 if byte > 127 else byte for byte in raw)  # as Java's bytes are
    items = (text, base64.b64encode(raw).decode(), _named_uuid(raw))
    texts = frozenset(
        (
            *_shapes(),
            *items,
            base64.urlsafe_b64encode(raw).decode(),
            raw.hex(),
            raw.hex().upper(),
            _json({text: text}),
            *(_json([item]) for item in items),
            _json(signed),  # arrays of JSON without a schema, which are columns of JSON text
        )
    )
    return Placeholders(texts, frozenset((raw,)), signed, (text, text))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _shapes() -> Iterator[str]:
    """The texts of placeholder shapes: a record's fields in their order, numbers as they are and as Java writes them."""
    for shape in (_GEOMETRY, _GEOGRAPHY):
        yield f'{{"wkb":"{base64.b64encode(shape).decode()}","srid":4326}}'
    for number in ("-99999999.0", "-9.9999999E7"):
        yield f'{{"x":{number},"y":{number},"wkb":"{base64.b64encode(_POINT).decode()}","srid":null}}'


def _named_uuid(name: bytes) -> str:
    """The UUID that Java's `UUID.nameUUIDFromBytes` makes: the MD5 digest with the marks of version 3."""
    digest = bytearray(hashlib.md5(name, usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
