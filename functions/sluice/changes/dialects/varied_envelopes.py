"""Debezium's envelope as the connectors of YugabyteDB, Cassandra and ScyllaDB vary it, with a record for each column,
those of Spanner and TiCDC, and Debezium's own in CloudEvents' envelope: there the row lies in `data`, the operation
and its place beside it.

https://docs.yugabyte.com/stable/additional-features/change-data-capture/using-yugabytedb-grpc-replication/debezium-connector-yugabytedb/
https://debezium.io/documentation/reference/3.5/connectors/cassandra.html, .../connectors/spanner.html
https://github.com/scylladb/scylla-cdc-source-connector, https://docs.pingcap.com/tidb/stable/ticdc-debezium
https://debezium.io/documentation/reference/3.5/integrations/cloudevents.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from sluice.changes.dialects.mongodb import MONGODB_EVENTS
from sluice.changes.dialects.nested import SENT, CaptureDialect, Reading, Record, at, change, placed, whole
from sluice.changes.hidden_columns import CREATE, DELETE, MESSAGE, UPDATE
from sluice.errors import UnusableSchema

_CELL = frozenset(("value", "set"))
# Beside the columns of Cassandra's rows, also as Avro names them: null but where a range of rows is deleted.
RANGE = frozenset((".range_start", ".range_end", "_range_start", "_range_end"))
NEXT_STEP = "Let the connector's transform YBExtractNewRecordState write the rows, or use its `pgoutput` plugin"


@dataclass(frozen=True)
class CellsOfColumns(CaptureDialect):
    """The dialect. A column that isn't set in an update was left alone, as in Cassandra's inserts, which may be one."""

    name: str = "yugabytedb"
    shapes: tuple[frozenset[str], ...] = (frozenset(("after", "source", "op")),)
    beside: frozenset[str] = frozenset()  # what a column's record has beside its value

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether the columns of a row are such records."""
        if not self.shapes[0] <= record.keys():
            return False
        rows = [row for side in ("before", "after") if isinstance(row := record.get(side), dict)]
        cells = [cell for row in rows for name, cell in row.items() if cell is not None and not self._is_range(name)]
        return bool(cells) and all(isinstance(cell, dict) and cell.keys() == _CELL | self.beside for cell in cells)

    def _is_range(self, name: str) -> bool:
        return bool(self.beside) and name in RANGE

    def _row(self, row: Any) -> dict[str, Any] | None:
        if not isinstance(row, dict):
            return None
        return {name: cell and cell["value"] for name, cell in row.items() if not self._is_range(name)}

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        if any(cell is not None and self._is_range(name) for name, cell in (record.get("after") or {}).items()):
            raise UnusableSchema(
                "The change deletes a range of rows in Cassandra, and doesn't say which ones there were",
                next_step="Remove the rows by `sluice forget`, or load the table again under a higher generation, then "
                "`sluice quarantine discard` the change",
                column=".range_start",
            )
        before, after = (self._row(record.get(side)) for side in ("before", "after"))
        source = record["source"] if isinstance(record["source"], dict) else {}
        # Its places in the log are text of a tablet's: the Kafka offset orders the changes of a row.
        source = {name: value for name, value in source.items() if name != "lsn" or type(value) is int}
        if self.beside:
            _check_whole(record["op"], after)
            source |= placed(_written_at(source))
        op = UPDATE if self.beside and record["op"] in ("i", CREATE) else record["op"]
        if op == UPDATE and after is not None:
            source[SENT] = [name for name, cell in record["after"].items() if cell and cell["set"]]
        return [change(op, before, after, source)]


_RECORDS_OF_VALUES = (frozenset(("scale", "value")), frozenset(("months", "days", "nanos")))
_IN_TUPLES = re.compile(r"field[0-9]{1,3}")  # the names of a tuple's values


def _check_whole(op: str, row: dict[str, Any] | None) -> None:
    """Raise UnusableSchema for an update with a collection: an insert has the whole one, an update what it changed."""
    for name, value in (row or {}).items() if op == UPDATE else ():
        if isinstance(value, list) or isinstance(value, dict) and not _is_one_value(value):
            raise UnusableSchema(
                f"The column {name[:100]} is a collection, of which an update of Cassandra has what it changed alone",
                next_step="Leave such columns out of the connector: field.exclude.list",
                column=name[:100],
            )


