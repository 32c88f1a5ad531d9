"""Detects that a source's log restarted at a lower position, per Kafka partition, before any object is committed."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from itertools import chain
from typing import Any

from sluice.changes.position import (
    AMONG_TIES,
    MONGODB,
    MYSQL,
    NUMBER,
    OFFSET_ONLY,
    ORACLE,
    POSTGRES,
    SQLSERVER,
    log_place,
)

LOG_RESTARTED = "log_restarted"  # the code under which objects are parked
SERVERS_KEPT = 32  # ids of servers whose changes were seen
MAX_NAMES = 16  # of binlogs, of servers and of source tables, of one object
LOGS_KEPT = 64  # of a Kafka partition, those with the newest changes

_KINDS = {
    OFFSET_ONLY: "the Kafka offset alone",
    POSTGRES: "PostgreSQL's",
    MYSQL: "MySQL's",
    SQLSERVER: "SQL Server's",
    ORACLE: "Oracle's",
    MONGODB: "MongoDB's",
    NUMBER: "the numbers of commits",
}
_TIE_AND_NUMBER = AMONG_TIES[:-1] + r"\.[0-9]+$"
_MIB = 1024**2
_FALL_BYTES = 1024 * _MIB  # of PostgreSQL's log: more than a long transaction writes before it commits
_LEAST_FALL_BYTES = 16 * _MIB  # one segment of it
_FALL_SCN = 100_000
_TOPIC = 10**9  # more than any Kafka partition in a name
BY_TIME = -1  # stands for the partition of objects whose names have no offset: their time in S3 does for it (epoch ms)
UNNAMED = -2  # stands for the partition of objects whose names have an offset and no partition
LOGS = (POSTGRES, MYSQL, SQLSERVER, ORACLE)  # whose places tell a fall


@dataclass(frozen=True)
class SeenObject:
    """An object as a read task found it: the Kafka offsets of its first and last record, and its place in the log.

    `object` is ObjectId.hash. `highest` is the highest stored position of its changes, None without one; `newest_ms`
    the newest source time (epoch ms). `logs` are the base names of MySQL's binlogs and `servers` the ids of the servers
    that wrote them, if the records hold these. `unexpected` counts rows that were merged though they aren't as the
    table's `expect` says, by column and rule. `changes` counts the rows that can be merged. `sample` is a hash of the
    first record; None where a log orders the changes, of a record that can't be read, and of an object that came again.
    `log` names the source's server and database, where the table's key has them; "" for several. `source_tables` are
    those of its changes, where they name them, sorted: a few of them. `topic` is the object's. `places` are the highest
    places of each form that the columns of the rule's `position` gave its rows, by column, but for columns with units.
    `units` say what the stored values of columns count, where the type doesn't (`meaning.stored_unit`), sorted.
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
    unexpected: tuple[tuple[str, int], ...] = ()
    changes: int = 0
    sample: str | None = None
    log: str | None = None
    source_tables: tuple[str, ...] = ()
    topic: str = ""
    places: tuple[tuple[str, ...], ...] = ()
    units: tuple[tuple[str, str], ...] = ()


def joined(pieces: Sequence[SeenObject]) -> SeenObject:
    """An object as it was found, of its pieces in order."""
    if len(pieces) == 1:
        return pieces[0]
    unexpected: Counter[str] = Counter()
    for piece in pieces:
        unexpected.update(dict(piece.unexpected))
    furthest = max(pieces, key=lambda piece: piece.highest or "")
    named = {piece.log for piece in pieces} - {None}
    return replace(
        pieces[0],
        partition=pieces[0].partition if len({piece.partition for piece in pieces}) == 1 else None,
        first=min(piece.first for piece in pieces),
        sample=pieces[0].sample if pieces[0].first == min(piece.first for piece in pieces) else None,
        last=max(piece.last for piece in pieces),
        kind=furthest.kind,
        highest=furthest.highest,
        newest_ms=max((piece.newest_ms for piece in pieces if piece.newest_ms is not None), default=None),
        logs=_together(piece.logs for piece in pieces),
        servers=_together(piece.servers for piece in pieces),
        unexpected=tuple(sorted(unexpected.items())),
        changes=sum(piece.changes for piece in pieces),
        log=named.pop() if len(named) == 1 else "" if named else None,
        source_tables=_together(piece.source_tables for piece in pieces),
        units=tuple(sorted({unit for piece in pieces for unit in piece.units})),
        places=tuple(
            tuple(sorted({place for places in of_column for place in places}))
            for of_column in zip(*(piece.places for piece in pieces))
        ),
    )


def _together(texts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted(set(chain.from_iterable(texts)))[:MAX_NAMES])


