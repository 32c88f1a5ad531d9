"""Plays objects of other captures through admission, reading and the rule by which changes make rows, without a JVM."""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from botocore.exceptions import ClientError

from sluice.admission.routing import CHANGE_FILE
from sluice.batch.comparability import judge_sources
from sluice.batch.manifest import ManifestObject
from sluice.changes import hidden_columns as hidden
from sluice.changes.row_history import Change, Row, row_after
from sluice.changes.source_tables import Floors
from sluice.config.document import Configuration
from sluice.config.table import TableConfig
from sluice.errors import SluiceError
from sluice.ledger.keys import PENDING
from sluice.objects import ObjectId
from sluice_aws.admission.admit import open_admission
from sluice_aws.s3.objects import Objects
from sluice_cli.config.source import read_tables
from sluice_formats.decode import Decoded, decode
from sluice_spark.merge.plan import plan_read
from sluice_spark.merge.schemas import scan_in_driver, writer_schemas

HOME = Path(__file__).parents[1] / "data" / "captures"
SAMPLES: Mapping[str, Mapping[str, Any]] = yaml.safe_load((HOME / "samples.yaml").read_text(encoding="utf-8"))


class HeldObjects:
    """A bucket in memory, as far as objects are read and schemas kept."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[str, str], bytes] = {}

    def put_object(self, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:
        self._bodies[Bucket, Key] = Body

    def list_object_versions(self, **_: Any) -> dict[str, Any]:
        return {"Versions": []}

    def get_object(self, Bucket: str, Key: str, Range: str | None = None, **_: Any) -> dict[str, Any]:
        body = self._bodies.get((Bucket, Key))
        if body is None:
            raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
        if not body and Range:
            raise ClientError({"Error": {"Code": "InvalidRange"}}, "GetObject")
        begin, end = re.fullmatch("bytes=([0-9]*)-([0-9]*)", Range or "bytes=0-").groups()  # type: ignore[union-attr]
        part = body[int(begin) : int(end) + 1 if end else None] if begin else body[-int(end) :]
        return {
            "Body": io.BytesIO(part),
            "ETag": "e",
            "ContentLength": len(part),
            "ContentRange": f"bytes 0-0/{len(body)}",
        }


@dataclass
class Played:
    """What became of a table's objects: its live rows, and the codes and reasons of what was set aside."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    def refuse(self, code: str | None, reason: str | None) -> None:
        self.refused.append(str(code))
        self.reasons.append(str(reason))


def rules(rule: Mapping[str, Any]) -> Configuration:
    """The configuration of one rule."""
    return read_tables(yaml.safe_dump({"tables": [dict(rule)]}))


def objects_of(name: str) -> dict[str, bytes]:
    """The objects of a sample, by their keys."""
    home = HOME / name / "bronze"
    files = sorted(path for path in home.rglob("*") if path.is_file())
    return {path.relative_to(home).as_posix(): path.read_bytes() for path in files}


def database_rows(name: str) -> list[dict[str, Any]]:
    """The rows that the database of a real writer had at the end."""
    text = (HOME / name / "rows.json").read_text(encoding="utf-8")
    return sorted(json.loads(text, parse_float=Decimal), key=str)


def as_database(sample: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with the columns that the database had at the end, in its order, and its exact numbers.

    A number may be a decimal, a float, or the text of a decimal in JSON.
    """
    wanted = database_rows(sample)
    numbers = {column for row in wanted for column, value in row.items() if isinstance(value, Decimal)}
    exact = [
        {
            name: Decimal(str(row[name])) if name in numbers and row[name] is not None else row[name]
            for name in wanted[0]
        }
        for row in rows
    ]
    return sorted(exact, key=str)


def play(bodies: Mapping[str, bytes], configuration: Configuration) -> Played:
    """Admit objects, read those of the rule's table as one batch, and make rows of their changes."""
    s3, played = HeldObjects(), Played()
    objects = Objects(s3)
    judge = open_admission(objects, ledger=None, silver_bucket="silver", now=lambda: 0)  # type: ignore[arg-type]
    items: list[ManifestObject] = []
    config: TableConfig | None = None
    for number, (key, body) in enumerate(bodies.items()):
        s3.put_object("bronze", key, body)
        route, verdict, schema = judge.judge(ObjectId("bronze", key, "v1"), len(body), configuration)
        if route.kind != CHANGE_FILE and verdict.table is None and len(bodies) > 1:
            continue  # of another file beside the changes
        if verdict.state != PENDING or verdict.config is None:
            played.refuse(verdict.code or verdict.state, verdict.reason)
            continue
        config = verdict.config
        parts = (len(body), schema, route.format or "", route.topic or "", route.kafka_partition, route.offset)
        items.append(ManifestObject("bronze", key, "v1", *parts, number, modified_at=1_764_230_000_000))
    if config is not None:
        _merge(objects, items, config, played)
    return played


def _merge(objects: Objects, items: list[ManifestObject], config: TableConfig, played: Played) -> None:
    schemas = writer_schemas(
        objects, "silver", items, scan=partial(_scan, objects, config), stored={}, shape=config.form
    )
    for error in schemas.errors:
        played.refuse(error.code, error.reason)
    planned = plan_read(config, batch="b", writers=schemas.in_order, stored=None, inferred=schemas.inferred)
    decoded: list[Decoded] = []
    for item in items:
        marks = schemas.of_object.get(item.id.hash, ())
        unfit = next((planned.refused[mark] for mark in marks if mark in planned.refused), None)
        if unfit is not None:
            played.refuse(unfit.code, unfit.message)
        elif item.id.hash in schemas.of_object and planned.without_table.isdisjoint(marks):
            try:
                decoded.append(decode(objects.whole(item.id), item, planned.plan))
            except SluiceError as error:
                played.refuse(error.code, str(error))
    others = judge_sources(None, [made.seen for made in decoded], config)[1]
    for other in others.values():
        played.refuse(other.code, str(other))
    decoded = [made for made in decoded if made.seen.object not in others]
    for row in (row for made in decoded for row in made.rows):
        played.refuse(row.code, row.reason)
    played.rows = _live_rows(decoded, config)


def _scan(objects: Objects, config: TableConfig, items: Any) -> Any:
    return scan_in_driver(objects, objects=items, config=config)


def _live_rows(decoded: list[Decoded], config: TableConfig) -> list[dict[str, Any]]:
    changes: defaultdict[tuple[Any, ...], list[Change]] = defaultdict(list)
    floors, names = Floors(topic=config.topic), dict[str, None]()
    for batch in (batch for made in decoded for batch in made.batches):
        own = [name for name in batch.schema.names if not name.startswith(("_sluice_", "__deleted"))]
        names.update(dict.fromkeys(name for name in own if name not in config.record_key))
        for row in batch.to_pylist():
            op, source = row[hidden.OP], row.get(hidden.SOURCE)
            if op == hidden.TRUNCATE:
                floors = floors.raised([(source, row[hidden.POSITION])])
            if op in (hidden.TRUNCATE, hidden.MESSAGE):
                continue
            unchanged = frozenset(row[hidden.UNCHANGED] or ())
            values = {name: row[name] for name in own if name not in (*config.record_key, *unchanged)}
            change = Change(row[hidden.POSITION], op, row[hidden.DELETED], values, unchanged, source)
            changes[tuple(row[name] for name in config.record_key)].append(change)
    made: list[dict[str, Any]] = []
    for key, of_key in changes.items():
        after: Row | None = row_after(None, of_key, columns=list(names), floor=floors)
        if after is not None and not after.deleted:
            made.append({**dict(zip(config.record_key, key)), **after.values})
    return sorted(made, key=str)
