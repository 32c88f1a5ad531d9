"""Finds what is kept of an object: its records in the ledger, its batch's documents in S3, and the object itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.errors import UsageError
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId, identify
from sluice.silver_keys import manifest_key, outcome_key
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target
from sluice_cli.terminal.output import visible
from sluice_cli.trace.objects import TraceFacts

VERSIONS_AT_MOST = 1_000  # of one key, in bronze
PAGES_AT_MOST = 20  # of a thousand versions, that are looked through for a key's ending
KEYS_SHOWN = 5


@dataclass(frozen=True)
class Named:
    """The key that was meant, and every version of it as `Tracker.versions` has them: at least one."""

    key: str
    versions: Mapping[ObjectId, ObjectRecord | None]


class Tracker:
    """Facts about objects of one stack."""

    def __init__(self, *, ledger: Any, objects: Objects, bronze: str, silver: str) -> None:
        self._ledger = ledger
        self._objects = objects
        self._bronze = bronze
        self._silver = silver

    def named(self, text: str) -> Named:
        """The object that is meant by a key, by `s3://BUCKET/KEY`, or by the end of a key that only one in bronze has, such as the name of a file.

        Raises UsageError with what is like it.
        """
        bucket, slash, rest = text.removeprefix("s3://").partition("/")
        if text.startswith("s3://") and slash and rest:
            if bucket != self._bronze:
                raise UsageError(
                    f"{bucket!r} is not the bronze bucket of this stack",
                    next_step=f"It is s3://{self._bronze}; --stack NAME names another stack",
                )
            text = rest
        versions = self.versions(text)
        if versions:
            return Named(text, versions)
        ends, whole = self._keys_ending(f"/{text.lstrip('/')}")
        if len(ends) == 1 and whole:
            return Named(ends[0], self.versions(ends[0]))
        like = _like("Keys that end so", ends) or _like("Keys that begin so", self._keys_like(text))
        raise UsageError(
            f"Neither the ledger nor bronze knows the key {text!r}",
            next_step=like
            or f"`sluice history` lists the objects that came last{'' if whole else f'. Only the first {PAGES_AT_MOST * 1_000:,} versions in bronze were looked through for keys that end so'}",
        )

    def versions(self, key: str) -> dict[ObjectId, ObjectRecord | None]:
        """Every version of a key: those that the ledger knows, oldest first, then those that bronze alone has, whose notices are on the way."""
        found: dict[ObjectId, ObjectRecord | None] = {
            record.id: record for record in self._ledger.object_versions(self._bronze, key)
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
        """Keys of bronze that end so, and whether all of bronze was looked through."""
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
            identity,
            put_at,
            record,
            decisions,
            manifest=manifest,
            outcome=self._outcome(record.batch, record.table),
            batch=batch,
            part=self._ledger.batch_parts(record.batch).get(record.table),
            run=self._ledger.run(manifest.run) if manifest else None,
        )

    def _manifest(self, lane: str, batch: str) -> Manifest | None:
        document = self._objects.get(self._silver, manifest_key(lane, batch))
        return None if document is None else Manifest.from_json(document.data.decode("utf-8"))

    def _outcome(self, batch: str, table: str) -> Outcome | None:
        document = self._objects.get(self._silver, outcome_key(batch, table))
        return None if document is None else Outcome.from_json(document.data.decode("utf-8"))


def _like(title: str, keys: list[str]) -> str:
    return f"{title}: {_listed(keys)}" if keys else ""


def _listed(keys: list[str]) -> str:
    return ", ".join(visible(key) for key in keys[:KEYS_SHOWN]) + (" and more" if len(keys) > KEYS_SHOWN else "")


def tracker(target: Target) -> Tracker:
    """The tracker of a stack."""
    return Tracker(
        ledger=Ledger(target.client("dynamodb"), target.ledger_table),
        objects=Objects(target.client("s3")),
        bronze=target.bronze,
        silver=target.silver,
    )
