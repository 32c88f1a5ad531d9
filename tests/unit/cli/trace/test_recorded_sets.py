"""Sets of real connectors in every form of Kafka Connect: the rows that follow from their changes are the source's own.

These are the rows that `sluice row` and `sluice verify` expect; tests/spark/test_recorded_sets.py has those of tables.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from judging.fixture_sets import PLANS, FixtureSet, Keyed, SetMissing, find_set
from judging.verdict import judge

from sluice.admission.routing import classify
from sluice.batch.manifest import ManifestObject
from sluice.changes.row_history import Change, row_after
from sluice.config.table import TableConfig
from sluice_cli.trace.row_changes import keyed_changes

SETS = [name for name in PLANS if name.startswith(("shop_", "pg_"))]


def needs_its_set(name: str):
    try:
        find_set(name, os.environ)
    except SetMissing as missing:
        return pytest.param(name, marks=pytest.mark.skip(reason=str(missing)))
    return name


def rows_of(fixtures: FixtureSet, topic: str, keyed: Keyed) -> list[dict[str, Any]]:
    """The rows of a topic's table, by the changes of all its objects."""
    settings = {name: tuple(value) for name, value in keyed.settings.items()}
    config = TableConfig("db.t", "db", "t", topic, keyed.record_key, json_types=dict(keyed.json_types), **settings)
    changes: dict[Any, list[Change]] = defaultdict(list)
    columns: set[str] = set()
    for item in fixtures.delivery("reversed"):
        route = classify(item.key, 1)
        if route.topic != topic:
            continue
        at = ManifestObject("b", item.key, "v", 1, None, route.format or "", topic, 0, route.offset, 0)
        pairs, truncates = keyed_changes(item.file.read_bytes(), at, config, wanted=lambda key: True, types={})
        assert truncates == []
        for key, change in pairs:
            columns |= change.values.keys()
            changes[key].append(Change(change.position, change.op, change.deleted, change.values, change.unchanged))
    rows = []
    for key, of_key in changes.items():
        row = row_after(None, of_key, columns=sorted(columns))
        if row is not None and not row.deleted:
            rows.append({**dict(zip(keyed.record_key, key, strict=True)), **row.values})
    return rows


@pytest.mark.parametrize("name", [needs_its_set(name) for name in SETS])
def test_the_rows_of_the_changes_equal_the_source(tmp_path: Path, name: str) -> None:
    fixtures = find_set(name, os.environ)
    for topic, keyed in fixtures.plan.topics.items():
        lines = (json.dumps(row, default=str) + "\n" for row in rows_of(fixtures, topic, keyed))
        (tmp_path / f"{topic.rpartition('.')[2]}.jsonl").write_text("".join(lines))
    verdict = judge(fixtures, tmp_path, fixtures.phases[-1], os.environ)
    assert verdict.equal, json.dumps(verdict.differences(), indent=1)