def watched_partition(partition: int | None, topic: str, own_topic: str) -> int | None:
    """The number by which a table's Kafka partitions are watched: of its own topic Kafka's, of another a higher one."""
    if partition is None or topic in ("", own_topic):
        return partition
    return partition + _TOPIC * (1 + int(hashlib.sha256(topic.encode()).hexdigest()[:10], 16))


def topic_of(partition: int) -> int:
    """The number of the topic of a watched Kafka partition."""
    return (partition - UNNAMED) // _TOPIC


def partition_text(partition: int | None) -> str:
    """A watched Kafka partition for people."""
    return f"{(partition or 0) % _TOPIC}{' of another topic' if (partition or 0) >= _TOPIC else ''}"


def is_by_time(partition: int | None) -> bool:
    """Whether a watched partition is BY_TIME, of any topic."""
    return partition is not None and partition % _TOPIC == BY_TIME % _TOPIC


def is_unnamed(partition: int | None) -> bool:
    """Whether a watched partition is UNNAMED, of any topic."""
    return partition is not None and partition % _TOPIC == UNNAMED % _TOPIC


@dataclass(frozen=True)
class Mark:
    """The high-water mark of one Kafka partition: the furthest that was merged of it under one generation.

    `restarted_at` is the first parked Kafka offset, None unless the log restarted, and `fallen` the highest position
    from there on. `several`: the partition has the changes of several logs, which nothing names. `apart` has the marks
    of the logs that its objects name.
    """

    generation: int
    offset: int
    kind: str
    highest: str
    newest_ms: int | None = None
    logs: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    restarted_at: int | None = None
    fallen: str | None = None
    several: bool | None = None
    apart: Mapping[str, Mark] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values without those that are unknown or empty."""
        summary = {item.name: getattr(self, item.name) for item in fields(self)}
        summary["apart"] = {log: mark.to_dict() for log, mark in self.apart.items()}
        summary.update(logs=list(self.logs), servers=list(self.servers))
        return {name: value for name, value in summary.items() if value is not None and value not in ([], {})}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Mark:
        apart = {log: cls.from_dict(mark) for log, mark in values.get("apart", {}).items()}
        lists = {name: tuple(values.get(name, ())) for name in ("logs", "servers")}
        values_read = {item.name: values[item.name] for item in fields(cls) if item.name in values}
        return cls(**{**values_read, **lists, "apart": apart})  # what a later release adds is left out


@dataclass(frozen=True)
class Judgement:
    """The marks after the accepted objects, and the objects (by hash) to park, with the reason."""

    marks: Mapping[int, Mark]
    parked: Mapping[str, str]


def judge(marks: Mapping[int, Mark], seen: Iterable[SeenObject], *, generation: int) -> Judgement:
    """Compare objects with those before them in their Kafka partition, in the order of their offsets (`log-restart`).

    An object is parked if its offsets follow all that is known of its partition and its changes belong to another log:
    they are later by the source's clock and yet far lower in its log, of another binlog or server, or at lower
    positions of another kind. All later objects of the partition are parked too, until the table's generation is
    raised. Late objects have lower offsets, repeated ones have no later source time, and a repeated snapshot stands
    where the log is by then, so none of these counts as a restart. A new partition is compared with one that restarted.

    Where the log before goes on after a fall, none restarted: the partition has changes of several logs. Its parked
    objects are freed (`has_several_logs`), and none is parked for a fall from then on. A row of two such logs is in
    doubt: a change of the lower one loses, and is counted (`sluice.changes.outdated`).

    Objects that name their log (`SeenObject.log`) are compared with those of the same log alone, and one of several
    logs with none.
    """
    marks_now = {partition: mark for partition, mark in marks.items() if mark.generation == generation}
    waiting: dict[int, list[SeenObject]] = {}
    for item in seen:
        if item.partition is not None and item.highest is not None:
            waiting.setdefault(item.partition, []).append(item)
    for items in waiting.values():
        items.sort(key=lambda item: (item.first, item.last, item.object))
    parked: dict[str, str] = {}
    for partition in [number for number, items in waiting.items() if any(item.log is not None for item in items)]:
        marks_now[partition], reasons = _apart(marks_now.get(partition), waiting.pop(partition), generation)
        parked.update(reasons)
    for partition in sorted(waiting, key=lambda topic_partition: (topic_partition not in marks_now, topic_partition)):
        elsewhere = None
        if partition not in marks_now:
            elsewhere = next((mark for _, mark in sorted(marks_now.items()) if mark.restarted_at is not None), None)
        mark, reasons = _of_partition(marks_now.get(partition), elsewhere, waiting[partition], generation)
        parked.update(reasons)
        if mark is not None:
            marks_now[partition] = mark
    return Judgement(marks_now, parked)


def _apart(mark: Mark | None, items: Sequence[SeenObject], generation: int) -> tuple[Mark, dict[str, str]]:
    """The mark of a partition with several logs, and its parked objects: each log has a mark of its own."""
    logs = dict(mark.apart) if mark is not None else {}
    parked: dict[str, str] = {}
    for log in sorted({item.log for item in items if item.log}):
        own, reasons = _of_partition(logs.get(log), None, [item for item in items if item.log == log], generation)
        parked.update(reasons)
        if own is not None:
            logs[log] = replace(own, fallen=None)  # nothing but a fall begins a named log again
    for item in items:
        mark = _advanced(mark, item, generation)
    assert mark is not None  # there are items
    latest = sorted(logs.items(), key=lambda entry: -(entry[1].newest_ms or 0))[:LOGS_KEPT]
    return replace(mark, restarted_at=None, apart=dict(sorted(latest))), parked


def began_again(marks: Mapping[int, Mark], partition: int | None, offset: int | None, *, generation: int) -> bool:
    """True if an unread object is known to belong to a restarted log: it follows parked objects of its partition."""
    mark = _known(marks, partition, generation)
    return mark is not None and mark.restarted_at is not None and offset is not None and offset >= mark.restarted_at


def has_several_logs(marks: Mapping[int, Mark], partition: int | None, *, generation: int) -> bool:
    """True if the log of parked objects of a partition turned out to be one of several, none of which restarted."""
    mark = _known(marks, partition, generation)
    return mark is not None and mark.restarted_at is None and mark.several is True


def _known(marks: Mapping[int, Mark], partition: int | None, generation: int) -> Mark | None:
    mark = marks.get(partition) if partition is not None else None
    return mark if mark is not None and mark.generation == generation else None


def _of_partition(
    mark: Mark | None, elsewhere: Mark | None, items: Sequence[SeenObject], generation: int
) -> tuple[Mark | None, dict[str, str]]:
    reasons: dict[str, str] = {}
    if mark is not None and _continued(mark, items):
        mark = replace(mark, restarted_at=None, fallen=None, several=True)
    for at, item in enumerate(items):
        if mark is not None and mark.restarted_at is not None and item.first >= mark.restarted_at:
            mark = _fallen_to(mark, item)
            reasons[item.object] = _describe(
                f"everything from {_where(item.partition, mark.restarted_at or 0)} on is of a restarted log"
            )
            continue
        before = mark if mark is not None else elsewhere
        if before is not None and (mark is None or item.first > mark.offset):
            why = _restart(before, items[at:])
            if why is not None:
                after = "" if is_by_time(item.partition) else f" (after {before.offset})"
                reasons[item.object] = _describe(f"{_where(item.partition, item.first)}{after}: {why}")
                fallen = item.highest if item.kind == POSTGRES and _far_below(before, item) else None
                several = None if mark is None else mark.several
                mark = replace(before, restarted_at=item.first, fallen=fallen, several=several)
                continue
        mark = _advanced(mark, item, generation)
    return mark, reasons


def _where(partition: int | None, offset: int) -> str:
    if is_by_time(partition):
        moment = datetime.fromtimestamp(offset / 1000, timezone.utc)
        return f"the objects without an offset at {moment:%Y-%m-%d %H:%M:%S}"
    if is_unnamed(partition):
        return f"the objects whose names have no Kafka partition at offset {offset}"
    return f"Kafka partition {partition_text(partition)} at offset {offset}"


def _describe(what: str) -> str:
    return (
        f"{what}; run `sluice quarantine discard` for objects that aren't of this table's source, "
        "then raise the table's `generation` in tables.yaml and run `sluice config push`. Where several servers write "
        "into the topic, their logs are told apart by a key that names them: `record_key: [__name, __db, ...]`"
    )


def _continued(mark: Mark, items: Sequence[SeenObject]) -> bool:
    """Whether one of the objects, in the order of their offsets, continues the log that was before a fall.

    Each is compared with the highest of those before it: a log that restarted passes the place, too, but by steps.
    """
    for item in items:
        if _goes_on(mark, item):
            return True
        if mark.restarted_at is not None and item.first >= mark.restarted_at:
            mark = _fallen_to(mark, item)
    return False


def _goes_on(mark: Mark, item: SeenObject) -> bool:
    """Whether an object is of the log before a fall: shortly above its end, and far above all that fell.

    Only PostgreSQL's places have distances that tell, and only those beyond a young log's.
    """
    if mark.fallen is None or mark.restarted_at is None or item.first <= mark.restarted_at or item.highest is None:
        return False
    if not (item.kind == mark.kind == POSTGRES):
        return False
    before, fallen, now = (log_place(POSTGRES, place) for place in (mark.highest, mark.fallen, item.highest))
    if before is None or fallen is None or now is None:
        return False
    later = mark.newest_ms is not None and item.newest_ms is not None and item.newest_ms > mark.newest_ms
    return later and before <= now < before + _FALL_BYTES and now - fallen >= _FALL_BYTES


def _fallen_to(mark: Mark, item: SeenObject) -> Mark:
    """The mark of a fall with the place of one more object that fell, or climbs from there.

    Without a place once an object of another kind of log is among them.
    """
    if mark.fallen is None or item.highest is None:
        return mark
    return replace(mark, fallen=max(mark.fallen, item.highest) if item.kind == mark.kind else None)


def _restart(mark: Mark, items: Sequence[SeenObject]) -> str | None:
    """Why the first of these objects, in the order of their offsets, is of another log; None if it isn't."""
    item = items[0]
    assert item.highest is not None
    if mark.kind != item.kind:
        # The connector sends other fields now. Positions of two kinds don't compare, but later ones must not be lower.
        if item.highest > mark.highest:
            return None
        now, before = _KINDS.get(item.kind, item.kind), _KINDS.get(mark.kind, mark.kind)
        return f"the records' positions are {now} and were {before}, which don't compare"
    new_logs = sorted(set(item.logs) - set(mark.logs))
    if mark.logs and new_logs:
        return f"the binlog is called {new_logs[0][:100]!r} and was {', '.join(mark.logs)[:100]!r}"
    if mark.servers and item.servers and not set(mark.servers) & set(item.servers):
        return f"the changes are of server {item.servers[0][:40]} and were of {', '.join(mark.servers)[:100]}"
    if (
        mark.several
        or mark.newest_ms is None
        or item.newest_ms is None
        or item.newest_ms <= mark.newest_ms
        or not _far_below(mark, item)
    ):
        return None
    # The rows of a long transaction arrive at its commit, from far back in PostgreSQL's log. The rows after them don't.
    if item.kind == POSTGRES and not all(_far_below(mark, later) for later in items[1:] if later.first > mark.offset):
        return None
    places = (str(highest).partition(".")[2] for highest in (item.highest, mark.highest))
    at, before = (re.sub(_TIE_AND_NUMBER, "", place) for place in places)
    return f"its changes are later, but are at {at} in the source's log, and those before them at {before}"


