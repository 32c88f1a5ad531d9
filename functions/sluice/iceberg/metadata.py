"""The metadata of an Iceberg table beside a Hudi table: one snapshot for each commit of Hudi's that was followed.

A snapshot's id is the number of the commit's instant, so both formats name a state alike. Snapshots that can't be read
any more leave the metadata: their files are about to be cleaned away, or their commit was undone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.hudi.timeline import CLEAN, COMPLETED, Timeline, instant_ms
from sluice.iceberg.columns import NAME_MAPPING, IcebergColumns

FOLDER = ".hoodie/iceberg"  # no reader of Hudi tables or of plain Parquet looks there
METADATA = "metadata"  # below the table's location, as readers of a path expect
VERSION_HINT = "version-hint.text"
INSTANT, SUPERSEDED, CLEANED, TABLE = "sluice.instant", "sluice.superseded", "sluice.cleaned", "sluice.table"

LIST, FILES, ROWS_DELETED = "snap", "files", "deletes"
_DELETES_END = ".deletes.parquet"

MOST_SNAPSHOTS = 100
LEAST_AGE_MS = 3_600_000  # a reader may hold metadata for so long

Json = Mapping[str, Any]


def metadata_name(version: int) -> str:
    """The name of a version's metadata file, by which readers of a path find it."""
    return f"v{version}.metadata.json"


def version_of(name: str) -> int | None:
    """The version of a metadata file's name; None for any other file."""
    digits = name[1:].partition(".")[0]
    return int(digits) if digits.isdigit() and name == metadata_name(int(digits)) else None


def snapshot_file(kind: str, instant: str, version: int) -> str:
    """The name of a file that only the snapshot of a version names: LIST, or a manifest of FILES or ROWS_DELETED."""
    return f"{kind}-{instant}-{version}.avro"


def deletes_file(stem: str) -> str:
    """The name of a base file's position deletes, by its own without ending; Hudi takes none of these for its own."""
    return f"{stem}{_DELETES_END}"


def unnamed(names: Iterable[str], metadata: Json, stems: Collection[str]) -> list[str]:
    """The files of the metadata folder that neither this metadata needs, nor a reader that holds an older version.

    `stems` are the names of the table's base files, older ones too, without ending.
    """
    versions = {_version_in(str(snapshot["manifest-list"])) for snapshot in metadata["snapshots"]}
    gone = []
    for name in names:
        version = version_of(name)
        if (
            (version is not None and version < min(versions))
            or (name.endswith(".avro") and _version_in(name) not in versions)
            or (name.endswith(_DELETES_END) and name[: -len(_DELETES_END)] not in stems)
        ):
            gone.append(name)
    return gone


def _version_in(name: str) -> int:
    return int(name.rpartition("-")[2].partition(".")[0])


def instant_shown(metadata: Json | None) -> str | None:
    """The instant of the Hudi commit whose rows the current snapshot has; None without a snapshot."""
    snapshot = current_snapshot(metadata)
    return None if snapshot is None else str(snapshot["summary"][INSTANT])


def is_up_to_date(metadata: Json | None, timeline: Timeline) -> bool:
    """Whether the newest commit is shown, and every snapshot has its files as far as the timeline tells."""
    newest = timeline.newest
    if metadata is None or newest is None or instant_shown(metadata) != newest.time:
        return False
    return _newest_cleaning(timeline) <= str(metadata["properties"].get(CLEANED, ""))


def current_snapshot(metadata: Json | None) -> Json | None:
    if metadata is None or not metadata["snapshots"]:
        return None
    snapshot: Json = metadata["snapshots"][-1]
    return snapshot


@dataclass(frozen=True)
class NextSnapshot:
    """A snapshot to come: the commit's instant, the URI of its manifest list, and its counts by Iceberg's names."""

    instant: str
    manifest_list: str
    operation: str
    counts: Mapping[str, int]


def new_metadata(location: str, uuid: str, table: str) -> Json:
    """The metadata of a table without a snapshot."""
    return {
        "format-version": 2,
        "table-uuid": uuid,
        "location": location,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": -1,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        # Iceberg's own expiry would delete files that Hudi needs.
        "properties": {TABLE: table, "gc.enabled": "false", NAME_MAPPING: "[]"},
        "snapshots": [],
    }


