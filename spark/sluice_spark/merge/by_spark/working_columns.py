"""The columns that a merge adds to its frames and drops before it writes.

The columns that are stored beside a source's own are in `sluice.changes.hidden_columns`. A source can't use the prefix
`_sluice_` (`hidden_columns.colliding`), so no name here collides with one of its columns. A name that ends with "_" is
the prefix of several: one per column of the key, or per column that a change can leave unchanged, numbered from 0.
"""

from __future__ import annotations

from sluice.changes import hidden_columns

# Set on every change as it is read.
INEXACT = hidden_columns.INEXACT  # int: how many values have no exact stored form
SNAPSHOT = "_sluice_snapshot"  # bigint: hashes of the snapshot that read the row and of its values

# Set on each key's newest change, and on its other changes where the newest is incomplete.
CHANGES = "_sluice_changes"  # bigint: how many changes of the batch have this key
RANK = "_sluice_rank"  # int: place among the key's changes, newest first, from 1
NEWEST = "_sluice_newest"  # boolean: is its key's newest change
INCOMPLETE = "_sluice_incomplete"  # boolean: the key's newest change alone doesn't give its row
SHARED = "_sluice_shared"  # int: whether rows of one snapshot share the key: surely or maybe
SNAPSHOT_ROWS = "_sluice_snapshot_rows"  # bigint: how many rows of snapshots have this key
LATEST = "_sluice_latest"  # struct: the latest change by the source's time, where it is another one than the newest

# Set where changes meet the stored rows of their keys; null where the table has no such row.
KEY_PREFIX = "_sluice_key_"  # a column of the key under a name for joins
STORED_POSITION = "_sluice_stored_position"  # string
STORED_OWED = "_sluice_stored_owed"  # string, as `_sluice_owed` has it
STORED_PARTITION = "_sluice_stored_partition"  # int: Kafka partition of the change that the stored row is from
STORED_TIME = "_sluice_stored_time"  # bigint: source time of this change

# Set by the decision; true only for a key's newest change.
WINS = "_sluice_wins"  # boolean: is newer than the stored row and the floors
NEEDS_HISTORY = "_sluice_needs_history"  # boolean: the row follows from the key's whole history
BELOW_PURGE_FLOOR = "_sluice_below_purge_floor"  # boolean: has no stored row and is not above the purge floor

# Set on the rows of a history, which are changes and stored rows.
IS_STORED = "_sluice_is_stored"  # boolean: is a stored row, not a change
POSITION_ONLY = "_sluice_position_only"  # boolean: adds its position to the history and no values
OWED_AT = "_sluice_owed_at"  # map<string,string>: `_sluice_owed` parsed: column to known-at position

# Set on the one row per key that a history is aggregated to.
KNOWN_AT_PREFIX = "_sluice_known_at_"  # string: the newest position with a value of this column
LIFE_BEGINS_AT = "_sluice_life_begins_at"  # string: position of the newest creation or deletion
LAST_POSITION = "_sluice_last_position"  # string: the highest position
LAST_EVENT_AT = "_sluice_last_event_at"  # string: the highest position that is not POSITION_ONLY
LAST_LINEAGE = "_sluice_last_lineage"  # struct: lineage columns at the highest position
LAST_VALUES = "_sluice_last_values"  # struct: columns that every change has, from the newest that isn't a delete
HAS_VALUES = "_sluice_has_values"  # boolean: always true; a field of LAST_LINEAGE and LAST_VALUES
SUPPLIED = "_sluice_supplied"  # boolean: keeps its position and gained only values that it owed
OWES = "_sluice_owes"  # boolean: still lacks the value of a column

# Set on the keys whose lives truncates end, and on the changes of these keys.
FLOOR = "_sluice_floor"  # string: position of the truncate that ends the life
OWN_FLOOR = "_sluice_own_floor"  # string: position of the truncate that concerns the change

# Set on rows that are set aside.
CONTENT = "_sluice_content"  # string: the row as JSON
