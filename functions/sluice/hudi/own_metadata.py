"""What Sluice keeps in a Hudi table: keys of commit metadata, and properties of the table's own file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from sluice.changes.hidden_columns import NAMES
from sluice.changes.source_tables import Floors

# Keys of a commit's extra metadata, into which Hudi copies every write option with this prefix.
METADATA_PREFIX = "sluice."
BATCH_KEY, TABLE_KEY, RUN_KEY = "sluice.batch", "sluice.table", "sluice.run"
ATTEMPT_KEY = "sluice.attempt"  # names one merge of the part; what it set aside is under the same name
ROWS_KEY = "sluice.rows_before"  # rows of the table, deleted rows included

# What a commit removed of a forgotten row. Not the name of a property: Hudi compares write options with those.
FORGOTTEN_KEY = "sluice.forgotten_row"

# Properties in the table's own file live as long as the table; commit metadata goes when its commit is archived.
FLOOR_PROPERTY = "sluice.truncated_at"  # `sluice.changes.source_tables.Floors`
PURGED_PROPERTY = "sluice.purged_below"  # the highest position of a row that was purged, or is about to be
PURGED_PARTITION_PROPERTY = "sluice.purged_partition"  # Kafka partition of that position, where it is only an offset
WIDENED_PROPERTY = "sluice.widened"  # which columns became wider, and since when (`with_widened`)
UNPURGED_PROPERTY = "sluice.purging"  # log files hold purged rows: compaction must precede the next write
FORGOTTEN_PROPERTY = "sluice.forgotten"  # marks of forgotten rows (`sluice.changes.forgotten`)

_OF_PURGES = (PURGED_PROPERTY, PURGED_PARTITION_PROPERTY, UNPURGED_PROPERTY)
_PROPERTIES = frozenset((*_OF_PURGES, FLOOR_PROPERTY, WIDENED_PROPERTY, FORGOTTEN_PROPERTY))
_PURGED_OF_GENERATION = f"{METADATA_PREFIX}purged."  # and the generation: of the commit of a purge

# The note of a table whose columns never changed. A table without a note is of a release that wrote none.
NONE_WIDENED = "{}"
# Types to which a column can be widened. A column of any other type always had it.
_WIDER = re.compile(r"(array<)*(bigint|double|decimal\(\d+,\d+\))>*")


def commit_metadata(
    *, batch: str, table: str, run: str, attempt: str | None = None, rows_before: int | None = None
) -> dict[str, str]:
    """Write options that store a commit's origin in it; a later run finds the batch on the timeline by them."""
    return {
        "hoodie.datasource.write.commitmeta.key.prefix": METADATA_PREFIX,
        BATCH_KEY: batch,
        TABLE_KEY: table,
        RUN_KEY: run,
        **({} if attempt is None else {ATTEMPT_KEY: attempt}),
        **({} if rows_before is None else {ROWS_KEY: str(rows_before)}),
    }


def stored_metadata(options: Mapping[str, str]) -> dict[str, str]:
    """The extra metadata that Hudi's data source stores in a commit of these write options."""
    return {name: value for name, value in options.items() if name.startswith(METADATA_PREFIX)}


def purge_metadata(table: str, positions: Mapping[int, str]) -> dict[str, str]:
    """Write options that store the highest purged position, by generation, in a purge's commit."""
    purged = {f"{_PURGED_OF_GENERATION}{generation}": position for generation, position in positions.items()}
    return {"hoodie.datasource.write.commitmeta.key.prefix": METADATA_PREFIX, TABLE_KEY: table, **purged}


