"""Reads past batches from S3, newest first: each manifest with the outcomes of its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.silver_keys import PREFIX, manifest_key, outcome_key
from sluice_aws.s3.objects import ListedDocument, Objects, SkippedDocument, SkippedDocuments

AT_ONCE = 16  # manifests that are read ahead
MANIFESTS = f"{PREFIX}/manifests/"


@dataclass(frozen=True)
class PastBatch:
    """A manifest and the outcomes of its parts. A part without an outcome is open, or its objects are pending again."""

    manifest: Manifest
    outcomes: Mapping[str, Outcome]


def batches_by_run(
    batches: Iterable[PastBatch], items: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Sequence[PastBatch]]:
    """The batches of each run, with the outcomes that it wrote. `items` are the ledger's of the known runs, by run id.

    A run that claimed a batch and ended before a part of it was committed has the batch, and the run of its lane that
    took it over has the part. Where that one isn't known, no run has it.
    """
    by_run: dict[str, list[PastBatch]] = {}
    for batch in batches:
        manifest = batch.manifest
        wrote: dict[str, dict[str, Outcome]] = {manifest.run: {}}
        for table, outcome in batch.outcomes.items():
            run = _finisher(manifest, outcome, items)
            if run is not None:
                wrote.setdefault(run, {})[table] = outcome
        for run, outcomes in wrote.items():
            by_run.setdefault(run, []).append(PastBatch(manifest, outcomes))
    return by_run


def _finisher(manifest: Manifest, outcome: Outcome, items: Mapping[str, Mapping[str, Any]]) -> str | None:
    at, ended = outcome.committed_at, items.get(manifest.run, {}).get("ended_at")
    if ended is None or at <= ended:
        return manifest.run
    for run, item in items.items():
        began, ended = item.get("started_at"), item.get("ended_at")
        if item.get("lane") == manifest.lane and began is not None and began <= at and (ended is None or at <= ended):
            return run
    return None


class PastBatches:
    """The batches of one silver bucket. `unread` counts the wanted manifests beyond the limit of the last read.

    What can't be read there, because another program wrote or changed it, is left out and in `skipped`. With
    `remembers`, a batch with all its outcomes, which never change, is read once and kept.
    """

    def __init__(self, objects: Objects, silver: str, *, remembers: bool = False) -> None:
        self._objects = objects
        self._silver = silver
        self._kept: dict[str, PastBatch] | None = {} if remembers else None
        self._skipped = SkippedDocuments()
        self.unread = 0

    @property
    def skipped(self) -> Sequence[SkippedDocument]:
        """The documents that were left out so far, since they can't be read."""
        return self._skipped.found

    def named(self, lane: str, batch: str, table: str | None = None) -> PastBatch | None:
        """One batch of a lane, or with the outcome of one table alone; None without a manifest that can be read."""
        return self._batch(manifest_key(lane, batch), table)

    def manifest(self, lane: str, batch: str) -> Manifest | None:
        """The manifest of one batch; None if it is gone or can't be read."""
        return self._manifest(manifest_key(lane, batch))

    def generation(self, lane: str, batch: str, table: str) -> int | None:
        """The generation that a table had in one batch; None where no manifest says it."""
        manifest = self.manifest(lane, batch)
        part = None if manifest is None else manifest.tables.get(table)
        return None if part is None else int(part.config.get("generation", 0))

    def outcome(self, batch: str, table: str) -> Outcome | None:
        """The outcome of one part; None if there is none, or none that can be read."""
        key = outcome_key(batch, table)
        outcome = self._skipped.parsed(key, self._objects.get(self._silver, key), Outcome.from_json)
        if outcome is not None and (outcome.batch, outcome.table) != (batch, table):
            self._skipped.skip(key, "The outcome is of another part than its key says")
            return None
        return outcome

    def newest(
        self,
        *,
        table: str | None = None,
        since: int | None = None,
        until: int | None = None,
        at_most: int | None = None,
    ) -> Iterator[PastBatch]:
        """Read batches in the order of their claims, newest first.

        With `table`, only its part of batches that have one is read. `since` (epoch ms) leaves out older batches,
        `until` younger ones, and `at_most` limits the manifests that are read.
        """
        between = (
            entry
            for entry in self._newest_first()
            if (since is None or entry.put_at >= since - 1_000) and (until is None or entry.put_at <= until)
        )
        entries = list(self._manifests(between))
        keys = [entry.key for entry in entries[:at_most]]
        self.unread = len(entries) - len(keys)
        if self._kept:
            self._kept = {key: self._kept[key] for key in keys if key in self._kept}
        for chunk in self._read(keys, table):
            yield from sorted(chunk, key=lambda batch: (batch.manifest.created_at, batch.manifest.batch), reverse=True)

    def newest_manifests(self, at_most: int) -> Iterator[Manifest]:
        """Read the newest manifests alone, without outcomes, in about the order of their claims."""
        keys = [entry.key for entry in islice(self._manifests(self._newest_first()), at_most)]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="manifests") as pool:
            for start in range(0, len(keys), AT_ONCE):
                yield from filter(None, pool.map(self._manifest, keys[start : start + AT_ONCE]))

    def _newest_first(self) -> list[ListedDocument]:
        """What is listed as manifests. S3 stores whole seconds; within a second, the time in the manifest decides."""
        listed = self._objects.documents(self._silver, MANIFESTS)
        return sorted(listed, key=lambda entry: (entry.put_at, entry.key), reverse=True)

    def listed(self, after: str = "") -> Iterator[ListedDocument]:
        """List the manifests of all lanes in the order of their keys; with `after`, those behind that key."""
        return self._manifests(self._objects.documents(self._silver, MANIFESTS, after))

    def read(self, keys: Sequence[str]) -> Iterator[PastBatch]:
        """Read the batches of these manifests, some at a time."""
        for chunk in self._read(keys, None):
            yield from chunk

    def _read(self, keys: Sequence[str], table: str | None) -> Iterator[list[PastBatch]]:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="batches") as pool:
            for start in range(0, len(keys), AT_ONCE):
                read = pool.map(lambda key: self._batch(key, table), keys[start : start + AT_ONCE])
                yield [batch for batch in read if batch is not None]

    def _manifests(self, listed: Iterable[ListedDocument]) -> Iterator[ListedDocument]:
        for entry in listed:
            if entry.key.endswith(".json") and entry.key.count("/") == MANIFESTS.count("/") + 1:
                yield entry
            else:
                self._skipped.skip(entry.key, "Its name is not that of a manifest")

    def _batch(self, key: str, table: str | None) -> PastBatch | None:
        if self._kept is not None and table is None and key in self._kept:
            return self._kept[key]
        manifest = self._manifest(key)
        names = [] if manifest is None else [name for name in sorted(manifest.tables) if table in (None, name)]
        if manifest is None or not names:
            return None
        outcomes = {name: self.outcome(manifest.batch, name) for name in names}
        batch = PastBatch(manifest, {name: outcome for name, outcome in outcomes.items() if outcome is not None})
        if self._kept is not None and table is None and len(batch.outcomes) == len(manifest.tables):
            self._kept[key] = batch
        return batch

    def _manifest(self, key: str) -> Manifest | None:
        manifest = self._skipped.parsed(key, self._objects.get(self._silver, key), Manifest.from_json)
        if manifest is not None and manifest_key(manifest.lane, manifest.batch) != key:
            self._skipped.skip(key, "The manifest is of another batch than its key says")
            return None
        return manifest
