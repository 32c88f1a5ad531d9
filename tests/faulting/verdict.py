"""Judges a fault's tables once everything is committed: rows, audit, files, timelines and the lane."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from faulting.scene import Scene
from sluice.hudi.timeline import COMPACTION, REQUESTED
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader, table_prefix
from sluice_read.place import tables_in
from sluice_read.reading import read_table

_BASE_FILE = re.compile(r"[^/]+_[^_/]+_(\d{17})\.parquet$")


@dataclass(frozen=True)
class Verdict:
    """What was found. `rows` are those that the oracle wants; all other values are zero or empty where all is well."""

    rows: int
    lost: int
    doubled: int
    wrong: int  # rows of another value, and rows that no change left there
    problems: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.doubled or self.wrong or self.problems)


def judge_scene(scene: Scene) -> Verdict:
    """Compare every table with the oracle, and look at everything else that a fault may leave."""
    counts: Counter[str] = Counter()
    problems: dict[str, list[str]] = {}

    def found(kind: str, items: list[str]) -> None:
        if items:
            problems.setdefault(kind, []).extend(items)

    there = tables_in(scene.stack.target)
    for table in scene.world.tables:
        if table not in there and not scene.world.expected(table):
            continue  # no object of it came
        counts.update(_compared(scene, table))
        verified = json.loads(scene.stack.sluice("verify", "--json", table, accept=(0, 1)))
        found("verify", [json.dumps(each) for each in verified["disagreements"]])
        found("files", _orphans(scene, table))
    audit = json.loads(scene.stack.sluice("audit", "--json", "--prefix", scene.world.prefix, accept=(0, 1)))
    found("audit", [f"{each['code']} {each['table']} {each['key']}" for each in audit["contradictions"]])
    found("objects", _unexpected_objects(scene))
    found("lane", _unrest(scene))
    return Verdict(counts["rows"], counts["lost"], counts["doubled"], counts["wrong"], problems)


def _compared(scene: Scene, table: str) -> Counter[str]:
    expected = scene.world.expected(table)
    key_column, text = scene.world.columns(table)
    seen: Counter[int] = Counter()
    wrong = 0
    for row in read_table(scene.stack.target, table).to_pylist():
        key = int(row[key_column])
        seen[key] += 1
        wrong += expected.get(key) != row[text]
    return Counter(
        rows=len(expected),
        lost=len(expected.keys() - seen.keys()),
        doubled=sum(count - 1 for count in seen.values()),
        wrong=wrong,
    )


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


def _unexpected_objects(scene: Scene) -> list[str]:
    """Objects that are neither committed nor set aside as the fault's own outcome."""
    items = scene.stack.ledger_objects(scene.stack.target.bronze, prefix=scene.world.prefix)
    return [
        f"{item['key']} {item['state']} {item.get('code', '')}".strip()
        for item in items
        if item["state"] not in ("committed", "superseded") and item.get("code") not in scene.expected_codes
    ]


def _unrest(scene: Scene) -> list[str]:
    lane, found = scene.lane(), []
    if lane.state not in (("paused",) if scene.judged_paused else ("idle", "running")):
        found.append(f"lane is {lane.state}: {lane.reason}")
    if lane.failures:
        found.append(f"lane counts {lane.failures} failures")
    found += [f"batch {pointer.batch} is open" for pointer in scene.ledger.batches.unsettled(lane.lane)]
    waiting = scene.ledger.pending.oldest(lane.lane, 100)
    found += [f"{item.id.key} waits" for item in waiting if item.table in scene.world.tables]
    return found
