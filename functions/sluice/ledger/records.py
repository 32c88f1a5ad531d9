"""What goes into the ledger and comes out of it about objects and batches, as plain records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import FrozenSet, Mapping, Optional, Tuple

from sluice.ledger.keys import PENDING
from sluice.objects import ObjectId

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
    noticed_at: Optional[int] = None
    table: Optional[str] = None
    lane: Optional[str] = None
    topic: Optional[str] = None
    etag: Optional[str] = None
    sequencer: Optional[str] = None
    kafka_partition: Optional[int] = None
    offset: Optional[int] = None
    format: Optional[str] = None
    schema: Optional[str] = None
    via: Optional[str] = None
    reason: Optional[str] = None
    rule: Optional[str] = None
    code: Optional[str] = None
    attempt: int = 0
    merged: bool = False  # whether a batch has committed rows of it: it is taken back in for those that were set aside
    rows_aside: Optional[str] = (
        None  # of such an object: the key in the silver bucket of those of its rows that no batch has merged
    )
    generation: Optional[int] = (
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

    batch: Optional[str] = None
    quarantined_rows: int = 0
    row_codes: Mapping[str, int] = field(default_factory=dict, hash=False)
    discarded_rows: int = 0
    listed_at: Optional[str] = None
    unparked_at: Optional[int] = None
    parked_generation: Optional[int] = None
    replayed_at: Optional[int] = None


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
    table: Optional[str] = None
    code: Optional[str] = None
    reason: Optional[str] = None
    batch: Optional[str] = None
    attempt: int = 0
    rows: int = 0
    note: Optional[str] = None


@dataclass(frozen=True)
class ManifestPointer:
    """A lane's note of an unsettled manifest; `settled_tables` are those parts that need nothing more."""

    batch: str
    s3_key: str
    run: str
    created_at: int
    tables: Tuple[str, ...]
    settled_tables: FrozenSet[str] = frozenset()


@dataclass(frozen=True)
class PendingCount:
    """A table's backlog: how many, how many bytes, and when the oldest was admitted (epoch ms)."""

    objects: int
    bytes: int
    oldest: int
