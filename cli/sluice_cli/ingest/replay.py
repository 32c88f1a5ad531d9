"""`sluice ops replay`: merges committed objects again. Rows that a table has already change nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import typer

from sluice.batch.outcome import HISTORY_CHANGES
from sluice.config.table import TableConfig
from sluice.errors import FAILED, UsageError
from sluice.ledger.keys import CLAIMED, COMMITTED, DISCARDED, IGNORED, PARKED, PENDING, QUARANTINED, SUPERSEDED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.clock import StoreClock, epoch_ms
from sluice_aws.s3.objects import COLD, pages_of_bronze
from sluice_aws.stack import Target
from sluice_cli.account.object import rows_left
from sluice_cli.account.steps import BACKFILL, MERGED, NEWEST_OBJECTS, entries
from sluice_cli.account.window import given_times
from sluice_cli.ingest.replay_end import ReplayEnd, TableEnd
from sluice_cli.ingest.set_aside import merged_under
from sluice_cli.ingest.workload import RATE, Rate, Throttle, Workload
from sluice_cli.terminal.interaction import ask, bars, counting
from sluice_cli.terminal.known_names import check_prefix, check_table
from sluice_cli.terminal.options import DryRun, Json, Stack, TimeSpan, Yes, option, seconds
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.stack import chosen_target, supervise_now
from sluice_cli.terminal.words import counted

AT_ONCE = 400  # objects that are written before the rate is looked at: at least eight transactions
POLL_S = 1.0
_LEFT = {
    PENDING: "pending already",
    CLAIMED: "claimed by a run",
    QUARANTINED: "in quarantine",
    PARKED: "parked",
    SUPERSEDED: "a committed version has the same bytes: `--prefix` with the whole key merges it all the same",
    IGNORED: "ignored, as no file of changes",
}
_SHOWN_BY = {QUARANTINED: entries(note="says what to do"), PARKED: entries("--parked", note="says why")}
WAS_DISCARDED = "discarded"
ELSEWHERE = "the topic feeds the table no more"
ARCHIVED = "archived: restore first"
NO_GENERATION = "the manifest of its batch is gone: the generation of its rows is unknown"
GONE = "no longer in bronze"


def replay(
    prefix: Annotated[str | None, option("--prefix PREFIX", "Only objects whose keys have this prefix.")] = None,
    table: Annotated[str | None, option("--table TABLE", "Only objects of this table: database.table.")] = None,
    batch: Annotated[str | None, option("--batch ID", "Only objects of this batch.")] = None,
    since: Annotated[
        str | None,
        option("--since TIME", "Only objects written to bronze since: 15m, 2h or 7d ago, or a time with its zone."),
    ] = None,
    before: Annotated[str | None, option("--before TIME", "Only objects written before this time.")] = None,
    all: Annotated[bool, option("--all", "Every committed object.")] = False,
    rate: Rate = RATE,
    wait: Annotated[bool, option("--wait", "Wait until all are merged, and say what changed.")] = False,
    timeout: Annotated[
        float, option("--timeout DURATION", "With --wait: give up after 90s, 5m, 2h.", parser=seconds)
    ] = TimeSpan(900),
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Merge committed objects again, while everything else goes on.

    Changes that the tables hold already lose by their position, so a replay changes no row, and makes no commit: it
    shows that a table is what its objects make of it, or brings back rows that somebody else removed. It uses the
    release and the configuration in force: a newer `expect` may quarantine rows, which the table keeps as it merged
    them, and a newer `history` gets the changes. To apply another key, partitioning or type, `sluice rebuild table`.
    An estimate comes first. Repeat an interrupted replay: what is pending is not doubled.

    Examples:

      sluice ops replay --table crm.user --since 2h --dry-run
      sluice ops replay --prefix topics/crm.public.user/ --yes --wait
    """
    if not all and (prefix, table, batch, since, before) == (None,) * 5:
        raise UsageError(
            "Nothing is chosen",
            next_step="Use --prefix, --table, --batch, --since or --before, or --all for everything",
        )
    selection = ReplaySelection(prefix or "", table, batch, *given_times(since, before, epoch_ms()))
    target = chosen_target(stack)
    run = Replay(target, selection)
    with counting(as_json) as tick:
        plan = run.plan(tick)
    if not plan.total and not plan.left:
        check_table(target, table)
        check_prefix(target, prefix)
    document = {**plan.shown(target, rate, as_json=as_json), "replayed": 0}
    if not plan.total and not plan.left:
        say("No object meets every choice: leave one out to see what there is")
    if dry_run or not plan.total:
        if as_json:
            print_json(document)
        return
    if not yes:
        ask(f"Merge {counted(plan.total, 'object')} again?")
    with bars(as_json) as advance:
        done = run.write(Throttle(rate), lambda number: advance("Objects pending again", number, plan.total))
    ended = run.settled(done, timeout) if wait else None
    if as_json:
        print_json({**document, "replayed": len(done), **(ended.described if ended is not None else {})})
    else:
        print_line(f"{counted(len(done), 'object')} pending again")
        if ended is None:
            say(f"{MERGED}. Rows that the tables have already change nothing")
        else:
            print_line("\n".join(ended.lines))
    if ended is not None and ended.unsettled:
        raise typer.Exit(FAILED)


