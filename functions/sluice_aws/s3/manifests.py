"""Manifests and outcomes as JSON documents in the silver bucket."""

from __future__ import annotations

from itertools import islice
from typing import Callable

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.silver_keys import manifest_key, manifests_prefix, outcome_key
from sluice_aws.errors import BatchTaken
from sluice_aws.s3.objects import Objects

_JSON = "application/json"
ATTEMPTS = 5  # only a run that has lost its lane competes


class ManifestStore:
    """The Manifests port on S3. Writing the same document again changes nothing.

    A run that lost its lane without knowing may try to store a manifest under the id of a batch that its successor
    opened. So a manifest is stored where there is none, and replaces exactly the one that was read before the last look
    at the lane.
    """

    def __init__(self, objects: Objects, silver_bucket: str) -> None:
        self._objects = objects
        self._bucket = silver_bucket

    def put_manifest(self, manifest: Manifest, still_held: Callable[[], bool]) -> str | None:
        """Store a manifest; returns its key, or None where another one is there and the lane is no longer held.

        Another one is there if a run died before it opened the batch, or returned all of its objects to pending.
        Raises BatchTaken where it keeps changing.
        """
        key, data = manifest_key(manifest.lane, manifest.batch), manifest.to_json().encode("utf-8")
        replaces: str | None = None
        for _ in range(ATTEMPTS):
            if self._objects.put_if(self._bucket, key, data, replaces=replaces, content_type=_JSON):
                return key
            stored = self._objects.get(self._bucket, key)
            replaces = None if stored is None else stored.etag
            if not still_held():
                return None
        raise BatchTaken(f"The manifest of batch {manifest.batch} keeps changing", batch=manifest.batch)

    def some_of(self, lane: str, most: int) -> list[Manifest]:
        """Up to `most` manifests of the lane, in no order. Raises UnreadableManifest."""
        keys = islice(self._objects.keys(self._bucket, manifests_prefix(lane)), most)
        manifests = [self.manifest(key) for key in keys]
        return [manifest for manifest in manifests if manifest is not None]

    def manifest(self, key: str) -> Manifest | None:
        """The manifest under a key, None when there is none. Raises UnreadableManifest."""
        document = self._objects.get(self._bucket, key)
        return None if document is None else Manifest.from_json(document.data.decode("utf-8"))

    def put_outcome(self, outcome: Outcome) -> None:
        """Store a part's outcome. It is written before the ledger."""
        key = outcome_key(outcome.batch, outcome.table)
        self._objects.put(self._bucket, key, outcome.to_json().encode("utf-8"), content_type=_JSON)

    def outcome(self, batch: str, table: str) -> Outcome | None:
        """A part's outcome, None when none was written. Raises UnreadableManifest."""
        document = self._objects.get(self._bucket, outcome_key(batch, table))
        return None if document is None else Outcome.from_json(document.data.decode("utf-8"))
