"""What goes into the ledger and comes out of it about objects and batches, as plain records."""
from __future__ import annotations

from dataclasses import dataclass
from typing import FrozenSet, Optional, Tuple

from sluice.identity import ObjectId
from sluice.ledger_items import PENDING

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


@dataclass(frozen=True)
class ObjectRecord(AdmittedObject):
    """An object as the ledger holds it; `batch` from its claim on."""

    batch: Optional[str] = None


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
