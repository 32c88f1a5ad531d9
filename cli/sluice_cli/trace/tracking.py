"""Finds the records of an object: its items in the ledger, its batch's documents in S3, and the object itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import islice, takewhile
from typing import Any

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.errors import UsageError
from sluice.lane.machine import FIRST_BACKOFF_MS, HALTED, PAUSED
from sluice.ledger.keys import COMMITTED, PARKED, PENDING, QUARANTINED
from sluice.ledger.records import RETRIED, AdmittedObject, Decision, ObjectRecord
from sluice.objects import ObjectId, identify
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.history import died
from sluice_aws.s3.objects import SkippedDocument
from sluice_aws.stack import Target
from sluice_cli.account.lane import lane_entry, rebuilds_by_lane, steps_of_lane
from sluice_cli.account.object import judged_now
from sluice_cli.account.steps import NEWEST_OBJECTS
from sluice_cli.account.table import blocked_tables
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.stack import readable_configuration
from sluice_cli.terminal.step import in_order
from sluice_cli.terminal.words import is_named
from sluice_cli.trace.stages import TraceFacts, taken_over_at

VERSIONS_AT_MOST = 1_000  # of one key, in bronze
PAGES_AT_MOST = 20  # of a thousand versions, searched for a part of a key
KEYS_SHOWN = 5
BATCHES_AT_MOST, RECORDS_AT_MOST = 500, 2_000  # searched for keys that are no longer in bronze
_LONGEST_RUN_MS = 86_400_000  # and more: one that died after an object came did not begin a day before it
# What a record of a replayed version says of its way before, beside its state and batch.
_ADMITTED = tuple(
    item.name for item in fields(AdmittedObject) if item.name not in ("state", "code", "reason", "replayed_at")
)


@dataclass(frozen=True)
class SearchedKeys:
    """The keys that match a text, and how; `whole` says that all of bronze was searched."""

    keys: tuple[str, ...]
    how: str
    whole: bool


class Tracker:
    """Finds the records of one stack's objects."""

    def __init__(self, target: Target) -> None:
        self._ledger = target.ledger
        self._objects = target.objects
        self._bronze = target.bronze
        self._past = target.past_batches()
        self._configured = cache(lambda: readable_configuration(target)[1])

    @property
    def skipped(self) -> Sequence[SkippedDocument]:
        """The documents that were left out so far, since they can't be read."""
        return self._past.skipped

    def judged_now(self, record: ObjectRecord) -> ObjectRecord:
        """The record; a parked one has the reason that the configuration in force gives."""
        return judged_now(record, self._configured()) if record.state == PARKED else record

    def named(self, text: str) -> tuple[str, Mapping[ObjectId, ObjectRecord | None]]:
        """Find an object by its key, by `s3://BUCKET/KEY`, or by a part of its key that no other key in bronze has.

        Returns its key, and its versions, at least one, as `versions` gives them.
        What bronze has no key for is searched among those of the newest batches and of quarantined objects. A part that
        is the end of one key names it, even where it is in the middle of others. Raises UsageError, with keys that are
        similar.
        """
        text = text.removeprefix(f"s3://{self._bronze}/")
        versions = self.versions(text)
        if versions:
            return text, versions
        searched = self._keys_with(text)
        if not searched.keys:
            searched = replace(searched, **_closest(text, self._known_keys()))
        if len(searched.keys) == 1 and searched.whole:
            return searched.keys[0], self.versions(searched.keys[0])
        if not searched.keys:
            like = self._objects.version_page(self._bronze, prefix=text, page_size=KEYS_SHOWN + 1).versions
            searched = replace(searched, keys=tuple(dict.fromkeys(item.key for item in like)), how="begin with it")
        if searched.keys:
            raise UsageError(f"No key equals {text!r}, but others {searched.how}", next_step=_next_step(searched))
        raise UsageError(f"Neither the ledger nor bronze has the key {text!r}", next_step=_next_step(searched))

    def versions(self, key: str) -> dict[ObjectId, ObjectRecord | None]:
        """List the versions of a key: those in the ledger, oldest first, then those that only bronze has yet."""
        by_id: dict[ObjectId, ObjectRecord | None] = {
            record.id: self.judged_now(record) for record in self._ledger.objects.versions(self._bronze, key)
        }
        versioned = self._objects.is_versioned(self._bronze)
        listed = self._objects.version_page(self._bronze, prefix=key, page_size=VERSIONS_AT_MOST).versions
        for item in sorted(listed, key=lambda version: version.modified_at):
            if item.key == key:
                by_id.setdefault(
                    identify(item.bucket, item.key, item.version_id, item.etag, bucket_versioned=versioned), None
                )
        return by_id

    def _keys_with(self, part: str) -> SearchedKeys:
        """Keys of bronze with this last part, or else with this end, or else with it anywhere."""
        listed: dict[str, None] = {}
        marker = None
        for _ in range(PAGES_AT_MOST):
            page = self._objects.version_page(self._bronze, marker)
            listed.update(dict.fromkeys(item.key for item in page.versions))
            marker = page.next_marker
            if marker is None:
                break
        return SearchedKeys(**_closest(part, listed), whole=marker is None)

    def _known_keys(self) -> Iterator[str]:
        """Keys that the ledger and the newest batches name: their objects may be deleted from bronze."""
        for record in islice(self._ledger.objects.in_state(QUARANTINED), RECORDS_AT_MOST):
            yield record.id.key
        for manifest in self._past.newest_manifests(BATCHES_AT_MOST):
            yield from (item.key for part in manifest.tables.values() for item in part.objects)

    def facts(self, identity: ObjectId, record: ObjectRecord | None) -> TraceFacts:
        """Read the records of one version, in at most seven calls.

        There are five more where it was replayed, one for each batch that set it aside before a retry, and the run's
        successors where another run merged the batch.
        """
        put_at = self._objects.modified_at(identity)
        if record is None:
            return TraceFacts(identity, put_at)
        decisions = self._ledger.quarantine.decisions_about(identity)
        held_up = self._held_up(record)
        set_aside_at = self._set_aside_at(decisions)
        if record.first_batch is None or record.replayed_at is None:
            base = TraceFacts(identity, put_at, record, decisions, set_aside_at=set_aside_at, held_up=held_up)
            return self._with_batch(base, record)
        replayed_at = record.replayed_at
        then = ObjectRecord(
            **{name: getattr(record, name) for name in _ADMITTED},
            state=COMMITTED,
            unparked_at=record.unparked_at,
            batch=record.first_batch,
        )
        before = [decision for decision in decisions if decision.at < replayed_at]
        first = TraceFacts(identity, put_at, then, before, set_aside_at=set_aside_at)
        since = [decision for decision in decisions if decision.at >= replayed_at]
        facts = TraceFacts(identity, put_at, record, since, first=self._with_batch(first, then), held_up=held_up)
        return self._with_batch(facts, record)

    def _held_up(self, record: ObjectRecord) -> str | None:
        """Why a pending object is claimed by no run, and what helps: its table's reasons, then its lane's."""
        lane = self._ledger.lanes.get(record.lane) if record.state == PENDING and record.lane else None
        if lane is None:
            return None
        reasons = [
            f"{table.table} {table.reason}, and the object waits: {table.next_step}"
            for table in blocked_tables([record], self._configured, self._ledger.tables.get_many)
        ]
        if lane.state in (PAUSED, HALTED):
            resting = self._ledger.lanes.paused_for_standstill() if lane.state == PAUSED else ()
            entry = lane_entry(lane, epoch_ms(), resting, rebuilds_by_lane(self._ledger.tables.all()))
            step = in_order(steps_of_lane(entry))
            reasons.append(f"Lane {lane.lane} is {entry['summary']}, and the object waits in it: {step}")
        return "; ".join(reasons) or None

    def _set_aside_at(self, decisions: Sequence[Decision]) -> dict[str, int]:
        """When each batch that retries name settled its part (epoch ms), where the ledger still knows it."""
        times: dict[str, int] = {}
        for item in decisions:
            if item.verb == RETRIED and item.batch is not None and item.table is not None and item.batch not in times:
                settled = self._ledger.batches.parts(item.batch).get(item.table, {}).get("settled_at")
                if settled is not None:
                    times[item.batch] = int(settled)
        return times

    def _with_batch(self, facts: TraceFacts, record: ObjectRecord) -> TraceFacts:
        if record.batch is None or record.table is None:
            return facts
        batch: Mapping[str, Any] = self._ledger.batches.get(record.batch) or {}
        manifest = self._past.manifest(batch.get("lane") or record.lane or "", record.batch)
        outcome = self._past.outcome(record.batch, record.table)
        run = self._ledger.history.run(manifest.run) if manifest else None
        return replace(
            facts,
            manifest=manifest,
            outcome=outcome,
            batch=batch,
            part=self._ledger.batches.parts(record.batch).get(record.table),
            run=run,
            finished_by=self._finisher(manifest, outcome, run) if manifest and outcome and run else None,
            died_before=self._died_before(run, record, facts.decisions) if run else (),
        )

    def _died_before(
        self, run: Mapping[str, Any], record: ObjectRecord, decisions: Sequence[Decision]
    ) -> tuple[str, ...]:
        """The runs that died after the version last became pending and before the run that claimed it was requested."""
        requested = run.get("requested_at") or 0
        retried = (decision.at for decision in decisions if decision.verb == RETRIED)
        since = max(record.admitted_at, record.unparked_at or 0, record.replayed_at or 0, *retried)
        if requested - since < FIRST_BACKOFF_MS:  # the least time between a run that died and the next
            return ()
        earliest = since - _LONGEST_RUN_MS
        newest_first = takewhile(lambda entry: int(entry["listed_at"]) >= earliest, self._ledger.history.runs())
        own = (entry for entry in newest_first if entry.get("lane") == run.get("lane") and died(entry))
        return tuple(str(entry["run"]) for entry in own if since <= entry["ended_at"] <= requested)[::-1]

    def _finisher(self, manifest: Manifest, outcome: Outcome, run: Mapping[str, Any]) -> str | None:
        """The run that took the batch over from this one, and merged this part; None if the run did so itself."""
        if taken_over_at(outcome, run) is None:
            return None
        for later in self._ledger.history.runs():
            began = later.get("started_at")
            if later.get("lane") == manifest.lane and began is not None and began <= outcome.committed_at:
                return str(later["run"])
        return None


