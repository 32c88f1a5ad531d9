"""What `json_types` of a table says that a column of schemaless JSON is, in Avro form."""

from __future__ import annotations

import re
from typing import Any, Dict

NUMBER_TEXT = "sluice.json.Number"  # a number that no binary type holds exactly, as text
JSON_TEXT = "io.debezium.data.Json"  # Debezium's own name for JSON as text
METADATA = "sluice.json.Metadata"  # a field of which the name counts, and whose value is taken as it is

_DECIMAL = re.compile(r"(base64 )?decimal\(([1-9][0-9]?),([0-9]{1,2})\)")
_TYPES: Dict[str, Any] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
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
TYPE_PATTERN = rf"^({'|'.join(_TYPES)}|(base64 )?decimal\([1-9][0-9]?,[0-9]{{1,2}}\))$"  # for editors
BASE64 = "sluice.base64"  # attribute of a decimal whose text is the unscaled number's bytes, not the number


class UnknownType(ValueError):
    """A type that isn't among those that can be declared."""


def declared_type(text: str) -> Any:
    """The Avro form of a declared type: a name above, `decimal(p,s)`, or `base64 decimal(p,s)` for unscaled bytes.

    Raises UnknownType, a message without a subject.
    """
    if text in _TYPES:
        return _TYPES[text]
    decimal = _DECIMAL.fullmatch(text)
    if decimal is None:
        raise UnknownType(f"is one of {', '.join(_TYPES)}, decimal(p,s) and base64 decimal(p,s)")
    precision, scale = int(decimal[2]), int(decimal[3])
    if precision > 38 or scale > precision:
        raise UnknownType("is a decimal of at most 38 digits, of which no more are behind the point")
    return {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
        **({BASE64: True} if decimal[1] else {}),
    }
