"""Records that the ledger takes and returns: objects, decisions, batches, backlogs and requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.batch.isolation import OpenPart
from sluice.batch.manifest import Manifest
from sluice.ledger.keys import PENDING
from sluice.objects import ObjectId
from sluice.services.requests import ServiceRequest

#: The answers of `admit`: new, superseded, or "already_" and the state in the ledger.
NEW, SUPERSEDED = "new", "superseded"
ALREADY = "already_"
SAME_BYTES = "it has the bytes of a committed version"  # why an object is superseded


def wakes(admission: str) -> bool:
    """True if an admission obliges its invocation to wake the lane.

    That includes an object that was pending already: the invocation that wrote it may have died before its wake.
    """
    return admission in (NEW, ALREADY + PENDING)


@dataclass(frozen=True)
class AdmittedObject:
    """An object as admit decided about it. Sizes are bytes, times epoch ms.

    `state` is pending, parked, quarantined or ignored. `merged`, `rows_aside`, `cohort`, `first_batch` and
    `modified_at` are those of a manifest (`ManifestObject`). `generation` is the one that the object was merged under
    before its table was rebuilt; None for the table's own. `replayed_at` is when the object last became pending to be
    merged again: by a replay, or to rebuild its table.
    """

    id: ObjectId
    state: str
    admitted_at: int
    size: int = 0
    noticed_at: int | None = None
    table: str | None = None
    lane: str | None = None
    topic: str | None = None
    etag: str | None = None
    sequencer: str | None = None
    kafka_partition: int | None = None
    offset: int | None = None
    format: str | None = None
    schema: str | None = None
    via: str | None = None
    reason: str | None = None
    rule: str | None = None
    code: str | None = None
    attempt: int = 0
    merged: bool = False
    rows_aside: str | None = None
    generation: int | None = None
    cohort: str | None = None
    first_batch: str | None = None
    replayed_at: int | None = None
    modified_at: int | None = None


@dataclass(frozen=True)
class ObjectRecord(AdmittedObject):
    """An object in the ledger. Times are epoch ms; `batch` is set from its claim on.

    `quarantined_rows` counts the rows of a committed object that could not be merged, and `row_codes` counts them by
    code. `listed_at` is when the object was set aside, in the index's form. `unparked_at` is when a table took the
    parked object. An object that was parked because its source's log restarted waits until the table's generation is
    above `parked_generation`. `merged_generation` is the one that its batch is merged under.
    """

    batch: str | None = None
    quarantined_rows: int = 0
    row_codes: Mapping[str, int] = field(default_factory=dict, hash=False)
    discarded_rows: int = 0
    listed_at: str | None = None
    unparked_at: int | None = None
    parked_generation: int | None = None
    merged_generation: int | None = None


#: The decisions about an object, or rows of one, that was set aside.
RETRIED, DISCARDED = "retried", "discarded"


@dataclass(frozen=True)
class Decision:
    """One entry of the audit trail: the decision, the command and person behind it, and the object's state then.

    `rows` is 0 for a decision about the whole object. `note` is written by the operator.
    """

    id: ObjectId
    verb: str
    at: int
    command: str
    by: str
    state: str
    table: str | None = None
    code: str | None = None
    reason: str | None = None
    batch: str | None = None
    attempt: int = 0
    rows: int = 0
    note: str | None = None


@dataclass(frozen=True)
class PartAttempts:
    """How often later runs began to finish a part and died, and when the last one began (epoch ms).

    `given_up` is the operator's reason to quarantine the part's objects; None where nobody asked for it.
    """

    number: int = 0
    last_at: int | None = None
    given_up: str | None = None


@dataclass(frozen=True)
class ManifestPointer:
    """A lane's pointer to an unsettled manifest.

    `settled_tables` names the parts that are settled already, `attempts` holds those of the others, by table.
    """

    batch: str
    s3_key: str
    run: str
    created_at: int
    tables: tuple[str, ...]
    settled_tables: frozenset[str] = frozenset()
    attempts: Mapping[str, PartAttempts] = field(default_factory=dict, hash=False)

    def open_parts(self, manifest: Manifest) -> list[OpenPart]:
        """The parts that are still to be settled, with the objects that the manifest holds."""
        parts = []
        for table, part in sorted(manifest.tables.items()):
            attempts = self.attempts.get(table, PartAttempts())
            if table not in self.settled_tables:
                parts.append(
                    OpenPart(
                        table,
                        objects=len(part.objects),
                        bytes=part.bytes,
                        cohort=part.cohort,
                        attempts=attempts.number,
                        attempted_at=attempts.last_at,
                        given_up=attempts.given_up is not None,
                    )
                )
        return parts


@dataclass(frozen=True)
class PendingCount:
    """A table's backlog: objects, bytes, and when the oldest was admitted, or replayed or retried since (epoch ms)."""

    objects: int
    bytes: int
    oldest: int


@dataclass(frozen=True)
class IgnoredPart:
    """The n-th part of a queue message that named no object, with the reason and the beginning of its text."""

    message_id: str
    n: int
    reason: str
    excerpt: str
    ignored_at: int


@dataclass(frozen=True)
class Requested:
    """The open request for a service. `new` is True if this call made it and woke the lane."""

    request: ServiceRequest
    new: bool
