"""Every recorded column type through Spark and Hudi, phase by phase, against the source database's own rows."""
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from judging.readers import json_rows
from judging.spark_rows import live_rows
from workbench import Workbench, table

DATA = Path(__file__).resolve().parents[1] / "data"
SET = DATA / "types_flat_precise"
PHASES = json.loads((SET / "manifest.json").read_text())["phases"]


def judged(phase: str, rows: list[str], folder: Path) -> dict:
    folder.mkdir()
    (folder / "zoo.jsonl").write_text("".join(row + "\n" for row in rows))
    done = subprocess.run([sys.executable, str(DATA / "judge.py"), str(SET), str(folder), "--phase", phase, "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["zoo"]


def put_all(bench: Workbench, keys: list[str]) -> list:
    return [bench.put_bytes((SET / "bronze" / key).read_bytes(), key=key, offset=int(key.rsplit("+", 1)[1][:-5])) for key in keys]


@pytest.mark.parametrize(("table_type", "pace"), [("cow", "phase by phase"), ("mor", "phase by phase"), ("cow", "backwards")])
def test_every_type_equals_the_databases_rows_by_both_readers(bench: Workbench, tmp_path: Path, table_type: str, pace: str) -> None:
    config = table("zoo", table_type=table_type)
    in_order = pace == "phase by phase"
    for number, phase in enumerate(PHASES if in_order else reversed(PHASES)):
        outcome = bench.merge(config, put_all(bench, phase["new_objects"]))
        assert outcome.quarantined == ()
        if in_order or number == len(PHASES) - 1:
            name = phase["phase"] if in_order else PHASES[-1]["phase"]
            stored = bench.spark.read.format("hudi").load(bench.path(config))
            by_rust = [row for row in json_rows(bench.table_by_hudi_rs(config)) if not json.loads(row)["__deleted"]]
            for reader, rows in (("spark", [row.row for row in live_rows(stored).collect()]), ("rust", by_rust)):
                found = judged(name, rows, tmp_path / f"{reader}-{name}")
                assert not (found["missing"] or found["extra"] or found["doubled"] or found["different"]), (reader, name, found)
