"""What goes into the ledger and comes out of it about objects and batches, as plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sluice.ledger.keys import PENDING
from sluice.objects import ObjectId
from sluice.services.requests import ServiceRequest

#: What `admit` answers: new, superseded, or "already_" and the state that the ledger holds.
NEW, SUPERSEDED = "new", "superseded"
ALREADY = "already_"


def wakes(admission: str) -> bool:
    """Whether an admission obliges its invocation to wake the lane.

    Also when the object was pending already: the invocation that wrote it may have died before its wake.
    """
    return admission in (NEW, ALREADY + PENDING)


@dataclass(frozen=True)
class AdmittedObject:
    """An object as admit decided about it: `state` is pending, parked, quarantined or ignored. Bytes and epoch ms."""

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
    merged: bool = False  # whether a batch has committed rows of it: it is taken back in for those that were set aside
    rows_aside: str | None = (
        None  # of such an object: the key in the silver bucket of those of its rows that no batch has merged
    )
    generation: int | None = (
        None  # the generation that it was merged under before its table was rebuilt; None: its table's
    )


@dataclass(frozen=True)
class ObjectRecord(AdmittedObject):
    """An object as the ledger holds it; `batch` from its claim on.

    `quarantined_rows` of a committed object are those of its rows that could not be merged, by code in
    `row_codes`; `listed_at` is when it was set aside (epoch ms, as the index sorts it). `unparked_at` is when a
    table took what had been parked (epoch ms), `replayed_at` when it was taken in again to rebuild its table. An object that is parked for its source's log waits until the table's
    generation is above `parked_generation`.
    """

    batch: str | None = None
    quarantined_rows: int = 0
    row_codes: Mapping[str, int] = field(default_factory=dict, hash=False)
    discarded_rows: int = 0
    listed_at: str | None = None
    unparked_at: int | None = None
    parked_generation: int | None = None
    replayed_at: int | None = None


#: What can be decided about an object, or rows of one, that was set aside.
RETRIED, DISCARDED = "retried", "discarded"


@dataclass(frozen=True)
class Decision:
    """One entry of the audit trail: what was decided, by which command and by whom, and what the object was then.

    `rows` is 0 when it was about the whole object. `note` is the operator's own.
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
class ManifestPointer:
    """A lane's note of an unsettled manifest; `settled_tables` are those parts that need nothing more."""

    batch: str
    s3_key: str
    run: str
    created_at: int
    tables: tuple[str, ...]
    settled_tables: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PendingCount:
    """A table's backlog: how many, how many bytes, and when the oldest was admitted (epoch ms)."""

    objects: int
    bytes: int
    oldest: int


@dataclass(frozen=True)
class IgnoredPart:
    """The n-th part of a queue message that named no object: why, and how it began. `ignored_at` is epoch ms."""

    message_id: str
    n: int
    reason: str
    excerpt: str
    ignored_at: int


@dataclass(frozen=True)
class Requested:
    """The answer to asking for a service: the request that is open now, and if this call made it (and woke the lane)."""

    request: ServiceRequest
    new: bool
