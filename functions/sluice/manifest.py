"""A batch written down: the manifest before anything is read, an outcome per table after it, and where both lie in S3."""
from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, Dict, Iterable, Mapping, Optional, Tuple

from sluice.errors import SluiceError
from sluice.identity import ObjectId
from sluice.table_config import TableConfig

FORMAT = 1  # of both JSON documents
PREFIX = "_sluice"
COMMITTED, QUARANTINED = "committed", "quarantined"
ROW_COUNT_SUFFIX = ".rows.json"  # beside the errors of whole objects, so that one listing finds both
PARKED_SUFFIX = ".parked.json"  # likewise, of objects that are no error of theirs


class UnreadableManifest(SluiceError):
    """A manifest or outcome that this release can't read; facts: `found`."""

    code = "unreadable_manifest"
    next_step = "Run the release that wrote it, or a newer one"


@dataclass(frozen=True)
class ManifestObject:
    """One claimed object: what a read task must know. `schema` is a fingerprint; sizes are bytes, times epoch ms.

    `attempt` counts how often it was taken back in after it, or rows of it, had been set aside;
    `merged` says that rows of it were committed by then.
    """

    bucket: str
    key: str
    version: str
    size: int
    schema: Optional[str]
    format: str
    topic: str
    kafka_partition: Optional[int]
    offset: Optional[int]
    admitted_at: int
    attempt: int = 0
    merged: bool = False

    @property
    def id(self) -> ObjectId:
        """The object's identity; reading is by its version or its ETag."""
        return ObjectId(self.bucket, self.key, self.version)


