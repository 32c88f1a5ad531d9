"""`sluice history`: what happened to objects, oldest first."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from sluice.batch.part_counts import new_changes
from sluice.errors import UsageError
from sluice.ledger.keys import CLAIMED, DISCARDED, PENDING
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.past_batches import PastBatch
from sluice_cli.account.steps import put_first
from sluice_cli.account.window import Nearest, given_times, runs_then
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.known_names import check_table
from sluice_cli.terminal.options import Json, Stack, option
from sluice_cli.terminal.output import described_documents, print_json, say, say_next_step, say_skipped, stderr_console
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import counted, human_bytes
from sluice_cli.trace.history_search import MANIFESTS_AT_MOST, Gathered, Histories, HistoryQuery
from sluice_cli.trace.object_history import Claim, Entry, describe_entry, totals
from sluice_cli.trace.stages import reason_now
from sluice_read.moments import clock, iso, short_clock

LIMIT, LARGEST_LIMIT = 50, 100_000
COLUMNS = ("put", "admitted", "claimed", "readable", "state", "table", "batch", "run", "changes", "bytes", "key")


def history(
    table: Annotated[str | None, option("--table -t TABLE", "Only objects of this table.")] = None,
    key: Annotated[
        str | None,
        option(
            "--key -k KEY", "All versions of one object: its key, s3://BUCKET/KEY, or a part that no other key has."
        ),
    ] = None,
    batch: Annotated[
        str | None,
        option(
            "--batch ID", "The objects of one batch: its id, its beginning, or the instant of a commit that it made."
        ),
    ] = None,
    limit: Annotated[int, option("--limit -n N", "The newest N objects.", min=1, max=LARGEST_LIMIT)] = LIMIT,
    since: Annotated[
        str | None, option("--since TIME", "Only objects admitted since: 15m, 2h or 7d ago, or a time with its zone.")
    ] = None,
    before: Annotated[
        str | None, option("--before TIME", "Only objects admitted before this time. Pages backwards.")
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show what happened to objects: when each was put, admitted, claimed and readable, and in which batch and run.

    Oldest objects come first. The put is UTC, the other times are seconds after it: the last claim, and when readers
    first saw the rows, of a retry those that it merged. With --batch they are this batch's. Changes are counted per
    batch and table: "12 / 3" means 12 changes in 3 objects. The last line counts every batch and table once, without
    the changes of replays, and says how many other objects of these tables the batches have. Of a time without objects,
    the last one before it and the first one after it are named.

    A narrow terminal leaves out folders of keys (`sluice trace` takes a key without them), then columns, and shows a
    long key below its row.

    Examples:

      sluice history
      sluice history --table crm.user --since 2h
      sluice history --key topics/crm.user/partition=0/crm.user+0+0000000000.avro
      sluice history --batch b-3f2a9c
      sluice history --batch 20260501101500123
      sluice history --json | jq '.objects[] | select(.state == "parked").key'
    """
    if key is not None and (table is not None or since is not None or before is not None):
        raise UsageError(
            "--key names one object, and --table, --since and --before choose among many",
            next_step="Give one or the other",
        )
    if batch is not None and (key, table, since, before) != (None, None, None, None):
        raise UsageError("--batch takes all objects of one batch", next_step="Give it without the other choices")
    now = epoch_ms()
    query = HistoryQuery(limit, table, *given_times(since, before, now))
    target = chosen_target(stack)
    with stderr_console().status("Reading manifests and the ledger"):
        if batch is not None:
            gathered = Histories(target).of_batch(batch, limit)
        else:
            gathered = Histories(target).of_key(key) if key is not None else Histories(target).newest(query)
    if not gathered.entries:
        check_table(target, table)
        _say_nothing(gathered, query, now)
    sums = totals(gathered.entries, gathered.batches)
    if as_json:
        print_json(
            {
                "objects": [describe_entry(entry) for entry in gathered.entries],
                "totals": sums,
                "more": gathered.more,
                "nearest": gathered.nearest and gathered.nearest.to_dict(),
                "unread_manifests": gathered.unread,
                "skipped_documents": described_documents(gathered.skipped),
            }
        )
    elif gathered.entries:
        print_history(gathered, sums)
    elif not sys.stdout.isatty():
        print_table(COLUMNS, [])
    say_skipped(gathered.skipped)


