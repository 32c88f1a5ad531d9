"""Every invariant and every rule in force names its tests, and every test named in docs exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
GUARANTEES = ROOT / "docs" / "evidence" / "guarantees.md"
INVARIANTS = {
    "one-state", "equals-its-source", "newer-wins", "one-writer", "failures-stay-apart", "whole-commits",
    "nothing-silent", "outcome-before-ledger"
}  # fmt: skip
RULES = {
    "wake-after-write", "claimable", "hold-before-write", "resolve-before-write", "services-in-the-run", "one-identity",
    "newest-instant", "ordering-properties", "three-readers", "compact-before-wider-types", "batch-id-on-commits",
    "drop-what-loses", "floor-before-purge", "truncate-is-a-position", "known-at", "overlapping-offsets", "log-restart",
    "pinned-settings", "one-source-table"
}  # fmt: skip
HEADING = re.compile(r"^### ([a-z-]+)\. (.+)$")
NAMED = re.compile(r"`(tests/[^`\s]+)`")
NOT_YET = "- not tested yet: "
RULE_CITED = re.compile(r"[(,] ?`([a-z]+(?:-[a-z]+)+)`(?=[,)])")  # (`resolve-before-write`) in a comment


def sections(text: str) -> dict[str, list[str]]:
    """The tests, and what is not tested yet, under each guarantee's heading, by its name."""
    collected: dict[str, list[str]] = {}
    under: list[str] = []
    for line in text.splitlines():
        heading = HEADING.match(line)
        if heading:
            assert heading[1] not in collected, f"{heading[1]} is there twice"
            collected[heading[1]] = under = []
        elif line.startswith("#"):
            under = []
        elif line.startswith("- "):
            under.append(line)
    return collected


@cache
def named_tests(file: Path) -> frozenset[str]:
    """The tests of a module as pytest names them, methods with their class. The module is read and not run."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    return frozenset(functions(body)) | {f"{node.name}::{name}" for node in classes for name in functions(node.body)}


def functions(body: list[ast.stmt]) -> list[str]:
    return [
        node.name
        for node in body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    ]


def missing(test_path: str) -> bool:
    """Whether a name under tests/ is no folder with tests, no test module and no test in one."""
    path, _, test = test_path.partition("::")
    place = ROOT / path
    if place.is_dir():
        return bool(test) or not any(place.rglob("test_*.py"))
    return not place.is_file() or bool(test) and test not in named_tests(place)


@cache
def left_to_test_all(file: Path) -> frozenset[str]:
    """The tests of a module that `make test` leaves out: those with the marker `whole` on the function."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return frozenset(
        node.name
        for node in body
        if isinstance(node, ast.FunctionDef) and "pytest.mark.whole" in map(ast.unparse, node.decorator_list)
    )


def test_make_test_runs_a_test_of_every_invariant_and_rule() -> None:
    for number, lines in sections(GUARANTEES.read_text(encoding="utf-8")).items():
        tests = [name.partition("::") for line in lines if not line.startswith(NOT_YET) for name in NAMED.findall(line)]
        assert any(test and test not in left_to_test_all(ROOT / path) for path, _, test in tests), number
    assert left_to_test_all(ROOT / "tests" / "spark" / "test_housekeeping.py")


def test_every_invariant_and_every_rule_in_force_names_a_test() -> None:
    rules = sections(GUARANTEES.read_text(encoding="utf-8"))
    assert INVARIANTS | RULES <= set(rules)
    for number, lines in rules.items():
        assert all(line.startswith((NOT_YET, "- `tests/")) for line in lines), number
        assert any("::" in name for line in lines if not line.startswith(NOT_YET) for name in NAMED.findall(line)), (
            f"{number} names no test"
        )


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        *(f"docs/{name}.md" for name in "evidence/guarantees limits evidence/aws deploying security".split()),
    ],
)
def test_every_test_that_a_document_names_is_there(document: str) -> None:
    names = NAMED.findall((ROOT / document).read_text(encoding="utf-8"))
    assert [name for name in names if missing(name)] == []


def rows_below(heading: str, text: str) -> list[list[str]]:
    lines = text.partition(heading)[2].partition("\n## ")[0].splitlines()
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][1:]


def test_every_promise_of_security_names_its_evidence() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    rows = rows_below("## Promises", text)
    assert len(rows) > 10 and all(len(row) == 2 for row in rows)
    assert [promise for promise, evidence in rows if not NAMED.search(evidence) and "`make " not in evidence] == []
    threats = rows_below("## Who can do what", text)
    assert len(threats) > 10 and all(len(row) == 3 and all(row) for row in threats)


def test_each_of_twelve_things_that_no_emulator_shows_is_held_by_a_test() -> None:
    page = (ROOT / "docs" / "evidence" / "aws.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if re.match(r"\| \d", line)]
    assert [row[0] for row in rows] == [str(number) for number in range(1, 13)]
    assert all(len(row) == 3 and NAMED.search(row[2]) for row in rows)


def test_what_is_not_proven_on_aws_fits_in_fifteen_lines() -> None:
    limits = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    listed = limits.partition("## Not proven on AWS\n")[2].partition("\n## ")[0].splitlines()
    assert 5 <= sum(line.startswith("- ") for line in listed) <= len([line for line in listed if line]) <= 15


def test_every_rule_that_the_code_names_is_documented() -> None:
    sources = [path for part in ("functions", "spark") for path in sorted((ROOT / part).rglob("*.py"))]
    cited = {name for path in sources for name in RULE_CITED.findall(path.read_text(encoding="utf-8"))}
    assert cited and cited <= set(sections(GUARANTEES.read_text(encoding="utf-8")))
