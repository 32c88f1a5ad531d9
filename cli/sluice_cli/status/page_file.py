"""Writes the status page to a file, once or again and again."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from http.client import HTTPException
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any

from urllib3.exceptions import HTTPError

from sluice.batch.claim import PendingObject
from sluice.config.document import Configuration
from sluice.errors import SluiceError, UsageError
from sluice.ledger.records import RETRIED
from sluice.objects import ObjectId
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.past_batches import PastBatch
from sluice_aws.stack import DEPLOYED, Target
from sluice_cli.errors import NotWritten
from sluice_cli.ingest.set_aside import reasons_of_rows
from sluice_cli.status.overview import gather
from sluice_cli.status.page import Look, page
from sluice_cli.status.past import backlog, runs, shown_window, table_pasts
from sluice_cli.terminal.options import named_stack
from sluice_cli.terminal.output import say, stderr_console
from sluice_cli.terminal.run import AWS_ERRORS, debugging, unanswered
from sluice_cli.terminal.words import human_age
from sluice_read.moments import clock, point_in_time

# Limits of the page: manifests read, waiting objects per table and decisions, batches whose runs are read.
MANIFESTS, WAITING, RUNS = 2_000, 5_000, 200
# What ends a look, and not the watch: AWS, its connection, and what stands in the stack's own documents.
UNANSWERED = (*AWS_ERRORS, SluiceError, OSError, HTTPException, HTTPError)
SHARE = 4  # times the last read is the shortest pause, so that a large stack is read less often


def _began(item: Mapping[str, Any]) -> int:
    return int(item.get("started_at") or item.get("requested_at") or 0)


class PageFile:
    """The status page of a stack in a file. `since` is the beginning of its time span, as on the command line."""

    def __init__(
        self,
        target: Target,
        configured: Callable[[], Configuration | None],
        path: Path,
        since: str,
        *,
        remembers: bool = False,
    ) -> None:
        if target.kind == DEPLOYED:
            named_stack.set(target.stack)  # the page is read where nothing else names it
        self._target = target
        self._ledger = target.ledger
        self._configured = configured
        self._path = path
        self._since = since
        self._past = target.past_batches(remembers=remembers)

    def look(self, now: int) -> Look:
        """Read the stack. `now` is in epoch ms."""
        since = point_in_time(self._since, now)
        document = gather(self._ledger, now, self._configured, reasons_of_rows(self._target))
        lanes = document["lanes"]
        with stderr_console().status("Reading manifests"):
            batches = list(self._past.newest(since=since, at_most=MANIFESTS))
            waiting = [item for lane in lanes for item in self._ledger.pending.oldest(lane["lane"], WAITING)]
            run_names = [batch.manifest.run for batch in batches[:RUNS]]
            run_names += [lane[which] for lane in lanes for which in ("run", "last_run") if lane[which]]
            # Runs without a batch are in the ledger's list alone.
            listed = {item["run"]: item for item in islice(self._ledger.history.runs(), RUNS) if _began(item) >= since}
            read = {name: self._ledger.history.run(name) for name in dict.fromkeys(run_names) if name not in listed}
            items = {**listed, **read}
            retries = self._retries(batches, waiting, since)
        window = shown_window(since, now, batches)
        oldest: dict[str, str] = {}
        for item in sorted(waiting, key=lambda item: item.admitted_at):
            oldest.setdefault(item.table, item.id.key)
        return Look(
            now=now,
            document=document,
            window=window,
            tables=table_pasts(batches),
            backlog=backlog(batches, waiting, window, retries),
            runs=runs(batches, {name: item for name, item in items.items() if item is not None}, now),
            oldest=oldest,
            unread=self._past.unread,
            skipped=tuple(self._past.skipped),
        )

    def _retries(
        self, batches: Sequence[PastBatch], waiting: Sequence[PendingObject], since: int
    ) -> Mapping[ObjectId, Sequence[int]]:
        """When each object was retried since then (epoch ms), oldest first. Reads nothing where no object was."""
        claimed = (item.attempt for batch in batches for item in batch.manifest.objects)
        if not any(item.attempt for item in waiting) and not any(claimed):
            return {}
        times_by_id: dict[ObjectId, list[int]] = {}
        for decision in islice(self._ledger.quarantine.decisions(since=since), WAITING):
            if decision.verb == RETRIED:
                times_by_id.setdefault(decision.id, []).append(decision.at)
        return {identity: sorted(times) for identity, times in times_by_id.items()}

    def write(self, shown: Look, *, every_s: float | None = None, note: str | None = None) -> None:
        """Write the page of a look. With `every_s`, the pause of a watch, the file is replaced whole."""
        every = None if every_s is None else ceil(every_s)
        text = page(shown, self._target.described, every_s=every, note=note)
        whole = self._path if every_s is None else self._path.with_name(f"{self._path.name}.partial")
        whole.write_text(text, encoding="utf-8")
        if whole != self._path:
            whole.replace(self._path)

    def watch(self, every_s: float) -> None:
        """Write the page every so many seconds until Ctrl-C, and then once more, as one that is not renewed.

        While the stack can't be read, the page shows the last look, since when and why.
        """
        NotWritten.refuse_other_than(self._path)
        shown = self.look(epoch_ms())
        failing_since: int | None = None
        try:
            self.write(shown, every_s=every_s)
            say(f"Written to {self._path}, and again every {human_age(round(every_s * 1000))}. Ctrl-C ends it")
            took = 0.0
            while True:
                time.sleep(max(every_s, SHARE * took))
                began, now = time.monotonic(), epoch_ms()
                note = None
                try:
                    shown, failing_since = self.look(now), None
                except UsageError:
                    raise
                except UNANSWERED as error:
                    first, failing_since = failing_since is None, failing_since or now
                    note = f"The stack can't be read since {clock(failing_since)}: {unanswered(error)}"
                    if debugging.get():
                        traceback.print_exception(error)
                    if first:
                        say(note)
                took = time.monotonic() - began
                self.write(shown, every_s=every_s, note=note)
        except KeyboardInterrupt:
            self.write(shown, note="Not renewed any more: its watch has ended")