def _is_one_value(value: dict[str, Any]) -> bool:
    return frozenset(value) in _RECORDS_OF_VALUES or all(map(_IN_TUPLES.fullmatch, value))


def _written_at(source: Mapping[str, Any]) -> int | None:
    """When a change was written, by which Cassandra orders changes: every replica's connector sends each of them.

    It is above every Kafka offset, by which earlier releases ordered them. Connectors before 2.6 have milliseconds.
    """
    times = ((whole(source.get(name)), micros) for name, micros in (("ts_micro", 1), ("ts_us", 1), ("ts_ms", 1_000)))
    return next((time * micros * 10**20 for time, micros in times if time), None)


@dataclass(frozen=True)
class NamedEnvelopes(CaptureDialect):
    """The dialect of a connector that its source names, in the record or in a field `around` it.

    `made` gives the change. It raises UnusableSchema for one that may lack values.
    """

    name: str
    connector: str
    made: Callable[[Record, Reading], dict[str, Any]]
    shapes: tuple[frozenset[str], ...] = (frozenset(("source", "op", "after")),)
    around: tuple[str, ...] = ("",)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether the source says that it is the connector."""
        return any(at(record, f"{around}source.connector") == self.connector for around in self.around)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        return [self.made(record, reading)]


def _of_scylla(record: Record, reading: Reading) -> dict[str, Any]:
    """The change with plain rows: columns beside the key are records of a `value`, or null where they were left alone.

    In the "advanced" format they are values, and null is a value in an insert. Raises UnusableSchema for collections,
    which may be differences of them, and for updates that lack the row, or in that format may.
    """
    if not record.keys() >= {"op", "after"}:
        raise UnusableSchema("A change of ScyllaDB lacks its `op` or its `after`", column="after")
    op, cells = record["op"], record["after"]
    before, after = (_values(record.get(side)) for side in ("before", "after"))
    source = {word: at(record, f"source.{name}") for word, name in _OF_SCYLLA.items()}
    source |= placed(whole(at(record, "source.ts_us")))
    if op == DELETE:
        key = record.get("key")
        return change(DELETE, {**(before or {}), **(key if isinstance(key, dict) else {})} or None, None, source)
    is_old = str(at(record, "source.version")).startswith("1.")
    sides = (record.get("before") or {}, cells or {})
    is_plain = not is_old and not any(isinstance(cell, dict) for side in sides for cell in side.values())
    unsaid = [name for name, value in (after or {}).items() if value is None and is_plain and op == UPDATE]
    if after is None or any((before or {}).get(name, unsaid) is not None for name in unsaid):
        raise UnusableSchema(
            "The update of ScyllaDB doesn't say which values there are: a null may stand for one that was left alone",
            next_step="Let the connector write its legacy format: cdc.output.format",
            column="after",
        )
    if (
        not is_plain
        or unsaid
        or not any(value is not None and not reading.is_key(name) for name, value in after.items())
    ):
        source[SENT] = [name for name, cell in cells.items() if cell is not None]
        op = UPDATE
    return change(op, before, after, source)


_OF_SCYLLA = {"db": "keyspace_name", "table": "table_name", "ts_ms": "ts_ms"}


def _values(row: Any) -> dict[str, Any] | None:
    values = {name: cell["value"] if _is_cell(cell) else cell for name, cell in (row or {}).items()}
    of_many = next((name for name, value in values.items() if isinstance(value, (dict, list))), None)
    if of_many is not None:
        raise UnusableSchema(
            f"The column {of_many[:100]} is a collection, of which ScyllaDB's connector may write what changed in it",
            next_step="Leave such columns out at the source",
            column=of_many[:100],
        )
    return values if isinstance(row, dict) else None


def _is_cell(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"value"}


def _of_spanner(record: Record, _: Reading) -> dict[str, Any]:
    """The change as it is. An update that may lack columns is refused: null stands for those that it left alone."""
    captured = at(record, "source.value_capture_type")
    if record["op"] == UPDATE and captured not in (None, *_WHOLE_ROWS):
        raise UnusableSchema(
            f"The change stream of Spanner captures {str(captured)[:40]}: updates lack unchanged columns",
            next_step="Let the change stream capture whole rows: value_capture_type NEW_ROW",
            column="after",
        )
    return dict(record)


def _of_ticdc(record: Record, _: Reading) -> dict[str, Any]:
    """The change, in the order of TiDB's commits, since the source has no binlog; a message for a statement."""
    made = record if "source" in record else record["payload"]
    source = {name: value for name in ("db", "table", "ts_ms") if (value := at(made, f"source.{name}")) is not None}
    source |= placed(whole(at(made, "source.commit_ts")))
    return change(made.get("op", MESSAGE), made.get("before"), made.get("after"), source)


