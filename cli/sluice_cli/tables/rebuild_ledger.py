"""`sluice rebuild ledger`: restores a lost or outdated ledger from bronze, manifests and outcomes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sluice.changes.position import generation_of
from sluice.hudi.own_metadata import PURGED_PROPERTY
from sluice.lane.machine import PAUSED
from sluice.ledger.recovery import Recovered, Recovery, Settled
from sluice.objects import ObjectId
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.objects import ListedVersion, SkippedDocument, SkippedDocuments, pages_of_bronze
from sluice_aws.s3.past_rebuilds import PastRebuilds
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.stack import Target
from sluice_cli.errors import LedgerInUse, NotAllRecovered
from sluice_cli.terminal.interaction import ask, counting
from sluice_cli.terminal.options import DryRun, Json, Stack, Yes
from sluice_cli.terminal.output import described_documents, print_json, print_line, say, say_skipped
from sluice_cli.terminal.stack import chosen_target, lane_names
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted


def ledger(dry_run: DryRun = False, yes: Yes = False, as_json: Json = False, stack: Stack = None) -> None:
    """Restore the ledger from bronze, manifests and outcomes, after it was lost or restored to an older point.

    Every object in bronze gets the state in its last outcome, and every table the sum of its outcomes. Nothing that
    was merged is merged again. Objects without an outcome are left to reconcile, which admits them. Newer facts in the
    ledger stay. The command may be interrupted and repeated.

    Every lane must be paused. Pause them as soon as a ledger is lost: otherwise all of bronze is merged again, under
    the present generations.

    Examples:

      sluice pause main && sluice rebuild ledger --dry-run
      sluice rebuild ledger --yes && sluice resume main
    """
    target = chosen_target(stack)
    recovering = Recovering(target)
    lanes = recovering.lanes_that_may_run()
    if lanes and not dry_run:
        raise LedgerInUse(
            f"Lanes may start runs: {', '.join(lanes)}",
            lanes=list(lanes),
            next_step="; ".join(str(Step("pause", lane)) for lane in lanes) + f", until {Step('status')} says paused",
        )
    with counting(as_json) as tick:
        recovery = recovering.read(tick)
    say_skipped(recovering.skipped)
    if not dry_run and not yes:
        tables = counted(len(recovery.tables()), "table")
        ask(f"Write the states of {counted(recovery.objects, 'object')} and {tables} into the ledger?")
    with counting(as_json) as tick:
        done = recovering.write(recovery, tick, dry_run=dry_run)
    document = {
        "changed": not dry_run,
        **done,
        "lanes_that_may_run": list(lanes),
        "skipped_documents": described_documents(recovering.skipped),
    }
    if as_json:
        print_json(document)
    else:
        _print(document)
    if raced := done["objects"]["raced"]:
        raise NotAllRecovered(f"{counted(raced, 'object')} changed meanwhile", objects=raced)


class Recovering:
    """The recovery of one stack's ledger."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._objects = target.objects
        self._ledger = target.ledger
        self._past = target.past_batches()
        self._marks = SkippedDocuments()

    @property
    def skipped(self) -> Sequence[SkippedDocument]:
        """The documents that `read` left out, since they can't be read."""
        return (*self._past.skipped, *self._marks.found)

    def lanes_that_may_run(self) -> tuple[str, ...]:
        """The lanes, in the ledger or the configuration, that aren't paused."""
        self._configuration = self._target.configuration(without_ledger=True)
        paused = {lane.lane for lane in self._ledger.lanes.all() if lane.state == PAUSED}
        return tuple(name for name in lane_names(self._ledger, self._configuration) if name not in paused)

    def read(self, tick: Callable[[str, int], None]) -> Recovery:
        """Read every manifest and outcome."""
        self._rebuilds = PastRebuilds.read(self._objects, self._target.silver, self._marks)
        recovery = Recovery(self._rebuilds.last_at, self._rebuilds.dropped_at)
        for number, batch in enumerate(self._past.newest(), 1):
            recovery.add(batch.manifest, batch.outcomes)
            tick("Batches", number)
        return recovery

    def write(self, recovery: Recovery, tick: Callable[[str, int], None], *, dry_run: bool) -> dict[str, Any]:
        """Write objects first, a page at a time, then tables, so that no table is ahead of its objects.

        Returns the JSON form of what was done, or in a dry run would be.
        """
        done, unknown, listed = Recovered(), 0, 0
        pages = pages_of_bronze(self._objects, self._target.bronze, configuration=self._configuration)
        for page in _of_whole_keys(pages):
            settled = [item for item in map(recovery.settled, page) if item is not None]
            unsettled = [identity for identity in page if recovery.settled(identity) is None]
            known = self._ledger.objects.get(unsettled)
            repeated = list(_repeated(recovery, page, set(unsettled) - known.keys()))
            unknown += len(unsettled) - len(known) - len(repeated)
            settled += repeated
            etags = {identity: version.etag for identity, version in page.items()}
            done = done.plus(self._ledger.recovery.restore_objects(settled, etags, dry_run=dry_run))
            listed += len(page)
            tick("Versions in bronze", listed)
        unfinished = self._rebuilds.unfinished()
        tables = recovery.tables()
        if not dry_run:
            from sluice_aws.admission.reconcile import CHECKPOINT as LISTING  # loads what help needs none of

            self._ledger.history.put_checkpoint({}, epoch_ms(), LISTING)  # reconcile asks about everything again
            tables = {
                name: state
                for name, state in tables.items()
                if self._ledger.recovery.restore_table(name, state, purge_floors=self._purge_floors(name))
            }
            self._delete_dropped(tables)
            for table in unfinished:
                newest = self._rebuilds.newest(table)
                self._ledger.rebuilds.begin(
                    table,
                    newest["lane"],
                    {name: value for name, value in newest.items() if name not in ("table", "gone")},
                )
        numbers = {"missing": done.added, "older": done.corrected, "right": done.unchanged, "unknown": unknown}
        return {
            "objects": {**numbers, "raced": done.raced},
            "tables": sorted(tables),
            "rebuilds_unfinished": list(unfinished),
        }

    def _delete_dropped(self, restored: Container[str]) -> None:
        """Delete the items of dropped tables in a ledger of before."""
        lanes = [lane.lane for lane in self._ledger.lanes.all()]
        for table, at in self._rebuilds.dropped_at.items():
            if table not in restored and 0 < (self._ledger.tables.get(table).last_commit_at or 0) <= at:
                self._ledger.drops.table(table, lanes)

    def _purge_floors(self, table: str) -> dict[str, str]:
        """The highest purged position, by generation, from the table's own properties."""
        properties = TimelineReader(self._target.silver_files).properties(table) or {}
        position = properties.get(PURGED_PROPERTY, "")
        return {str(generation_of(position)): position} if position else {}


