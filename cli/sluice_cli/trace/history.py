"""`sluice history`: what happened to objects, oldest first.

Collects the newest objects of a stack, or all versions of one key, from manifests, the ledger and bronze, within bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import typer

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.errors import UsageError
from sluice.ledger.keys import DISCARDED, LISTED_STATES
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice.silver_keys import manifest_key, outcome_key
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target
from sluice_cli.status.past import PastBatch, PastBatches
from sluice_cli.terminal.output import (
    Json,
    Stack,
    chosen_target,
    counted,
    human_bytes,
    print_json,
    print_table,
    say,
    shortened,
    stderr_console,
    visible,
)
from sluice_cli.trace.objects import Claim, Entry, by_object, claims_of, described_entry, totals
from sluice_cli.trace.tracking import Tracker, tracker
from sluice_read.moments import clock, iso, point_in_time

LIMIT, LARGEST_LIMIT = 50, 100_000
NAME_CHARACTERS = 14  # of batches and runs, in a terminal


def history(
    table: Annotated[
        str | None, typer.Option("--table", "-t", metavar="T", help="Only objects of this table.", show_default=False)
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            "-k",
            metavar="KEY",
            help="All versions of one object: its key, s3://BUCKET/KEY, or the end of its key.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, max=LARGEST_LIMIT, help="The newest N objects.")
    ] = LIMIT,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only what was admitted from then on: 15min, 2h or 7d ago, or a time with its zone.",
            show_default=False,
        ),
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="TIME",
            help="Only what was admitted before; gives the page before a page.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show what happened to objects: when each was put, admitted, claimed and readable, in which batch and run, and how many changes its batch merged.

    Changes are counted per batch and table, in the outcome that lies beside the batch's manifest; "12 / 3" are 12 changes in 3 objects. The last line adds up every
    batch and table once. Oldest first; times are UTC, and what follows is after the put.

    Examples:

      sluice history

      sluice history --table crm.user --since 2h

      sluice history --key topics/crm.public.user/partition=0/crm.public.user+0+0000000000.avro

      sluice history --json --limit 10000 | jq '.objects[] | select(.state == "quarantined") | .key'
    """
    if key is not None and (table is not None or since is not None or before is not None):
        raise UsageError(
            "--key names one object, and --table, --since and --before choose among many",
            next_step="Give one or the other",
        )
    target = chosen_target(stack)
    now = epoch_ms()
    asked = Asked(
        limit,
        table,
        None if since is None else point_in_time(since, now),
        None if before is None else point_in_time(before, now),
    )
    with stderr_console().status("Reading manifests and the ledger"):
        found = histories(target).of_key(key) if key is not None else histories(target).newest(asked)
    sums = totals(found.entries, found.batches)
    if as_json:
        print_json(
            {
                "objects": [described_entry(entry) for entry in found.entries],
                "totals": sums,
                "more": found.more,
                "unread_manifests": found.unread,
            }
        )
        return
    _print(found, sums)


def histories(target: Target) -> Histories:
    """The histories of a stack."""
    return Histories(
        ledger=Ledger(target.client("dynamodb"), target.ledger_table),
        objects=Objects(target.client("s3")),
        silver=target.silver,
        tracker=tracker(target),
    )


def _print(found: Gathered, sums: Mapping[str, Any]) -> None:
    short = sys.stdout.isatty()
    print_table(
        ("put", "admitted", "claimed", "readable", "state", "table", "batch", "run", "changes", "bytes", "key"),
        [_row(entry, short) for entry in found.entries],
        right=(1, 2, 3, 8, 9),
    )
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(sums["states"].items()))
    counts = sums["counts"]
    say(f"{counted(sums['objects'], 'object')}, {human_bytes(sums['bytes'])}{f': {states}' if states else ''}")
    if sums["parts"]:
        rows = f", {counted(counts['quarantined_rows'], 'row')} quarantined" if counts.get("quarantined_rows") else ""
        say(
            f"{counted(counts.get('read', 0), 'change')} in {counted(sums['batches'], 'batch', 'batches')} and {counted(sums['parts'], 'part of a table', 'parts of tables')}{rows}"
        )
    if found.more:
        say(
            f"There are older ones: `--before {iso(found.entries[0].since)}` shows the page before, and --limit a longer one"
        )
    if found.unread:
        say(
            f"{found.unread:,} older manifests were not read, since one history reads {MANIFESTS_AT_MOST:,}. Use --table, --since or --key"
        )


