"""A batch written down before anything of it is read: its objects by table, and the id that they give it.

The JSON of what is kept of a batch: the same bytes for the same content, and refused where this release can't read it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any

from sluice.config.table import TableConfig
from sluice.errors import UnreadableManifest
from sluice.objects import ObjectId


@dataclass(frozen=True)
class ManifestObject:
    """One claimed object: what a read task must know. `schema` is a fingerprint; sizes are bytes, times epoch ms.

    `attempt` counts how often it was taken back in after it, or rows of it, had been set aside;
    `merged` says that rows of it were committed by then, all but those that lie under the key `rows_aside` of the silver bucket.
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
    objects: tuple[ManifestObject, ...] = ()
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
    def objects(self) -> tuple[ManifestObject, ...]:
        """Every object of every table."""
        return tuple(item for table in sorted(self.tables) for item in self.tables[table].objects)

    def to_json(self) -> str:
        """Canonical JSON: the same manifest gives the same bytes, so putting it again changes nothing."""
        return canonical_json(
            {
                "format": FORMAT,
                "batch": self.batch,
                "lane": self.lane,
                "run": self.run,
                "created_at": self.created_at,
                "configuration_version": self.configuration_version,
                "tables": {
                    table: {
                        "config": dict(part.config),
                        "objects": [_describe(item) for item in part.objects],
                        **({"watch": dict(part.watch)} if part.watch else {}),
                    }
                    for table, part in self.tables.items()
                },
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read what `to_json` wrote. Raises UnreadableManifest for anything else."""
        content = document_of(text, "manifest")
        try:
            tables = {
                table: TablePart(
                    part["config"], tuple(ManifestObject(**item) for item in part["objects"]), part.get("watch", {})
                )
                for table, part in content["tables"].items()
            }
            return cls(
                content["batch"],
                content["lane"],
                content["run"],
                content["created_at"],
                content["configuration_version"],
                tables,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UnreadableManifest(f"A manifest lacks or misnames a field: {error}", found=text[:200]) from error


def _describe(item: ManifestObject) -> dict[str, Any]:
    """What came with a later release isn't told where it says nothing."""
    return {name: value for name, value in asdict(item).items() if name not in ("merged", "rows_aside") or value}


def open_manifest(
    lane: str, run: str, created_at: int, configuration_version: str, tables: Mapping[str, TablePart]
) -> Manifest:
    """A manifest with the batch id that its lane and objects give it."""
    listed = [item for part in tables.values() for item in part.objects]
    batch = batch_id(
        lane, (item.id for item in listed), attempts={item.id: item.attempt for item in listed if item.attempt}
    )
    return Manifest(batch, lane, run, created_at, configuration_version, dict(tables))


def batch_id(lane: str, objects: Iterable[ObjectId], *, attempts: Mapping[ObjectId, int] = MappingProxyType({})) -> str:
    """A batch's id: "b-" and a hash over the lane and the objects' hashes in sorted order, so the same claim has the same id.

    An object that was taken back in counts with its attempt: the same objects again are another batch,
    whose commit must not be taken for the first one's.
    """
    marks = sorted(f"{item.hash}#{attempts[item]}" if item in attempts else item.hash for item in objects)
    return "b-" + hashlib.sha256("\n".join([lane, *marks]).encode("utf-8")).hexdigest()[:32]


FORMAT = 1  # of manifests and of outcomes


def document_of(text: str, what: str) -> dict[str, Any]:
    """The content of what is said to be a manifest or an outcome (`what`, for the error). Raises UnreadableManifest for another format, and for what is none."""
    try:
        content = json.loads(text)
        found = content["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableManifest(f"This is no {what}: {error}", found=text[:200]) from error
    if found != FORMAT:
        raise UnreadableManifest(f"The {what} has format {found!r}, this release reads {FORMAT}", found=found)
    return content


def canonical_json(content: Any) -> str:
    """The same text for the same content: keys in order, no blanks, ASCII."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
