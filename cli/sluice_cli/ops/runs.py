"""`sluice runs`: the last runs of each lane: when they started and ended, why, and what they committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import typer

from sluice.batch.outcome import COMMITTED
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.past_batches import PastBatch, PastBatches
from sluice_cli.terminal.known_names import check_lane
from sluice_cli.terminal.output import (
    Json,
    Stack,
    chosen_target,
    described_documents,
    human_age,
    print_json,
    print_table,
    say,
    say_skipped,
)
from sluice_read.moments import clock

MANIFESTS_READ = 2_000  # at most, newest first
RELEASED = "released"


@dataclass(frozen=True)
class RunSummary:
    """A run. Times are epoch ms, None if unknown; `seconds` from its begin, or its request, to its end or now.

    `objects` and `changes` are those of committed parts of its batches.
    """

    run: str
    lane: str
    state: str
    reason: str | None
    job_run: str | None
    requested_at: int | None
    started_at: int | None
    ended_at: int | None
    seconds: float | None
    batches: int
    objects: int
    changes: int


def runs(
    lane: Annotated[
        str | None, typer.Option("--lane", metavar="LANE", help="Only this lane.", show_default=False)
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Only runs that ended without releasing their lane.")
    ] = False,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, max=1_000, help="Number of runs.")] = 20,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """List the last runs, newest first: start, duration, state and its reason, batches, objects and changes.

    A run that released its lane ended as intended. One that lapsed died, and the next one took its batch over:
    `sluice logs RUN` shows its log. Runs are kept for 90 days.

    Examples:

      sluice runs

      sluice runs --lane main --failed
    """
    target = chosen_target(stack)
    history = DynamoDbLedger(target.client("dynamodb"), target.ledger_table).history
    wanted = (item for item in history.runs() if lane in (None, item.get("lane")) and not (failed and not _died(item)))
    items = list(islice(wanted, last))
    if not items:
        check_lane(target, lane)
    past = PastBatches(Objects(target.client("s3")), target.silver)
    since = min((item.get("requested_at") or item.get("started_at") or 0 for item in items), default=None)
    batches = list(past.newest(since=since, at_most=MANIFESTS_READ)) if items else []
    found = summaries(items, batches, epoch_ms())
    say_skipped(past.skipped)
    if past.unread:
        say(f"Batches and objects are those of the newest {MANIFESTS_READ:,} batches; {past.unread:,} are older")
    if as_json:
        print_json(
            {
                "runs": [vars(run) for run in found],
                "batches_unread": past.unread,
                "skipped_documents": described_documents(past.skipped),
            }
        )
        return
    print_table(
        ("run", "lane", "started", "duration", "state", "batches", "objects", "changes", "reason"),
        [
            (
                run.run,
                run.lane,
                clock(run.started_at or run.requested_at),
                "" if run.seconds is None else human_age(round(run.seconds * 1000)),
                run.state,
                f"{run.batches:,}",
                f"{run.objects:,}",
                f"{run.changes:,}",
                run.reason or "",
            )
            for run in found
        ],
        right=(3, 5, 6, 7),
        apart=(8,),
        minor=(1, 5, 6),
    )


def summaries(items: Iterable[Mapping[str, Any]], batches: Iterable[PastBatch], now: int) -> tuple[RunSummary, ...]:
    """Summarize runs by their items of the ledger, in the given order, with what their batches committed."""
    by_run: dict[str, list[PastBatch]] = {}
    for batch in batches:
        by_run.setdefault(batch.manifest.run, []).append(batch)
    return tuple(_summary(item, by_run.get(item["run"], []), now) for item in items)


def _summary(item: Mapping[str, Any], batches: Iterable[PastBatch], now: int) -> RunSummary:
    listed = list(batches)
    outcomes = [
        (outcome, len(batch.manifest.tables[table].objects))
        for batch in listed
        for table, outcome in batch.outcomes.items()
        if outcome.state == COMMITTED
    ]
    began, ended = item.get("started_at") or item.get("requested_at"), item.get("ended_at")
    return RunSummary(
        run=item["run"],
        lane=item.get("lane") or "",
        state=item.get("state") or "",
        reason=item.get("reason"),
        job_run=item.get("job_run_id"),
        requested_at=item.get("requested_at"),
        started_at=item.get("started_at"),
        ended_at=ended,
        seconds=None if began is None else max(0, (ended or now) - began) / 1000,
        batches=max(int(item.get("batches") or 0), len(listed)),
        objects=sum(outcome.counts.get("objects", planned) for outcome, planned in outcomes),
        changes=sum(outcome.counts.get("read", 0) for outcome, _ in outcomes),
    )


def _died(item: Mapping[str, Any]) -> bool:
    return item.get("ended_at") is not None and item.get("state") != RELEASED
