"""Judges a fault's tables once everything is committed: rows, quarantine, audit, files, timelines and the lane."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from faulting.oracle import Change, Form, changes_in, compared_changes, compared_rows, unlike
from faulting.scene import Scene
from sluice.batch.row_errors import from_lines
from sluice.hudi.timeline import COMPACTION, REQUESTED
from sluice.objects import ObjectId
from sluice.silver_keys import rows_key
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader, table_prefix
from sluice_formats.errors import UnexpectedValue
from sluice_read.place import tables_in
from sluice_read.reading import read_table

_BASE_FILE = re.compile(r"[^/]+_[^_/]+_(\d{17})\.parquet$")


@dataclass(frozen=True)
class Verdict:
    """What was found. `rows` are those that the oracle wants, those of history tables too.

    All other values but `aside` are zero or empty where all is well.
    """

    rows: int
    lost: int
    doubled: int
    wrong: int  # rows of another value, and rows that no change left there
    problems: Mapping[str, list[str]] = field(default_factory=dict)
    aside: int = 0  # rows that are rightly in quarantine

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.wrong or self.problems)


def judge_scene(scene: Scene) -> Verdict:
    """Compare every table with the oracle, and look at everything else that a fault may leave."""
    counts: Counter[str] = Counter()
    problems: dict[str, list[str]] = {}

    def note(kind: str, items: list[str]) -> None:
        if items:
            problems.setdefault(kind, []).extend(items)

    there = tables_in(scene.stack.target)
    for table in scene.world.tables:
        if table not in there and not scene.world.changes(table):
            continue  # no object of it came
        form = scene.world.form(table)
        rows, odd = _compared(scene, table, form)
        counts.update(rows)
        note("columns", odd)
        verified = scene.stack.describe("verify", table, accept=(0, 1))
        note("verify", _unproven(table, verified))
        note("files", _orphans(scene, table))
        if form.history is not None:
            note("files", _orphans(scene, form.history))
    audit = scene.stack.describe("audit", "--prefix", scene.world.prefix, accept=(0, 1))
    note(
        "audit",
        [
            f"{contradiction['code']} {contradiction['table']} {contradiction['key']}"
            for contradiction in audit["contradictions"]
        ],
    )
    items = scene.stack.ledger_objects(scene.stack.target.bronze, prefix=scene.world.prefix)
    note("objects", _unexpected_objects(scene, items))
    aside, wrongly = _set_aside(scene, items)
    note("set aside", wrongly)
    note("lane", _unrest(scene))
    return Verdict(counts["rows"], counts["lost"], counts["doubled"], counts["wrong"], problems, aside)


def _compared(scene: Scene, table: str, form: Form) -> tuple[Counter[str], list[str]]:
    """The numbers of a table's rows and of those of its history table, and what is odd about its columns."""
    world, target = scene.world, scene.stack.target
    shown = read_table(target, table)
    odd = [f"{table}: {difference}" for difference in unlike(form, shown.column_names, shown.to_pylist())]
    if form.append_only:
        return compared_changes(world.changes(table), _changes_of(scene, table, form)), odd
    counts = compared_rows(world.expected(table), shown.to_pylist(), form)
    if form.history is not None:
        counts += compared_changes(Counter(set(world.changes(table))), _changes_of(scene, form.history, form))
    return counts, odd


def _unproven(table: str, verified: Mapping[str, Any]) -> list[str]:
    """What `sluice verify` found, of the table's history table too."""
    differing = [json.dumps(disagreement) for disagreement in verified["disagreements"]]
    kinds = ("outdated", "unread", "missing_floors", "skipped_documents")
    return differing or ([] if verified["proven"] else [f"{table}: {[verified[kind] for kind in kinds]}"])


def _changes_of(scene: Scene, table: str, form: Form) -> Counter[Change]:
    rows = read_table(scene.stack.target, table, with_deleted=True, lineage=True)
    return changes_in(rows.to_pylist(), form)


def _set_aside(scene: Scene, items: Iterable[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """How many rows were rightly set aside, and the objects of which other rows were, or too few."""
    wanted = scene.world.unexpected()
    rightly, wrongly = 0, []
    for item in items:
        if item["state"] != "committed":
            continue
        aside = _records_aside(scene, item)
        expected = wanted.get((item["key"], item["sk"]), frozenset())
        rightly += len(aside.keys() & expected)
        if aside != dict.fromkeys(expected, UnexpectedValue.code):
            wrongly.append(f"{item['key']}: {aside}, and not {sorted(expected)}")
    return rightly, wrongly


def _records_aside(scene: Scene, item: Mapping[str, Any]) -> dict[int, str]:
    """The numbers and codes of an object's records that were set aside, by the ledger and the document of them."""
    if not item.get("quarantined_rows"):
        return {}
    identity = ObjectId(scene.stack.target.bronze, item["key"], item["sk"])
    key = rows_key(item["batch"], item["table"], identity.hash)
    body = scene.stack.target.client("s3").get_object(Bucket=scene.stack.target.silver, Key=key)["Body"].read()
    by_record = {error.record: error.code for error in from_lines(body.decode())}
    assert len(by_record) == item["quarantined_rows"], f"the ledger counts {item['quarantined_rows']} rows of {key}"
    return by_record


def _orphans(scene: Scene, table: str) -> list[str]:
    """Unfinished instants, and base files of instants that are not completed. Logs are named after their base file."""
    files = SilverBucket(scene.stack.target.client("s3"), scene.stack.target.silver)
    timeline = TimelineReader(files).timeline(table)
    pending = [
        instant.file for instant in timeline.pending if (instant.action, instant.state) != (COMPACTION, REQUESTED)
    ]
    commits = {instant.time for instant in timeline.commits}
    bases = [_BASE_FILE.search(file.path) for file in files.under(table_prefix(table)) if ".hoodie/" not in file.path]
    return [f"{table} {name}" for name in pending] + [
        f"{table} {match[0]}" for match in bases if match is not None and match[1] not in commits
    ]


def _unexpected_objects(scene: Scene, items: Iterable[Mapping[str, Any]]) -> list[str]:
    """Objects that are neither committed nor set aside as the fault's own outcome."""
    return [
        f"{item['key']} {item['state']} {item.get('code', '')}".strip()
        for item in items
        if item["state"] not in ("committed", "superseded") and item.get("code") not in scene.expected_codes
    ]


def _unrest(scene: Scene) -> list[str]:
    lane, unrest = scene.lane(), []
    if lane.state not in (("paused",) if scene.judged_paused else ("idle", "running")):
        unrest.append(f"lane is {lane.state}: {lane.reason}")
    if lane.failures:
        unrest.append(f"lane counts {lane.failures} failures")
    unrest += [f"batch {pointer.batch} is open" for pointer in scene.ledger.batches.unsettled(lane.lane)]
    waiting = scene.ledger.pending.oldest(lane.lane, 100)
    unrest += [f"{item.id.key} waits" for item in waiting if item.table in scene.world.tables]
    return unrest
