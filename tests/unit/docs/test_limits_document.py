"""docs/limits.md states the numbers that the code has."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from support.sam_template import TEMPLATE

ROOT = Path(__file__).resolve().parents[3]
NUMBERS = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8").partition("## Numbers")[2]
ROWS = re.findall(r"^\| ([^|]+) \| ([\d,]+) \| [^|]+ \| ([^|]+) \|$", NUMBERS, re.M)
CONSTANTS = [(what, int(number.replace(",", "")), origin[1:-1]) for what, number, origin in ROWS if origin[-1] == "`"]


@pytest.mark.parametrize(
    ("number", "origin"), [(number, origin) for _, number, origin in CONSTANTS if not origin.startswith("template")]
)
def test_a_number_is_that_of_its_constant(number, origin):
    module, _, name = origin.rpartition(".")
    assert getattr(import_module(module), name) == number


def test_the_numbers_of_the_queue_are_those_of_the_template():
    queue = TEMPLATE["Resources"]["Notices"]["Properties"]
    stated = [int(number.replace(",", "")) for _, number, origin in ROWS if origin.startswith("`template.yaml`")]
    assert stated == [queue["RedrivePolicy"]["maxReceiveCount"], queue["MessageRetentionPeriod"]]
    assert len(ROWS) > 20
