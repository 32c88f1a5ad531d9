"""`sluice rebuild table`: writes a table anew from its objects in bronze, its old data moved aside.

What writing a table anew from its objects would take: which of them bronze still has, which it has no more, and what stands in the way.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sluice.batch.outcome import QUARANTINED as QUARANTINED_PART
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_topic, config_in_force
from sluice.config.table import TableConfig
from sluice.errors import CommandFailed, NotConfigured, UsageError
from sluice.hudi.table_properties import PROPERTIES_FILE
from sluice.lane.machine import PAUSED
from sluice.ledger.keys import COMMITTED, PARKED, PENDING, QUARANTINED, SUPERSEDED
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId, identify
from sluice.schema.history import stored_key
from sluice.silver_keys import BEGUN, FINISHED, replaced_prefix
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.move_prefix import Mover
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target
from sluice_cli.errors import CannotRebuild
from sluice_cli.status.past_batches import PastBatch, PastBatches
from sluice_cli.terminal.output import (
    Json,
    Stack,
    chosen_target,
    command_line,
    counted,
    human_bytes,
    print_json,
    say,
    stderr_console,
)
from sluice_cli.terminal.stack import operator_of

AT_ONCE = 400  # objects between two looks at the progress: eight transactions' worth and more
GONE_SHOWN = 50

app = typer.Typer(
    no_args_is_help=True,
    help="Write what is derived anew: a table from its objects in bronze, the ledger from manifests and outcomes.",
)


@app.command("table")
def table(
    name: Annotated[str, typer.Argument(metavar="TABLE", help="database.table", show_default=False)],
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would be read and moved, what is gone and what stands in the way, and change nothing.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    without_gone: Annotated[
        bool,
        typer.Option(
            "--without-gone",
            help="Also where objects that the table was made of are no longer in bronze: what only they told is missing then.",
        ),
    ] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Write a table anew from its objects: for another key, partitioning or type, or where its data was damaged.

    Its data is moved to a folder under `_sluice/replaced/` of the silver bucket and kept there; its objects become pending, as old as they are, and are merged again
    once the lane goes on. Until then the table is empty to readers, and not whole before `sluice wait` is done. What is in quarantine stays there: retry it after.

    The lane must be paused, so that nothing else writes the table. A rebuild that was cut off goes on when it is asked for again.

    Examples:

      sluice rebuild table crm.user --dry-run

      sluice pause main && sluice rebuild table crm.user && sluice config push tables.yaml && sluice resume main && sluice wait
    """
    target = chosen_target(stack)
    rebuild = Rebuild(target, name)
    with counting(as_json) as tick:
        plan = rebuild.plan(tick)
    silver = rebuild.silver_bytes()
    found = rebuild.obstacles(plan, without_gone)
    if dry_run or found:
        if as_json:
            print_json({**rebuild.describe(plan, silver), "obstacles": list(found), "changed": False})
        else:
            _print_plan(rebuild, plan, silver)
            for obstacle in found:
                print(f"in the way: {obstacle}")
        if dry_run:
            return
        raise CannotRebuild(f"{name} can't be rebuilt now: {'; '.join(found)}", table=name, obstacles=list(found))
    if not yes:
        _print_plan(rebuild, plan, silver)
        ask(f"Move the data of {name} aside and merge {counted(len(plan.replay) + len(plan.waiting), 'object')} again?")
    with _bars(as_json) as advance:
        replayed = rebuild.run(plan, advance)
    if as_json:
        print_json({**rebuild.describe(plan, silver), "obstacles": [], "changed": True, "replayed_now": replayed})
        return
    print(
        f"{name}: {counted(replayed, 'object')} pending again, the old data is kept in s3://{target.silver}/{rebuild.to}"
    )
    say(
        f"Push a changed configuration now, if that is what it is for. Then `sluice resume {rebuild.lane} && sluice wait`"
    )
    if plan.quarantined:
        say(
            f"{counted(len(plan.quarantined), 'object')} of it {'is' if len(plan.quarantined) == 1 else 'are'} in quarantine: `sluice quarantine retry --table {name}` after that"
        )


