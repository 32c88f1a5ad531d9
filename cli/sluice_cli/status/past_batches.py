"""Reads past batches from S3, newest first: each manifest with the outcomes of its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.silver_keys import PREFIX, outcome_key
from sluice_aws.s3.objects import Objects

AT_ONCE = 16  # manifests that are read ahead
MANIFESTS = f"{PREFIX}/manifests/"


@dataclass(frozen=True)
class PastBatch:
    """A manifest and the outcomes of its parts. A part without an outcome is open, or its objects are pending again."""

    manifest: Manifest
    outcomes: Mapping[str, Outcome]


class PastBatches:
    """The batches of one silver bucket. `unread` counts the wanted manifests beyond the limit of the last read."""

    def __init__(self, objects: Objects, silver: str) -> None:
        self._objects = objects
        self._silver = silver
        self.unread = 0

    def newest(
        self, *, table: str | None = None, since: int | None = None, at_most: int | None = None
    ) -> Iterator[PastBatch]:
        """Read batches in the order of their claims, newest first.

        With `table`, only its part of batches that have one is read. `since` (epoch ms) leaves out older batches, and
        `at_most` limits the manifests that are read.
        """
        # S3 stores whole seconds; within a second, the time in the manifest decides.
        found = sorted(
            self._objects.put_times(self._silver, MANIFESTS), key=lambda entry: (entry[1], entry[0]), reverse=True
        )
        asked = [key for key, put_at in found if since is None or put_at >= since - 1_000]
        keys = asked[:at_most]
        self.unread = len(asked) - len(keys)
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="batches") as pool:
            for start in range(0, len(keys), AT_ONCE):
                chunk = [
                    batch
                    for batch in pool.map(lambda key: self._batch(key, table), keys[start : start + AT_ONCE])
                    if batch is not None
                ]
                yield from sorted(
                    chunk, key=lambda batch: (batch.manifest.created_at, batch.manifest.batch), reverse=True
                )

    def _batch(self, key: str, table: str | None) -> PastBatch | None:
        document = self._objects.get(self._silver, key)
        if document is None:
            return None
        manifest = Manifest.from_json(document.data.decode("utf-8"))
        names: Sequence[str] = [name for name in sorted(manifest.tables) if table is None or name == table]
        if not names:
            return None
        outcomes = {name: self._outcome(manifest.batch, name) for name in names}
        return PastBatch(manifest, {name: outcome for name, outcome in outcomes.items() if outcome is not None})

    def _outcome(self, batch: str, table: str) -> Outcome | None:
        document = self._objects.get(self._silver, outcome_key(batch, table))
        return None if document is None else Outcome.from_json(document.data.decode("utf-8"))
