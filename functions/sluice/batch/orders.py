"""What orders the changes of a table: refuses objects whose changes would get a wrong place among those it has.

Offsets of records follow from objects' names and the records' places, which a partitioner by field or by the time of
records breaks: consecutive records of a Kafka partition are then in several folders, and an object leaves offsets out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sluice.changes.log_restart import Mark, SeenObject
from sluice.changes.position import ARRIVAL, NAMED, OFFSET_ONLY
from sluice.config.key_pattern import day_named
from sluice.config.table import TableConfig

_BY_LOG = "log"  # or by Kafka offset
_IN_WORDS = {
    ARRIVAL: "when their objects came",
    NAMED: "what their objects' names say",
    _BY_LOG: "positions of a log or offsets",
}
# Folders of times follow each other, and an object in one has consecutive offsets, unless they are of records' times.
_TIMES = re.compile(
    r"partition|.*(?:date|time|year|month|week|day|hour|minute)|(?:.*_)?(?:dt|ds|ts|at|on)|[ymdh]|yyyy|mm|dd|hh",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class OrderMark:
    """What orders the changes that were merged under a generation; `name` is the highest order of objects' names."""

    generation: int
    kind: str
    name: str = ""


def judge_order(
    before: OrderMark | None,
    marks: Mapping[int, Mark],
    seen: Sequence[SeenObject],
    *,
    generation: int,
    rows_compare: bool = True,
) -> tuple[OrderMark | None, dict[str, str]]:
    """The mark after the accepted objects, and why the others (by hash) are parked.

    Positions by objects' times don't compare with those of a log or with offsets: the older change could win for ever.
    Where names begin to say the order, it counts above the times from before. Dates of names in two forms (`20261102`,
    `2026-11-03`) don't compare, either; rows of several sources needn't (`rows_compare`). `marks` tell of a table that
    was merged before this was watched. Objects without any place, of earlier releases, go on.
    """
    kind, name = (before.kind, before.name) if before is not None and before.generation == generation else (None, "")
    if kind is None and any(mark.generation == generation for mark in marks.values()):
        kind = _BY_LOG
    parked: dict[str, str] = {}
    for item in seen:
        own = item.kind if item.kind in (ARRIVAL, NAMED) else _BY_LOG
        if item.highest is None or item.kind == OFFSET_ONLY and item.partition is None:
            continue
        named = item.highest.split(".")[1][1:] if own == NAMED else ""
        if kind is None or (kind, own) == (ARRIVAL, NAMED):
            kind = own
        if own != kind or rows_compare and _misleads(named, name):
            parked[item.object] = (
                f"its changes are ordered by {_IN_WORDS[own]}, and those of the table by {_IN_WORDS[kind]}"
                f"{', in another form' if own == kind else ''}, which don't compare; run `sluice quarantine discard` "
                "for objects that aren't of this table's source, then raise the table's `generation` in tables.yaml "
                "and run `sluice config push`"
            )
        else:
            name = max(name, named)
    return (before if kind is None else OrderMark(generation, kind, name)), parked


def _misleads(name: str, held: str) -> bool:
    """Whether the order of an object's name sorts otherwise than by the days that it and the table's highest name."""
    own, highest = (day_named(order) if order else None for order in (name, held))
    if own is None or highest is None or own[0] == highest[0]:
        return False
    return own[1] < highest[1] if name > held else own[1] >= highest[1]


def fields_of(folders: str) -> tuple[tuple[str, str], ...]:
    """The fields by whose values a sink chose the folders of a key, with these; times and `partition` left out."""
    parts = (folder.partition("=") for folder in folders.split("/") if "=" in folder)
    return tuple((name, value) for name, _, value in parts if not (_TIMES.fullmatch(name) and value[:1].isdigit()))


def split_by(objects: Iterable[tuple[str, int | None]]) -> tuple[str, ...]:
    """The fields by whose values folders split Kafka partitions; `objects` are keys with the partition in their names.

    Empty where none does: each partition's objects have the same values.
    """
    values: dict[int, set[tuple[tuple[str, str], ...]]] = {}
    for key, partition in objects:
        if partition is not None:
            values.setdefault(partition, set()).add(fields_of(key.rpartition("/")[0]))
    split = [variants for variants in values.values() if len(variants) > 1]
    return tuple(sorted({name for variants in split for fields in variants for name, _ in fields}))


SHORT = 8  # digits


def short(text: str) -> str:
    """Eight hexadecimal digits: a hash of a folder or a key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:SHORT]


@dataclass(frozen=True)
class Place:
    """Where an object is: a hash of the values of fields in its folders, and one of the whole of these.

    `apart` is set where rows of other values have other keys, so that their order doesn't matter.
    """

    fields: str
    folder: str
    apart: bool

    @property
    def text(self) -> str:
        """Both hashes, as an OffsetRange keeps them."""
        return self.fields + self.folder


def place_of(key: str, config: TableConfig) -> Place:
    folders = key.rpartition("/")[0]
    fields = fields_of(folders)
    apart = bool(fields) and {config.columns.table_name(name) for name, _ in fields} <= set(config.record_key)
    return Place(short(repr(fields)), short(folders), apart)


def may_be_out_of_order(mine: tuple[Place, int, int], other: tuple[str, int, int]) -> bool:
    """Whether two objects of a Kafka partition may hold changes of one row in an order that their offsets don't tell.

    Each is a place with the first and last offset. Objects that begin with the same offset hold the same records: a
    sink wrote them again. So do objects of one folder that overlap.
    """
    (place, first, last), (there, other_first, other_last) = mine, other
    if place.text == there or first == other_first:
        return False
    if not there.startswith(place.fields):
        return not place.apart
    return first <= other_last and other_first <= last
