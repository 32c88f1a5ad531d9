"""The manifest of a batch: its id and its objects by table, written before any of them is read.

Manifests and outcomes are canonical JSON: the same content gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any

from sluice.batch.isolation import Cohort
from sluice.config.table import TableConfig
from sluice.errors import UnreadableManifest
from sluice.objects import ObjectId


@dataclass(frozen=True)
class ManifestObject:
    """A claimed object, as a read task needs it. `schema` is a fingerprint; sizes are in bytes, times in epoch ms.

    `attempt` counts the retries after the object or rows of it were quarantined. `merged` is set if its other rows are
    committed already: only those under the key `rows_aside` of the silver bucket are left to merge. `cohort` is the one
    that the object was claimed as, as text. `first_batch` is the batch that committed the object before it was
    replayed. `rebuilt_at` is when a rebuild of its table emptied what a batch had committed of it. `modified_at` is
    its time in S3 (`sluice.changes.position.place_of_object`); None where something else orders its rows. `replaces` is
    set where the object completes a full dump: the place below which, and below the generation, rows are deleted.
    """

    bucket: str
    key: str
    version: str
    size: int
    schema: str | None
    format: str
    topic: str
    kafka_partition: int | None
    offset: int | None
    admitted_at: int
    attempt: int = 0
    merged: bool = False
    rows_aside: str | None = None
    cohort: str | None = None
    first_batch: str | None = None
    rebuilt_at: int | None = None
    modified_at: int | None = None
    replaces: str | None = None
    also_for: str = ""

    @property
    def was_readable(self) -> bool:
        """True if an earlier batch committed the object: it was replayed, or retried for rows that were set aside."""
        return self.merged or self.first_batch is not None

    @property
    def came_before(self) -> bool:
        """True if an earlier batch committed the object, though a rebuild may have emptied its table since."""
        return self.was_readable or self.rebuilt_at is not None

    @property
    def id(self) -> ObjectId:
        """The object's identity, by whose version or ETag it is read."""
        return ObjectId(self.bucket, self.key, self.version, self.also_for)


@dataclass(frozen=True)
class TablePart:
    """One table's part of a batch.

    `config` (TableConfig.to_dict()) and `watch` (KafkaWatch.to_dict() before the batch) are pinned, so that a run that
    takes the batch over writes and parks the same as the run that claimed it. `last_instant` is the table's last
    commit before the batch, `history_instant` that of its history table; None where there was none.
    """

    config: Mapping[str, Any] = field(hash=False)
    objects: tuple[ManifestObject, ...] = ()
    watch: Mapping[str, Any] = field(default_factory=dict, hash=False)
    last_instant: str | None = None
    history_instant: str | None = None

    @property
    def table_config(self) -> TableConfig:
        """The configuration under which this part was claimed."""
        return TableConfig.from_dict(self.config)

    @property
    def bytes(self) -> int:
        return sum(item.size for item in self.objects)

    @property
    def cohort(self) -> Cohort | None:
        """The cohort that the objects were claimed as; None for a part that may have others beside it."""
        text = self.objects[0].cohort if self.objects else None
        return None if text is None else Cohort.from_text(text)


