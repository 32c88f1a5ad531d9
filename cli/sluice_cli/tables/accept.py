"""`sluice table accept`: goes on with a table that was deleted or restored, as it is now."""

from __future__ import annotations

from dataclasses import replace

from sluice.batch.claim import TableState
from sluice.config.pinned_topic import config_by_pinned_topic, config_in_force
from sluice.config.table import TableConfig, as_stored, kept_history
from sluice.errors import CommandFailed, TableWentBack
from sluice_aws.s3.lost_properties import lost_properties, restore_properties
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.stack import Target
from sluice_cli.account.steps import CHECKS, TABLES_AND_LANES
from sluice_cli.account.table import unblocking
from sluice_cli.terminal.interaction import ask
from sluice_cli.terminal.known_names import known_table
from sluice_cli.terminal.options import Json, Stack, TableName, Yes
from sluice_cli.terminal.output import print_json, print_line
from sluice_cli.terminal.stack import chosen_target, supervise_now


def accept(table: TableName, yes: Yes = False, as_json: Json = False, stack: Stack = None) -> None:
    """Go on with a table that was deleted or restored to an earlier state, as it is now.

    The ledger takes the table's newest commit for its last one, and waiting objects are merged. Rows of later commits
    are not merged again: `sluice rebuild table` does that. A table that is as the ledger knows it is left alone. Where
    its file hoodie.properties is gone or empty, and its commits are there, the file is restored first.

    Example:

      sluice table accept crm.user
    """
    target = chosen_target(stack)
    ledger = target.ledger
    state = ledger.tables.get(table)
    configuration = target.configuration()
    if state.blocked and state.blocked["code"] != TableWentBack.code:
        config = config_by_pinned_topic(configuration, table, state.pinned)
        raise CommandFailed(
            f"{table} can't be accepted as it is: {state.blocked['error']}",
            next_step=unblocking(state, config.lane if config is not None else None),
        )
    with known_table(target, table):
        config = config_in_force(configuration, table, state.pinned)
        lane = config.lane
    restored = _restored(target, state, as_stored(config, state.pinned))
    silver = TimelineReader(target.silver_files)
    newest, of_history = silver.timeline(table), silver.timeline(config.history_table.table)
    instant, history = (look.newest.time if look.newest is not None else None for look in (newest, of_history))
    lacks = ((newest, state.last_instant), (of_history, state.history_instant))
    changed = bool(state.blocked) or any(last is not None and timeline.lacks(last) for timeline, last in lacks)
    if restored and not changed:
        ledger.tables.end_backoff(table)
    if restored or changed:
        if changed and not yes and not (restored and newest.holds(state.last_instant or "")):
            ask(
                f"Go on with {table} at {instant or 'no commit'}, without its commits after that, up to "
                f"{state.last_instant}?"
            )
        if changed and not ledger.tables.accept(table, instant, history, seen=state):
            raise CommandFailed(f"{table} has changed meanwhile", next_step=str(TABLES_AND_LANES))
        ledger.lanes.wake(lane)
        supervise_now(target)
    if as_json:
        result = {"instant": instant, "before": state.last_instant, "changed": changed, "restored": restored}
        print_json({"table": table, "lane": lane, **result})
        return
    for name in restored:
        print_line(f"{name}: hoodie.properties is restored")
    if changed and instant == state.last_instant:
        print_line(f"{table}: goes on at {instant or 'no commit'}, and is no longer blocked")
    elif changed:
        print_line(f"{table}: goes on at {instant or 'no commit'}, was at {state.last_instant}")
    elif not restored:
        print_line(f"{table}: nothing to accept, {state.last_instant or 'no commit'} is its last commit")


def _restored(target: Target, state: TableState, config: TableConfig) -> list[str]:
    """Restore the lost `hoodie.properties` of a table and of its history table; the names of those that had none."""
    files = target.silver_files
    history = kept_history(state.pinned) or config.history
    of_history = (replace(config, history=history).history_table,) if history else ()
    lost = [place for place in (config, *of_history) if lost_properties(files, place.table)]
    for table in lost:
        floors = {} if table.is_history else state.purge_floors
        if not restore_properties(target.client("s3"), target.silver, files, table, floors=floors):
            raise CommandFailed(f"{table.table} was written meanwhile", next_step=str(CHECKS))
    return [place.table for place in lost]