def _far_below(mark: Mark, item: SeenObject) -> bool:
    if item.kind != mark.kind or item.highest is None:
        return False
    before, now = log_place(mark.kind, mark.highest), log_place(item.kind, item.highest)
    if before is None or now is None:
        return False
    # Without offsets, what several writers brought at once may be a little out of order: two log files are needed.
    files = 2 if is_by_time(item.partition) and mark.kind in (MYSQL, SQLSERVER) else 1
    return before - now >= _far(mark.kind, before) * files


def _far(kind: str, before: int) -> int:
    """The distance below a place from which another one must be of another log.

    Only PostgreSQL's rows are not in the order of commits: a row may be as far back as its transaction is long. The
    positions of the other kinds fall only where the log restarts.
    """
    if kind == POSTGRES:
        return max(_LEAST_FALL_BYTES, min(_FALL_BYTES, before // 2))
    return {MYSQL: 1, SQLSERVER: 1, ORACLE: _FALL_SCN}[kind]


def _is_of_new_topic(mark: Mark, item: SeenObject) -> bool:
    """Whether the topic was made anew before an object: its offsets began again, while the log and its times go on.

    A late object's offsets are lower, too, but its times aren't later. Where names tell no partition, another one may
    have lower offsets, and a log of another name isn't the one that goes on.
    """
    if is_by_time(item.partition) or is_unnamed(item.partition) or mark.logs and set(item.logs) - set(mark.logs):
        return False
    later = mark.newest_ms is not None and item.newest_ms is not None and item.newest_ms > mark.newest_ms
    goes_on = item.kind in LOGS and item.highest is not None and item.highest > mark.highest
    return later and goes_on and item.last < mark.offset


def _advanced(mark: Mark | None, item: SeenObject, generation: int) -> Mark:
    assert item.highest is not None
    if mark is None or (mark.kind != item.kind and item.last > mark.offset):
        return Mark(
            generation, item.last, item.kind, item.highest, item.newest_ms, item.logs, item.servers[:SERVERS_KEPT]
        )
    if mark.kind != item.kind:
        return mark
    times = [moment_ms for moment_ms in (mark.newest_ms, item.newest_ms) if moment_ms is not None]
    return replace(
        mark,
        offset=item.last if _is_of_new_topic(mark, item) else max(mark.offset, item.last),
        highest=max(mark.highest, item.highest),
        newest_ms=max(times, default=None),
        logs=mark.logs or item.logs,
        servers=tuple(sorted({*mark.servers, *item.servers}))[:SERVERS_KEPT],
    )
