"""`sluice rebuild ledger`: gives a lost ledger, or one restored to an older point, what bronze, manifests and outcomes say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from sluice.changes.position import generation_of
from sluice.hudi.own_metadata import PURGED_PROPERTY
from sluice.lane.machine import PAUSED
from sluice.ledger.recovery import Recovered, Recovery
from sluice.objects import ObjectId, identify
from sluice.silver_keys import BEGUN, FINISHED, REPLACED
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.stack import Target
from sluice_cli.config.review import lane_names
from sluice_cli.errors import LedgerInUse, NotAllRecovered
from sluice_cli.status.past_batches import PastBatches
from sluice_cli.tables.rebuild import ask, counting
from sluice_cli.terminal.output import Json, Stack, chosen_target, counted, print_json, say


@dataclass(frozen=True)
class Result:
    """What was done, or in a dry run would be. `unknown` are objects that neither the ledger nor an outcome tells of; `unfinished` tables whose rebuild was under way."""

    objects: Recovered
    unknown: int
    tables: tuple[str, ...]
    unfinished: tuple[str, ...]


def ledger(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is missing and what is old, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Give the ledger back what it held: after its table was lost, or restored to an older point.

    Every object in bronze gets the state that its last outcome says, every table what its outcomes add up to. Nothing is merged a second time that was merged. What no outcome tells of is
    left to reconcile, which admits it. What the ledger knows of later than the outcomes stays. It may be repeated, and cut off anywhere.

    Every lane must be paused: pause them at once when a ledger is lost, or all of bronze is merged again, under the present generations.

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
            next_step="; ".join(f"`sluice pause {lane}`" for lane in lanes) + ", until `sluice status` says paused",
        )
    with counting(as_json) as tick:
        recovery = recovering.read(tick)
    if not dry_run and not yes:
        ask(
            f"Write what {counted(recovery.objects, 'object')} and {counted(len(recovery.tables()), 'table')} came to into the ledger?"
        )
    with counting(as_json) as tick:
        result = recovering.write(recovery, tick, dry_run=dry_run)
    _print(result, lanes, dry_run, as_json)
    if result.objects.raced:
        raise NotAllRecovered(
            f"{counted(result.objects.raced, 'object')} changed meanwhile", objects=result.objects.raced
        )


class Recovering:
    """One recovery on one stack."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._objects = Objects(target.client("s3"))
        self._ledger = DynamoDbLedger(target.client("dynamodb"), target.ledger_table)

    def lanes_that_may_run(self) -> tuple[str, ...]:
        """The lanes, known or configured, that aren't paused."""
        configuration = ConfigStore(self._objects, self._target.artifacts).load()
        paused = {lane.lane for lane in self._ledger.lanes.all() if lane.state == PAUSED}
        return tuple(name for name in lane_names(self._ledger, configuration) if name not in paused)

    def read(self, tick: Callable[[str, int], None]) -> Recovery:
        """Every manifest and outcome."""
        self._begun = dict(self._rebuilds())
        recovery = Recovery({table: max(mark["at"] for mark in marks.values()) for table, marks in self._begun.items()})
        for number, batch in enumerate(PastBatches(self._objects, self._target.silver).newest(), 1):
            recovery.add(batch.manifest, batch.outcomes)
            tick("Batches", number)
        return recovery

    def write(self, recovery: Recovery, tick: Callable[[str, int], None], *, dry_run: bool) -> Result:
        """Objects first, a page of the listing at a time, then tables: what is known of a table is never more than what is known of its objects."""
        done, unknown, listed = Recovered(), 0, 0
        for page in self._pages():
            settled = [found for found in map(recovery.settled, page) if found is not None]
            untold = [identity for identity in page if recovery.settled(identity) is None]
            unknown += len(untold) - len(self._ledger.objects.get(untold))
            done = done.plus(self._ledger.recovery.restore_objects(settled, page, dry_run=dry_run))
            listed += len(page)
            tick("Versions in bronze", listed)
        unfinished = tuple(sorted(table for table, marks in self._begun.items() if not self._is_finished(max(marks))))
        tables = recovery.tables()
        if not dry_run:
            tables = {
                name: known
                for name, known in tables.items()
                if self._ledger.recovery.restore_table(name, known, purge_floors=self._purge_floors(name))
            }
            for table in unfinished:
                newest = self._begun[table][max(self._begun[table])]
                self._ledger.rebuilds.begin(
                    table,
                    newest["lane"],
                    {name: value for name, value in newest.items() if name not in ("table", "gone")},
                )
        return Result(done, unknown, tuple(sorted(tables)), unfinished)

    def _pages(self) -> Iterator[Mapping[ObjectId, str | None]]:
        """A page of bronze's versions, with their ETags."""
        versioned = self._objects.is_versioned(self._target.bronze)
        marker = None
        while True:
            page = self._objects.version_page(self._target.bronze, marker)
            yield {
                identify(item.bucket, item.key, item.version_id, item.etag, bucket_versioned=versioned): item.etag
                for item in page.versions
            }
            marker = page.next_marker
            if marker is None:
                return

    def _rebuilds(self) -> dict[str, dict[str, dict[str, Any]]]:
        """What is told of every rebuild of a table, by table and place."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for key in self._objects.keys(self._target.silver, REPLACED):
            if key.endswith(f"/{BEGUN}") and key.count("/") == REPLACED.count("/") + 2:
                mark = self._objects.get_json(self._target.silver, key)
                found.setdefault(mark["table"], {})[key[: -len(BEGUN)]] = mark
        return found

    def _is_finished(self, place: str) -> bool:
        return self._objects.get(self._target.silver, place + FINISHED) is not None

    def _purge_floors(self, table: str) -> dict[str, str]:
        """The highest purged position, which the table's own file keeps too."""
        silver = SilverBucket(self._target.client("s3"), self._target.silver)
        properties = TimelineReader(silver).properties(table) or {}
        position = properties.get(PURGED_PROPERTY, "")
        return {str(generation_of(position)): position} if position else {}


def _print(result: Result, lanes: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    done = result.objects
    if as_json:
        print_json(
            {
                "changed": not dry_run,
                "objects": {
                    "missing": done.added,
                    "older": done.corrected,
                    "right": done.kept,
                    "unknown": result.unknown,
                    "raced": done.raced,
                },
                "tables": list(result.tables),
                "rebuilds_unfinished": list(result.unfinished),
                "lanes_that_may_run": list(lanes),
            }
        )
        return
    said = "would be" if dry_run else "were"
    print(
        f"objects: {done.added:,} {said} added, {done.corrected:,} {said} corrected, {done.kept:,} are right, {result.unknown:,} are in no batch: reconcile admits them"
    )
    print(f"tables: {', '.join(result.tables) or 'none'}")
    for table in result.unfinished:
        print(f"a rebuild of {table} was under way: `sluice rebuild table {table}` goes on with it")
    if lanes:
        say(f"Lanes may start runs: {', '.join(lanes)}. They have to be paused first")
