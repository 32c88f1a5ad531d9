"""Finds the records of an object: its items in the ledger, its batch's documents in S3, and the object itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.errors import UsageError
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId, identify
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.objects import Objects, SkippedDocument
from sluice_aws.s3.past_batches import PastBatches
from sluice_aws.stack import Target
from sluice_cli.terminal.output import visible
from sluice_cli.trace.stages import TraceFacts

VERSIONS_AT_MOST = 1_000  # of one key, in bronze
PAGES_AT_MOST = 20  # of a thousand versions, searched for the end of a key
KEYS_SHOWN = 5


@dataclass(frozen=True)
class Named:
    """A key and its versions, at least one, as `Tracker.versions` gives them."""

    key: str
    versions: Mapping[ObjectId, ObjectRecord | None]


class Tracker:
    """Finds the records of one stack's objects."""

    def __init__(self, *, ledger: Ledger, objects: Objects, bronze: str, silver: str) -> None:
        self._ledger = ledger
        self._objects = objects
        self._bronze = bronze
        self._past = PastBatches(objects, silver)

    @property
    def skipped(self) -> Sequence[SkippedDocument]:
        """The documents that were left out so far, since they can't be read."""
        return self._past.skipped

    def named(self, text: str) -> Named:
        """Find an object by its key, by `s3://BUCKET/KEY`, or by the end of its key if no other ends so.

        Raises UsageError, with keys that are similar.
        """
        bucket, slash, rest = text.removeprefix("s3://").partition("/")
        if text.startswith("s3://") and slash and rest:
            if bucket != self._bronze:
                raise UsageError(
                    f"{bucket!r} is not the bronze bucket of this stack",
                    next_step=f"Its bucket is s3://{self._bronze}; --stack NAME chooses another stack",
                )
            text = rest
        versions = self.versions(text)
        if versions:
            return Named(text, versions)
        ends, whole = self._keys_ending(f"/{text.lstrip('/')}")
        if len(ends) == 1 and whole:
            return Named(ends[0], self.versions(ends[0]))
        searched = f". Only the first {PAGES_AT_MOST * 1_000:,} versions in bronze were searched for keys that end so"
        raise UsageError(
            f"Neither the ledger nor bronze has the key {text!r}",
            next_step=_like("Keys that end so", ends)
            or _like("Keys that begin so", self._keys_like(text))
            or f"`sluice history` lists the newest objects{'' if whole else searched}",
        )

    def versions(self, key: str) -> dict[ObjectId, ObjectRecord | None]:
        """List the versions of a key: those in the ledger, oldest first, then those that only bronze has yet."""
        found: dict[ObjectId, ObjectRecord | None] = {
            record.id: record for record in self._ledger.objects.versions(self._bronze, key)
        }
        versioned = self._objects.is_versioned(self._bronze)
        listed = self._objects.version_page(self._bronze, prefix=key, page_size=VERSIONS_AT_MOST).versions
        for item in sorted(listed, key=lambda version: version.modified_at):
            if item.key == key:
                found.setdefault(
                    identify(item.bucket, item.key, item.version_id, item.etag, bucket_versioned=versioned), None
                )
        return found

    def _keys_like(self, prefix: str) -> list[str]:
        listed = self._objects.version_page(self._bronze, prefix=prefix, page_size=KEYS_SHOWN + 1).versions
        return list(dict.fromkeys(item.key for item in listed))

    def _keys_ending(self, end: str) -> tuple[list[str], bool]:
        """Keys of bronze that end so, and whether all of bronze was searched."""
        found: dict[str, None] = {}
        marker = None
        for _ in range(PAGES_AT_MOST):
            page = self._objects.version_page(self._bronze, marker)
            found.update((item.key, None) for item in page.versions if item.key.endswith(end))
            marker = page.next_marker
            if marker is None:
                return list(found), True
        return list(found), False

    def facts(self, identity: ObjectId, record: ObjectRecord | None) -> TraceFacts:
        """Read the records of one version, in at most seven calls."""
        put_at = self._objects.modified_at(identity)
        if record is None:
            return TraceFacts(identity, put_at)
        decisions = self._ledger.quarantine.decisions_about(identity)
        if record.batch is None or record.table is None:
            return TraceFacts(identity, put_at, record, decisions)
        batch: Mapping[str, Any] = self._ledger.batches.get(record.batch) or {}
        manifest = self._past.manifest(batch.get("lane") or record.lane or "", record.batch)
        return TraceFacts(
            identity,
            put_at,
            record,
            decisions,
            manifest=manifest,
            outcome=self._past.outcome(record.batch, record.table),
            batch=batch,
            part=self._ledger.batches.parts(record.batch).get(record.table),
            run=self._ledger.history.run(manifest.run) if manifest else None,
        )


def _like(title: str, keys: list[str]) -> str:
    return f"{title}: {_listed(keys)}" if keys else ""


def _listed(keys: list[str]) -> str:
    return ", ".join(visible(key) for key in keys[:KEYS_SHOWN]) + (" and more" if len(keys) > KEYS_SHOWN else "")


def tracker(target: Target) -> Tracker:
    """The tracker of a stack."""
    return Tracker(
        ledger=DynamoDbLedger(target.client("dynamodb"), target.ledger_table),
        objects=Objects(target.client("s3")),
        bronze=target.bronze,
        silver=target.silver,
    )