def _row(entry: Entry, short: bool) -> tuple[str, ...]:
    claim = entry.last_claim
    began = (entry.record.noticed_at if entry.record else None) or entry.put_at
    return (
        clock(began) + (" (gone)" if entry.put_at is None else ""),
        _after(entry.record.admitted_at if entry.record else None, began),
        _after(claim.claimed_at if claim else None, began),
        _after(claim.readable_at if claim else None, began),
        _state(entry),
        (entry.record.table if entry.record else None) or "-",
        _name(claim.batch if claim else None, short),
        _name(claim.run if claim else None, short),
        _changes(claim),
        str(entry.record.size) if entry.record else "-",
        visible(entry.id.key),
    )


def _state(entry: Entry) -> str:
    record = entry.record
    more = [f"attempt {record.attempt + 1}"] if record and record.attempt else []
    if record and record.quarantined_rows:
        more.append(f"{counted(record.quarantined_rows, 'row')} quarantined")
    why = record and (record.code or record.rule or record.reason)
    if why and entry.last_claim is None or record and record.code:
        more.append(shortened(visible(why or ""), 40))
    return entry.state + (f" ({', '.join(more)})" if more else "")


def _changes(claim: Claim | None) -> str:
    read = claim.part.get("read") if claim else None
    if claim is None or read is None:
        return "-"
    return f"{read:,}" if claim.part_objects == 1 else f"{read:,} / {claim.part_objects:,}"


def _name(name: str | None, short: bool) -> str:
    return "-" if name is None else shortened(name, NAME_CHARACTERS) if short else name


def _after(at: int | None, began: int | None) -> str:
    """Seconds after the put."""
    return "-" if at is None or began is None else f"+{max(0, at - began) / 1000:,.1f} s"


MANIFESTS_AT_MOST = 5_000  # that one history reads
SET_ASIDE_AT_MOST = 10_000  # objects of one listed state that are looked at
THREADS = 16


@dataclass(frozen=True)
class Asked:
    """Which objects: of a table, admitted within [since, before) (epoch ms), and how many of the newest."""

    limit: int
    table: str | None = None
    since: int | None = None
    before: int | None = None

    def takes(self, admitted_at: int) -> bool:
        """Whether an object of that age is meant."""
        return (self.since is None or admitted_at >= self.since) and (self.before is None or admitted_at < self.before)


@dataclass(frozen=True)
class Gathered:
    """What was found, oldest first. `more`: there are older ones; `unread`: manifests that were not read, for there are too many."""

    entries: tuple[Entry, ...]
    batches: tuple[PastBatch, ...]
    more: bool = False
    unread: int = 0