class Rebuild:
    """One table's rebuild on one stack: begun before, or about to be."""

    def __init__(self, target: Target, table: str) -> None:
        self._target = target
        self._table = table
        self._objects = Objects(target.client("s3"))
        self._ledger = DynamoDbLedger(target.client("dynamodb"), target.ledger_table)
        self._mover = Mover(target.client("s3"), target.silver)
        configuration = ConfigStore(self._objects, target.artifacts, ledger=self._ledger).load()
        self._begun = dict(self._ledger.tables.get(table).rebuild or {})
        config = self._config(configuration)
        self.lane: str = self._begun.get("lane", config.lane)
        self.to: str = self._begun.get("to", replaced_prefix(table, epoch_ms()))
        self._config_now = config

    def plan(self, tick: Callable[[str, int], None]) -> ReplayPlan:
        """Look at everything; changes nothing."""
        return plan_replay(
            self._table,
            ledger=self._ledger,
            pages=pages_of_bronze(self._objects, self._target.bronze),
            past=PastBatches(self._objects, self._target.silver),
            exists=self._objects.exists,
            tick=tick,
        )

    def silver_bytes(self) -> int:
        """The bytes that would be moved."""
        return sum(self._mover.sizes(self._folder).values())

    def obstacles(self, plan: ReplayPlan, without_gone: bool) -> tuple[str, ...]:
        """Why it can't be done now."""
        return obstacles(
            self._table,
            self.lane,
            ledger=self._ledger,
            plan=plan,
            without_gone=without_gone or bool(self._begun.get("without_gone")),
        )

    def run(self, plan: ReplayPlan, advance: Callable[[str, int, int], None]) -> int:
        """Mark the table, move its data aside, make its objects pending, take the mark away. Each step may be repeated."""
        mark = {
            "at": epoch_ms(),
            "lane": self.lane,
            "to": self.to,
            "topic": self._config_now.topic,
            "command": command_line.get(),
            "by": operator_of(self._target),
            "without_gone": bool(plan.gone),
        }
        mark = self._ledger.rebuilds.begin(self._table, self.lane, mark)
        self.lane, self.to = mark["lane"], mark["to"]
        # Beside the old data: what batches before this say of the table is about that.
        self._objects.put_json(
            self._target.silver,
            f"{self.to}{BEGUN}",
            {**mark, "table": self._table, "gone": [{"key": item.key, "version": item.version} for item in plan.gone]},
        )
        self._mover.move(
            self._folder,
            f"{self.to}table/",
            first=(PROPERTIES_FILE,),
            tick=lambda done, total: advance("Moving files", done, total),
        )
        self._mover.move(stored_key(self._table), f"{self.to}stored.json", tick=lambda done, total: None)
        return self._replay(plan, advance)

    def _replay(self, plan: ReplayPlan, advance: Callable[[str, int, int], None]) -> int:
        replayed = 0
        for start in range(0, len(plan.replay), AT_ONCE):
            chunk: list[ObjectRecord] = list(plan.replay[start : start + AT_ONCE])
            replayed += self._ledger.rebuilds.replay(chunk, self.lane, plan.generations, epoch_ms())
            advance("Objects pending again", start + len(chunk), len(plan.replay))
        self._objects.put_json(self._target.silver, f"{self.to}{FINISHED}", {"at": epoch_ms()})
        self._ledger.rebuilds.end(self._table, self.lane)
        return replayed

    def describe(self, plan: ReplayPlan, silver: int) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "table": self._table,
            "lane": self.lane,
            "begun_before": bool(self._begun),
            "objects": states_describe(plan),
            "bytes": plan.bytes,
            "silver_bytes": silver,
            "kept_in": f"s3://{self._target.silver}/{self.to}",
            "gone": [{"key": item.key, "version": item.version} for item in plan.gone],
            "other_generations": sum(number != self._config_now.generation for number in plan.generations.values()),
        }

    @property
    def _folder(self) -> str:
        return f"{self._config_now.database}/{self._config_now.name}/"

    def _config(self, configuration: Configuration | None) -> TableConfig:
        topic = self._begun.get("topic")
        if configuration is not None and topic:  # the ledger has forgotten what else names it
            config = config_by_topic(configuration, topic, self._table)
            if config is not None:
                return config
            raise NotConfigured(
                f"No rule of the configuration in force makes {self._table} of topic {topic}, of which its rebuild was begun",
                table=self._table,
            )
        return config_in_force(configuration, self._table, self._ledger.tables.get(self._table).pinned)