_CLOUD_TYPE = "io.debezium."
_CLOUD_EXTENSION = "iodebezium"
_CLOUD_OP = f"{_CLOUD_EXTENSION}op"
# Fields of the source block that order changes or name where they are from, by the attribute's name: CloudEvents has
# names of lower-case letters and digits.
_CLOUD_SOURCE = (
    "connector name ts_ms ts_us ts_ns snapshot db sequence schema table collection lsn file pos row thread server_id "
    "gtid change_lsn commit_lsn event_serial_no scn commit_scn rs_id ssn rs ord"
).split()
_CLOUD_FIELDS = {f"{_CLOUD_EXTENSION}{name.replace('_', '')}": name for name in _CLOUD_SOURCE}
# Numbers of the source block, which are text in an attribute.
_CLOUD_NUMBERS = frozenset("lsn pos row thread server_id event_serial_no ts_ms ts_us ts_ns ord ssn".split())


@dataclass(frozen=True)
class CloudEvents(CaptureDialect):
    """The dialect: any event of Debezium, whose operation must be in the envelope."""

    name: str = "cloudevents"
    shapes: tuple[frozenset[str], ...] = (frozenset(("specversion", "data", "type")),)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record, not a row of one who stores CloudEvents, is a change of Debezium."""
        return self.shapes[0] <= record.keys() and str(record["type"]).startswith(_CLOUD_TYPE)

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """Debezium's change. Raises UnusableSchema for an event whose operation isn't in the envelope."""
        data = record["data"]
        if isinstance(data, dict) and data.keys() == {"schema", "payload"}:
            data = data["payload"]
        op = record.get(_CLOUD_OP)
        if not isinstance(data, dict) or not isinstance(op, str):
            raise UnusableSchema(
                "The records are CloudEvents of Debezium without the operation or the row",
                next_step="Let the connector write its own envelope or flattened rows (JsonConverter, AvroConverter), "
                "or set extension.attributes.enable",
                column=_CLOUD_OP,
            )
        source = {name: _attribute(name, record[field]) for field, name in _CLOUD_FIELDS.items() if field in record}
        made = change(op, data.get("before"), data.get("after"), source)
        of_mongodb = record.get("type") == "io.debezium.connector.mongodb.datachangeevent"
        if of_mongodb or any(isinstance(made[side], str) for side in ("before", "after")):
            return MONGODB_EVENTS.changes({**made, "updateDescription": data.get("updateDescription")}, reading)
        return [made]


def _attribute(name: str, value: Any) -> Any:
    is_number = name in _CLOUD_NUMBERS and isinstance(value, str) and re.fullmatch("-?[0-9]{1,19}", value)
    return int(value) if is_number else value


TICDC = "TiCDC"
_WHOLE_ROWS = ("NEW_ROW", "NEW_ROW_AND_OLD_VALUES")
_AROUND = (frozenset(("source", "op")), frozenset(("payload",)))
YUGABYTEDB, CASSANDRA = CellsOfColumns(), CellsOfColumns("cassandra", beside=frozenset(("deletion_ts",)))
SCYLLADB = NamedEnvelopes("scylladb", "scylla", _of_scylla)
SPANNER = NamedEnvelopes("spanner", "spanner", _of_spanner)
TICDC_CHANGES = NamedEnvelopes("ticdc", TICDC, _of_ticdc, _AROUND, ("", "payload."))
CLOUD_EVENTS = CloudEvents()