@dataclass(frozen=True)
class Manifest:
    """The objects claimed together, over all tables of a lane."""

    batch: str
    lane: str
    run: str
    created_at: int
    configuration_version: str
    tables: Mapping[str, TablePart] = field(hash=False)

    @property
    def objects(self) -> tuple[ManifestObject, ...]:
        return tuple(item for table in sorted(self.tables) for item in self.tables[table].objects)

    def to_json(self) -> str:
        """Canonical JSON, so that writing the same manifest again changes nothing."""
        own = {name: getattr(self, name) for name in _TYPES}
        return canonical_json(
            {**own, "format": FORMAT, "tables": {of: _part(part) for of, part in self.tables.items()}}
        )

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read the result of `to_json`. Raises UnreadableManifest for anything else."""
        content = document_of(text, "manifest")
        check_types(content, "manifest", _TYPES)
        try:
            parts = {
                table: {of.name: part[of.name] for of in fields(TablePart) if of.name in part}
                for table, part in content["tables"].items()
            }
            tables = {of: TablePart(**{**part, "objects": _objects(part["objects"])}) for of, part in parts.items()}
            return cls(**{**{name: content[name] for name in _TYPES}, "tables": tables})
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableManifest(
                "The manifest lacks a field, or has one of another type", found=text[:200]
            ) from error


_TYPES = {"batch": str, "lane": str, "run": str, "created_at": int, "configuration_version": str, "tables": dict}
_TYPES_OF_OBJECT = {"bucket": str, "key": str, "version": str, "size": int, "topic": str, "admitted_at": int}


def _objects(described: Iterable[Mapping[str, Any]]) -> tuple[ManifestObject, ...]:
    objects = []
    for item in described:
        check_types(item, "manifest", _TYPES_OF_OBJECT)
        objects.append(ManifestObject(**item))
    return tuple(objects)


def _part(part: TablePart) -> dict[str, Any]:
    """A table's part, without the fields after its objects that are empty."""
    values = {of.name: getattr(part, of.name) for of in fields(part)}
    described = {"config": dict(part.config), "objects": list(map(_describe, part.objects))}
    return {**{name: value for name, value in values.items() if value}, **described}


def _describe(item: ManifestObject) -> dict[str, Any]:
    """Fields of a later release are left out when empty, so that older manifests keep their bytes."""
    later = ("merged", "rows_aside", "cohort", "first_batch", "rebuilt_at", "modified_at", "also_for")
    values = {name: value for name, value in asdict(item).items() if name not in later or value}
    return {name: value for name, value in values.items() if name != "replaces" or value is not None}


def open_manifest(
    lane: str, run: str, created_at: int, configuration_version: str, tables: Mapping[str, TablePart]
) -> Manifest:
    """Make a manifest. Its batch id follows from the lane and the objects."""
    listed = [item for part in tables.values() for item in part.objects]
    batch = batch_id(
        lane, (item.id for item in listed), attempts={item.id: item.attempt for item in listed if item.attempt}
    )
    return Manifest(batch, lane, run, created_at, configuration_version, dict(tables))


def batch_id(lane: str, objects: Iterable[ObjectId], *, attempts: Mapping[ObjectId, int] = MappingProxyType({})) -> str:
    """The id of a batch: "b-" and a hash of the lane and the sorted object hashes. The same claim has the same id.

    A retried object counts with its attempt: the same objects are then another batch, whose commit must not be taken
    for the first one's.
    """
    marks = sorted(f"{item.hash}#{attempts[item]}" if item in attempts else item.hash for item in objects)
    return "b-" + hashlib.sha256("\n".join([lane, *marks]).encode("utf-8")).hexdigest()[:32]


FORMAT = 1  # of manifests and of outcomes
_KINDS = {str: "text", int: "a whole number", dict: "a mapping", list: "a list"}  # of fields, as they are checked


def document_of(text: str, what: str) -> dict[str, Any]:
    """Parse a manifest or an outcome; `what` names it in errors.

    Raises UnreadableManifest for another format, and for text that is no such document.
    """
    try:
        content: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableManifest(f"The {what} is not JSON", found=text[:200]) from error
    if not isinstance(content, dict) or "format" not in content:
        raise UnreadableManifest(f"This is not a {what}: it has no format", found=text[:200])
    format_read = content["format"]
    if format_read != FORMAT:
        raise UnreadableManifest(
            f"The {what} has format {format_read!r}, this release reads {FORMAT}", found=format_read
        )
    return content


def check_types(content: Mapping[str, Any], what: str, types: Mapping[str, type]) -> None:
    """Raises UnreadableManifest unless the fields are there and of these types."""
    for name, kind in types.items():
        if not isinstance(content.get(name), kind):
            wrong = f"The {what}'s {name} is {'not ' + _KINDS[kind] if name in content else 'missing'}"
            raise UnreadableManifest(wrong, found=str(content.get(name))[:200])


def canonical_json(content: Any) -> str:
    """JSON with sorted keys, without blanks, in ASCII: the same content gives the same text."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
