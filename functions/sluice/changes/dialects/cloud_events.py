"""Debezium's changes in CloudEvents' envelope: the row lies in `data`, the operation and its place beside it.

https://debezium.io/documentation/reference/3.5/integrations/cloudevents.html
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluice.changes.dialects.nested import JsonOnly, Reading, Record, change
from sluice.errors import UnusableSchema

_TYPE = "io.debezium."
_EXTENSION = "iodebezium"
_OP = f"{_EXTENSION}op"
# Fields of the source block that order changes or name where they are from, by the attribute's name: CloudEvents has
# names of lower-case letters and digits.
_SOURCE = (
    "connector name ts_ms ts_us ts_ns snapshot db sequence schema table collection lsn file pos row thread server_id "
    "gtid change_lsn commit_lsn event_serial_no scn commit_scn rs_id ssn rs ord"
).split()
_FIELDS = {f"{_EXTENSION}{name.replace('_', '')}": name for name in _SOURCE}
# Numbers of the source block, which are text in an attribute.
_NUMBERS = frozenset("lsn pos row thread server_id event_serial_no ts_ms ts_us ts_ns ord ssn".split())


@dataclass(frozen=True)
class CloudEvents(JsonOnly):
    """The dialect: any event of Debezium, whose operation must be in the envelope."""

    name: str = "cloudevents"
    shapes: tuple[frozenset[str], ...] = (frozenset(("specversion", "data", "type")),)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record, not a row of one who stores CloudEvents, is a change of Debezium."""
        return self.shapes[0] <= record.keys() and str(record["type"]).startswith(_TYPE)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """Debezium's change. Raises UnusableSchema for an event whose operation isn't in the envelope."""
        data = record["data"]
        if isinstance(data, dict) and data.keys() == {"schema", "payload"}:
            data = data["payload"]
        op = record.get(_OP)
        if not isinstance(data, dict) or not isinstance(op, str):
            raise UnusableSchema(
                "The records are CloudEvents of Debezium without the operation or the row",
                next_step="Let the connector write its own envelope or flattened rows (JsonConverter, AvroConverter), "
                "or set extension.attributes.enable",
                column=_OP,
            )
        source = {name: _value(name, record[field]) for field, name in _FIELDS.items() if field in record}
        return [change(op, data.get("before"), data.get("after"), source)]


CLOUD_EVENTS = CloudEvents()


def _value(name: str, value: Any) -> Any:
    number = name in _NUMBERS and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20
    return int(value) if number else value