def print_history(gathered: Gathered, sums: Mapping[str, Any]) -> None:
    """Print the found objects and their sums as `totals` counts them."""
    short, now = sys.stdout.isatty(), epoch_ms()
    rows = [_row(entry, short, now, of_batch=gathered.of_batch) for entry in gathered.entries]
    # A reason is a sentence: in a terminal it has a column of its own, or a line below its row.
    reasons = [(_reason(entry) or "-",) if short else () for entry in gathered.entries]
    explained = any(reason not in ((), ("-",)) for reason in reasons)
    print_table(
        (*COLUMNS, "reason") if explained else COLUMNS,
        [(*row, *reason) for row, reason in zip(rows, reasons, strict=True)] if explained else rows,
        right=(1, 2, 3, 8, 9),
        shorten=(6, 7),
        paths=(10,),
        apart=(11,) if explained else (),
        states=(4,),
        minor=(7, 2, 1, 9, 8, 6, 5),
    )
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(sums["states"].items()))
    counts = sums["counts"]
    # Not from the outcomes: what was retried or discarded since is no longer there, and may be in two outcomes.
    aside = sum(entry.record.quarantined_rows for entry in gathered.entries if entry.record)
    in_quarantine = f"; {counted(aside, 'row')} in quarantine" if aside else ""
    say(
        f"{counted(sums['objects'], 'object')}, {human_bytes(sums['bytes'])}"
        f"{f': {states}' if states else ''}{in_quarantine}"
    )
    if sums["parts"]:
        tables = {claim.table for entry in gathered.entries for claim in entry.claims if not claim.is_set_aside}
        batches = f"{counted(sums['batches'], 'batch', 'batches')} of {counted(len(tables), 'table')}"
        others = _others(gathered.entries, gathered.batches)
        these = f"{'this table' if len(tables) == 1 else 'these tables'} in {'it' if sums['batches'] == 1 else 'them'}"
        more = f"; {counted(others, 'object')} of {these} {'is' if others == 1 else 'are'} not shown" if others else ""
        new = new_changes(counts)
        again = counts.get("read", 0) - new
        changes = f"{counted(new, 'new change')} and {again:,} merged again" if again else counted(new, "change")
        say(f"{changes} in {batches}{more}")
        if sums["uncounted"]:
            parts = counted(sums["uncounted"], "table's part of a batch", "tables' parts of batches")
            say(f"Not counted: the changes of {parts}, whose run died after its commit and before recording it")
    if gathered.more:
        pages = "" if gathered.of_batch else f"--before {iso(gathered.entries[0].since)} shows them, "
        say(f"There are older objects: {pages}--limit shows more")
    _say_unread(gathered)


def _say_unread(gathered: Gathered) -> None:
    if gathered.unread:
        say(
            f"{gathered.unread:,} older manifests were not read: the limit is {MANIFESTS_AT_MOST:,}. "
            "Use --table, --since or --key"
        )


def _say_nothing(gathered: Gathered, query: HistoryQuery, now: int) -> None:
    """Say that no object was found, when the nearest ones were admitted, and which commands show these."""
    nearest, of = gathered.nearest or Nearest(), f" of {query.table}" if query.table else ""
    steps = nearest.steps(["history", *(["--table", query.table] if query.table else [])], query.since, now)
    if steps:
        say(f"No object{of} was admitted in this time: {nearest.described}")
        if nearest.before is not None and query.since is not None:
            steps.append(runs_then(query.since, query.before))
    elif gathered.unread:
        say(f"No object{of} was admitted in this time")
    else:
        say(f"No object{of} has been admitted yet")
        steps.append(put_first())
    for step in steps:
        say_next_step(step)
    _say_unread(gathered)


def _others(entries: Iterable[Entry], batches: Iterable[PastBatch]) -> int:
    """The number of objects that the entries' parts (batch and table) hold beside the entries, each object once."""
    shown = {
        entry.id: {(claim.batch, claim.table) for claim in entry.claims if not claim.is_set_aside} for entry in entries
    }
    parts = {part for parts_of in shown.values() for part in parts_of}
    held = {
        item.id
        for batch in batches
        for table, part in batch.manifest.tables.items()
        if (batch.manifest.batch, table) in parts
        for item in part.objects
    }
    return len(held - set(shown))


def _row(entry: Entry, short: bool, now: int, *, of_batch: bool) -> tuple[str, ...]:
    """The cells of an entry: of its last claim, or of its only known one where the objects `of_batch` are shown."""
    claim = entry.last_claim or (entry.claims[-1] if of_batch and entry.claims else None)
    readable_at = (None if claim is None else claim.readable_at) if of_batch else entry.readable_at
    began = (entry.record.noticed_at if entry.record else None) or entry.put_at
    return (
        (short_clock(began, now) if short else clock(began)) + (" (gone)" if entry.put_at is None else ""),
        _after(entry.record.admitted_at if entry.record else None, began),
        _after(claim.claimed_at if claim else None, began),
        _after(readable_at, began),
        _state(entry, short),
        (entry.record.table if entry.record else None) or "-",
        claim.batch if claim else "-",
        (claim.run if claim else None) or "-",
        _changes(claim),
        f"{entry.record.size:,}" if entry.record else "-",
        visible(entry.id.key),
    )


def _why(entry: Entry) -> str | None:
    record = entry.record
    why = record and (record.code or record.rule or reason_now(record))
    return why if why and (entry.last_claim is None or record and record.code) else None


def _reason(entry: Entry) -> str | None:
    """Why the object is in its state, where that is no name of a code or a rule."""
    why = _why(entry)
    return visible(why) if why and " " in why else None


def _state(entry: Entry, short: bool) -> str:
    record = entry.record
    more = []
    if record and record.replayed_at is not None:
        under_way = record.state in (PENDING, CLAIMED)
        more.append("after a rebuild" if not entry.replayed else "being replayed" if under_way else "replayed")
    elif record and record.attempt:
        more.append(f"attempt {record.attempt + 1}")
    if record and record.quarantined_rows:
        more.append(f"{counted(record.quarantined_rows, 'row')} quarantined")
    why = _why(entry)
    if why and not (short and _reason(entry)):
        discarded = record is not None and record.rule == DISCARDED and why != DISCARDED
        more.append(visible(f"{DISCARDED}, {why}" if discarded else why))
    return entry.state + (f" ({', '.join(more)})" if more else "")


def _changes(claim: Claim | None) -> str:
    read = claim.part.get("read") if claim else None
    if claim is None or read is None or claim.is_set_aside:
        return "-"
    return f"{read:,}" if claim.merged_objects == 1 else f"{read:,} / {claim.merged_objects:,}"


def _after(at: int | None, began: int | None) -> str:
    """Seconds after the put."""
    return "-" if at is None or began is None else f"+{max(0, at - began) / 1000:,.1f} s"
