"""Objects as other tools write them, from admission to the rows: what is right stays so, what isn't read is refused."""

from __future__ import annotations

import json

import pytest
from support.extent import WHOLE
from support.outside_formats import HOME, configuration_of, differences, play
from support.workbench import Workbench

# INT96, a null column, Aiven, Firehose, columns like metadata, CSV, enums, folders, the legacy calendar, pandas.
SAMPLE = ("02", "03", "06", "07", "10", "14", "20", "23", "24", "29")


NAMES = [path.name for path in sorted(HOME.iterdir()) if WHOLE or path.name in SAMPLE]
# `make test` plays each folder into one table type, which are the types by turns.
PLAYED = [
    pytest.param(name, table_type, marks=() if number % 2 == at else pytest.mark.whole)
    for number, name in enumerate(NAMES)
    for at, table_type in enumerate(("cow", "mor"))
]


@pytest.mark.parametrize(("name", "table_type"), PLAYED)
def test_objects_of_other_tools_give_their_rows_or_are_refused(bench: Workbench, name: str, table_type: str) -> None:
    right = json.loads((HOME / name / "right.json").read_text(encoding="utf-8"))
    played = play(bench, HOME / name, configuration_of(HOME / name, table_type))
    for table, rows in right["rows"].items():
        assert differences(rows, played.rows.get(table, [])) == [], table
    assert {what: sorted(codes) for what, codes in played.refused.items()} == right["refused"], played.reasons
    if name == "06":
        assert sum("format.output" in reason for reason in played.reasons) == 5


@pytest.mark.parametrize("name", ["02", "10", "24"])
def test_spark_reads_them_alike(bench: Workbench, name: str) -> None:
    right = json.loads((HOME / name / "right.json").read_text(encoding="utf-8"))
    played = play(bench.in_tasks(), HOME / name, configuration_of(HOME / name, "mor"))
    for table, rows in right["rows"].items():
        assert differences(rows, played.rows.get(table, [])) == [], table
