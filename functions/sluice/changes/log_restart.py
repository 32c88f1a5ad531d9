"""Whether a source's log began again lower: judged per Kafka partition from what objects brought, before anything of them is committed.

Whether objects of an append-only table hold the same Kafka records under different keys: by the offsets that their names and lengths give.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sluice.changes.position import MONGODB, MYSQL, OFFSET_ONLY, ORACLE, POSTGRES, SQLSERVER, log_place
from sluice.errors import Overlap

LOG_RESTARTED = "log_restarted"  # the code that objects are parked under
SERVERS_KEPT = 32  # of the ids of servers whose changes were seen

_KINDS = {
    OFFSET_ONLY: "the Kafka offset alone",
    POSTGRES: "PostgreSQL's",
    MYSQL: "MySQL's",
    SQLSERVER: "SQL Server's",
    ORACLE: "Oracle's",
    MONGODB: "MongoDB's",
}
_MIB = 1024**2
_FALL_BYTES = 1024 * _MIB  # of PostgreSQL's log: longer than the log of a transaction that commits late
_LEAST_FALL_BYTES = 16 * _MIB  # one segment of it
_FALL_SCN = 100_000


@dataclass(frozen=True)
class SeenObject:
    """What a read task saw of one object: the Kafka offsets of its first and last record, and its changes' place in the source's log.

    `object` is ObjectId.hash. `highest` is the highest stored position of its changes (None: it has none), `newest_ms` the newest
    source time (epoch ms). `logs` are the base names of MySQL's binlogs and `servers` the ids of the servers that wrote them,
    where the records tell.
    """

    object: str
    key: str
    partition: int | None
    first: int
    last: int
    kind: str
    highest: str | None
    newest_ms: int | None = None
    logs: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mark:
    """The high-water of one Kafka partition of a table: what was merged of it under one generation.

    `restarted_at` is the first Kafka offset that is parked, None while the log goes on.
    """

    generation: int
    offset: int
    kind: str
    highest: str
    newest_ms: int | None = None
    logs: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    restarted_at: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, what is unknown or empty left out."""
        summary = {**asdict(self), "logs": list(self.logs), "servers": list(self.servers)}
        return {name: value for name, value in summary.items() if value is not None and value != []}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Mark:
        """Read what `to_dict` gave."""
        return cls(**{**values, "logs": tuple(values.get("logs", ())), "servers": tuple(values.get("servers", ()))})


@dataclass(frozen=True)
class Judgement:
    """The high-water after the objects that go on, and why which others (by hash) are to be parked."""

    marks: Mapping[int, Mark]
    parked: Mapping[str, str]


def judge(marks: Mapping[int, Mark], seen: Iterable[SeenObject], *, generation: int) -> Judgement:
    """Compare objects with what went before them in their Kafka partition, in the order of their offsets.

    An object is parked when all of it was written to Kafka after everything known of its partition, its changes are
    later by the source's own clock, and yet far lower in its log, or of another binlog or server, or have positions of another kind
    that are lower; and so is whatever follows it there, until the table's generation is raised. What comes late has lower offsets, what comes
    again has no later source time, and a snapshot that is read again stands where the log is by then: none of them is a restart.
    A partition of which nothing is known is compared with one that restarted. (Rule 17.)
    """
    known = {partition: mark for partition, mark in marks.items() if mark.generation == generation}
    waiting: dict[int, list[SeenObject]] = {}
    for item in seen:
        if item.partition is not None and item.highest is not None:
            waiting.setdefault(item.partition, []).append(item)
    parked: dict[str, str] = {}
    for partition in sorted(waiting, key=lambda each: (each not in known, each)):
        elsewhere = (
            None
            if partition in known
            else next((mark for _, mark in sorted(known.items()) if mark.restarted_at is not None), None)
        )
        mark, reasons = _of_partition(
            known.get(partition),
            elsewhere,
            sorted(waiting[partition], key=lambda item: (item.first, item.last, item.object)),
            generation,
        )
        parked.update(reasons)
        if mark is not None:
            known[partition] = mark
    return Judgement(known, parked)


def began_again(marks: Mapping[int, Mark], partition: int | None, offset: int | None, *, generation: int) -> bool:
    """Whether an object that nobody has read yet is known to be of a log that began again: it follows what is parked of its Kafka partition."""
    mark = marks.get(partition) if partition is not None else None
    return (
        mark is not None
        and mark.generation == generation
        and mark.restarted_at is not None
        and offset is not None
        and offset >= mark.restarted_at
    )


def _of_partition(
    mark: Mark | None, elsewhere: Mark | None, items: Sequence[SeenObject], generation: int
) -> tuple[Mark | None, dict[str, str]]:
    reasons: dict[str, str] = {}
    for at, item in enumerate(items):
        if mark is not None and mark.restarted_at is not None and item.first >= mark.restarted_at:
            reasons[item.object] = _describe(
                f"everything from offset {mark.restarted_at} of Kafka partition {item.partition} is of a log that began again"
            )
            continue
        before = mark if mark is not None else elsewhere
        if before is not None and (mark is None or item.first > mark.offset):
            why = _restart(before, items[at:])
            if why is not None:
                reasons[item.object] = _describe(
                    f"Kafka partition {item.partition} at offset {item.first} (after {before.offset}): {why}"
                )
                mark = replace(before, restarted_at=item.first)
                continue
        mark = _advanced(mark, item, generation)
    return mark, reasons


