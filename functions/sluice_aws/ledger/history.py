"""History items: runs, ignored messages, counters, checkpoints, and the gathering of commits."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from sluice.ledger import keys as items
from sluice.ledger.records import IgnoredPart
from sluice_aws.ledger.expressions import NEW_ITEM, when
from sluice_aws.ledger.table import LedgerTable, Values

RUN_DAYS = 90
EVENT_DAYS = 3  # longer than the ledger's stream keeps its records
EXCERPT_CHARACTERS = 1_000
READ_AHEAD = 100  # run items that are read at once
RELEASED = "released"  # the state of a run that gave its lane back


class HistoryLedger:
    """The history of one ledger."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table

    def run_started(self, run_id: str, lane: str, now: int, job_run_id: str | None = None) -> None:
        """Note that a run was requested or, with its job run, that it holds its lane."""
        summary = {"run": run_id, "lane": lane, "state": "starting", "requested_at": now, "expires_at": _expiry(now)}
        if job_run_id is not None:
            del summary["requested_at"]
            summary.update(state="running", job_run_id=job_run_id, started_at=now)
        listed = {"listed_as": items.RUNS_LISTED_AS, "listed_at": items.listed_at(now)}
        self._table.update(items.run_key(run_id), {**summary, **listed})

    def run_ended(self, run_id: str, state: str, reason: str | None, batches: int, now: int) -> None:
        """Note how a run ended and how many batches it closed."""
        self._table.update(
            items.run_key(run_id),
            {
                "run": run_id,
                "ended_at": now,
                "state": state,
                "reason": reason,
                "batches": batches,
                "expires_at": _expiry(now),
            },
        )

    def mark_billed(self, run_id: str, now: int) -> bool:
        """Note that a run's cost was reported.

        False when it was before, or the run is not of this ledger: an application may run other jobs, too.
        """
        return self._table.change(items.run_key(run_id), {"billed_at": now}, when(run=run_id, billed_at=None))

    def run(self, run_id: str) -> Values | None:
        """A run's item as stored; None for an unknown run or one that is older than RUN_DAYS."""
        return self._table.get(items.run_key(run_id))

    def runs(self) -> Iterator[Values]:
        """The items of all runs that are kept, newest first. The index may lag by a second."""
        for page in self._table.query_index(items.RUNS_LISTED_AS, newest_first=True):
            for start in range(0, len(page), READ_AHEAD):
                runs = self._table.get_many(page[start : start + READ_AHEAD])
                yield from sorted(runs, key=lambda run: run["listed_at"], reverse=True)

    def events_sent(self, events: Iterable[str]) -> frozenset[str]:
        """Those of the events that were sent within the last EVENT_DAYS."""
        keys = {items.event_key(event)["pk"]: event for event in events}
        stored_events = self._table.get_many([items.event_key(event) for event in keys.values()]) if keys else ()
        return frozenset(keys[stored["pk"]] for stored in stored_events)

    def note_event_sent(self, event: str, now: int) -> None:
        """Note that an event was sent. `now` is epoch ms."""
        self._table.update(items.event_key(event), {"sent_at": now, "expires_at": now // 1000 + EVENT_DAYS * 86_400})

    def count(self, name: str, n: int = 1) -> int:
        """Add to a counter and give its value."""
        return int(self._table.update(items.counter_key(name), {}, add={"n": n})[0]["n"])

    def counter(self, name: str) -> int:
        """A counter's value."""
        return int((self._table.get(items.counter_key(name)) or {"n": 0})["n"])

    def ignore_message(self, message_id: str, n: int, reason: str, excerpt: str, now: int) -> bool:
        """List the n-th part of a message that named no object. False when an earlier delivery listed it."""
        spread = sha256(message_id.encode("utf-8", "replace")).hexdigest()
        refusal = self._table.put(
            {
                **items.message_key(message_id, n),
                "message_id": message_id,
                "n": n,
                "reason": reason,
                "excerpt": excerpt[:EXCERPT_CHARACTERS],
                "ignored_at": now,
                "listed_as": items.listed_as(items.MESSAGES, spread),
                "listed_at": items.listed_at(now),
            },
            NEW_ITEM,
        )
        return refusal is None

    def ignored_messages(self) -> Iterator[IgnoredPart]:
        """Every listed part of a message."""
        for partition in items.listed_partitions(items.MESSAGES):
            for page in self._table.query_index(partition):
                for stored in self._table.get_many(page):
                    yield IgnoredPart(
                        stored["message_id"], stored["n"], stored["reason"], stored["excerpt"], stored["ignored_at"]
                    )

    def gather_until(self, now: int, until: int) -> bool:
        """Begin to gather commits until a time (epoch ms).

        False while another caller gathers, who will see this caller's commits.
        """
        stored = self._table.get(items.gathering_key()) or {}
        before = stored.get("until")
        if before is not None and before > now:
            return False
        return self._table.change(items.gathering_key(), {"until": until}, when(until=before))

    def checkpoint(self, name: str = "reconcile") -> dict[str, Any] | None:
        """The place where a pass resumes; None at the beginning."""
        stored = self._table.get(items.checkpoint_key(name))
        return None if stored is None else json.loads(stored["at"])

    def put_checkpoint(self, at: Mapping[str, Any], now: int, name: str = "reconcile") -> None:
        """Store the place where a pass resumes, as plain JSON values."""
        self._table.put({**items.checkpoint_key(name), "at": json.dumps(dict(at), sort_keys=True), "put_at": now})


def died(run: Values) -> bool:
    """Whether a run, by its item, ended without releasing its lane."""
    return run.get("ended_at") is not None and run.get("state") != RELEASED


def _expiry(now: int) -> int:
    """The expiry of a run's item in epoch seconds, DynamoDB's unit of time to live."""
    return now // 1000 + RUN_DAYS * 86_400
