"""`sluice table drop`: removes a table that no rule makes any more; its objects in bronze stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from sluice.catalog.tables import OWNER, names_of
from sluice.config.pinned_topic import config_by_topic, pinned_topic
from sluice.config.table import TableConfig, kept_history
from sluice.errors import CommandFailed
from sluice.hudi.table_properties import PROPERTIES_FILE
from sluice.lane.machine import RUNNING, STARTING
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice.schema.history import TABLES_PREFIX
from sluice.silver_keys import BEGUN, FINISHED, replaced_prefix
from sluice_aws.catalog.glue import GlueCatalog
from sluice_aws.clock import StoreClock
from sluice_aws.ledger.rebuilds import ENDED
from sluice_aws.s3.move_prefix import Mover
from sluice_aws.s3.objects import ListedVersion, SkippedDocuments, pages_of_bronze
from sluice_aws.s3.past_rebuilds import PastRebuilds
from sluice_aws.stack import Target
from sluice_cli.tables.rebuild_plan import obstacles_of_lanes
from sluice_cli.terminal.interaction import bars, counting
from sluice_cli.terminal.known_names import check_table
from sluice_cli.terminal.options import Json, Stack, TableName, command_line, option
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.stack import chosen_target, operator_of
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted, human_bytes


def drop(
    table: TableName,
    yes: Annotated[bool, option("--yes", "Do it. Without, the command shows what would go.")] = False,
    keep_data: Annotated[
        bool, option("--keep-data", "Move the data below _sluice/replaced/ in silver; don't delete it.")
    ] = False,
    keep_catalog: Annotated[
        bool, option("--keep-catalog", "Leave the table and its views in the Glue catalog.")
    ] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Drop a table that no rule makes any more: its data in silver, its entries in the catalog and the ledger.

    Without --yes it only shows what would go. Objects in bronze stay: the ledger ignores those of the table, until a
    rule takes their topic again and `sluice backfill` brings them in, which makes the table anew. Manifests and
    outcomes of its batches stay, too. Repeat the command to finish an interrupted one.

    First remove its rule and push; no run may work on the table.

    Examples:

      sluice config push tables.yaml && sluice table drop crm.old
      sluice table drop crm.old --yes
    """
    target = chosen_target(stack)
    dropping = Drop(target, table, keep_data=keep_data, keep_catalog=keep_catalog)
    if not dropping.is_there:
        check_table(target, table)
    obstacles = dropping.obstacles()
    if obstacles and yes:
        raise CommandFailed(
            f"{table} can't be dropped now:\n" + "\n".join(obstacles), next_step="Do this first, then drop it"
        )
    with counting(as_json) as tick:
        plan = dropping.plan(tick)
    document = {"table": table, "dropped": yes, "obstacles": list(obstacles), **plan.to_dict()}
    if yes:
        with bars(as_json) as advance:
            dropping.run(plan, advance)
    if as_json:
        print_json(document)
        return
    for line in plan.lines(yes):
        print_line(line)
    if not yes:
        say("Nothing has changed: --yes does it")
        for obstacle in obstacles:
            say(f"before that: {obstacle}")


@dataclass(frozen=True)
class DropPlan:
    """What a drop removes: objects of the table by state, files and their bytes, and entries of the catalog.

    `kept_in` is where data is moved to, None where it is deleted. `catalog` are names with their database.
    """

    records: tuple[ObjectRecord, ...]
    files: int
    bytes: int
    catalog: tuple[tuple[str, str], ...]
    lanes: tuple[str, ...]
    kept_in: str | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "objects": len(self.records),
            "files": self.files,
            "bytes": self.bytes,
            "kept_in": self.kept_in,
            "catalog": [f"{database}.{name}" for database, name in self.catalog],
            "lanes": list(self.lanes),
        }

    def lines(self, done: bool) -> Iterator[str]:
        """What goes or went, for people."""
        verb = "" if done else "to be "
        fate = f"{verb}moved to {self.kept_in}" if self.kept_in else f"{verb}deleted"
        yield f"data in silver: {counted(self.files, 'file')}, {human_bytes(self.bytes)}, {fate}"
        entries = ", ".join(f"{database}.{name}" for database, name in self.catalog)
        yield f"catalog: {f'{entries}, {verb}deleted' if entries else 'nothing'}"
        yield f"ledger: the table, {verb}deleted; {counted(len(self.records), 'object')}, {verb}ignored"
        for lane in self.lanes:
            yield f"ledger: lane {lane}, which has no other table, {verb}deleted"
        yield f"The objects in bronze stay: a rule for their topic and {Step('backfill')} make the table again"


