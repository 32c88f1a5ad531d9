"""Batches as S3 keeps them, newest first: manifests, and the outcome of every part beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sluice.manifest import Manifest
from sluice.outcome import Outcome
from sluice.silver_keys import PREFIX, outcome_key
from sluice_aws.objects import Objects

AT_ONCE = 16  # manifests read ahead
MANIFESTS = f"{PREFIX}/manifests/"


@dataclass(frozen=True)
class PastBatch:
    """A manifest and the outcomes there are of its parts; a part without one is open, or its objects returned to pending."""

    manifest: Manifest
    outcomes: Mapping[str, Outcome]


class PastBatches:
    """The batches of one silver bucket. `unread` counts manifests that were asked for and too many to read."""

    def __init__(self, objects: Objects, silver: str) -> None:
        self._objects = objects
        self._silver = silver
        self.unread = 0

    def newest(
        self, *, table: str | None = None, since: int | None = None, at_most: int | None = None
    ) -> Iterator[PastBatch]:
        """Batches in the order in which they were claimed, the newest first; only those with a part of `table`, and only its part.

        `since` (epoch ms) ends it at the first one claimed before. Not more than `at_most` manifests are read.
        """
        # S3 has whole seconds, and the order within them is the manifests' own.
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
