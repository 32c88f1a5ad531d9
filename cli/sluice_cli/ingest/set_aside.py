"""Entries in quarantine and parked objects: selection, retry, discard, and their decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice

from sluice.batch import row_errors
from sluice.changes.log_restart import LOG_RESTARTED
from sluice.config.table import TableConfig
from sluice.errors import UnreadableManifest, UsageError
from sluice.ledger.keys import PARKED, PENDING, QUARANTINED
from sluice.ledger.records import DISCARDED, RETRIED, Decision, ObjectRecord
from sluice.silver_keys import rows_key
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target
from sluice_cli.account.object import judged_now, way_in
from sluice_cli.account.steps import ENTRIES
from sluice_cli.ingest.entry import codes, reason_of
from sluice_cli.terminal.options import command_line
from sluice_cli.terminal.run import AWS_ERRORS
from sluice_cli.terminal.stack import operator_of
from sluice_cli.terminal.step import completed
from sluice_cli.terminal.words import counted, is_named

SHORTEST_ID = 6  # hexadecimal digits, the fewest that identify an entry
COUNTED_AT_MOST = 10_000  # entries: a count of more says so
REASON_BYTES = 65_536  # read of an object's rows for their reason: at least one row, of 16 KiB before it is escaped
THREADS = 16
ReasonOfRows = Callable[[ObjectRecord, str], str | None]  # of an object's rows with a code


@dataclass(frozen=True)
class Selection:
    """The entries that a command is about, by id (or its beginning), the object's key, table, topic and code; or `all`.

    It includes parked objects only by name or by the code `log_restarted`. With `parked` it has no others.
    """

    names: tuple[str, ...] = ()
    table: str | None = None
    code: str | None = None
    all: bool = False
    parked: bool = False
    topic: str | None = None

    @property
    def empty(self) -> bool:
        """True if nothing is chosen."""
        return not (self.names or self.table or self.code or self.topic or self.all)

    @property
    def about_parked(self) -> bool:
        """True if parked objects may be included. A table or `all` does not include objects that wait for a rule."""
        return self.parked or bool(self.names) or self.code == LOG_RESTARTED

    def takes(self, record: ObjectRecord) -> bool:
        """True if an entry is chosen."""
        if self.table is not None and record.table != self.table:
            return False
        if self.topic is not None and record.topic != self.topic:
            return False
        if self.code is not None and self.code not in codes(record):
            return False
        return not self.names or any(_names(name, record) for name in self.names)


@dataclass(frozen=True)
class Decided:
    """The result for one entry: done, or the reason why not."""

    record: ObjectRecord
    done: bool
    reason: str | None = None
    lane: str | None = None
    judged: bool = False  # the reason is that of the rules in force

    @property
    def because(self) -> str:
        """The reason for people, whose retry is for the entry's table."""
        return reason_of(replace(self.record, reason=self.reason)) or "no reason is recorded"


@dataclass(frozen=True)
class InQuarantine:
    """What is in quarantine: whole objects, and `rows` of `holed` objects. `more` if there is more than was counted."""

    objects: int = 0
    rows: int = 0
    holed: int = 0
    more: bool = False

    @property
    def described(self) -> str:
        """In words: `1 object, and 1,888 rows of 12 objects`."""
        whole = counted(self.objects, "object") if self.objects else ""
        rows = f"{counted(self.rows, 'row')} of {counted(self.holed, 'object')}" if self.holed else ""
        return ("at least " if self.more else "") + ", and ".join(part for part in (whole, rows) if part)


def in_quarantine(ledger: Ledger, table: str | None = None) -> InQuarantine:
    """Count the objects and rows in quarantine, of one table or of all, over COUNTED_AT_MOST entries of each."""
    objects, holed = (
        iter(entries) for entries in (ledger.objects.in_state(QUARANTINED), ledger.quarantine.objects_with_rows())
    )
    whole = [record for record in islice(objects, COUNTED_AT_MOST) if table in (None, record.table)]
    others = [record for record in islice(holed, COUNTED_AT_MOST) if table in (None, record.table)]
    more = any(next(left, None) is not None for left in (objects, holed))
    return InQuarantine(len(whole), sum(record.quarantined_rows for record in others), len(others), more)


