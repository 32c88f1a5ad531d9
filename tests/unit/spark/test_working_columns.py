"""The table of working columns says which modules use each of them, and no other module names one."""

import ast
from pathlib import Path

from support.source_trees import nodes_of

from sluice.changes import hidden_columns
from sluice_spark.merge.by_spark import working_columns
from sluice_spark.merge.by_spark.working_columns import WORKING_COLUMNS

MERGE = Path(working_columns.__file__).parent
CONSTANTS = {
    value: name
    for name, value in vars(working_columns).items()
    if isinstance(value, str) and value.startswith("_sluice_")
}


def modules_that_use(constant: str) -> set[str]:
    return {
        path.stem
        for path in MERGE.glob("*.py")
        if path.stem != "working_columns"
        for node in nodes_of(path)
        if isinstance(node, ast.Name) and node.id == constant
    }


def test_each_column_is_listed_once_with_the_modules_that_use_it() -> None:
    names = [column.name for column in WORKING_COLUMNS]
    assert sorted(names) == sorted(CONSTANTS)
    assert {column.name: set(column.set_by) | set(column.read_by) for column in WORKING_COLUMNS} == {
        name: modules_that_use(constant) for name, constant in CONSTANTS.items()
    }
    assert all(column.set_by for column in WORKING_COLUMNS)


def test_no_working_column_is_stored_and_sources_can_have_none() -> None:
    names = [column.name for column in WORKING_COLUMNS]
    assert not {*names} & {*hidden_columns.NAMES, hidden_columns.ROW, hidden_columns.UNCHANGED}
    assert list(hidden_columns.colliding(names)) == names


def test_no_other_module_of_the_job_spells_a_column() -> None:
    spelled = {
        path.name
        for path in MERGE.parents[1].rglob("*.py")
        for node in nodes_of(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_sluice_")
    }
    assert spelled == {"working_columns.py"}
