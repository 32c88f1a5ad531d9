"""Change files of other products in tables of both types: each sample's rows, and an update that leaves columns out."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from support.captures import HOME, SAMPLES, as_database, database_rows, rules
from support.extent import WHOLE
from support.outside_formats import play
from support.workbench import MOR, Workbench

from sluice.config.document import Configuration

SOME = ("canal_ticdc", "ogg_json", "dynamodb_incremental", "peerdb_avro", "wal2json_real_v2")
# Samples of one topic can't be played together: each by itself is played in tests/unit/formats/test_captures.py.
TOPICS = Counter(sample["rule"]["topic"] for sample in SAMPLES.values())
NAMES = [name for name, sample in SAMPLES.items() if WHOLE and TOPICS[sample["rule"]["topic"]] == 1 or name in SOME]


@MOR
def test_samples_of_captures_make_their_rows_in_tables(bench: Workbench, tmp_path: Path, table_type: str) -> None:
    made = [rules(SAMPLES[name]["rule"]).rules[0] for name in NAMES]
    configuration = Configuration(tuple(replace(rule, table_type=table_type) for rule in made))
    for name in NAMES:
        for path in (HOME / name / "bronze").rglob("*"):
            at = tmp_path / "bronze" / "1" / path.relative_to(HOME / name / "bronze")
            if path.is_file():
                at.parent.mkdir(parents=True, exist_ok=True)
                at.write_bytes(path.read_bytes())
    played = play(bench, tmp_path, configuration)
    for name in NAMES:
        sample, rows = SAMPLES[name], played.rows.get(f"d.{name}", [])
        if "real" in sample and "refused" not in sample:
            assert as_database(name, rows) == database_rows(name), (name, played.reasons)
            continue
        key = sample["rule"]["record_key"]
        pairs = [[row[key], next(row[column] for column in row if column.lower() == "name")] for row in rows]
        expected = [] if "refused" in sample else sample.get("rows", [[1, "Anna3"], [3, "Cara"]])
        assert sorted(pairs) == expected, (name, played.reasons)


@MOR
def test_an_update_that_leaves_columns_out_keeps_those_of_its_stored_row(
    bench: Workbench, tmp_path: Path, table_type: str
) -> None:
    rule = {"topic": "s.cust", "table": "d.cust", "record_key": "id", "table_type": table_type}
    place = {"database": "s", "table": "cust", "ts": 1764230000}
    phases = [
        [{"type": "insert", "position": f"b.000001:{id}", "data": {"id": id, "a": "x", "n": id}} for id in (1, 2, 3)],
        [
            {"type": "update", "position": "b.000001:5", "data": {"id": 1, "a": "y"}, "old": {"a": "x"}},
            {"type": "update", "position": "b.000001:6", "data": {"id": 2, "n": None}, "old": {"n": 2}},
            {"type": "update", "position": "b.000001:7", "data": {"id": 9, "a": "z"}, "old": {"id": 3}},
        ],
    ]
    for number, changes in enumerate(phases):
        path = tmp_path / "bronze" / str(number) / f"topics/s.cust/s.cust+0+{10 * number}.json"
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps({**place, **change}) + "\n" for change in changes))
    played = play(bench, tmp_path, rules(rule))
    assert played.refused == {}, played.reasons
    rows = [{name: row.get(name) for name in ("id", "a", "n")} for row in played.rows["d.cust"]]
    assert sorted(rows, key=lambda row: row["id"]) == [
        {"id": 1, "a": "y", "n": 1},
        {"id": 2, "a": "x", "n": None},
        {"id": 9, "a": "z", "n": None},
    ]