@dataclass(frozen=True)
class ReplaySelection:
    """The objects that a replay is about. Times are epoch ms, of when a version was written to bronze."""

    prefix: str = ""
    table: str | None = None
    batch: str | None = None
    since: int | None = None
    before: int | None = None

    def takes(self, id: ObjectId, modified_at: int, record: ObjectRecord | None) -> bool:
        """Whether an object is chosen. One that the ledger doesn't know has no table and no batch."""
        return (
            id.key.startswith(self.prefix)
            and (self.since is None or modified_at >= self.since)
            and (self.before is None or modified_at < self.before)
            and (self.table is None or record is not None and record.table == self.table)
            and (self.batch is None or record is not None and record.batch == self.batch)
        )


class Replay:
    """The replay of a selection on one stack."""

    def __init__(self, target: Target, selection: ReplaySelection) -> None:
        self._target, self._selection = target, selection
        self._objects = target.objects
        self._ledger = target.ledger
        self._configuration = target.configuration()
        self._past = target.past_batches()
        self._generation_of = cache(self._past.generation)
        self._gone = 0  # objects of the batch that are no longer in bronze

    def plan(self, tick: Callable[[str, int], None]) -> Workload:
        """What would be merged again, and what is left, by the reason. Changes nothing."""
        work = Workload()
        seen = 0
        for page in self._pages():
            for id, record in self._chosen(page):
                reason = (
                    self._obstacle(record, page[id][1]) if record is not None else f"unknown to the ledger: {BACKFILL}"
                )
                if record is not None and reason is None:
                    work.add(record.table or "", record.size)
                else:
                    work.left[str(reason)] += 1
            seen += len(page)
            tick("Versions in bronze", seen)
        if self._selection.batch is not None and self._gone:
            work.left[GONE] += self._gone
        return work

    def write(self, throttle: Throttle, advance: Callable[[int], None]) -> list[ObjectId]:
        """Make the objects pending and wake their lanes; gives those that were written."""
        done: list[ObjectId] = []
        for page in self._pages():
            chosen = [
                record
                for id, record in self._chosen(page)
                if record is not None and self._obstacle(record, page[id][1]) is None
            ]
            for start in range(0, len(chosen), AT_ONCE):
                chunk = chosen[start : start + AT_ONCE]
                self._write(chunk)
                done += [record.id for record in chunk]
                advance(len(done))
                throttle.after(len(chunk))
        return done

    def settled(self, ids: Sequence[ObjectId], timeout: float) -> ReplayEnd:
        """Wait until no object is pending or claimed, at most `timeout` seconds, and gather what came of them."""
        until = time.monotonic() + timeout
        waiting, ended = list(ids), dict[ObjectId, ObjectRecord]()
        while True:
            for start in range(0, len(waiting), AT_ONCE):
                ended.update(self._ledger.objects.get(waiting[start : start + AT_ONCE]))
            waiting = [id for id in waiting if id in ended and ended[id].state in (PENDING, CLAIMED)]
            if not waiting or time.monotonic() >= until:
                break
            time.sleep(POLL_S)
        return self._end(list(ended.values()))

    def _end(self, records: Sequence[ObjectRecord]) -> ReplayEnd:
        settled = [record for record in records if record.state in (COMMITTED, QUARANTINED)]
        tables: dict[str, TableEnd] = {}
        for table, batch in sorted({(record.table or "", record.batch or "") for record in settled}):
            outcome, end = self._past.outcome(batch, table), tables.setdefault(table, TableEnd())
            if outcome is not None:
                end.instants += [outcome.instant] if outcome.instant is not None else []
                end.history_changes += outcome.counts.get(HISTORY_CHANGES, 0)
        for record in settled:
            end = tables[record.table or ""]
            end.quarantined_objects += record.state == QUARANTINED
            end.quarantined_rows += record.quarantined_rows
            end.rows_by_code.update(record.row_codes if record.quarantined_rows else {})
        return ReplayEnd(tables, Counter(record.state for record in records))

    def _write(self, records: Sequence[ObjectRecord]) -> None:
        by_lane: dict[str, list[ObjectRecord]] = {}
        for record in records:
            by_lane.setdefault(self._lane(record), []).append(record)
        now = StoreClock(self._objects.ask_time(self._target.silver)).now_ms()
        for lane, listed in sorted(by_lane.items()):
            # A superseded object keeps the generation of the version that it repeats.
            generations = {record.id: self._generation(record) or 0 for record in listed if record.state != SUPERSEDED}
            self._ledger.rebuilds.replay(listed, lane, generations, now, while_paused=False)
            self._ledger.lanes.wake(lane)
        supervise_now(self._target)

    def _pages(self) -> Iterator[dict[ObjectId, tuple[int, str]]]:
        """Object versions in bronze, with when each was written and its storage class."""
        self._gone = 0
        if self._selection.batch is not None:
            yield from self._pages_of_batch(self._selection.batch)
            return
        for page in pages_of_bronze(
            self._objects, self._target.bronze, self._selection.prefix, configuration=self._configuration
        ):
            yield {id: (version.modified_at, version.storage_class) for id, version in page.items()}

    def _pages_of_batch(self, batch: str) -> Iterator[dict[ObjectId, tuple[int, str]]]:
        lane = (self._ledger.batches.get(batch) or {}).get("lane")
        manifest = None if lane is None else self._past.manifest(str(lane), batch)
        if manifest is None:
            raise UsageError(f"There is no batch {batch}, or its manifest is gone", next_step=str(NEWEST_OBJECTS))
        for start in range(0, len(manifest.objects), AT_ONCE):
            page = {}
            for item in manifest.objects[start : start + AT_ONCE]:
                at = self._objects.modified_at(item.id)
                self._gone += at is None
                if at is not None:
                    page[item.id] = (at, next(iter(COLD)))  # a manifest names no storage class
            yield page

    def _chosen(self, page: Mapping[ObjectId, tuple[int, str]]) -> list[tuple[ObjectId, ObjectRecord | None]]:
        records = self._ledger.objects.get(page) if page else {}
        pairs = [
            (id, records.get(id)) for id, (at, _) in page.items() if self._selection.takes(id, at, records.get(id))
        ]
        return sorted(pairs, key=lambda pair: (pair[1].admitted_at if pair[1] is not None else 0, pair[0]))

    def _obstacle(self, record: ObjectRecord, storage_class: str) -> str | None:
        """Why an object isn't merged again; None if it is."""
        is_named = record.state == SUPERSEDED and record.id.key == self._selection.prefix
        if record.state != COMMITTED and not is_named:
            left = WAS_DISCARDED if record.rule == DISCARDED else _LEFT.get(record.state, record.state)
            return f"{left}: {_SHOWN_BY[record.state]}" if record.state in _SHOWN_BY else left
        if record.quarantined_rows or record.discarded_rows:
            return rows_left()
        config = self._config(record)
        if config is None or config.table != record.table:
            return ELSEWHERE
        if storage_class in COLD and self._objects.is_archived(record.id):
            return ARCHIVED
        return None if is_named or self._generation(record) is not None else NO_GENERATION

    def _config(self, record: ObjectRecord) -> TableConfig | None:
        if self._configuration is None:
            return None
        return self._configuration.table_for_topic(record.topic or "", record.id.also_for)

    def _lane(self, record: ObjectRecord) -> str:
        config = self._config(record)
        return (config.lane if config is not None else record.lane) or ""

    def _generation(self, record: ObjectRecord) -> int | None:
        """The generation that an object was merged under; None if it is unknown."""
        if record.generation is not None:
            return record.generation
        return merged_under(record, self._config(record), self._generation_of)
