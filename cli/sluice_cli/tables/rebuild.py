"""`sluice rebuild table`: moves a table's data aside and merges its objects in bronze again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer

from sluice.catalog.tables import names_of
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_topic, config_in_force
from sluice.config.table import TableConfig
from sluice.errors import NotConfigured
from sluice.hudi.table_properties import PROPERTIES_FILE
from sluice.ledger.records import ObjectRecord
from sluice.schema.history import stored_key
from sluice.silver_keys import BEGUN, FINISHED, replaced_prefix
from sluice_aws.clock import StoreClock
from sluice_aws.s3.move_prefix import Mover
from sluice_aws.stack import Target
from sluice_cli.account.object import key_and_version
from sluice_cli.config.risks import drop_in_glue
from sluice_cli.errors import CannotRebuild
from sluice_cli.tables.rebuild_plan import ReplayPlan, obstacles, obstacles_of_lanes, plan_replay
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.interaction import ask, bars, counting
from sluice_cli.terminal.known_names import known_table
from sluice_cli.terminal.options import DryRun, Json, Stack, TableName, Yes, command_line, option
from sluice_cli.terminal.output import described_documents, print_json, print_line, say, say_skipped
from sluice_cli.terminal.stack import chosen_target, operator_of
from sluice_cli.terminal.step import Step, in_a_row
from sluice_cli.terminal.words import counted, human_bytes

AT_ONCE = 400  # objects per step of the progress bar: at least eight transactions
GONE_SHOWN = 50

app = typer.Typer(no_args_is_help=True)


@app.command("table")
def table(
    name: TableName,
    dry_run: DryRun = False,
    yes: Yes = False,
    history: Annotated[
        bool,
        option(
            "--history",
            "Also write its history table: for another key or position, columns to conceal, or after damage. "
            "It then has only the changes that bronze still has.",
        ),
    ] = False,
    without_gone: Annotated[
        bool,
        option(
            "--without-gone",
            "Also where objects of the table are no longer in bronze, or archived there. "
            "Rows that only they hold will be missing.",
        ),
    ] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Rebuild a table from its objects: for another key, partitioning or type, or after its data was damaged.

    The data is moved to a folder under `_sluice/replaced/` of the silver bucket and kept there. The table's objects
    become pending, and are merged again once the lane is resumed. Until then readers see an empty table, and a complete
    one only after `sluice wait`. Quarantined objects stay in quarantine; retry them afterwards. A history table stays,
    and gets the changes that it lacks; --history writes it again.

    The lane must be paused, so that nothing else writes the table. Repeat the command to finish an interrupted rebuild.

    Examples:

      sluice rebuild table crm.user --dry-run
      sluice pause main && sluice rebuild table crm.user
      sluice config push tables.yaml && sluice resume main && sluice wait
    """
    target = chosen_target(stack)
    with known_table(target, name):
        rebuild = Rebuild(target, name, history=history)
    at_work = rebuild.look()
    with counting(as_json) as tick:
        plan = rebuild.plan(tick)
    say_skipped(plan.skipped)
    silver = rebuild.silver_bytes()
    against = (*at_work, *obstacles(name, plan, without_gone=without_gone or rebuild.begun_without_gone))
    if dry_run or against:
        if as_json:
            print_json({**rebuild.describe(plan, silver), "obstacles": list(against), "changed": False})
        else:
            _print_plan(rebuild, plan, silver)
            for obstacle in against:
                print_line(f"obstacle: {obstacle}")
        if dry_run:
            return
        raise CannotRebuild(
            f"{name} can't be rebuilt now: {counted(len(against), 'obstacle')}", table=name, obstacles=list(against)
        )
    if not yes:
        _print_plan(rebuild, plan, silver)
        ask(f"Move the data of {name} aside and merge {counted(len(plan.replay) + len(plan.waiting), 'object')} again?")
    with bars(as_json) as advance:
        replayed = rebuild.run(plan, advance)
    if as_json:
        print_json({**rebuild.describe(plan, silver), "obstacles": [], "changed": True, "replayed_now": replayed})
        return
    pending = counted(replayed, "object")
    place = rebuild.describe(plan, silver)["kept_in"]
    old = f"the old data is kept in {place}" if place else "there was no old data to keep"
    print_line(f"{name}: {pending} pending again, {old}")
    merged = in_a_row(Step("resume", rebuild.lane), Step("wait"))
    say(f"Push a changed configuration now, if there is one. Then {merged}")
    if rebuild.drop_in_glue:
        say(
            f"warning: if it gives {name} other partitions, Glue can't change those that it has: {rebuild.drop_in_glue}"
        )
    if plan.quarantined:
        objects = counted(len(plan.quarantined), "object is", "objects are")
        say(f"{objects} in quarantine: {Step('quarantine retry', '--table', name)} after that")