# How a given text matches a key, the closest way first. `…` stands for what a terminal left out of a key.
_MATCHES: Sequence[tuple[str, Callable[[str, str], bool]]] = (
    ("end with it", lambda part, key: key.endswith(f"/{part.removeprefix('…').lstrip('/')}")),
    ("end with it", lambda part, key: key.endswith(part)),
    ("contain it", lambda part, key: part in key or "…" in part and is_named(part, key)),
)


def _closest(part: str, keys: Iterable[str]) -> dict[str, Any]:
    """The `keys` that match a part of a key in the closest way, and `how`."""
    matching: list[dict[str, None]] = [{} for _ in _MATCHES]
    for key in keys:
        for (_, matches), keys_found in zip(_MATCHES, matching, strict=True):
            if matches(part, key):
                keys_found[key] = None
    closest = next((number for number, keys_of_match in enumerate(matching) if keys_of_match), 0)
    return {"keys": tuple(matching[closest]), "how": _MATCHES[closest][0]}


def _next_step(keys: SearchedKeys) -> str:
    if keys.keys:
        more = " and more" if len(keys.keys) > KEYS_SHOWN else ""
        step = f"Keys that {keys.how}: {', '.join(map(visible, keys.keys[:KEYS_SHOWN]))}{more}"
    else:
        step = (
            "Give a key, or a part of one that no other key has (the whole key of an object deleted from bronze); "
            f"{NEWEST_OBJECTS}"
        )
    rest = f". Only the first {PAGES_AT_MOST * 1_000:,} versions in bronze were searched for a part of a key"
    return step if keys.whole else f"{step}{rest}"
