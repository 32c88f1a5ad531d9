"""Hudi tables that an earlier commit's job wrote, merged further by today's: tests/data/releases has their files."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import Workbench

from sluice.batch.outcome import Outcome
from sluice.config.table import MOR, TableConfig

# Three batches by the job of the first day but one: rows 0 to 11, two updates and a deletion, new columns with an
# insert and a deletion; of `logs` a fourth, which lies in log files.
RELEASE = Path(__file__).parents[1] / "data" / "releases" / "tables-before-0.1.0.tar.gz"
COLUMNS = {
    "id": "int",
    "place": ["null", "string"],
    "name": ["null", "string"],
    "size": ["null", "long"],
    "at": ["null", {"type": "long", "logicalType": "timestamp-micros"}],
    "tags": ["null", {"type": "array", "items": "string"}],
}
FOURTH = {2: ("Côte/d =x", "at 300", False), 3: (None, "at 300", False), 8: ("A", "at 300", False)}


def stored(table: str) -> dict[int, tuple[Any, ...]]:
    """Place, name and whether it is deleted of each row, as the earlier job left them."""
    rows: dict[int, tuple[Any, ...]] = {
        id: (("A", "", "Côte/d =x", None)[id % 4], "at 10", False) for id in (*range(12), 13)
    }
    for id, lsn in {1: 100, 2: 100, 3: 200, 13: 200}.items():
        rows[id] = (rows[id][0], f"at {lsn}", False)
    gone = (4, 5, 6) if table == "logs" else (4, 5)
    return {**rows, **(FOURTH if table == "logs" else {}), **dict.fromkeys(gone, (None, None, True))}


@pytest.mark.parametrize("table", ["flat", "parts", "logs"])
def test_a_table_of_an_earlier_job_is_merged_further(bench: Workbench, tmp_path: Path, table: str) -> None:
    with tarfile.open(RELEASE) as files:
        files.extractall(tmp_path / "release", filter="data")
    recorded = json.loads((tmp_path / "release" / "tables.json").read_text())[table]
    config = TableConfig.from_dict(recorded["config"])
    bench.local_path(config).parent.mkdir(parents=True)
    (tmp_path / "release" / table).rename(bench.local_path(config))

    def check(rows: dict[int, tuple[Any, ...]]) -> None:
        wanted = sorted(((id, *row) for id, row in rows.items()), key=str)
        for read in (bench.rows, bench.rows_by_hudi_rs, bench.rows_by_sluice):
            assert read(config, "id", "place", "name", "__deleted") == wanted, read.__name__

    def changed(op: str, lsn: int, id: int, place: str | None, name: str) -> dict[str, Any]:
        return change(op, lsn, id=id, place=place, name=name, size=5_000_000_000, at=None, tags=["new"])

    rows = stored(table)
    check(rows)
    changes = [
        changed("u", 401, 1, "B", "moved"),
        changed("d", 402, 2, None, ""),
        changed("u", 403, 4, "A", "returned"),
        changed("c", 404, 20, "", "inserted"),
        changed("u", 5, 0, "A", "older than its row"),
        changed("d", 150, 13, None, "older than its row"),
    ]
    after = Outcome.from_json(json.dumps(recorded["outcome"]))
    merged = bench.apply(config, *changes, schema=flattened(COLUMNS), after=after)
    assert (merged.counts["winning"], merged.counts["deleted"]) == (4, 1)
    rows |= {1: ("B", "moved", False), 4: ("A", "returned", False), 20: ("", "inserted", False)}
    check({**rows, 2: (None, None, True)})

    bench.new_run()
    bench.in_tasks()
    bench.apply(config, changed("u", 501, 7, "A", "by Spark"), schema=flattened(COLUMNS), after=merged)
    check({**rows, 2: (None, None, True), 7: ("A", "by Spark", False)})
    assert config.table_type != MOR or any("deltacommit" in name for name in bench.timeline(config))