def with_snapshot(
    before: Json, made: NextSnapshot, columns: IcebergColumns, *, timeline: Timeline, now_ms: int, complete: bool
) -> Json:
    """The metadata with one more snapshot, the current one.

    `complete`: every file of the snapshot before is still there.
    """
    schemas, schema_id = _with_schema(before, columns)
    older = () if columns.replaced else _still_readable(before, made.instant, timeline, complete=complete)
    sequence = before["last-sequence-number"] + 1
    snapshot = {
        "snapshot-id": int(made.instant),
        **({"parent-snapshot-id": older[-1]["snapshot-id"]} if older else {}),
        "sequence-number": sequence,
        "timestamp-ms": instant_ms(made.instant),
        "manifest-list": made.manifest_list,
        "schema-id": schema_id,
        "summary": {
            "operation": made.operation,
            INSTANT: made.instant,
            SUPERSEDED: _superseded(older, timeline),
            **{name: str(count) for name, count in made.counts.items()},
        },
    }
    metadata = {
        **before,
        "last-sequence-number": sequence,
        "last-column-id": columns.last_id,
        "current-schema-id": schema_id,
        "schemas": schemas,
        "properties": {
            **before["properties"],
            NAME_MAPPING: columns.mapping_text,
            CLEANED: max(before["properties"].get(CLEANED, ""), _newest_cleaning(timeline)),
        },
    }
    return _with_snapshots(metadata, _few([*older, snapshot], now_ms))


def before_cleaning(before: Json, *, instant: str, horizon: str) -> Json:
    """The metadata for the time from a cleaning at `instant` on, which keeps what is read as of `horizon` or later."""
    snapshots = before["snapshots"]
    retained = [
        snapshot for snapshot, later in zip(snapshots, snapshots[1:]) if str(later["summary"][SUPERSEDED]) > horizon
    ]
    metadata = {**before, "properties": {**before["properties"], CLEANED: instant}}
    return _with_snapshots(metadata, [*retained, *snapshots[-1:]])


def _with_schema(before: Json, columns: IcebergColumns) -> tuple[Sequence[Json], int]:
    schemas: Sequence[Json] = before["schemas"]
    for schema in schemas:
        if list(schema["fields"]) == list(columns.fields):
            return schemas, int(schema["schema-id"])
    schema_id = max((int(schema["schema-id"]) for schema in schemas), default=-1) + 1
    return [*schemas, {"type": "struct", "schema-id": schema_id, "fields": list(columns.fields)}], schema_id


def _still_readable(before: Json, instant: str, timeline: Timeline, *, complete: bool) -> Sequence[Json]:
    """The snapshots from before an instant that neither an undone commit nor an unseen cleaning has taken files of."""
    snapshots = [snapshot for snapshot in before["snapshots"] if snapshot["summary"][INSTANT] < instant]
    undone = list(filter(timeline.lacks, (snapshot["summary"][INSTANT] for snapshot in before["snapshots"])))
    snapshots = [snapshot for snapshot in snapshots if snapshot["summary"][INSTANT] < min(undone, default="~")]
    with_last = len(snapshots) == len(before["snapshots"])
    if with_last and not complete:
        return ()
    if _newest_cleaning(timeline) > before["properties"].get(CLEANED, ""):
        return snapshots[-1:] if with_last else ()
    return snapshots


def _superseded(older: Sequence[Json], timeline: Timeline) -> str:
    """The instant of the commit after the newest older snapshot; its own where the timeline doesn't say."""
    if not older:
        return ""
    last = str(older[-1]["summary"][INSTANT])
    return timeline.after(last)[0].time if timeline.holds(last) else last


def _newest_cleaning(timeline: Timeline) -> str:
    return max(
        (item.time for item in timeline.instants if item.action == CLEAN and item.state == COMPLETED), default=""
    )


def _few(snapshots: Sequence[Json], now_ms: int) -> Sequence[Json]:
    """The newest snapshots, and those that a reader may have begun with."""
    first = max(0, len(snapshots) - MOST_SNAPSHOTS)
    young = (place for place, snapshot in enumerate(snapshots) if snapshot["timestamp-ms"] > now_ms - LEAST_AGE_MS)
    return snapshots[min(first, next(young, first)) :]


def _with_snapshots(metadata: Json, snapshots: Sequence[Json]) -> Json:
    """The metadata with these snapshots alone, and the schemas that they need. The first has no parent then."""
    ids = {snapshot["snapshot-id"] for snapshot in snapshots}
    trimmed = [
        {name: value for name, value in snapshot.items() if name != "parent-snapshot-id" or value in ids}
        for snapshot in snapshots
    ]
    used = {metadata["current-schema-id"], *(snapshot["schema-id"] for snapshot in snapshots)}
    current = trimmed[-1]["snapshot-id"]
    return {
        **metadata,
        "last-updated-ms": trimmed[-1]["timestamp-ms"],
        "schemas": [schema for schema in metadata["schemas"] if schema["schema-id"] in used],
        "current-snapshot-id": current,
        "refs": {"main": {"snapshot-id": current, "type": "branch"}},
        "snapshots": trimmed,
        "snapshot-log": [
            {"timestamp-ms": snapshot["timestamp-ms"], "snapshot-id": snapshot["snapshot-id"]} for snapshot in trimmed
        ],
    }