class Histories:
    """The histories of one stack's objects."""

    def __init__(self, *, ledger: Any, objects: Objects, silver: str, tracker: Tracker) -> None:
        self._ledger = ledger
        self._objects = objects
        self._silver = silver
        self._tracker = tracker

    def newest(self, asked: Asked) -> Gathered:
        """The newest objects that are meant: claimed ones by their manifests, the others by the ledger."""
        admitted: dict[ObjectId, int] = {}
        batches: list[PastBatch] = []
        past = PastBatches(self._objects, self._silver)
        for lane in self._ledger.lanes():
            self._add(
                admitted,
                asked,
                (
                    (item.id, item.admitted_at)
                    for item in self._ledger.pending(lane.lane, asked.limit)
                    if asked.table in (None, item.table)
                ),
            )
        for state in LISTED_STATES:
            records = islice(self._ledger.objects_in_state(state, since=asked.since), SET_ASIDE_AT_MOST)
            self._add(
                admitted,
                asked,
                ((record.id, record.admitted_at) for record in records if asked.table in (None, record.table)),
            )
        stopped = False
        for batch in past.newest(table=asked.table, since=asked.since, at_most=MANIFESTS_AT_MOST):
            # Nothing in a batch was admitted after its claim: once the newest are all younger than that, no older batch has one of them.
            # Batches come in the order of S3's whole seconds.
            if len(admitted) > asked.limit and _nth_newest(admitted, asked.limit) >= batch.manifest.created_at + 1_000:
                stopped = True
                break
            batches.append(batch)
            parts = [part for table, part in batch.manifest.tables.items() if asked.table in (None, table)]
            self._add(admitted, asked, ((item.id, item.admitted_at) for part in parts for item in part.objects))
        newest = sorted(admitted, key=lambda identity: (admitted[identity], identity))[-asked.limit :]
        return Gathered(
            self._entries(newest, batches),
            tuple(batches),
            more=stopped or len(admitted) > len(newest),
            unread=0 if stopped else past.unread,
        )

    def of_key(self, key: str) -> Gathered:
        """Every version of one key (as `Tracker.named` takes it), with the batches that its records and the decisions about it name. Raises UsageError."""
        versions = self._tracker.named(key).versions
        batches: dict[str, PastBatch] = {}
        entries = []
        for identity, record in versions.items():
            decisions = tuple(self._ledger.decisions_about(identity)) if record else ()
            named = {
                name for name in (record.batch if record else None, *(decision.batch for decision in decisions)) if name
            }
            for name in sorted(named - set(batches)):
                found = self._batch(name)
                if found is not None:
                    batches[name] = found
            own = [batches[name] for name in named if name in batches]
            entries.append(
                Entry(
                    identity, record, self._objects.modified_at(identity), claims_of(identity, record, own), decisions
                )
            )
        return Gathered(tuple(sorted(entries, key=lambda entry: (entry.since, entry.id))), tuple(batches.values()))

    def _entries(self, ids: list[ObjectId], batches: Iterable[PastBatch]) -> tuple[Entry, ...]:
        records = self._ledger.get_objects(ids)
        claimed = by_object(batches)

        def entry(identity: ObjectId) -> Entry:
            record: ObjectRecord | None = records.get(identity)
            decisions = (
                tuple(self._ledger.decisions_about(identity)) if record is not None and _decided_about(record) else ()
            )
            return Entry(
                identity,
                record,
                self._objects.modified_at(identity),
                claims_of(identity, record, claimed.get(identity, ())),
                decisions,
            )

        with ThreadPoolExecutor(THREADS, thread_name_prefix="history") as pool:
            return tuple(sorted(pool.map(entry, ids), key=lambda found: (found.since, found.id)))

    def _batch(self, name: str) -> PastBatch | None:
        stored = self._ledger.batch(name)
        document = self._objects.get(self._silver, manifest_key(stored["lane"], name)) if stored else None
        if document is None:
            return None
        manifest = Manifest.from_json(document.data.decode("utf-8"))
        outcomes = {table: self._objects.get(self._silver, outcome_key(name, table)) for table in manifest.tables}
        return PastBatch(
            manifest,
            {
                table: Outcome.from_json(found.data.decode("utf-8"))
                for table, found in outcomes.items()
                if found is not None
            },
        )

    @staticmethod
    def _add(admitted: dict[ObjectId, int], asked: Asked, found: Iterable[tuple[ObjectId, int]]) -> None:
        admitted.update({identity: at for identity, at in found if asked.takes(at)})


def _decided_about(record: ObjectRecord) -> bool:
    """Whether the record says that something was decided: spares a call for the others."""
    return bool(record.attempt or record.discarded_rows or record.rule == DISCARDED)


def _nth_newest(admitted: dict[ObjectId, int], n: int) -> int:
    return sorted(admitted.values(), reverse=True)[n - 1]