class Quarantine:
    """The quarantine of one stack."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._ledger = target.ledger
        self._objects = target.objects
        self._silver = target.silver

    def entries(self, choice: Selection) -> Iterator[ObjectRecord]:
        """The chosen entries: quarantined objects, then objects with quarantined rows, then parked objects."""
        quarantined = (
            ()
            if choice.parked
            else chain(self._ledger.objects.in_state(QUARANTINED), self._ledger.quarantine.objects_with_rows())
        )
        parked = self._ledger.objects.in_state(PARKED) if choice.about_parked else ()
        return filter(choice.takes, chain(quarantined, parked))

    def everything(self) -> Iterator[ObjectRecord]:
        """Every entry, and every parked object."""
        return chain(self.entries(Selection(all=True)), self.entries(Selection(all=True, parked=True)))

    def chosen(self, choice: Selection, options: str = "--table, --code or --all") -> list[ObjectRecord]:
        """The entries to decide about; `options` choose them. Raises UsageError for a name of no entry or several."""
        if choice.empty:
            raise UsageError("Nothing is chosen", next_step=f"Name entries by their id, or use {options}. {ENTRIES}")
        entries = list(self.entries(choice))
        for name in choice.names:
            matching = {record.id for record in entries if _names(name, record)}
            if not matching:
                raise UsageError(
                    f"No entry in quarantine and no parked object is called {name!r}, or begins with it "
                    f"({SHORTEST_ID} characters of an id are the fewest)",
                    next_step=str(ENTRIES),
                )
            if len(matching) > 1 and not any(record.id.key == name for record in entries):
                raise UsageError(f"{len(matching)} entries are called {name!r}", next_step="Write more of it")
        return entries

    def rows(self, record: ObjectRecord) -> list[row_errors.RowError]:
        """The quarantined rows of one object, in the order of its records."""
        if not record.quarantined_rows or record.batch is None or record.table is None:
            return []
        document = self._objects.get(self._silver, rows_key(record.batch, record.table, record.id.hash))
        return [] if document is None else list(row_errors.from_lines(document.data.decode("utf-8")))

    def explained(self, records: Sequence[ObjectRecord]) -> list[ObjectRecord]:
        """The entries, each for rows with the most frequent reason of its first ones. One GET for each of these."""
        with ThreadPoolExecutor(THREADS, thread_name_prefix="reasons") as pool:
            return list(pool.map(self._explained, records))

    def _explained(self, record: ObjectRecord) -> ObjectRecord:
        if not record.quarantined_rows or record.batch is None or record.table is None:
            return record
        return replace(record, reason=reason_of_rows(self._objects, self._silver, record) or record.reason)

    def retry(self, records: Sequence[ObjectRecord], note: str | None) -> list[Decided]:
        """Judge every object as if it were announced now, and make those pending that pass; the caller wakes the lanes.

        Parked objects are not retried; the result says what makes them pending.
        """
        from sluice_aws.admission.admit import open_admission  # loads all formats

        admission = open_admission(self._objects, ledger=self._ledger, silver_bucket=self._silver, now=epoch_ms)
        configuration, decision = self._target.configuration(), self._decisions(RETRIED, note)

        def one(record: ObjectRecord) -> Decided:
            if record.state == PARKED:
                return Decided(record, False, way_in(judged_now(record, configuration)))
            route, verdict, schema = admission.judge(record.id, record.size, configuration)
            if verdict.state != PENDING:
                return Decided(record, False, verdict.reason or verdict.rule, judged=True)
            named = {name: getattr(route, name) for name in ("topic", "kafka_partition", "offset", "format")}
            routed = replace(record, table=verdict.table, lane=verdict.lane, schema=schema, **named)
            if record.quarantined_rows and record.table == verdict.table and verdict.config is not None:
                generation = merged_under(record, verdict.config, self._target.past_batches().generation)
                if generation is None:
                    gone = f"the manifest of its batch {record.batch} is gone or can't be read"
                    return Decided(record, False, f"{gone}: the generation of its rows is unknown")
                routed = replace(routed, generation=generation)
            paused = verdict.config is not None and verdict.config.paused
            done = self._ledger.quarantine.retry(record, routed, decision(record))
            return self._written(record, done, None if paused else verdict.lane)

        with ThreadPoolExecutor(THREADS, thread_name_prefix="retry") as pool:
            return list(pool.map(one, records))

    def discard(self, records: Iterable[ObjectRecord], note: str | None) -> list[Decided]:
        """Give up entries in quarantine or parked objects, and record the decisions."""
        decision = self._decisions(DISCARDED, note)

        def one(record: ObjectRecord) -> Decided:
            return self._written(record, self._ledger.quarantine.discard(record, decision(record)), None)

        with ThreadPoolExecutor(THREADS, thread_name_prefix="discard") as pool:
            return list(pool.map(one, records))

    def _decisions(self, verb: str, note: str | None) -> Callable[[ObjectRecord], Decision]:
        """A function that makes the decision about an entry by this command."""
        command, by = command_line.get(), operator_of(self._target)

        def decision(record: ObjectRecord) -> Decision:
            kept = {name: getattr(record, name) for name in ("table", "code", "reason", "batch", "attempt")}
            made = (record.id, verb, epoch_ms(), command, by, record.state)
            return Decision(*made, rows=record.quarantined_rows, note=note, **kept)

        return decision

    @staticmethod
    def _written(record: ObjectRecord, done: bool, lane: str | None) -> Decided:
        return Decided(record, done, None if done else "another decision about it was made meanwhile", lane)


def merged_under(
    record: ObjectRecord, config: TableConfig | None, generation_of: Callable[[str, str, str], int | None]
) -> int | None:
    """The generation that an object was merged under; None if unknown. `generation_of` is that of `PastBatches`.

    Under the table's present generation, older changes would win over all newer ones.
    """
    if config is not None and config.generation == 0:  # a generation only rises
        return 0
    generation = generation_of(record.lane or "", record.batch or "", record.table or "")
    return record.merged_generation if generation is None else generation


def reason_of_rows(objects: Objects, silver: str, record: ObjectRecord, code: str | None = None) -> str | None:
    """The most frequent reason of an object's first quarantined rows, or of those with a code. One GET.

    None if none is readable.
    """
    if record.batch is None or record.table is None:
        return None
    document = objects.get(silver, rows_key(record.batch, record.table, record.id.hash), limit=REASON_BYTES)
    if document is None:
        return None
    lines = document.data.decode("utf-8", "replace").splitlines(keepends=True)  # the last one may be cut
    try:
        rows = list(row_errors.from_lines("".join(line for line in lines if line[-1] == "\n")))
    except UnreadableManifest:
        return None
    reasons = Counter(row.reason for row in rows if code in (None, row.code))
    if not reasons:
        return None
    others = len(reasons) - 1
    return completed(reasons.most_common(1)[0][0], TABLE=record.table) + (
        f"; and {counted(others, 'other reason')}" if others else ""
    )


def reasons_of_rows(target: Target) -> ReasonOfRows:
    """Reads the reasons of quarantined rows; None where the caller may not."""

    def read(record: ObjectRecord, code: str) -> str | None:
        try:
            return reason_of_rows(target.objects, target.silver, record, code)
        except AWS_ERRORS:
            return None

    return read


def _names(name: str, record: ObjectRecord) -> bool:
    shortened = "…" in name and is_named(name, record.id.key)  # as a terminal shows the key
    return record.id.key == name or shortened or len(name) >= SHORTEST_ID and record.id.hash.startswith(name)
