"""`sluice rebuild table`: writes a table anew from its objects in bronze, its old data moved aside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from sluice.configuration import Configuration
from sluice.hudi_options import PROPERTIES_FILE
from sluice.ledger_records import ObjectRecord
from sluice.schema_history import stored_key
from sluice.silver_keys import BEGUN, FINISHED, replaced_prefix
from sluice.table_config import TableConfig
from sluice_aws.clock import epoch_ms
from sluice_aws.config_store import ConfigStore
from sluice_aws.configured_tables import NotConfigured, configured_table
from sluice_aws.ledger import Ledger
from sluice_aws.moving import Mover
from sluice_aws.objects import Objects
from sluice_cli.failures import CommandFailed, UsageError
from sluice_cli.operator import operator_of
from sluice_cli.output import (
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
from sluice_cli.past_batches import PastBatches
from sluice_cli.replaying import ReplayPlan, obstacles, pages_of_bronze, plan_replay, states_told
from sluice_cli.target import Target

AT_ONCE = 400  # objects between two looks at the progress: eight transactions' worth and more
GONE_SHOWN = 50

app = typer.Typer(
    no_args_is_help=True,
    help="Write what is derived anew: a table from its objects in bronze, the ledger from manifests and outcomes.",
)


class CannotRebuild(CommandFailed):
    """Something stands in the way of a rebuild; facts: `table`, `obstacles`."""

    code = "cannot_rebuild"
    next_step = "Nothing was changed. `--dry-run` shows again what stands in the way"


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
            print_json({**rebuild.told(plan, silver), "obstacles": list(found), "changed": False})
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
        print_json({**rebuild.told(plan, silver), "obstacles": [], "changed": True, "replayed_now": replayed})
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
        self._ledger = Ledger(target.client("dynamodb"), target.ledger_table)
        self._mover = Mover(target.client("s3"), target.silver)
        configuration = ConfigStore(self._objects, target.artifacts, ledger=self._ledger).load()
        self._begun = dict(self._ledger.table_state(table).rebuild or {})
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
        mark = self._ledger.begin_rebuild(self._table, self.lane, mark)
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
            replayed += self._ledger.replay_objects(chunk, self.lane, plan.generations, epoch_ms())
            advance("Objects pending again", start + len(chunk), len(plan.replay))
        self._objects.put_json(self._target.silver, f"{self.to}{FINISHED}", {"at": epoch_ms()})
        self._ledger.end_rebuild(self._table, self.lane)
        return replayed

    def told(self, plan: ReplayPlan, silver: int) -> dict[str, Any]:
        """The plan as plain JSON values."""
        return {
            "table": self._table,
            "lane": self.lane,
            "begun_before": bool(self._begun),
            "objects": states_told(plan),
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
            config = configuration.table_for_topic(topic)
            if config is not None and config.table == self._table:
                return config
            raise NotConfigured(
                f"No rule of the configuration in force makes {self._table} of topic {topic}, of which its rebuild was begun",
                table=self._table,
            )
        return configured_table(configuration, self._table, self._ledger)


def _print_plan(rebuild: Rebuild, plan: ReplayPlan, silver: int) -> None:
    told = rebuild.told(plan, silver)
    print(f"table: {told['table']}, in lane {told['lane']}{', begun before' if told['begun_before'] else ''}")
    print(
        f"to merge again: {counted(len(plan.replay) + len(plan.waiting), 'object')}, {human_bytes(plan.bytes)}, {len(plan.waiting):,} of them pending already"
    )
    print(f"to move aside: {human_bytes(silver)}, to {told['kept_in']}")
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
