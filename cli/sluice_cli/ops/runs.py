"""`sluice ops runs`: the last runs of each lane: when they started and ended, why, and what they committed."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from sluice.batch.outcome import COMMITTED
from sluice.lane.machine import PAUSED
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.history import RUN_DAYS, died
from sluice_aws.s3.past_batches import PastBatch, batches_by_run
from sluice_cli.account.lane import batches_of_run, lane_entry, run_ms, steps_of_lane
from sluice_cli.account.window import Nearest, given_times
from sluice_cli.terminal.known_names import check_lane
from sluice_cli.terminal.options import Json, Stack, option
from sluice_cli.terminal.output import described_documents, print_json, say, say_next_step, say_skipped
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import in_order
from sluice_cli.terminal.tables import print_columns
from sluice_cli.terminal.words import human_age
from sluice_read.moments import clock

MANIFESTS_READ = 2_000  # at most, newest first
CLOCKS_DIFFER_MS = 60_000  # at most, between S3, which dates manifests, and the job


def runs(
    lane: Annotated[str | None, option("--lane LANE", "Only this lane.")] = None,
    failed: Annotated[bool, option("--failed", "Only runs that ended without releasing their lane.")] = False,
    limit: Annotated[int, option("--limit N", "Number of runs.", min=1, max=1_000)] = 20,
    since: Annotated[
        str | None, option("--since TIME", "Only runs under way since: 15m, 2h or 7d ago, or a time with its zone.")
    ] = None,
    before: Annotated[str | None, option("--before TIME", "Only runs that began before this time.")] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """List the last runs, the newest below: start, duration, state and its reason, batches, objects and changes.

    A run that released its lane ended as intended. One that lapsed died, and the next one took its batch over:
    `sluice ops logs RUN` shows its log. Objects and changes count with the run that committed them. Runs are kept for
    90 days. --json has the newest first.

    Examples:

      sluice ops runs
      sluice ops runs --lane main --failed
      sluice ops runs --since 2026-05-01T02:50:00Z --before 2026-05-01T03:30:00Z
    """
    now = epoch_ms()
    begins, ends = given_times(since, before, now)
    target = chosen_target(stack)
    ledger = target.ledger
    wanted = (
        item for item in ledger.history.runs() if lane in (None, item.get("lane")) and not (failed and not died(item))
    )
    lane_states = [state for state in ledger.lanes.all() if lane in (None, state.lane)]
    lanes = frozenset(state.lane for state in lane_states)
    items, nearest = under_way(wanted, lanes, begins, ends, limit)
    if not items:
        check_lane(target, lane)
        command = ["runs", *(["--lane", lane] if lane else []), *(["--failed"] if failed else [])]
        _say_nothing(
            f"No run{f' of lane {lane}' if lane else ''}", failed, nearest, nearest.steps(command, begins, now)
        )
    past = target.past_batches()
    oldest = min((_began(item) for item in items), default=None)
    # Nothing else reads less: the newest batches may be of later runs.
    newest = None if ends is None else max((item.get("ended_at") or now for item in items), default=None)
    until = None if newest is None else newest + CLOCKS_DIFFER_MS
    batches = list(past.newest(since=oldest, until=until, at_most=MANIFESTS_READ)) if items else []
    listed = summaries(items, batches, now)
    say_skipped(past.skipped)
    if past.unread:
        say(f"Batches and objects are those of the newest {MANIFESTS_READ:,} batches; {past.unread:,} are older")
    if as_json:
        print_json(
            {"runs": listed, "batches_unread": past.unread, "skipped_documents": described_documents(past.skipped)}
        )
        return
    if not listed and sys.stdout.isatty():
        return
    print_columns(
        reversed(listed),
        {
            "run": "run",
            "lane": "lane",
            "started": lambda run: clock(run["started_at"] or run["requested_at"]),
            "#duration": lambda run: None if run["seconds"] is None else human_age(round(run["seconds"] * 1000)),
            "state": "state",
            "#batches": lambda run: batches_of_run(run["state"], run["batches"]),
            "#objects": "objects",
            "#changes": "changes",
            "reason": "reason",
        },
        shorten=["run"],
        apart=["reason"],
        states=["state"],
        minor=["objects", "lane", "batches", "changes"],
    )
    for state in lane_states:
        entry = lane_entry(state, now)
        if entry["failures"] and state.state != PAUSED and any(run["lane"] == state.lane for run in listed):
            say_next_step(f"lane {state.lane}: {in_order(steps_of_lane(entry))}")


def under_way(
    newest_first: Iterable[Mapping[str, Any]], lanes: frozenset[str], since: int | None, before: int | None, limit: int
) -> tuple[list[Mapping[str, Any]], Nearest]:
    """The newest `limit` runs, by their items, that were under way within [since, before) (epoch ms), and the nearest.

    `lanes` are those of the runs. A lane has one run at a time, so that its runs before one that began before `since`
    are not asked for.
    """
    items: list[Mapping[str, Any]] = []
    earlier: int | None = None
    later: int | None = None
    left = set(lanes)
    for item in newest_first:
        began, ended = _began(item), item.get("ended_at")
        if before is not None and began >= before:
            later = began
        elif since is not None and ended is not None and ended < since:
            earlier = max(earlier or 0, ended)
        else:
            items.append(item)
        if since is not None and began < since:
            left.discard(item.get("lane") or "")
            if not left and (items or earlier is not None):
                break
        if len(items) == limit:
            break
    return items, Nearest(earlier, later)


def _began(item: Mapping[str, Any]) -> int:
    return int(item.get("requested_at") or item.get("started_at") or 0)


def _say_nothing(no_run: str, failed: bool, nearest: Nearest, steps: Sequence[str]) -> None:
    """Say that no run was found, when the nearest ones ended and began, and which commands show these."""
    if steps:
        say(f"{no_run} {'failed' if failed else 'was under way'} in this time: {nearest.described}")
        for step in steps:
            say_next_step(step)
    else:
        say(f"{no_run} {'has failed' if failed else 'has begun'} in the last {RUN_DAYS} days, for which runs are kept")


def summaries(items: Iterable[Mapping[str, Any]], batches: Iterable[PastBatch], now: int) -> list[dict[str, Any]]:
    """The JSON form of runs by their items of the ledger, in the given order, with what they committed.

    Times are epoch ms, None if unknown; `seconds` from a run's begin, or its request, to its end or now. `objects` and
    `changes` are those of the parts that it committed, of batches that it took over, too.
    """
    listed = list(items)
    by_run = batches_by_run(batches, {item["run"]: item for item in listed})
    return [_summary(item, by_run.get(item["run"], ()), now) for item in listed]


def _summary(item: Mapping[str, Any], batches: Sequence[PastBatch], now: int) -> dict[str, Any]:
    outcomes = [
        (outcome, len(batch.manifest.tables[table].objects))
        for batch in batches
        for table, outcome in batch.outcomes.items()
        if outcome.state == COMMITTED
    ]
    took = run_ms(item, now)
    return {
        "run": item["run"],
        "lane": item.get("lane") or "",
        "state": item.get("state") or "",
        "reason": item.get("reason"),
        "job_run": item.get("job_run_id"),
        **{name: item.get(name) for name in ("requested_at", "started_at", "ended_at")},
        "seconds": None if took is None else took / 1000,
        "batches": max(int(item.get("batches") or 0), len(batches)),
        "objects": sum(outcome.counts.get("objects", planned) for outcome, planned in outcomes),
        "changes": sum(outcome.counts.get("read", 0) for outcome, _ in outcomes),
    }
