"""The columns that a merge adds to its frames and drops before it writes.

The columns that are stored beside a source's own are in `sluice.changes.hidden_columns`. A source can't use the prefix
`_sluice_` (`hidden_columns.colliding`), so no name here collides with one of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from sluice.changes import hidden_columns

INEXACT = hidden_columns.INEXACT

SNAPSHOT = "_sluice_snapshot"
SHARED = "_sluice_shared"
SNAPSHOT_ROWS = "_sluice_snapshot_rows"

CHANGES = "_sluice_changes"
RANK = "_sluice_rank"
NEWEST = "_sluice_newest"
INCOMPLETE = "_sluice_incomplete"

KEY_PREFIX = "_sluice_key_"
STORED_POSITION = "_sluice_stored_position"
STORED_OWED = "_sluice_stored_owed"
LATEST = "_sluice_latest"
STORED_PARTITION = "_sluice_stored_partition"
STORED_TIME = "_sluice_stored_time"

WINS = "_sluice_wins"
NEEDS_HISTORY = "_sluice_needs_history"
BELOW_PURGE_FLOOR = "_sluice_below_purge_floor"

IS_STORED = "_sluice_is_stored"
POSITION_ONLY = "_sluice_position_only"
OWED_AT = "_sluice_owed_at"
KNOWN_AT_PREFIX = "_sluice_known_at_"
LIFE_BEGINS_AT = "_sluice_life_begins_at"
LAST_POSITION = "_sluice_last_position"
LAST_EVENT_AT = "_sluice_last_event_at"
LAST_LINEAGE = "_sluice_last_lineage"
LAST_VALUES = "_sluice_last_values"
HAS_VALUES = "_sluice_has_values"
SUPPLIED = "_sluice_supplied"
OWES = "_sluice_owes"

FLOOR = "_sluice_floor"
OWN_FLOOR = "_sluice_own_floor"

CONTENT = "_sluice_content"

VARIES = ""  # the type depends on the table


@dataclass(frozen=True)
class WorkingColumn:
    """One working column: its name, Spark type and meaning, and the modules of this package that set and read it.

    A name that ends with "_" is the prefix of several: one per column of the key, or per column that a change can leave
    unchanged, numbered from 0.
    """

    name: str
    spark_type: str
    meaning: str
    set_by: tuple[str, ...]
    read_by: tuple[str, ...]


_LATEST, _DECIDE, _HISTORY = ("latest",), ("decide",), ("unchanged_values",)
_SHARED, _SHARED_READ = ("shared_keys",), ("shared_keys", *_LATEST)
_ENDS = ("history_table",)

WORKING_COLUMNS: tuple[WorkingColumn, ...] = (
    # Set on every change as it is read.
    WorkingColumn(
        INEXACT,
        "int",
        "how many values have no exact stored form",
        ("normalize", "history_table"),
        (*_LATEST, *_DECIDE),
    ),
    WorkingColumn(
        SNAPSHOT, "bigint", "hashes of the snapshot that read the row and of its values", _SHARED, _SHARED_READ
    ),
    # Set on each key's newest change, and on its other changes where the newest is incomplete.
    WorkingColumn(CHANGES, "bigint", "how many changes of the batch have this key", _LATEST, (*_LATEST, *_DECIDE)),
    WorkingColumn(RANK, "int", "place among the key's changes, newest first, from 1", _LATEST, _LATEST),
    WorkingColumn(NEWEST, "boolean", "is its key's newest change", _LATEST, (*_LATEST, *_DECIDE)),
    WorkingColumn(INCOMPLETE, "boolean", "the key's newest change alone doesn't give its row", _LATEST, _LATEST),
    WorkingColumn(SHARED, "int", "whether rows of one snapshot share the key: surely or maybe", _SHARED, _SHARED_READ),
    WorkingColumn(SNAPSHOT_ROWS, "bigint", "how many rows of snapshots have this key", _SHARED, _SHARED_READ),
    WorkingColumn(
        LATEST,
        "struct<time:bigint,offset:bigint,position:string,partition:int,op:string>",
        "the key's latest change by the source's time, where it is another one than the newest",
        _LATEST,
        _LATEST,
    ),
    # Set where changes meet the stored rows of their keys; null where the table has no such row.
    WorkingColumn(KEY_PREFIX, VARIES, "a column of the key under a name for joins", _LATEST, _LATEST),
    WorkingColumn(
        STORED_POSITION, "string", "the stored row's position", (*_LATEST, *_HISTORY), (*_LATEST, *_DECIDE, *_HISTORY)
    ),
    WorkingColumn(
        STORED_OWED,
        "string",
        "what the stored row owes, as `_sluice_owed` has it",
        (*_LATEST, *_HISTORY),
        (*_LATEST, *_HISTORY),
    ),
    WorkingColumn(
        STORED_PARTITION, "int", "Kafka partition of the change that the stored row is from", _DECIDE, _LATEST
    ),
    WorkingColumn(STORED_TIME, "bigint", "source time of the change that the stored row is from", _DECIDE, _LATEST),
    # Set by the decision; true only for a key's newest change.
    WorkingColumn(WINS, "boolean", "is newer than the stored row and the floors", _LATEST, (*_LATEST, *_DECIDE)),
    WorkingColumn(
        NEEDS_HISTORY, "boolean", "the row follows from the key's whole history", _LATEST, (*_LATEST, *_DECIDE)
    ),
    WorkingColumn(BELOW_PURGE_FLOOR, "boolean", "has no stored row and is not above the purge floor", _LATEST, _DECIDE),
    # Set on the rows of a history, which are changes and stored rows.
    WorkingColumn(IS_STORED, "boolean", "is a stored row, not a change", _HISTORY, _HISTORY),
    WorkingColumn(POSITION_ONLY, "boolean", "adds its position to the history and no values", _HISTORY, _HISTORY),
    WorkingColumn(
        OWED_AT, "map<string,string>", "`_sluice_owed` parsed: column to known-at position", _HISTORY, _HISTORY
    ),
    # Set on the one row per key that a history is aggregated to.
    WorkingColumn(KNOWN_AT_PREFIX, "string", "the newest position with a value of this column", _HISTORY, _HISTORY),
    WorkingColumn(LIFE_BEGINS_AT, "string", "position of the newest creation or deletion", _HISTORY, _HISTORY),
    WorkingColumn(LAST_POSITION, "string", "the highest position", _HISTORY, _HISTORY),
    WorkingColumn(LAST_EVENT_AT, "string", "the highest position that is not POSITION_ONLY", _HISTORY, _HISTORY),
    WorkingColumn(LAST_LINEAGE, VARIES, "lineage columns at the highest position", _HISTORY, _HISTORY),
    WorkingColumn(
        LAST_VALUES, VARIES, "columns that every change has, from the newest that isn't a delete", _HISTORY, _HISTORY
    ),
    WorkingColumn(HAS_VALUES, "boolean", "always true; a field of LAST_LINEAGE and LAST_VALUES", _HISTORY, ()),
    WorkingColumn(SUPPLIED, "boolean", "keeps its position and gained only values that it owed", _HISTORY, _DECIDE),
    WorkingColumn(OWES, "boolean", "still lacks the value of a column", _HISTORY, _DECIDE),
    # Set on the keys whose lives truncates end, and on the changes of these keys.
    WorkingColumn(FLOOR, "string", "position of the truncate that ends the life", _ENDS, _ENDS),
    WorkingColumn(OWN_FLOOR, "string", "position of the truncate that concerns the change", _ENDS, _ENDS),
    # Set on rows that are set aside.
    WorkingColumn(CONTENT, "string", "the row as JSON", ("below_floor",), ("below_floor",)),
)
