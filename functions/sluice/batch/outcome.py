"""What became of one table's part of a batch: committed or not, what was set aside, and where its time went.

A record that can't be merged, kept with its bytes: the form in which it is written beside its batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sluice.batch.manifest import FORMAT, canonical_json, document_of
from sluice.errors import UnreadableManifest

COMMITTED, QUARANTINED = "committed", "quarantined"


@dataclass(frozen=True)
class ObjectError:
    """One object that can't be merged. `object` is ObjectId.hash; `code` is stable, `reason` is for people."""

    object: str
    code: str
    reason: str

    def to_json(self) -> str:
        """The form in which a read task leaves it in S3 before any commit."""
        return canonical_json(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ObjectError:
        """Read what `to_json` wrote. Raises UnreadableManifest for anything else."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise UnreadableManifest(f"An object's error record can't be read: {error}", found=text[:200]) from error


@dataclass(frozen=True)
class RowErrorCount:
    """How many records of one object can't be merged, by code. `object` is ObjectId.hash."""

    object: str
    rows: int
    codes: Mapping[str, int] = field(default_factory=dict, hash=False)

    def to_json(self) -> str:
        """The form in which a read task leaves it in S3 before any commit, behind the rows themselves."""
        return canonical_json({**asdict(self), "codes": dict(self.codes)})

    @classmethod
    def from_json(cls, text: str) -> RowErrorCount:
        """Read what `to_json` wrote. Raises UnreadableManifest for anything else."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise UnreadableManifest(f"A count of quarantined rows can't be read: {error}", found=text[:200]) from error


@dataclass(frozen=True)
class Stage:
    """One stretch of the time that a part took: when it began (epoch ms) and how long it was (ms)."""

    name: str
    began_at: int
    ms: int

    @property
    def ended_at(self) -> int:
        """Epoch ms."""
        return self.began_at + self.ms


SPARK_STAGE = "spark"  # the wait for a session that was still starting
COMMIT_STAGE = "commit"


@dataclass(frozen=True)
class Outcome:
    """What became of one table's part: committed (with its instant, or `no_change`), or quarantined whole.

    `quarantined` are single objects of a part whose rest was committed, `quarantined_rows` how many rows
    of which committed objects; `counts` are rows and objects by name. `notes` are what an operator should look at,
    though nothing failed. `stages` say where the time of the attempt that got this far went, in order.
    `parked` are objects that wait until the table's generation is above `parked_generation`;
    `watch` is KafkaWatch.to_dict() after the batch, empty where it is not known.
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

    @property
    def readable_at(self) -> int:
        """From when readers saw what this part brought (epoch ms): its commit's end, as its writer's clock had it."""
        return max((stage.ended_at for stage in self.stages if stage.name == COMMIT_STAGE), default=self.committed_at)

    def to_json(self) -> str:
        """Canonical JSON."""
        return canonical_json({"format": FORMAT, **asdict(self), "counts": dict(self.counts)})

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Read what `to_json` wrote. Raises UnreadableManifest for anything else."""
        content: dict[str, Any] = document_of(text, "outcome")
        content.pop("format")
        try:
            errors = tuple(ObjectError(**item) for item in content.pop("quarantined"))
            rows = tuple(RowErrorCount(**item) for item in content.pop("quarantined_rows", ()))
            notes = tuple(content.pop("notes", ()))
            stages = tuple(Stage(**item) for item in content.pop("stages", ()))
            parked = tuple(ObjectError(**item) for item in content.pop("parked", ()))
            return cls(**content, quarantined=errors, quarantined_rows=rows, notes=notes, stages=stages, parked=parked)
        except (KeyError, TypeError) as error:
            raise UnreadableManifest(f"An outcome lacks or misnames a field: {error}", found=text[:200]) from error
