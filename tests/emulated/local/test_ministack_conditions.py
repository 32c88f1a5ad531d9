"""How MiniStack evaluates the key condition of a query: checked once, right for every item and every query."""

from __future__ import annotations

from typing import Any

import pytest
from ministack.services import dynamodb

from sluice_local.emulators.ministack_program import parse_once

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
    monkeypatch.setattr(dynamodb, "_evaluate_condition", dynamodb._evaluate_condition)  # for the end of the test
    parse_once(dynamodb)
    return slots


def matching(text: str, values: dict[str, Any], slot: str = KEY) -> list[str]:
    """The sort keys of some items that match."""
    items = [{"pk": {"S": "p"}, "sk": {"S": key}} for key in ("a", "b1", "b2", "c")]
    return [item["sk"]["S"] for item in items if dynamodb._evaluate_condition(text, item, values, NAMES, slot=slot)]


def test_a_query_checks_its_condition_once_and_evaluates_it_for_each_item(checked: list[str]) -> None:
    assert matching(BEHIND, {":p": {"S": "p"}, ":s": {"S": "b1"}}) == ["b2", "c"]
    assert checked == [KEY]


def test_other_conditions_and_faulty_ones_are_checked_as_before(checked: list[str]) -> None:
    values = {":p": {"S": "p"}, ":s": {"S": "b1"}}
    assert matching(BEHIND, values, FILTER) == ["b2", "c"] and checked == [FILTER] * 4
    for _ in range(2):
        with pytest.raises(ValueError, match=KEY):
            matching("#p = :p AND AND #s > :s", values)