@dataclass(frozen=True)
class TablePart:
    """One table's part of a batch. `config` is TableConfig.to_dict(): pinned, so a take-over writes as its author would have.

    `watch` is KafkaWatch.to_dict() as it was before the batch, pinned likewise: a take-over parks what its author would have.
    """

    config: Mapping[str, Any] = field(hash=False)
    objects: Tuple[ManifestObject, ...] = ()
    watch: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def table_config(self) -> TableConfig:
        """The configuration this part was claimed under."""
        return TableConfig.from_dict(self.config)

    @property
    def bytes(self) -> int:
        """The objects' sizes added up."""
        return sum(item.size for item in self.objects)


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
    def objects(self) -> Tuple[ManifestObject, ...]:
        """Every object of every table."""
        return tuple(item for table in sorted(self.tables) for item in self.tables[table].objects)

    def to_json(self) -> str:
        """Canonical JSON: the same manifest gives the same bytes, so putting it again changes nothing."""
        return _canonical({
            "format": FORMAT, "batch": self.batch, "lane": self.lane, "run": self.run, "created_at": self.created_at,
            "configuration_version": self.configuration_version,
            "tables": {
                table: {"config": dict(part.config), "objects": [_told(item) for item in part.objects], **({"watch": dict(part.watch)} if part.watch else {})}
                for table, part in self.tables.items()
            },
        })

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` wrote. Raises UnreadableManifest for anything else."""
        content = _content(text, "manifest")
        try:
            tables = {
                table: TablePart(part["config"], tuple(ManifestObject(**item) for item in part["objects"]), part.get("watch", {}))
                for table, part in content["tables"].items()
            }
            return cls(content["batch"], content["lane"], content["run"], content["created_at"], content["configuration_version"], tables)
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableManifest(f"A manifest lacks or misnames a field: {error}", found=text[:200]) from error


def _told(item: ManifestObject) -> Dict[str, Any]:
    """What came with a later release isn't told where it says nothing."""
    return {name: value for name, value in asdict(item).items() if name != "merged" or value}


def open_manifest(lane: str, run: str, created_at: int, configuration_version: str, tables: Mapping[str, TablePart]) -> Manifest:
    """A manifest with the batch id that its lane and objects give it."""
    listed = [item for part in tables.values() for item in part.objects]
    batch = batch_id(lane, (item.id for item in listed), attempts={item.id: item.attempt for item in listed if item.attempt})
    return Manifest(batch, lane, run, created_at, configuration_version, dict(tables))


def batch_id(lane: str, objects: Iterable[ObjectId], *, attempts: Mapping[ObjectId, int] = MappingProxyType({})) -> str:
    """A batch's id: "b-" and a hash over the lane and the objects' hashes in sorted order, so the same claim has the same id.

    An object that was taken back in counts with its attempt: the same objects again are another batch,
    whose commit must not be taken for the first one's.
    """
    marks = sorted(f"{item.hash}#{attempts[item]}" if item in attempts else item.hash for item in objects)
    return "b-" + hashlib.sha256("\n".join([lane, *marks]).encode("utf-8")).hexdigest()[:32]


@dataclass(frozen=True)
class ObjectError:
    """One object that can't be merged. `object` is ObjectId.hash; `code` is stable, `reason` is for people."""

    object: str
    code: str
    reason: str

    def to_json(self) -> str:
        """The form in which a read task leaves it in S3 before any commit."""
        return _canonical(asdict(self))

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
        return _canonical({**asdict(self), "codes": dict(self.codes)})

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
    instant: Optional[str] = None
    no_change: bool = False
    counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    quarantined: Tuple[ObjectError, ...] = ()
    reason: Optional[str] = None
    quarantined_rows: Tuple[RowErrorCount, ...] = ()
    notes: Tuple[str, ...] = ()
    stages: Tuple[Stage, ...] = ()
    parked: Tuple[ObjectError, ...] = ()
    parked_generation: Optional[int] = None
    watch: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def readable_at(self) -> int:
        """From when readers saw what this part brought (epoch ms): its commit's end, as its writer's clock had it."""
        return max((stage.ended_at for stage in self.stages if stage.name == COMMIT_STAGE), default=self.committed_at)

    def to_json(self) -> str:
        """Canonical JSON."""
        return _canonical({"format": FORMAT, **asdict(self), "counts": dict(self.counts)})

    @classmethod
    def from_json(cls, text: str) -> Outcome:
        """Read what `to_json` wrote. Raises UnreadableManifest for anything else."""
        content: Dict[str, Any] = _content(text, "outcome")
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


def manifest_key(lane: str, batch: str) -> str:
    """Where in the silver bucket a batch's manifest lies."""
    return f"{PREFIX}/manifests/{lane}/{batch}.json"


def outcome_key(batch: str, table: str) -> str:
    """Where in the silver bucket a part's outcome lies."""
    return f"{PREFIX}/outcomes/{batch}/{table}.json"


def error_prefix(batch: str, table: str) -> str:
    """Under which prefix read tasks leave the objects that they could not read, and how many rows of which others."""
    return f"{PREFIX}/outcomes/{batch}/errors/{table}/"


def error_key(batch: str, table: str, object_hash: str) -> str:
    """Where a read task leaves one object's error."""
    return f"{error_prefix(batch, table)}{object_hash}.json"


def parked_key(batch: str, table: str, object_hash: str) -> str:
    """Where the driver leaves why one object is parked, before the others are committed."""
    return f"{error_prefix(batch, table)}{object_hash}{PARKED_SUFFIX}"


def row_count_key(batch: str, table: str, object_hash: str) -> str:
    """Where a read task leaves how many of one object's rows can't be merged, after the rows themselves."""
    return f"{error_prefix(batch, table)}{object_hash}{ROW_COUNT_SUFFIX}"


def rows_key(batch: str, table: str, object_hash: str) -> str:
    """Where a read task leaves one object's rows that can't be merged, as JSON lines."""
    return f"{PREFIX}/outcomes/{batch}/rows/{table}/{object_hash}.jsonl"


REPLACED = f"{PREFIX}/replaced/"
BEGUN, FINISHED = "rebuild.json", "finished.json"  # under replaced_prefix: who rebuilt the table, when and why; and that all of it was done


def replaced_prefix(table: str, at: int) -> str:
    """Where in the silver bucket the data is kept that a table had before it was rebuilt at that time (epoch ms)."""
    return f"{REPLACED}{table}/{at:013d}/"


def schema_key(fingerprint: str) -> str:
    """Where in the silver bucket a writer schema lies."""
    return f"{PREFIX}/schemas/{fingerprint}.avsc"


def _content(text: str, what: str) -> Dict[str, Any]:
    try:
        content = json.loads(text)
        found = content["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableManifest(f"This is no {what}: {error}", found=text[:200]) from error
    if found != FORMAT:
        raise UnreadableManifest(f"The {what} has format {found!r}, this release reads {FORMAT}", found=found)
    return content


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
