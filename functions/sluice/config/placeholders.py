"""Placeholders that a connector writes for unavailable values: unchanged by an update, and not in the source's log."""

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

# An unchanged geometry, geography or point has one of these points, whatever placeholder is configured.
# https://github.com/debezium/debezium, connector/postgresql/UnchangedToastedPlaceholder.java, since 3.3
_GEOMETRY = bytes.fromhex("0101000020E6100000000000FC83D797C1000000FC83D797C1")  # SRID=4326;POINT(-99999999 -99999999)
# SRID=4326;POINT(179.999999 89.999999)
_GEOGRAPHY = bytes.fromhex("0101000020E61000000C21E7FDFF7F66401842CEFBFF7F5640")
_POINT = struct.pack("<BIdd", 1, 1, -99_999_999, -99_999_999)


@dataclass(frozen=True)
class Placeholders:
    """The forms of one placeholder, by the raw type of the column.

    `texts` are those of text columns, of arrays as JSON text, and of an array's single item. `bytes_` are those of byte
    strings, `codes` is a whole array of integers, `pair` the only key and value of a map.
    """

    texts: frozenset[str]
    bytes_: frozenset[bytes]
    codes: tuple[int, ...]
    pair: tuple[str, str]

    @property
    def text_lengths(self) -> frozenset[int]:
        """Lengths of the texts in bytes: a column without a text of such a length holds no placeholder."""
        return frozenset(len(text.encode("utf-8")) for text in self.texts)


@lru_cache(maxsize=64)
def placeholders(value: str = DEFAULT) -> Placeholders:
    """Return the forms of a connector's `unavailable.value.placeholder`: text, or "hex:" and hexadecimal digits.

    Binary columns have bytes, base64, URL-safe base64 or hexadecimal digits, by the connector's `binary.handling.mode`.
    hstore has JSON or a map. An array of uuid has the UUID that Java derives from the bytes. A geometry has a point of
    its own, as text.
    https://debezium.io/documentation/reference/3.5/connectors/postgresql.html#postgresql-property-unavailable-value-placeholder
    Raises ValueError for an empty placeholder, and for digits that are not hexadecimal.
    """
    raw = bytes.fromhex(value[len(_HEX_PREFIX) :]) if value.startswith(_HEX_PREFIX) else value.encode("utf-8")
    if not raw:
        raise ValueError("The placeholder of unavailable values is empty")
    text = raw.decode("utf-8", "replace")
    signed = tuple(byte - 256 if byte > 127 else byte for byte in raw)  # Java's bytes are signed
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
            _json(signed),  # an array in JSON without a schema becomes a column of JSON text
        )
    )
    return Placeholders(texts, frozenset((raw,)), signed, (text, text))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _shapes() -> Iterator[str]:
    """Yield the texts of placeholder shapes: fields in their order, numbers as written plainly and by Java."""
    for shape in (_GEOMETRY, _GEOGRAPHY):
        yield f'{{"wkb":"{base64.b64encode(shape).decode()}","srid":4326}}'
    for number in ("-99999999.0", "-9.9999999E7"):
        yield f'{{"x":{number},"y":{number},"wkb":"{base64.b64encode(_POINT).decode()}","srid":null}}'


def _named_uuid(name: bytes) -> str:
    """Return the UUID of Java's `UUID.nameUUIDFromBytes`: the MD5 digest with the bits of version 3."""
    digest = bytearray(hashlib.md5(name, usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
