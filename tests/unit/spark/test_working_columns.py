"""Working columns collide with no stored one, and no other module spells one."""

import ast
from pathlib import Path

from support.source_trees import nodes_of

from sluice.changes import hidden_columns
from sluice_spark.merge.by_spark import working_columns

JOB = Path(working_columns.__file__).parents[2]
NAMES = [value for value in vars(working_columns).values() if isinstance(value, str) and value.startswith("_sluice_")]


def test_no_working_column_is_stored_and_sources_can_have_none() -> None:
    assert not {*NAMES} & {*hidden_columns.NAMES, hidden_columns.ROW, hidden_columns.UNCHANGED}
    assert list(hidden_columns.colliding(NAMES)) == NAMES and len({*NAMES}) == len(NAMES)


def test_no_other_module_of_the_job_spells_a_column() -> None:
    spelled = {
        path.name
        for path in JOB.rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_sluice_")
    }
    assert spelled == {"working_columns.py"}
