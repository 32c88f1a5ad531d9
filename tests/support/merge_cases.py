"""The merge rule as a table of examples: the changes of one row in their batches, and the row that results.

Each line is a row of its own: what its table holds first, what arrives then (batches are parted by `;`), and the row.
`u20:b/B/y` is an update at log position 20 with name b, place B (the partition, where the table has partitions) and
document y; `d20` is a deletion. `-` is null and `~` a value that the change left unchanged. The row `30:b/B/y~20` has
the position 30 and a document that is known at 20, so that a change between the two still supplies it; `~0` is known at
none. `30:deleted` is a deleted row that is kept, `absent` no row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.changes.row_history import Change
from support.builders import change, flattened

COLUMNS = ("name", "place", "doc")
SCHEMA = flattened({"id": ["null", "int"], **dict.fromkeys(COLUMNS, ["null", "string"])})
MARK = "__debezium_unavailable_value"
VALUES = {"-": None, "~": MARK}
BATCH_OFFSETS = 1_000  # between the first offsets of two batches

Example = tuple[str, str, str]

# Whole rows.
WHOLE: dict[str, Example] = {
    "a newer change wins": ("c10:a/A/x", "u20:b/A/y", "20:b/A/y"),
    "an older change loses": ("u20:a/A/x", "u10:b/A/y", "20:a/A/x"),
    "the newest of a batch wins, wherever it stands": ("c10:a/A/x", "u30:c/A/z u20:b/A/y", "30:c/A/z"),
    "a row that is new": ("", "c10:a/A/x", "10:a/A/x"),
    "an update of a row that never came": ("", "u10:a/A/x", "10:a/A/x"),
    "a row without any value": ("", "c10:-/-/-", "10:-/-/-"),
    "a change that comes again": ("c10:a/A/x", "c10:a/A/x", "10:a/A/x"),
    "two changes at one position of the log go by offset": ("c10:a/A/x", "u20:b/A/y u20:c/A/z", "20:c/A/z"),
    "a later offset at the stored position wins": ("c10:a/A/x", "u10:b/A/y", "10:b/A/y"),
    "a row that nothing changes": ("c10:a/A/x", "", "10:a/A/x"),
    "a value becomes null": ("c10:a/A/x", "u20:a/A/-", "20:a/A/-"),
    "a deletion": ("c10:a/A/x", "d20", "20:deleted"),
    "a deletion of a row that never came": ("", "d20", "20:deleted"),
    "an older change brings no deleted row back": ("d20", "u10:a/A/x", "20:deleted"),
    "a deletion that comes late": ("c10:a/A/x", "d25 u20:b/A/y ; u30:c/A/z", "30:c/A/z"),
    "a row that is created again": ("c10:a/A/x", "d20 ; c30:b/A/y", "30:b/A/y"),
    "a row that is deleted and created in one batch": ("c10:a/A/x", "d20 c30:b/A/y", "30:b/A/y"),
    "a row that is created and deleted in one batch": ("", "d30 c20:a/A/x", "30:deleted"),
    "a row that is deleted twice": ("d20", "d30 ; d25", "30:deleted"),
}
# Rows that go to another partition.
MOVES: dict[str, Example] = {
    "a row moves": ("c10:a/A/x", "u20:a/B/x", "20:a/B/x"),
    "a row moves to no partition": ("c10:a/A/x", "u20:a/-/x", "20:a/-/x"),
    "a row moves there and back": ("c10:a/A/x", "u20:a/B/x ; u30:a/A/x", "30:a/A/x"),
    "an older move loses": ("c10:a/A/x", "u30:a/B/x ; u20:a/C/x", "30:a/B/x"),
    "a deleted row is created in another partition": ("c10:a/A/x", "d20 ; c30:a/B/x", "30:a/B/x"),
}
# Changes that leave values unchanged.
PARTIAL: dict[str, Example] = {
    "an unchanged value is the stored one": ("c10:a/A/x", "u20:b/A/~", "20:b/A/x~10"),
    "an unchanged value is that of the batch": ("c10:a/A/x", "u30:c/A/~ u20:b/A/y", "30:c/A/y~20"),
    "order 1 2 3": ("c10:a/A/x", "u20:b/A/y ; u30:c/B/~", "30:c/B/y~20"),
    "order 1 3 2": ("c10:a/A/x", "u30:c/B/~ ; u20:b/A/y", "30:c/B/y~20"),
    "order 2 1 3": ("u20:b/A/y", "c10:a/A/x ; u30:c/B/~", "30:c/B/y~20"),
    "order 2 3 1": ("u20:b/A/y", "u30:c/B/~ ; c10:a/A/x", "30:c/B/y~20"),
    "order 3 1 2": ("u30:c/B/~", "c10:a/A/x ; u20:b/A/y", "30:c/B/y~20"),
    "order 3 2 1": ("u30:c/B/~", "u20:b/A/y ; c10:a/A/x", "30:c/B/y~20"),
    "a value that never comes": ("", "u20:b/A/~", "20:b/A/-~0"),
    "a value that never comes, twice": ("u20:b/A/~", "u30:c/A/~", "30:c/A/-~0"),
    "a value that comes whole": ("u20:b/A/~", "u30:c/A/z", "30:c/A/z"),
    "no value comes across a deletion": ("c10:a/A/x", "d20 c30:b/A/~ ; u15:c/A/z", "30:b/A/-~30"),
    "no value comes across a deletion that comes late": ("c10:a/A/x", "u30:b/A/~ ; d20", "30:b/A/-~20"),
    "no value comes across a creation": ("c10:a/A/x", "c20:b/A/~", "20:b/A/-~20"),
    "a value comes after a deletion": ("c10:a/A/x", "u30:b/A/~ ; d20 ; c25:c/A/y", "30:b/A/y~25"),
    "a deletion owes nothing": ("u20:b/A/~", "d30", "30:deleted"),
    "a row moves with the partition that it owed": ("u30:b/~/x", "u20:a/B/y", "30:b/B~20/x"),
    "several values are known at positions of their own": ("c10:a/A/x", "u20:b/A/~ ; u30:~/~/z", "30:b~20/A~20/z"),
}
# Of a table where a null document in an update says that it is unchanged.
NULLS: dict[str, Example] = {
    "a null keeps the value": ("c10:a/A/x", "u20:b/A/-", "20:b/A/x~10"),
    "nulls in the order 2 3 1": ("u20:b/A/y", "u30:c/B/- ; c10:a/A/x", "30:c/B/y~20"),
    "nulls in the order 3 2 1": ("u30:c/B/-", "u20:b/A/y ; c10:a/A/x", "30:c/B/y~20"),
    "a null of a creation is one": ("c10:a/A/x", "c20:b/A/-", "20:b/A/-"),
}
# The table is emptied at position 50 with the second batch.
TRUNCATED: dict[str, Example] = {
    "a truncate deletes an older row": ("c10:a/A/x", "", "50:deleted"),
    "a truncate leaves a newer row": ("c60:a/A/x", "", "60:a/A/x"),
    "a change older than the truncate loses": ("c10:a/A/x", "u20:b/A/y", "50:deleted"),
    "a change older than the truncate makes no row": ("", "c20:a/A/x ; u30:b/A/y", "absent"),
    "a change newer than the truncate": ("c10:a/A/x", "c55:b/B/y", "55:b/B/y"),
    "a row that is created after the truncate": ("c10:a/A/x", "; c70:b/A/y", "70:b/A/y"),
    "no value comes across a truncate": ("c10:a/A/x", "u65:b/A/~ ; u45:c/A/z", "65:b/A/-~50"),
    "no value comes across a truncate that comes late": ("u60:b/A/~", "; u45:c/A/z", "60:b/A/-~50"),
    "a value comes after the truncate": ("c10:a/A/x", "u65:b/A/~ ; c55:c/A/y", "65:b/A/y~55"),
}
TRUNCATED_AT = 50
# Of a table that ignores deletions. A hidden row owes every column.
IGNORED: dict[str, Example] = {
    "an ignored deletion raises the position": ("c10:a/A/x", "d20", "20:a/A/x"),
    "an older change loses to an ignored deletion": ("c10:a/A/x", "d30 ; u20:b/A/y", "30:a/A/x"),
    "a newer change wins over an ignored deletion": ("c10:a/A/x", "d20 ; u30:b/B/y", "30:b/B/y"),
    "of an unknown row an ignored deletion is hidden": ("", "d20", "20:hidden"),
    "an older change supplies a hidden row": ("d20", "c10:a/A/x", "20:a/A/x"),
    "a newer change makes a hidden row": ("d20", "c30:a/A/x", "30:a/A/x"),
}
# Of such a table whose source is emptied at position 50 with the second batch.
IGNORED_TRUNCATED: dict[str, Example] = {
    "an ignored truncate leaves the row": ("c10:a/A/x", "", "10:a/A/x"),
    "a change older than an ignored truncate": ("c10:a/A/x", "u20:b/A/y", "20:b/A/y"),
    "a change newer than an ignored truncate": ("c10:a/A/x", "u60:b/A/y", "60:b/A/y"),
    "a row that comes with an ignored truncate": ("", "c20:a/A/x", "20:a/A/x"),
    "a row that comes behind an ignored truncate": ("", "; c20:a/A/x", "20:a/A/x"),
    "a value comes across an ignored truncate": ("c10:a/A/x", "u65:b/A/~ ; u45:c/A/z", "65:b/A/z~45"),
}


@dataclass(frozen=True)
class Group:
    """Examples that one table holds side by side: the number of each is the key of its row."""

    examples: Mapping[str, Example]
    settings: Mapping[str, Any] = field(default_factory=dict)
    truncated: bool = False

    @property
    def rows(self) -> dict[str, str]:
        """The row of each example."""
        return {name: row for name, (_, _, row) in self.examples.items()}

    @property
    def rows_at_once(self) -> dict[str, str]:
        """The rows where all changes come in one batch: what a truncate defeats there was never stored."""
        return {name: "absent" if row == f"{TRUNCATED_AT}:deleted" else row for name, row in self.rows.items()}

    def batches(self) -> Iterator[list[dict[str, Any]]]:
        """The changes of each batch, of all examples."""
        texts = [(stored, *changes.split(";")) for stored, changes, _ in self.examples.values()]
        for number in range(max(map(len, texts))):
            made = [
                _change(id, text)
                for id, batches in enumerate(texts)
                for text in (batches[number].split() if number < len(batches) else ())
            ]
            if self.truncated and number == 1:
                made.append(change("t", TRUNCATED_AT, id=None, **dict.fromkeys(COLUMNS)))
            yield made

    def changes_of(self, id: int) -> list[list[Change]]:
        """The changes of a row in each batch, as `row_history` takes them."""
        nulls = self.settings.get("null_is_unchanged", ())
        batches: list[list[Change]] = []
        for number, made in enumerate(self.batches()):
            batches.append([])
            for offset, record in enumerate(made, number * BATCH_OFFSETS):
                if record["id"] == id:
                    left_out = {None, MARK} if record["__op"] == "u" else {MARK}
                    unchanged = frozenset(
                        name for name in COLUMNS if record[name] in (left_out if name in nulls else {MARK})
                    )
                    values = {} if record["__op"] == "d" else {name: record[name] for name in {*COLUMNS} - unchanged}
                    position = f"0000.{record['__lsn']:020d}.{offset:020d}"
                    batches[-1].append(Change(position, record["__op"], record["__op"] == "d", values, unchanged))
        return batches

    def by_name(self, rows: Mapping[int, str]) -> dict[str, str]:
        """The rows of a table by the examples that they are of."""
        assert set(rows) <= set(range(len(self.examples)))
        return {name: rows.get(id, "absent") for id, name in enumerate(self.examples)}


EVERY = Group({**WHOLE, **MOVES, **PARTIAL})
EMPTIED, KEEPING = Group(TRUNCATED, truncated=True), Group(IGNORED, {"delete_mode": "ignore"})
UNCHANGED_NULLS = Group(NULLS, {"null_is_unchanged": ("doc",)})
KEEPING_ALL = Group(IGNORED_TRUNCATED, {"delete_mode": "ignore"}, truncated=True)


def _change(id: int, text: str) -> dict[str, Any]:
    match = re.fullmatch(r"([a-z])(\d+)(?::(.*))?", text)
    assert match, text
    values = [VALUES.get(value, value) for value in (match[3] or "-/-/-").split("/")]
    return change(match[1], int(match[2]), id=id, **dict(zip(COLUMNS, values)))


def row_text(deleted: bool, values: Sequence[str | None], position: str, owed: str | Mapping[str, str] | None) -> str:
    """A row as the examples write it; `owed` may be JSON, as it is stored."""
    places = json.loads(owed or "{}") if isinstance(owed, str) or owed is None else owed
    at = {name: f"~{_log_place(place)}" for name, place in places.items()}
    if deleted and not any(values):
        return f"{_log_place(position)}:{'hidden' if at else 'deleted'}"
    held = "/".join(f"{'-' if value is None else value}{at.get(name, '')}" for name, value in zip(COLUMNS, values))
    return f"{_log_place(position)}:{held}"


def _log_place(position: str) -> int:
    return int(position[5:25] or 0)
