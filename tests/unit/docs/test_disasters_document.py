"""docs/disasters.md: each section says first what is lost, has steps and tests, and its AWS commands exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "disasters.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part.partition("\n")[2].strip() for part in PAGE.split("\n## ")[1:]}
COMMANDS = re.findall(r"\baws (\w+) ([a-z-]+)((?: --[a-z-]+(?: [^`\s-][^`\s]*)?)*)", PAGE)


@cache
def model(service: str) -> Any:
    return botocore.session.get_session().get_service_model(service)


@pytest.mark.parametrize("section", SECTIONS)
def test_a_section_says_first_what_is_lost_and_then_the_way_back(section: str) -> None:
    text = SECTIONS[section]
    assert text.startswith("**Lost:** ")
    assert re.search(r"^(1\. |    sluice |Follow )", text, re.M)


def test_every_section_has_its_row_and_names_its_tests_or_says_that_there_are_none() -> None:
    table = (ROOT / "docs" / "evidence" / "operating.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \[([^]]+)\]\(\.\./disasters\.md#[^)]+\) \| (.+) \|$", table, re.M))
    assert list(rows) == list(SECTIONS)
    for tests in rows.values():
        for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", tests):
            assert f"def {name}" in (ROOT / file).read_text(encoding="utf-8")
        assert "`tests/" in tests or tests.startswith("none: ")


@pytest.mark.parametrize("service, operation, options", COMMANDS)
def test_the_aws_commands_exist_with_their_options(service: str, operation: str, options: str) -> None:
    if service == "s3":
        return
    operations = {xform_name(name, "-"): name for name in model(service).operation_names}
    members = model(service).operation_model(operations[operation]).input_shape.members
    accepted = {xform_name(name, "-") for name in members}
    assert {option.removeprefix("no-") for option in re.findall(r"--([a-z-]+)", options)} <= accepted
