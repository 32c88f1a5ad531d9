"""How MiniStack evaluates conditions and copies items: checked once, and right for every item and every query."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any

import pytest
from ministack.services import dynamodb

from sluice_local.emulators.ministack_program import parse_once, plain_copy

KEY, FILTER = "KeyConditionExpression", "FilterExpression"
NAMES = {"#p": "pk", "#s": "sk"}
BEHIND = "#p = :p AND #s > :s"


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The conditions that MiniStack has checked, by where they stood."""
    slots: list[str] = []
    check = dynamodb._condition_syntax_error

    def noted(text: str, slot: str) -> Any:
        slots.append(slot)
        return check(text, slot)

    monkeypatch.setattr(dynamodb, "_condition_syntax_error", noted)
    monkeypatch.setattr(dynamodb, "_tokenize", dynamodb._tokenize)  # for the end of the test
    parse_once(dynamodb)
    return slots


def matching(text: str, values: dict[str, Any], slot: str = KEY) -> list[str]:
    """The sort keys of some items that match."""
    items = [{"pk": {"S": "p"}, "sk": {"S": key}} for key in ("a", "b1", "b2", "c")]
    return [item["sk"]["S"] for item in items if dynamodb._evaluate_condition(text, item, values, NAMES, slot=slot)]


@pytest.mark.parametrize("slot", [KEY, FILTER])
def test_a_query_checks_its_condition_once_and_evaluates_it_for_each_item(checked: list[str], slot: str) -> None:
    assert matching(BEHIND, {":p": {"S": "p"}, ":s": {"S": "b1"}}, slot) == ["b2", "c"]
    assert matching(BEHIND, {":p": {"S": "p"}, ":s": {"S": "b2"}}, slot) == ["c"]  # other values, the same text
    assert checked == [slot]


def test_a_faulty_condition_is_refused_each_time(checked: list[str]) -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match=KEY):
            matching("#p = :p AND AND #s > :s", {":p": {"S": "p"}, ":s": {"S": "b1"}})


def test_a_plain_copy_is_equal_to_a_deep_one_and_shares_nothing() -> None:
    item = {"a": {"L": [{"S": "x"}, {"M": {"n": {"NULL": True}}}]}, "s": {"SS": ["x"]}, "d": defaultdict(dict, b={})}
    copied = plain_copy(item)
    assert copied == copy.deepcopy(item) and type(copied["d"]) is defaultdict
    copied["a"]["L"][1]["M"]["n"]["NULL"] = copied["d"]["b"]["c"] = False
    assert item["a"]["L"][1]["M"]["n"]["NULL"] is True and item["d"] == {"b": {}}