def _print_plan(rebuild: Rebuild, plan: ReplayPlan, silver: int) -> None:
    described = rebuild.describe(plan, silver)
    print(
        f"table: {described['table']}, in lane {described['lane']}{', begun before' if described['begun_before'] else ''}"
    )
    print(
        f"to merge again: {counted(len(plan.replay) + len(plan.waiting), 'object')}, {human_bytes(plan.bytes)}, {len(plan.waiting):,} of them pending already"
    )
    print(f"to move aside: {human_bytes(silver)}, to {described['kept_in']}")
    for title, records in (
        ("in quarantine, and staying there", plan.quarantined),
        ("parked, and staying so", plan.parked),
    ):
        if records:
            print(f"{title}: {counted(len(records), 'object')}")
    if plan.gone:
        print(f"gone from bronze: {counted(len(plan.gone), 'object')}")
        for identity in plan.gone[:GONE_SHOWN]:
            print(f"gone\t{identity.key}\t{identity.version}")
        if len(plan.gone) > GONE_SHOWN:
            print(f"gone\t... and {len(plan.gone) - GONE_SHOWN:,} more (--json lists all)")


def ask(question: str) -> None:
    """Go on only where a person says yes. Raises CommandFailed, and UsageError where nobody can be asked."""
    if not sys.stdin.isatty():
        raise UsageError(
            "Nobody can be asked here", next_step="--yes goes on without a question, --dry-run shows what would be done"
        )
    if not typer.confirm(question):
        raise CommandFailed("Nothing was changed")


@contextmanager
def counting(quiet: bool) -> Iterator[Callable[[str, int], None]]:
    """A line that says how many of what were looked at."""
    console = stderr_console()
    with console.status("Listing bronze") as status:
        yield (lambda what, done: None) if quiet else (lambda what, done: status.update(f"{what}: {done:,}"))