def _of_whole_keys(pages: Iterable[Mapping[ObjectId, ListedVersion]]) -> Iterator[dict[ObjectId, ListedVersion]]:
    """The pages of a listing, each with every version of its keys."""
    held: dict[ObjectId, ListedVersion] = {}
    for page in pages:
        listed = {**held, **page}
        last = next(reversed(listed)).key if listed else ""
        held = {identity: version for identity, version in listed.items() if identity.key == last}
        yield {identity: version for identity, version in listed.items() if identity.key != last}
    yield held


def _repeated(
    recovery: Recovery, page: dict[ObjectId, ListedVersion], unknown: Container[ObjectId]
) -> Iterator[Settled]:
    """What was superseded of the `unknown` objects on a page that has every version of their keys, the newest first."""
    merged: dict[tuple[str, str], tuple[str, int, Settled]] = {}  # the last version of each key so far
    for identity, version in reversed(page.items()):
        name, settled = (identity.key, identity.also_for), recovery.settled(identity)
        if settled is not None and settled.was_merged:
            merged[name] = (version.etag, version.size, settled)
        elif identity in unknown and name in merged:
            *content, last = merged[name]
            if content == [version.etag, version.size]:
                repeated = recovery.repeated(identity, last, written_at=version.modified_at)
                yield from () if repeated is None else (repeated,)


def _print(document: Mapping[str, Any]) -> None:
    said, objects = "were" if document["changed"] else "would be", document["objects"]
    print_line(
        f"objects: {objects['missing']:,} {said} added, {objects['older']:,} {said} corrected, "
        f"{objects['right']:,} are right, {objects['unknown']:,} are in no batch: reconcile admits them"
    )
    print_line(f"tables: {', '.join(document['tables']) or 'none'}")
    for table in document["rebuilds_unfinished"]:
        print_line(f"a rebuild of {table} is unfinished: {Step('rebuild table', table)} finishes it")
    if lanes := document["lanes_that_may_run"]:
        say(f"Lanes may start runs: {', '.join(lanes)}. Pause them first")
