"""`sluice pause` and `sluice resume`: stop and restart the runs of a lane."""

from __future__ import annotations

from typing import Annotated, Any

from sluice.errors import CommandFailed
from sluice.lane.machine import HALTED, IDLE, PAUSED, LaneState
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_cli.account.lane import describe_lane, rebuilds_by_lane, restarted
from sluice_cli.account.steps import continued_rebuild
from sluice_cli.terminal.known_names import check_lane
from sluice_cli.terminal.options import Json, Stack, argument
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.stack import chosen_target, supervise_now

Lane = Annotated[str, argument("LANE", "The lane's name, as `sluice status` lists it.")]


def pause(lane: Lane, as_json: Json = False, stack: Stack = None) -> None:
    """Stop starting runs in a lane. A run in progress ends after its batch.

    New objects keep arriving in the ledger and wait there until `sluice resume`.

    Example:

      sluice pause main
    """
    target = chosen_target(stack)
    check_lane(target, lane)  # a mistyped name would create an item
    _decided_by_hand(target.ledger, lane)
    _print(target.ledger.lanes.pause(lane), as_json)


def resume(lane: Lane, as_json: Json = False, stack: Stack = None) -> None:
    """End a pause or a halt, and start a run if one is due.

    A lane halts after five runs in a row that failed without committing anything. It then tries again once an hour.
    Tables of the lane that failed are tried again at once.

    Example:

      sluice status && sluice resume main
    """
    target = chosen_target(stack)
    check_lane(target, lane)
    ledger = target.ledger
    table = rebuilds_by_lane(ledger.tables.all()).get(lane)
    if table is not None:
        step = continued_rebuild(table, lane)
        raise CommandFailed(f"{table} is being rebuilt, and only part of its data is moved", next_step=str(step))
    _decided_by_hand(ledger, lane)
    failed = _waiting_for_another_try(ledger, lane)
    for table in failed:
        ledger.tables.end_backoff(table)
        say(f"{table} is tried again at once")
    state = ledger.lanes.get(lane)
    waits = state.state == IDLE and state.backoff_until is not None
    if waits or state.state in (PAUSED, HALTED) or state.pause_requested:
        state = ledger.lanes.resume(lane)
    elif failed:
        state = ledger.lanes.wake(lane)
    else:  # resumed, it would start a run that finds nothing
        say(f"{lane} is neither paused nor halted")
    supervise_now(target)
    _print(state, as_json)


def _waiting_for_another_try(ledger: Ledger, lane: str) -> list[str]:
    """The tables in back-off of which objects are pending in the lane."""
    now = epoch_ms()
    failed = [
        state.table for state in ledger.tables.all() if state.backoff_until is not None and state.backoff_until > now
    ]
    return sorted({item.table for item in ledger.pending.oldest_of(lane, dict.fromkeys(failed, 1))})


def _decided_by_hand(ledger: Ledger, lane: str) -> None:
    """Take the lane out of a standstill, so that its end leaves the lane as it is."""
    resting = ledger.lanes.paused_for_standstill()
    if lane in resting:
        ledger.lanes.note_standstill([name for name in resting if name != lane])


def _print(state: LaneState, as_json: bool) -> None:
    if as_json:
        document: dict[str, Any] = {
            "lane": state.lane,
            "state": state.state,
            "pause_requested": state.pause_requested,
            "run": state.run_id,
        }
        print_json(document)
    else:
        print_line(f"{state.lane}: {describe_lane(state, epoch_ms())}{restarted(state)}")