class Drop:
    """The drop of one table, new or interrupted before."""

    def __init__(self, target: Target, table: str, *, keep_data: bool, keep_catalog: bool) -> None:
        self._target, self._table = target, table
        self._keep_catalog = keep_catalog
        self._ledger = target.ledger
        self._configuration = target.configuration()
        self._state = target.ledger.tables.get(table)
        self._mover = Mover(target.client("s3"), target.silver)
        self._now_ms = StoreClock(target.objects.ask_time(target.silver)).now_ms
        self._batch = next(target.past_batches().newest(table=table), None)
        self._lane = "" if self._batch is None else self._batch.manifest.lane
        begun = self._begun()
        self._to = begun["to"] if begun else replaced_prefix(table, self._now_ms())
        self._keep_data: bool = begun["keep_data"] if begun else keep_data
        self.is_there = bool(begun or self._state.pinned or self._state.last_commit_at or self._state.failures)

    def obstacles(self) -> tuple[str, ...]:
        """Why the table can't be dropped now: a rule makes it, or a run may write it."""
        configuration = self._configuration
        topics = (pinned_topic(self._state.pinned), None if self._config is None else self._config.topic)
        is_ruled = configuration is not None and any(rule.table == self._table for rule in configuration.rules)
        if is_ruled or any(config_by_topic(configuration, topic, self._table) for topic in topics):
            push = Step("config push")
            return (
                f"a rule in force makes {self._table}: remove it from tables.yaml and run {push}. Name its topic under "
                "`ignore` if more of it comes",
            )
        working = {lane.lane for lane in self._ledger.lanes.all() if lane.state in (RUNNING, STARTING)}
        return obstacles_of_lanes(self._table, self._lane, ledger=self._ledger, at_rest=self._lane not in working)

    def plan(self, tick: Callable[[str, int], None]) -> DropPlan:
        """Look at bronze, the ledger, silver and the catalog. Changes nothing."""
        records: list[ObjectRecord] = []
        listed = 0
        for page in pages_of_bronze(self._target.objects, self._target.bronze):
            records += self._own(page)
            listed += len(page)
            tick("Versions in bronze", listed)
        sizes = [size for folder in self._folders() for size in self._mover.sizes(folder).values()]
        lane = self._lane
        configured = self._configuration.lane_names() if self._configuration is not None else ()
        return DropPlan(
            records=tuple(records),
            files=len(sizes),
            bytes=sum(sizes),
            catalog=() if self._keep_catalog else tuple(self._entries()),
            lanes=(lane,) if lane and lane not in configured and not self._ledger.pending.oldest(lane, 1) else (),
            kept_in=f"s3://{self._target.silver}/{self._to}" if self._keep_data else None,
        )

    def run(self, plan: DropPlan, advance: Callable[[str, int, int], None]) -> None:
        """Mark what is dropped, then remove catalog, data, objects and the table's item. Each step may be repeated."""
        mark = {
            "table": self._table,
            "lane": self._lane,
            "to": self._to,
            "at": self._now_ms(),
            "keep_data": self._keep_data,
            "dropped": True,
            "command": command_line.get(),
            "by": operator_of(self._target),
        }
        # As after a rebuild, outcomes of earlier batches describe data that is gone.
        self._target.objects.put_json(self._target.silver, self._to + BEGUN, mark)
        glue = self._target.client("glue")
        for database, name in plan.catalog:
            try:
                glue.delete_table(DatabaseName=database, Name=name)
            except glue.exceptions.EntityNotFoundException:
                continue  # dropped before
        for folder in self._folders():
            if self._keep_data:
                tick = lambda done, total: advance("Moving files", done, total)  # noqa: E731
                self._mover.move(folder, f"{self._to}{folder}", first=(PROPERTIES_FILE,), tick=tick)
            else:
                self._mover.remove(folder, first=(PROPERTIES_FILE,))
        self._mover.remove(f"{TABLES_PREFIX}{self._table}/")
        for start in range(0, len(plan.records), 400):
            chunk = plan.records[start : start + 400]
            self._ledger.drops.objects(self._table, chunk, self._now_ms())
            advance("Objects ignored", start + len(chunk), len(plan.records))
        self._target.objects.put_json(self._target.silver, self._to + FINISHED, {"at": self._now_ms()})
        self._ledger.drops.table(self._table, [state.lane for state in self._ledger.lanes.all()], plan.lanes)

    def _begun(self) -> Mapping[str, Any] | None:
        """The mark of a drop that was interrupted."""
        rebuilds = PastRebuilds.read(self._target.objects, self._target.silver, SkippedDocuments(), table=self._table)
        return rebuilds.newest(self._table) if self._table in rebuilds.unfinished(drops=True) else None

    def _own(self, page: Mapping[ObjectId, ListedVersion]) -> Iterator[ObjectRecord]:
        """The table's objects in a page of the listing, those of a rule with `also` too."""
        identities = [one for identity in page for one in (identity, replace(identity, also_for=self._table))]
        for record in self._ledger.objects.get(identities).values():
            if record.table == self._table and record.state in ENDED:
                yield record

    @property
    def _config(self) -> TableConfig | None:
        """The settings of the table's newest batch."""
        return None if self._batch is None else self._batch.manifest.tables[self._table].table_config

    def _folders(self) -> Iterator[str]:
        """The folders of the table and of its history table in silver."""
        database, _, name = self._table.partition(".")
        history = kept_history(self._state.pinned)
        if history is None and self._config is not None and self._config.history:
            history = self._config.history_table.name
        for folder in filter(None, (name, history)):
            yield f"{database}/{folder}/"

    def _entries(self) -> Iterator[tuple[str, str]]:
        """The tables and views that the catalog has of this table, as Sluice made them."""
        config = self._config
        if config is None:
            return
        glue = GlueCatalog(self._target.client("glue"))
        for own in (config, config.history_table) if config.history else (config,):
            names = names_of(own)
            for name, glue_table in sorted((glue.tables(names.database, sorted(names.all)) or {}).items()):
                if (glue_table.get("Parameters") or {}).get(OWNER) == own.table:
                    yield names.database, name
