"""AWS DMS's full load and changes, in CSV under keys of its own, become rows; a replay of them changes nothing."""

import secrets

import pytest
from judging.running_stack import RunningStack

from sluice_read.reading import read_table

pytestmark = pytest.mark.timeout(600)

SEQUENCE = "202305210615240{:020d}"
LOAD = "id,name,at,transact_seq\n1,one,2023-05-21 06:00:00,\n2,two,2023-05-21 06:00:00,\n3,NULL,2023-05-21 06:00:00,\n"
CHANGES = f"""Op,id,name,at,transact_seq
U,1,"ein, s",2023-05-21 06:15:24.5,{SEQUENCE.format(2)}
D,2,two,2023-05-21 06:15:25,{SEQUENCE.format(3)}
I,4,"vi
er",2023-05-21 06:15:26,{SEQUENCE.format(4)}
"""
LATE = f"Op,id,name,at,transact_seq\nU,1,came late,2023-05-21 06:15:20,{SEQUENCE.format(1)}\n"


@pytest.mark.whole
def test_csv_of_aws_dms_becomes_rows_and_a_replay_changes_nothing(stack: RunningStack) -> None:
    schema = f"hr{secrets.token_hex(3)}"
    table, prefix = f"{schema}.staff", f"dms/{schema}/staff/"
    plain = {"topic": table, "table": table, "record_key": "id", "key_pattern": rf"dms/(?P<topic>{schema}/staff)/.*"}

    def put(name: str, text: str) -> None:
        stack.put(prefix + name, text.encode())

    stack.configure([plain])
    put("2023/20230521-061524000.csv", CHANGES)
    stack.wait(240, strict=False)
    (entry,) = stack.describe("quarantine", "list", "--table", table)["entries"]
    assert entry["codes"] == ["deletions_unmarked"] and "delete_when: {column: Op, values: [D]}" in entry["reason"]

    rule = {
        **plain,
        "position": "transact_seq",
        "delete_when": {"column": "Op", "values": ["D"]},
        "csv": {"null_text": "NULL"},
        "types": {"id": "long", "at": "timestamp_micros"},
    }
    stack.configure([rule])
    stack.sluice("quarantine", "retry", "--table", table)
    put("LOAD00000001.csv", LOAD)
    put("2023/20230521-061520000.csv", LATE)
    stack.wait(240)
    expected = [(1, "ein, s", "06:15:24.500000"), (3, None, "06:00:00.000000"), (4, "vi\ner", "06:15:26.000000")]

    def rows() -> list[tuple[int, str, str]]:
        rows = read_table(stack.target, table).to_pylist()
        return sorted((row["id"], row["name"], f"{row['at']:%H:%M:%S.%f}") for row in rows)

    assert rows() == expected
    commits = stack.sluice("table", "commits", table, "--json")
    for _ in range(2):
        replayed = stack.describe("ops", "replay", "--prefix", prefix, "--yes", "--wait")
        assert (replayed["replayed"], replayed["unchanged_tables"], replayed["changed_tables"]) == (3, [table], {})
    assert stack.sluice("table", "commits", table, "--json") == commits and rows() == expected
    assert stack.describe("backfill", "--prefix", prefix, "--yes")["admitted"] == {}
    assert stack.describe("audit", "--prefix", prefix)["contradictions"] == []
    assert stack.describe("verify", table)["disagreements"] == []