class Rebuild:
    """One table's rebuild on one stack, new or interrupted before; with its history table where `history`."""

    def __init__(self, target: Target, table: str, *, history: bool = False) -> None:
        self._target = target
        self._table = table
        self._objects = target.objects
        self._ledger = target.ledger
        self._mover = Mover(target.client("s3"), target.silver)
        self._now_ms = StoreClock(self._objects.ask_time(target.silver)).now_ms
        self._revision: int | None = None
        self._configuration = target.configuration()
        self._begun = dict(self._ledger.tables.get(table).rebuild or {})
        config = self._config(self._configuration)
        self.lane: str = self._begun.get("lane", config.lane)
        self.to: str = self._begun.get("to", replaced_prefix(table, self._now_ms()))
        self.history: bool = self._begun.get("history", history)
        self.begun_without_gone = bool(self._begun.get("without_gone"))
        self._config_now = config

    def look(self) -> tuple[str, ...]:
        """The reasons why the lane isn't at rest; before `plan`, since what a run commits meanwhile is in no plan."""
        self._revision = self._ledger.rebuilds.revision_at_rest(self.lane)
        return obstacles_of_lanes(self._table, self.lane, ledger=self._ledger, at_rest=self._revision is not None)

    def plan(self, tick: Callable[[str, int], None]) -> ReplayPlan:
        """Read bronze, the ledger and the manifests. Changes nothing."""
        return plan_replay(self._target, self._table, self._configuration, tick)

    def silver_bytes(self) -> int:
        """The bytes to move aside."""
        return sum(sum(self._mover.sizes(folder).values()) for _, folder in self._folders())

    def run(self, plan: ReplayPlan, advance: Callable[[str, int, int], None]) -> int:
        """Mark the table, move its data aside, make its objects pending, remove the mark. Each step may be repeated."""
        mark: dict[str, Any] = {
            "at": self._now_ms(),
            "lane": self.lane,
            "to": self.to,
            "topic": self._config_now.topic,
            "command": command_line.get(),
            "by": operator_of(self._target),
            "without_gone": bool(plan.gone or plan.archived),
            "history": self.history,
        }
        mark = self._ledger.rebuilds.begin(self._table, self.lane, mark, self._revision)
        self.lane, self.to, self.history = mark["lane"], mark["to"], mark.get("history", False)
        # Beside the old data, since outcomes of earlier batches describe that data.
        self._objects.put_json(
            self._target.silver,
            f"{self.to}{BEGUN}",
            {**mark, "table": self._table, "gone": list(map(key_and_version, plan.gone))},
        )
        for moved, folder in self._folders():
            self._mover.move(
                folder,
                f"{self.to}{moved}/",
                first=(PROPERTIES_FILE,),
                tick=lambda done, total: advance("Moving files", done, total),
            )
        self._mover.move(stored_key(self._table), f"{self.to}stored.json", tick=lambda done, total: None)
        if self.history:
            history_key = stored_key(self._config_now.history_table.table)
            self._mover.move(history_key, f"{self.to}history_stored.json", tick=lambda done, total: None)
        return self._replay(plan, advance)

    def _replay(self, plan: ReplayPlan, advance: Callable[[str, int, int], None]) -> int:
        replayed = 0
        for start in range(0, len(plan.replay), AT_ONCE):
            chunk: list[ObjectRecord] = list(plan.replay[start : start + AT_ONCE])
            replayed += self._ledger.rebuilds.replay(chunk, self.lane, plan.generations, self._now_ms())
            advance("Objects pending again", start + len(chunk), len(plan.replay))
        self._objects.put_json(self._target.silver, f"{self.to}{FINISHED}", {"at": self._now_ms()})
        self._ledger.rebuilds.end(self._table, self.lane)
        return replayed

    def describe(self, plan: ReplayPlan, silver: int) -> dict[str, Any]:
        """The JSON form of the plan."""
        keeps = silver or any(self._mover.sizes(f"{self.to}{moved}/") for moved, _ in self._folders())
        return {
            "table": self._table,
            "lane": self.lane,
            "begun_before": bool(self._begun),
            "objects": {
                "replayed": len(plan.replay),
                "pending_already": len(plan.waiting),
                **{name: len(getattr(plan, name)) for name in ("quarantined", "parked", "gone", "archived")},
            },
            "bytes": plan.bytes,
            "silver_bytes": silver,
            "history": self.history,
            "kept_in": f"s3://{self._target.silver}/{self.to}" if keeps else None,
            "gone": list(map(key_and_version, plan.gone)),
            "archived": list(map(key_and_version, plan.archived)),
            "drop_in_glue": self.drop_in_glue or None,
            "skipped_documents": described_documents(plan.skipped),
            "other_generations": sum(number != self._config_now.generation for number in plan.generations.values()),
        }

    @property
    def drop_in_glue(self) -> str:
        """The step that lets the catalog take other partitions; empty for a table that it doesn't have."""
        names, config = names_of(self._config_now), self._config_now
        tables = sorted(entry.table for entry in names.entries)
        return drop_in_glue(self._target, names.database, tables, self.lane) if config.catalog.sync and tables else ""

    def _folders(self) -> Iterator[tuple[str, str]]:
        """The folders to move, each with its name at the new place."""
        config = self._config_now
        yield "table", f"{config.database}/{config.name}/"
        if self.history:
            yield "history", f"{config.database}/{config.history_table.name}/"

    def _config(self, configuration: Configuration | None) -> TableConfig:
        topic = self._begun.get("topic")
        if configuration is not None and topic:  # the ledger has no other name for it
            config = config_by_topic(configuration, topic, self._table)
            if config is not None:
                return config
            raise NotConfigured(
                f"No rule in force makes {self._table} from topic {topic}, with which its rebuild began",
                table=self._table,
            )
        return config_in_force(configuration, self._table, self._ledger.tables.get(self._table).pinned)


