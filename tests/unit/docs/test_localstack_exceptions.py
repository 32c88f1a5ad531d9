"""The list of tests that LocalStack can't run gives existing tests and reasons, and never the way to a row."""

import re

from emulation.localstack_exceptions import FOLDER, exceptions

TEST = re.compile(r"^def (test_\w+)\(", re.MULTILINE)


def names_in(path):
    return [f"{path.name}::{name}" for name in TEST.findall(path.read_text(encoding="utf-8"))]


def test_each_exception_is_a_test_that_exists_and_has_a_reason():
    assert sorted(set(exceptions()) - {name for path in FOLDER.glob("test_*.py") for name in names_in(path)}) == []
    assert {name: reason for name, reason in exceptions().items() if len(reason.split()) < 5} == {}


def test_an_objects_way_to_row_update_and_deletion_runs_on_both_emulators():
    (way,) = names_in(FOLDER / "test_object_to_row.py")
    assert way.endswith("::test_an_object_becomes_a_row_an_update_changes_it_and_a_deletion_takes_it_away")
    assert way not in exceptions()
    makefile = (FOLDER.parents[1] / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^test-localstack:.*\n\t(.*)$", makefile, re.MULTILINE)
    assert recipe is not None
    assert "SLUICE_EMULATOR=localstack" in recipe[1]
    assert "tests/integration/test_object_to_row.py" in recipe[1]
    assert re.search(r"\bmake test-localstack\b(?!-)", (FOLDER.parents[1] / ".ci" / "run").read_text(encoding="utf-8"))
