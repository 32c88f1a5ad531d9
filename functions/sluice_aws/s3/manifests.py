"""Manifests and outcomes as JSON documents in the silver bucket."""

from __future__ import annotations

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.silver_keys import manifest_key, outcome_key
from sluice_aws.s3.objects import Objects

_JSON = "application/json"


class ManifestStore:
    """The Manifests port on S3. Writing the same document again changes nothing."""

    def __init__(self, objects: Objects, silver_bucket: str) -> None:
        self._objects = objects
        self._bucket = silver_bucket

    def put_manifest(self, manifest: Manifest) -> str:
        """Store a manifest; returns its key."""
        key = manifest_key(manifest.lane, manifest.batch)
        self._objects.put(self._bucket, key, manifest.to_json().encode("utf-8"), content_type=_JSON)
        return key

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