def copied_metadata(
    *, widened: str | None, forgotten: str | None, floors: Floors, purged: str | None, purged_partition: int | None
) -> dict[str, str]:
    """The table's own properties as Hudi's data source copies them into a commit, for commits that it doesn't make.

    Lost properties are restored from commits. UNPURGED_PROPERTY is not among them: such a table is left to the data
    source.
    """
    values = {
        WIDENED_PROPERTY: widened,
        FORGOTTEN_PROPERTY: forgotten,
        FLOOR_PROPERTY: floors.to_text() if floors else None,
        PURGED_PROPERTY: purged,
        PURGED_PARTITION_PROPERTY: None if purged_partition is None else str(purged_partition),
    }
    return {name: value for name, value in values.items() if value is not None}


def kept_in_commits(commits: Iterable[Mapping[str, str]], floors: Mapping[str, str]) -> dict[str, str]:
    """Sluice's properties of a table as its active commits have them, by their extra metadata, oldest first.

    `floors` are the highest purged positions by generation, of the ledger.
    """
    of_commits = [
        {
            **{name: value for name, value in extra.items() if name in _PROPERTIES},
            **_purged(value for name, value in extra.items() if name.startswith(_PURGED_OF_GENERATION)),
        }
        for extra in commits
    ]
    return later_of([*of_commits, _purged(floors.values())])


def _purged(positions: Iterable[str]) -> dict[str, str]:
    highest = max(positions, default="")
    return {PURGED_PROPERTY: highest} if highest else {}


def later_of(all_properties: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Sluice's properties of a table from several sources, the oldest first: of floors the highest, and every mark."""
    merged: dict[str, str] = {}
    marks: dict[str, str] = {}
    for properties in all_properties:
        purged, before = properties.get(PURGED_PROPERTY, ""), merged.get(PURGED_PROPERTY, "")
        if purged > before:  # its Kafka partition is that of this position
            merged.pop(PURGED_PARTITION_PROPERTY, None)
        for name, value in properties.items():
            if name == FLOOR_PROPERTY:
                merged[name] = Floors.from_text(merged.get(name), "").joined(Floors.from_text(value, "")).to_text()
            elif name == PURGED_PROPERTY:
                merged[name] = max(value, merged.get(name, ""))
            elif name != PURGED_PARTITION_PROPERTY or purged >= before:
                merged[name] = value
        for key, position in json.loads(properties.get(FORGOTTEN_PROPERTY) or "{}").items():
            marks[key] = max(position, marks.get(key, ""))
    return {**merged, **({FORGOTTEN_PROPERTY: json.dumps(marks, sort_keys=True)} if marks else {})}


def forgotten_metadata(table: str, key: str, *, rows: int, files: int) -> dict[str, str]:
    """Write options that store, in the commit that forgets a row, the hash of its key and what was removed."""
    return {**purge_metadata(table, {}), FORGOTTEN_KEY: json.dumps({"key": key, "rows": rows, "files": files})}


def forgotten_counts(noted: str | None, key: str) -> tuple[int, int] | None:
    """Rows and files of a commit that forgot this key, of its FORGOTTEN_KEY; None for any other commit."""
    counts = json.loads(noted) if noted else {}
    return (int(counts["rows"]), int(counts["files"])) if counts.get("key") == key else None


def with_widened(noted: str | None, columns: Sequence[str], *, newest: str) -> str | None:
    """The table's note once `columns` are widened; `newest` is its newest instant before that.

    None where there is no note: earlier widenings aren't known, and a note would deny them.
    """
    if noted is None:
        return None
    return json.dumps({**_instants(noted), **dict.fromkeys(columns, newest)}, sort_keys=True)


def are_as_stored(noted: str | None, types: Mapping[str, str], *, oldest_file: str) -> bool:
    """Whether columns (name -> Spark's type name in the table's schema) have that type in every file.

    `oldest_file` is the instant of the commit that wrote the oldest file. Files written after a column became wider
    have the wider type.
    """
    if noted is None:
        return not any(_WIDER.fullmatch(kind) for name, kind in types.items() if name not in NAMES)
    return all(oldest_file > instant for name, instant in _instants(noted).items() if name in types)


def _instants(noted: str) -> dict[str, str]:
    return {str(name): str(instant) for name, instant in json.loads(noted).items()}
