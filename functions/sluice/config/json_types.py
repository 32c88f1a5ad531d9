"""The types that a table's `json_types` may declare for columns of JSON without a schema, and their Avro forms."""

from __future__ import annotations

import re
from typing import Any

JSON_TEXT = "io.debezium.data.Json"  # Debezium's own name for JSON as text
BASE64 = "sluice.base64"  # attribute of a decimal whose text is base64 of the unscaled number, and of such bytes
HEX = "sluice.hex"  # attribute of bytes whose text is hexadecimal digits

_DECIMAL = re.compile(r"(base64 )?decimal\(([1-9][0-9]?),([0-9]{1,2})\)")
_TYPES: dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
    "base64 bytes": {"type": "bytes", BASE64: True},
    "hex bytes": {"type": "bytes", HEX: True},
    "json": {"type": "string", "connect.name": JSON_TEXT},
    "date": {"type": "int", "connect.name": "io.debezium.time.Date"},
    "time_millis": {"type": "int", "connect.name": "io.debezium.time.Time"},
    "time_micros": {"type": "long", "connect.name": "io.debezium.time.MicroTime"},
    "time_nanos": {"type": "long", "connect.name": "io.debezium.time.NanoTime"},
    "timestamp_millis": {"type": "long", "connect.name": "io.debezium.time.Timestamp"},
    "timestamp_micros": {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"},
    "timestamp_nanos": {"type": "long", "connect.name": "io.debezium.time.NanoTimestamp"},
    "zoned_timestamp": {"type": "string", "connect.name": "io.debezium.time.ZonedTimestamp"},
}
# For editors: `declared_type` also checks a decimal's digits.
JSON_TYPE_PATTERN = rf"^({'|'.join(_TYPES)}|(base64 )?decimal\([1-9][0-9]?,[0-9]{{1,2}}\))$"


class UnknownType(ValueError):
    """A type that can't be declared. The message has no subject."""


def declared_type(text: str) -> Any:
    """Return the Avro form of a declared type.

    That is one of the names above, `decimal(p,s)`, or `base64 decimal(p,s)` for the bytes of the unscaled number.
    Raises UnknownType.
    """
    if text in _TYPES:
        return _TYPES[text]
    decimal = _DECIMAL.fullmatch(text)
    if decimal is None:
        raise UnknownType(f"is not one of {', '.join(_TYPES)}, decimal(p,s), base64 decimal(p,s)")
    precision, scale = int(decimal[2]), int(decimal[3])
    if precision > 38 or scale > precision:
        raise UnknownType("has more than 38 digits, or more of them behind the point")
    return {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
        **({BASE64: True} if decimal[1] else {}),
    }
