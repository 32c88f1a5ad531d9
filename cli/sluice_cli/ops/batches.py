"""`sluice ops batch show` and `sluice ops batch give-up`: batches that no run has finished yet."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from sluice.batch.isolation import ALONE, DIVIDE, SET_ASIDE, TOGETHER, OpenPart, retry_at, treatment
from sluice.batch.manifest import Manifest
from sluice.errors import CommandFailed, UsageError
from sluice.ledger.records import ManifestPointer
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.manifests import ManifestStore
from sluice_aws.stack import Target
from sluice_cli.account.steps import NEWEST_OBJECTS, OPEN_BATCHES, at_rest
from sluice_cli.terminal.options import Json, Stack, argument, option
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.stack import chosen_target, operator_of, supervise_now
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import human_age, human_bytes, is_named

MAX_REASON = 500
SHORT_ID = 14  # "b-" and 12 digits

app = typer.Typer(no_args_is_help=True)

_NEXT = {
    TOGETHER: "merge it again",
    ALONE: "merge it again with nothing beside it",
    DIVIDE: "merge its objects in smaller batches",
    SET_ASIDE: "quarantine its objects",
}


@dataclass(frozen=True)
class _OpenBatch:
    lane: str
    pointer: ManifestPointer
    manifest: Manifest | None

    @property
    def parts(self) -> list[OpenPart]:
        return [] if self.manifest is None else self.pointer.open_parts(self.manifest)


@app.command("show")
def show(
    batch: Annotated[str | None, argument("[BATCH]", "Only this batch: the beginning of its id.")] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """List the open batches by table: how many runs took them over, and what the next run does.

    A run that dies leaves its batch open, and the next one finishes it: `attempts` counts those. --json also
    lists the objects of each table.

    Examples:

      sluice ops batch show
      sluice ops batch show b-3f2a --json | jq '.batches[].tables[].objects[].key'
    """
    target = chosen_target(stack)
    batches = _open_batches(target, batch)
    now = epoch_ms()
    if as_json:
        print_json({"batches": [_describe(item, now) for item in batches]})
        return
    if not batches:
        say("No batch is open")
    if not batches and sys.stdout.isatty():
        return
    print_table(
        ("batch", "lane", "open for", "table", "objects", "size", "attempts", "next run"),
        [
            (
                item.pointer.batch[:SHORT_ID],
                item.lane,
                human_age(now - item.pointer.created_at),
                part.table,
                f"{part.objects:,}",
                human_bytes(part.bytes),
                str(part.attempts),
                _next(part, now),
            )
            for item in batches
            for part in item.parts
        ],
        right=(4, 5, 6),
        apart=(7,),
        minor=(2, 5),
    )


@app.command("give-up")
def give_up(
    batch: Annotated[str, argument("BATCH", "The beginning of its id, as `show` lists it.")],
    table: Annotated[str | None, option("--table TABLE", "Only this table: database.table.")] = None,
    note: Annotated[str | None, option("--note TEXT", "Kept with the objects.")] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Quarantine the objects of an open batch instead of merging them again.

    The lane's next run does it, unless it finds that the batch was committed. `sluice quarantine retry` takes the
    objects back in. Rarely needed: an object that kills its runs is found and quarantined without help.

    Example:

      sluice ops batch give-up b-3f2a9c --table crm.user --note 'hangs for an hour'
    """
    target = chosen_target(stack)
    ledger = target.ledger
    batches = _open_batches(target, batch)
    if len(batches) > 1:
        raise UsageError(f"{len(batches)} open batches begin with {batch}", next_step="Give more digits of the id")
    (item,) = batches
    unfinished = [name for name in item.pointer.tables if name not in item.pointer.settled_tables]
    tables = [name for name in unfinished if table in (None, name)]
    if not tables:
        raise UsageError(f"{table} is not open in {item.pointer.batch}", next_step=str(OPEN_BATCHES))
    reason = f"given up by {operator_of(target)}{f': {note}' if note else ''}"[:MAX_REASON]
    given_up = [name for name in tables if ledger.batches.give_up(item.pointer.batch, name, reason)]
    if not given_up:
        raise CommandFailed("The batch was settled meanwhile", next_step=str(OPEN_BATCHES))
    lane = ledger.lanes.wake(item.lane)
    if not at_rest(lane):
        supervise_now(target)
    if as_json:
        print_json({"batch": item.pointer.batch, "lane": item.lane, "tables": given_up})
        return
    print_line(f"{item.pointer.batch}: the next run quarantines {', '.join(given_up)}")
    if at_rest(lane):
        print_line(at_rest(lane))


def _open_batches(target: Target, prefix: str | None) -> Sequence[_OpenBatch]:
    """The open batches of every lane, oldest first, or those whose ids begin with it. Raises UsageError for none."""
    manifests = ManifestStore(target.objects, target.silver)
    batches = [
        _OpenBatch(state.lane, pointer, manifests.manifest(pointer.s3_key))
        for state in target.ledger.lanes.all()
        for pointer in target.ledger.batches.unsettled(state.lane)
        if prefix is None or is_named(prefix, pointer.batch)
    ]
    if prefix is not None and not batches:
        raise UsageError(f"No open batch begins with {prefix!r}", next_step=f"{OPEN_BATCHES}; {NEWEST_OBJECTS}")
    return batches


def _next(part: OpenPart, now: int) -> str:
    waits = retry_at(part) - now
    return _NEXT[treatment(part)] + (f", in {human_age(waits)}" if waits > 0 else "")


def _describe(batch: _OpenBatch, now: int) -> dict[str, Any]:
    return {
        "batch": batch.pointer.batch,
        "lane": batch.lane,
        "opened_by": batch.pointer.run,
        "opened_at": batch.pointer.created_at,
        "tables": [
            {
                "table": part.table,
                "objects": [
                    {"key": item.key, "version": item.version, "size": item.size}
                    for item in (batch.manifest.tables[part.table].objects if batch.manifest else ())
                ],
                "bytes": part.bytes,
                "attempts": part.attempts,
                "isolated": part.cohort is not None,
                "given_up": batch.pointer.attempts[part.table].given_up,
                "next": treatment(part),
                "not_before": retry_at(part) or None,
            }
            for part in batch.parts
        ],
    }