def _print_plan(rebuild: Rebuild, plan: ReplayPlan, silver: int) -> None:
    described = rebuild.describe(plan, silver)
    begun = ", begun before" if described["begun_before"] else ""
    print_line(f"table: {described['table']}, in lane {described['lane']}{begun}")
    objects = counted(len(plan.replay) + len(plan.waiting), "object")
    print_line(f"to merge again: {objects}, {human_bytes(plan.bytes)}, {len(plan.waiting):,} of them pending already")
    both = " with the history table" if described["history"] else ""
    place = described["kept_in"]
    print_line(
        f"to move aside: {f'{human_bytes(silver)}{both}, to {place}' if place else 'nothing, it has no data yet'}"
    )
    for title, records in (("in quarantine, unchanged", plan.quarantined), ("parked, unchanged", plan.parked)):
        if records:
            print_line(f"{title}: {counted(len(records), 'object')}")
    for title, word, listed in (
        ("gone from bronze", "gone", plan.gone),
        ("archived in bronze", "archived", plan.archived),
    ):
        if listed:
            print_line(f"{title}: {counted(len(listed), 'object')}")
        for identity in listed[:GONE_SHOWN]:
            print(f"{word}\t{visible(identity.key)}\t{identity.version}")
        if len(listed) > GONE_SHOWN:
            print(f"{word}\t... and {len(listed) - GONE_SHOWN:,} more (--json lists all)")