@contextmanager
def _bars(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    console = stderr_console()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        tasks: dict[str, Any] = {}

        def advance(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(what, total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield advance


LOOKUPS_AT_ONCE = 16  # questions to bronze


@dataclass(frozen=True)
class ReplayPlan:
    """The objects of one table. `replay` become pending, `waiting` are already; `gone` were merged and are no longer in bronze.

    `quarantined` and `parked` stay where they are; `generations` are those that objects were merged under; `unknown` are merged ones in bronze that the ledger
    has lost.
    """

    replay: tuple[ObjectRecord, ...]
    waiting: tuple[ObjectRecord, ...]
    quarantined: tuple[ObjectRecord, ...]
    parked: tuple[ObjectRecord, ...]
    gone: tuple[ObjectId, ...]
    unknown: tuple[ObjectId, ...]
    generations: Mapping[ObjectId, int]

    @property
    def bytes(self) -> int:
        """As stored, of all that will be read."""
        return sum(record.size for record in (*self.replay, *self.waiting))


def pages_of_bronze(objects: Objects, bucket: str) -> Iterator[list[ObjectId]]:
    """Every object version there is, a page of the listing at a time."""
    versioned = objects.is_versioned(bucket)
    marker = None
    while True:
        page = objects.version_page(bucket, marker)
        yield [
            identify(item.bucket, item.key, item.version_id, item.etag, bucket_versioned=versioned)
            for item in page.versions
        ]
        marker = page.next_marker
        if marker is None:
            return


def plan_replay(
    table: str,
    *,
    ledger: Ledger,
    pages: Iterator[list[ObjectId]],
    past: PastBatches,
    exists: Callable[[ObjectId], bool],
    tick: Callable[[str, int], None],
) -> ReplayPlan:
    """Compare bronze, the ledger and the manifests; `tick` is told what was looked at, and how many. `exists` asks bronze about one version."""
    found: dict[ObjectId, ObjectRecord] = {}
    looked_at = 0
    for page in pages:
        looked_at += len(page)
        found.update(
            {identity: record for identity, record in ledger.objects.get(page).items() if record.table == table}
        )
        tick("Versions in bronze", looked_at)
    generations: dict[ObjectId, int] = {}
    gone: set[ObjectId] = set()
    for number, batch in enumerate(past.newest(table=table), 1):
        tick("Batches", number)
        merged_as = int(batch.manifest.tables[table].config.get("generation", 0))
        for identity in _merged(batch, table):
            if identity not in found:
                gone.add(identity)
            else:
                generations.setdefault(identity, merged_as)  # the newest batch is the one that counts
    # A manifest also names what went to another table before it was claimed: that is there, and another table's.
    candidates = sorted(gone)
    with ThreadPoolExecutor(LOOKUPS_AT_ONCE, thread_name_prefix="gone") as pool:
        there = [
            identity for identity, is_there in zip(candidates, pool.map(exists, candidates), strict=True) if is_there
        ]
    gone -= set(there)
    elsewhere = ledger.objects.get(there)
    by_state: dict[str, list[ObjectRecord]] = {}
    for record in sorted(found.values(), key=lambda record: (record.admitted_at, record.id)):
        by_state.setdefault(record.state, []).append(record)
    return ReplayPlan(
        replay=tuple([*by_state.get(COMMITTED, []), *_only_copies(found.values())]),
        waiting=tuple(by_state.get(PENDING, [])),
        quarantined=tuple(by_state.get(QUARANTINED, [])),
        parked=tuple(by_state.get(PARKED, [])),
        gone=tuple(sorted(gone)),
        unknown=tuple(identity for identity in there if identity not in elsewhere),
        generations=generations,
    )


def _merged(batch: PastBatch, table: str) -> Iterator[ObjectId]:
    """The objects of a part that went into the table; none where its outcome is missing: they are in another batch."""
    outcome = batch.outcomes.get(table)
    if outcome is None or outcome.state == QUARANTINED_PART:
        return
    left = {error.object for error in (*outcome.quarantined, *outcome.parked)}
    yield from (item.id for item in batch.manifest.tables[table].objects if item.id.hash not in left)


def _only_copies(records: Sequence[ObjectRecord] | Any) -> list[ObjectRecord]:
    """Superseded versions whose bytes no committed version of their key has any more: that one is gone from bronze."""
    known = {(record.id.key, record.etag, record.size) for record in records if record.state in (COMMITTED, PENDING)}
    return [
        record
        for record in records
        if record.state == SUPERSEDED and (record.id.key, record.etag, record.size) not in known
    ]


def obstacles(table: str, lane: str, *, ledger: Ledger, plan: ReplayPlan, without_gone: bool) -> tuple[str, ...]:
    """Why the table can't be rebuilt now, each with what to do; none: it can."""
    found = []
    states = {state.lane: state for state in ledger.lanes.all()}
    if lane not in states or states[lane].state != PAUSED:
        state = "idle" if lane not in states else states[lane].state
        found.append(
            f"lane {lane} is {state}, and a run could write the table: `sluice pause {lane}`, until `sluice status` says paused"
        )
    for name in states:
        if any(
            table in set(pointer.tables) - set(pointer.settled_tables) for pointer in ledger.batches.unsettled(name)
        ):
            found.append(
                f"a batch of {table} in lane {name} is unfinished: `sluice resume {name}`, `sluice wait`, `sluice pause {name}`"
            )
    if plan.unknown:
        found.append(
            f"{counted(len(plan.unknown), 'object')} of {table} in bronze {'is' if len(plan.unknown) == 1 else 'are'} not in the ledger: `sluice rebuild ledger` first"
        )
    if plan.gone and not without_gone:
        found.append(
            f"{counted(len(plan.gone), 'object')} that {table} was made of {'is' if len(plan.gone) == 1 else 'are'} no longer in bronze: rows that only they told would be missing, "
            "and rows whose deletion only they told would be back. Restore them, or --without-gone"
        )
    return tuple(found)


def states_describe(plan: ReplayPlan) -> dict[str, int]:
    """Counts of what the plan found, by what becomes of it."""
    return dict(
        Counter(
            {
                "replayed": len(plan.replay),
                "pending_already": len(plan.waiting),
                "quarantined": len(plan.quarantined),
                "parked": len(plan.parked),
                "gone": len(plan.gone),
            }
        )
    )
