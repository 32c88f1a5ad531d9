"""Sets of real connectors in every form of Kafka Connect, merged and judged by the source database's own rows."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from judging.cases import TABLE_TYPES
from judging.fixture_sets import PLANS, SetMissing, find_set
from judging.readers import json_rows
from judging.spark_rows import live_rows
from judging.verdict import judge
from support.workbench import Workbench, table

from sluice.admission.routing import classify
from sluice.config.table import TableConfig

SETS = [name for name in PLANS if name.startswith(("shop_", "pg_", "outbox_"))]


def needs_its_set(name: str):
    try:
        find_set(name, os.environ)
    except SetMissing as missing:
        return pytest.param(name, marks=pytest.mark.skip(reason=str(missing)))
    return pytest.param(name)


def in_types(number: int, name: str):
    """The set with each table type; `make test` has one of them, which are the types by turns."""
    for at, table_type in enumerate(TABLE_TYPES):
        param = needs_its_set(name)
        marks = [*param.marks, *([] if at == number % 2 else [pytest.mark.whole])]
        yield pytest.param(name, table_type, marks=marks, id=f"{name}-{table_type}")


@pytest.mark.parametrize("order", ["reversed", pytest.param("shuffled", marks=pytest.mark.whole)])
@pytest.mark.parametrize(
    ("name", "table_type"), [param for number, name in enumerate(SETS) for param in in_types(number, name)]
)
def test_every_table_equals_the_source_in_any_order(
    bench: Workbench, tmp_path: Path, name: str, table_type: str, order: str
) -> None:
    fixtures = find_set(name, os.environ)
    (tmp_path / "spark").mkdir()
    (tmp_path / "rust").mkdir()
    for topic, keyed in fixtures.plan.topics.items():
        config = table(
            topic.rpartition(".")[2],
            table_type=table_type,
            record_key=keyed.record_key,
            partition_by=keyed.partition_by,
            json_types=dict(keyed.json_types),
            topic=topic,
            **{name: tuple(value) for name, value in keyed.settings.items()},
        )
        for half in (0, 1):  # two batches: the second finds rows of the first
            objects = [item for item in fixtures.delivery(order) if classify(item.key, 1).topic == topic][half::2]
            _merge(bench, config, [(item.key, item.file) for item in objects])
        stored = bench.spark.read.format("hudi").load(bench.path(config))
        rows = [row.row for row in live_rows(stored).collect()]
        by_rust = [row for row in json_rows(bench.table_by_hudi_rs(config)) if not json.loads(row)["__deleted"]]
        for reader, texts in (("spark", rows), ("rust", by_rust)):
            (tmp_path / reader / f"{config.name}.jsonl").write_text("".join(row + "\n" for row in texts))
    for reader in ("spark", "rust"):
        verdict = judge(fixtures, tmp_path / reader, fixtures.phases[-1], os.environ)
        assert verdict.equal, (reader, verdict.differences())


def _merge(bench: Workbench, config: TableConfig, objects: list[tuple[str, Path]]) -> None:
    if not objects:
        return
    routes = [(classify(key, 1), key, file) for key, file in objects]
    put = [
        bench.put_bytes(file.read_bytes(), key=key, offset=route.offset, format=route.format or "")
        for route, key, file in routes
    ]
    outcome = bench.merge(config, put)
    assert outcome.quarantined == ()