def _describe(what: str) -> str:
    return f"{what}; raise this table's `generation` in tables.yaml and run `sluice config push`, after a `sluice quarantine discard` of what isn't of this table's source"


def _restart(mark: Mark, items: Sequence[SeenObject]) -> str | None:
    """Why the first of these objects, in the order of their offsets, is of another log; None when it isn't."""
    item = items[0]
    assert item.highest is not None
    if mark.kind != item.kind:
        # The connector tells other fields. What two kinds of positions come to says nothing, but those that are written later must not be lower.
        if item.highest > mark.highest:
            return None
        return f"the records' positions are {_KINDS.get(item.kind, item.kind)} and were {_KINDS.get(mark.kind, mark.kind)}, which don't compare"
    new_logs = sorted(set(item.logs) - set(mark.logs))
    if mark.logs and new_logs:
        return f"the binlog is called {new_logs[0][:100]!r} and was {', '.join(mark.logs)[:100]!r}"
    if mark.servers and item.servers and not set(mark.servers) & set(item.servers):
        return f"the changes are of server {item.servers[0][:40]} and were of {', '.join(mark.servers)[:100]}"
    if (
        mark.newest_ms is None
        or item.newest_ms is None
        or item.newest_ms <= mark.newest_ms
        or not _far_below(mark, item)
    ):
        return None
    # A long transaction's rows come together when it commits, from far back in PostgreSQL's log: what follows them doesn't.
    if item.kind == POSTGRES and not all(_far_below(mark, later) for later in items[1:] if later.first > mark.offset):
        return None
    return f"its changes are later and stand at {item.highest.partition('.')[2]} in the source's log, those before at {mark.highest.partition('.')[2]}"


def _far_below(mark: Mark, item: SeenObject) -> bool:
    if item.kind != mark.kind or item.highest is None:
        return False
    before, now = log_place(mark.kind, mark.highest), log_place(item.kind, item.highest)
    if before is None or now is None:
        return False
    return before - now >= _far(mark.kind, before)


def _far(kind: str, before: int) -> int:
    """How far below a place another must be to be of another log.

    Only PostgreSQL's rows don't stand in the order of their commits: a row is as far back as its transaction is long. The
    others' logs never fall at all but where they began again.
    """
    if kind == POSTGRES:
        return max(_LEAST_FALL_BYTES, min(_FALL_BYTES, before // 2))
    return {MYSQL: 1, SQLSERVER: 1, ORACLE: _FALL_SCN}[kind]


def _advanced(mark: Mark | None, item: SeenObject, generation: int) -> Mark:
    """The high-water after an object that goes on."""
    assert item.highest is not None
    if mark is None or (mark.kind != item.kind and item.last > mark.offset):
        return Mark(
            generation, item.last, item.kind, item.highest, item.newest_ms, item.logs, item.servers[:SERVERS_KEPT]
        )
    if mark.kind != item.kind:
        return mark
    times = [each for each in (mark.newest_ms, item.newest_ms) if each is not None]
    return replace(
        mark,
        offset=max(mark.offset, item.last),
        highest=max(mark.highest, item.highest),
        newest_ms=max(times, default=None),
        logs=mark.logs or item.logs,
        servers=tuple(sorted({*mark.servers, *item.servers}))[:SERVERS_KEPT],
    )


RANGES_KEPT = 256  # the newest of a table: what a sink writes again after a crash, it wrote shortly before


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of one object that was merged. Folder and key are kept as hashes of eight hexadecimal digits."""

    partition: int
    folder: str
    key: str
    first: int
    last: int

    def to_list(self) -> list[Any]:
        """Plain values."""
        return [self.partition, self.folder, self.key, self.first, self.last]


def ranges_of(values: Iterable[Sequence[Any]]) -> tuple[OffsetRange, ...]:
    """Read what `to_list` gave."""
    return tuple(OffsetRange(*value) for value in values)


def overlapping(
    ranges: Sequence[OffsetRange], seen: Iterable[SeenObject]
) -> tuple[tuple[OffsetRange, ...], dict[str, Overlap]]:
    """The ranges after the objects that go on, newest last, and why which others (by hash) don't. `seen` is in the order of admission.

    Only objects of one folder are compared: a partitioner that sorts records into folders takes them from among each
    other, and a name and a count then span offsets that lie in other folders. The records that a sink left out make a
    range shorter than it is and never longer, so objects that share no record don't overlap. (Rule 16.)
    """
    known = list(ranges)
    refused: dict[str, Overlap] = {}
    for item in seen:
        if item.partition is None:
            continue
        folder = item.key.rpartition("/")[0]
        mine = OffsetRange(item.partition, _short(folder), _short(item.key), item.first, item.last)
        other = next((each for each in reversed(known) if _overlap(each, mine)), None)
        if other is not None:
            refused[item.object] = Overlap(
                f"Offsets {mine.first} to {mine.last} of Kafka partition {mine.partition} overlap {other.first} to {other.last}, which another object of the folder brought",
                offsets=f"{mine.first}-{mine.last}",
                other=f"{other.first}-{other.last}",
            )
        else:
            known.append(mine)
    return tuple(known[-RANGES_KEPT:]), refused


def _overlap(one: OffsetRange, other: OffsetRange) -> bool:
    same_place = (one.partition, one.folder) == (other.partition, other.folder)
    return same_place and one.key != other.key and one.first <= other.last and other.first <= one.last


def _short(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
