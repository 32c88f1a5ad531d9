"""The outcome of one table's part of a batch: committed or quarantined, the objects set aside, and the time it took."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from sluice.batch.manifest import FORMAT, ManifestObject, canonical_json, check_types, document_of
from sluice.config.setting import stored
from sluice.errors import SluiceError, UnreadableManifest
from sluice.objects import ObjectId

COMMITTED, QUARANTINED = "committed", "quarantined"
LONGEST_REASON, LONGEST_FACTS = 2_000, 400
_PLACES = frozenset({"record", "row", "at"})  # facts that a number in the message may equal by chance


def in_words(error: SluiceError, leave_out: Collection[str] = ()) -> str:
    """The message, in brackets the facts that it doesn't name, and the next step."""
    said = {name: fact for name, fact in error.facts.items() if fact is not None and fact is not False and fact != ""}
    facts = "; ".join(
        f"{name}: {', '.join(map(str, fact)) if isinstance(fact, (list, tuple)) else fact}"
        for name, fact in sorted(said.items())
        if name not in leave_out and (name in _PLACES or not _names(error.message, fact))
    )
    message = f"{error.message.rstrip('.')} ({facts[:LONGEST_FACTS]})" if facts else error.message
    return str(SluiceError(message, next_step=error.next_step))


def _names(message: str, fact: Any) -> bool:
    if isinstance(fact, (list, tuple)):
        return all(_names(message, item) for item in fact)
    forms = (f"{fact}", f"{fact:,}") if isinstance(fact, int) else (f"{fact}",)
    return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", message) for form in forms)


_Record = TypeVar("_Record", bound="RecordOfObject")


@dataclass(frozen=True)
class RecordOfObject:
    """A record about an object, by ObjectId.hash, which is put in S3 before the commit."""

    object: str

    def to_json(self) -> str:
        return canonical_json(stored(self))

    @classmethod
    def from_json(cls: type[_Record], text: str) -> _Record:
        """Read the result of `to_json`. Raises UnreadableManifest for anything else."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise UnreadableManifest("The record of an object's error can't be read", found=text[:200]) from error


@dataclass(frozen=True)
class ObjectError(RecordOfObject):
    """An object that can't be merged; `code` is stable, `reason` is in words."""

    code: str
    reason: str

    @classmethod
    def of(cls, object: str, error: SluiceError) -> ObjectError:
        """The error and its facts in one line of at most LONGEST_REASON characters."""
        return cls(object, error.code, in_words(error)[:LONGEST_REASON])


@dataclass(frozen=True)
class RowErrorCount(RecordOfObject):
    """The number of an object's records that can't be merged, by code; put in S3 after the rows themselves."""

    rows: int
    codes: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Stage:
    """A span of the time that a part took: its start (epoch ms) and length (ms)."""

    name: str
    began_at: int
    ms: int

    @property
    def ended_at(self) -> int:
        """Epoch ms."""
        return self.began_at + self.ms


# The stages of a table's part, in order. `sluice trace` shows them by these names.
SPARK_STAGE = "spark"  # waiting for the Spark session to start
TABLE_STAGE = "table"
SCHEMAS_STAGE = "schemas"
READ_STAGE = "read"
HISTORY_STAGE = "history"
COMMIT_STAGE = "commit"
HOUSEKEEPING_STAGE = "housekeeping"
# The count of changes that a part wrote into its history table. A part may write there and leave its table as it is.
HISTORY_CHANGES = "history_changes"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one table's part: committed (with its instant, or `no_change`), or quarantined whole.

    - `counts`: rows and objects by name.
    - `quarantined`: single objects of a part whose other objects were committed.
    - `quarantined_rows`: the rows set aside of committed objects.
    - `parked`: objects that wait until the table's generation exceeds `parked_generation`.
    - `notes`: remarks for the operator about a part that succeeded.
    - `stages`: the time of the attempt that succeeded, in order.
    - `watch`: KafkaWatch.to_dict() after the batch, empty if unknown.
    - `columns`: columns that the commit added or widened, each with `column`, `change`, `from` and `to`.
    - `history_instant`: the newest commit of the table's history table; None without one.
    """

    batch: str
    table: str
    state: str
    committed_at: int
    instant: str | None = None
    no_change: bool = False
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    quarantined: tuple[ObjectError, ...] = ()
    reason: str | None = None
    quarantined_rows: tuple[RowErrorCount, ...] = ()
    notes: tuple[str, ...] = ()
    stages: tuple[Stage, ...] = ()
    parked: tuple[ObjectError, ...] = ()
    parked_generation: int | None = None
    watch: Mapping[str, Any] = field(default_factory=dict, hash=False)
    columns: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    history_instant: str | None = None

    @property
    def is_uncounted(self) -> bool:
        """True for a commit that a later run found: nothing recorded how many changes it read."""
        return self.instant is not None and "read" not in self.counts

    @classmethod
    def set_aside(cls, batch: str, table: str, objects: Iterable[ObjectId], error: SluiceError, now: int) -> Outcome:
        """The outcome of a part whose objects are quarantined without having been merged. `now` is epoch ms."""
        errors = tuple(ObjectError.of(item.hash, error) for item in sorted(objects))
        counts = {"objects": len(errors), "quarantined_objects": len(errors)}
        return cls(batch, table, QUARANTINED, now, counts=counts, quarantined=errors, reason=error.message)

    @property
    def readable_at(self) -> int:
        """The time (epoch ms, the writer's clock) from which readers see this part: the end of its commit."""
        return max((stage.ended_at for stage in self.stages if stage.name == COMMIT_STAGE), default=self.committed_at)

    def readable_with(self, item: ManifestObject) -> int | None:
        """The time from which readers see rows of a committed object; None where all that it has were set aside."""
        holed = any(row_error.object == item.id.hash for row_error in self.quarantined_rows)
        return None if self.instant is None and holed and not item.merged else self.readable_at

    def to_json(self) -> str:
        content = {"format": FORMAT, **asdict(self), "counts": dict(self.counts)}
        for name in ("columns", "history_instant"):
            if not content[name]:
                del content[name]  # so that an earlier release reads the outcome
        return canonical_json(content)

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Read the result of `to_json`. Raises UnreadableManifest for anything else."""
        content: dict[str, Any] = document_of(text, "outcome")
        check_types(content, "outcome", _TYPES)
        content.pop("format")
        try:
            records: dict[str, Any] = {
                name: tuple(kind(**item) for item in content.pop(name, ())) for name, kind in _LISTS.items()
            }
            plain: dict[str, Any] = {name: tuple(content.pop(name, ())) for name in ("notes", "columns")}
            return cls(**content, **records, **plain)
        except (KeyError, TypeError) as error:
            raise UnreadableManifest(
                "The outcome lacks a field, or has one of another type", found=text[:200]
            ) from error


_TYPES = {"batch": str, "table": str, "state": str, "committed_at": int, "counts": dict, "quarantined": list}
_LISTS: Mapping[str, Any] = {
    **{"quarantined": ObjectError, "parked": ObjectError},
    **{"quarantined_rows": RowErrorCount, "stages": Stage},
}
