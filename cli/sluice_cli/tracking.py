"""Finds what is kept of an object: its records in the ledger, its batch's documents in S3, and the object itself."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.identity import ObjectId, identify
from sluice.ledger_records import ObjectRecord
from sluice.manifest import Manifest, Outcome, manifest_key, outcome_key
from sluice_aws.ledger import Ledger
from sluice_aws.objects import Objects
from sluice_cli.object_trace import TraceFacts
from sluice_cli.target import Target

VERSIONS_AT_MOST = 1_000  # of one key, in bronze


class Tracker:
    """Facts about objects of one stack."""

    def __init__(self, *, ledger: Any, objects: Objects, bronze: str, silver: str) -> None:
        self._ledger = ledger
        self._objects = objects
        self._bronze = bronze
        self._silver = silver

    def versions(self, key: str) -> dict[ObjectId, ObjectRecord | None]:
        """Every version of a key: those that the ledger knows, oldest first, then those that bronze alone has, whose notices are on the way."""
        found: dict[ObjectId, ObjectRecord | None] = {record.id: record for record in self._ledger.object_versions(self._bronze, key)}
        versioned = self._objects.is_versioned(self._bronze)
        listed = self._objects.version_page(self._bronze, prefix=key, page_size=VERSIONS_AT_MOST).versions
        for item in sorted(listed, key=lambda version: version.modified_at):
            if item.key == key:
                found.setdefault(identify(item.bucket, item.key, item.version_id, item.etag, bucket_versioned=versioned), None)
        return found

    def keys_like(self, prefix: str, at_most: int) -> list[str]:
        """Some keys of bronze that begin so."""
        listed = self._objects.version_page(self._bronze, prefix=prefix, page_size=at_most).versions
        return list(dict.fromkeys(item.key for item in listed))

    def facts(self, identity: ObjectId, record: ObjectRecord | None) -> TraceFacts:
        """All that is kept of one version: up to seven calls."""
        put_at = self._objects.modified_at(identity)
        if record is None:
            return TraceFacts(identity, put_at)
        decisions = self._ledger.decisions_about(identity)
        if record.batch is None or record.table is None:
            return TraceFacts(identity, put_at, record, decisions)
        batch: Mapping[str, Any] = self._ledger.batch(record.batch) or {}
        manifest = self._manifest(batch.get("lane") or record.lane or "", record.batch)
        return TraceFacts(
            identity, put_at, record, decisions, manifest=manifest, outcome=self._outcome(record.batch, record.table), batch=batch,
            part=self._ledger.batch_parts(record.batch).get(record.table), run=self._ledger.run(manifest.run) if manifest else None)

    def _manifest(self, lane: str, batch: str) -> Manifest | None:
        document = self._objects.get(self._silver, manifest_key(lane, batch))
        return None if document is None else Manifest.from_json(document.data.decode("utf-8"))

    def _outcome(self, batch: str, table: str) -> Outcome | None:
        document = self._objects.get(self._silver, outcome_key(batch, table))
        return None if document is None else Outcome.from_json(document.data.decode("utf-8"))


def tracker(target: Target) -> Tracker:
    """The tracker of a stack."""
    return Tracker(ledger=Ledger(target.client("dynamodb"), target.ledger_table), objects=Objects(target.client("s3")), bronze=target.bronze, silver=target.silver)
