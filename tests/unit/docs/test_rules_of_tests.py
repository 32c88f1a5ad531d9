"""Rules that every test module keeps."""

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TESTS = ROOT / "tests"
LONGEST_NAME = 79
EMULATORS = re.compile(
    r"^\s*(?:from|import) (?:emulation\.(?:aws|catalog|deployment|services_machine|stack)|driving|ministack.services|"
    r"moto)\b",
    re.MULTILINE,
)


@cache
def modules_of_tests() -> dict[str, str]:
    """The text of every test module, by its path."""
    modules = sorted(path for path in TESTS.rglob("test_*.py") if "data" not in path.parts)
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in modules}


def function_names(text: str) -> list[str]:
    return re.findall(r"^\s*(?:async )?def (\w+)\(", text, re.MULTILINE)


def test_unit_tests_use_no_emulator():
    """They take seconds. Tests on AWS emulated in this process are in tests/emulated."""
    assert EMULATORS.search((TESTS / "emulated" / "conftest.py").read_text(encoding="utf-8"))
    unit = {path: text for path, text in modules_of_tests().items() if path.startswith("tests/unit/")}
    assert len(unit) > 50
    assert [path for path, text in unit.items() if EMULATORS.search(text)] == []


def test_no_test_module_imports_another():
    imports = re.compile(r"^\s*(?:from|import) (?:[\w.]*\.)?(?:test_\w+|conftest)\b", re.MULTILINE)
    assert imports.search("from tests.unit.test_x import y")
    assert [path for path, text in modules_of_tests().items() if imports.search(text)] == []


def test_names_of_tests_are_shorter_than_eighty_characters():
    long = [
        f"{path}::{name}"
        for path, text in modules_of_tests().items()
        for name in function_names(text)
        if name.startswith("test_") and len(name) > LONGEST_NAME
    ]
    assert long == []
