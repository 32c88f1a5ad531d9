"""What a table expects of values: rows with others are set aside or counted, the rest goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from support.builders import avro_object, change, flattened
from support.shapes import batch_plan, item, rows_in

from sluice.batch.part_counts import unexpected_in, unexpected_note
from sluice.config.rules.columns import ColumnRules
from sluice.config.rules.expectations import Expectations
from sluice.config.table import TableConfig
from sluice_formats.checks.expectations import check_patterns
from sluice_formats.decode import Decoded, decode
from sluice_formats.errors import UnusablePattern

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
DAY = {"type": "int", "logicalType": "date"}
AT = {"type": "long", "logicalType": "timestamp-micros"}
KINDS = {
    "id": "long",
    "n": "long",
    "x": "double",
    "money": MONEY,
    "day": DAY,
    "at": AT,
    "text": "string",
    "yes": "boolean",
}
NO_RULES = ColumnRules()
COLUMNS = {name: ["null", kind] for name, kind in KINDS.items()}


def table(failures: str = "quarantine", columns: ColumnRules = NO_RULES, **expected: Any) -> TableConfig:
    return TableConfig("db.t", "db", "t", "x", ("id",), expect=Expectations(failures, expected), columns=columns)


def decoded(config: TableConfig, *rows: Mapping[str, Any], columns: Mapping[str, Any] = COLUMNS) -> Decoded:
    schema, nulls = flattened(columns), dict.fromkeys(columns)
    body = avro_object(schema, [change(**{**nulls, "id": number, **row}) for number, row in enumerate(rows)])
    return decode(body, item("avro"), batch_plan(config, schema).plan)


def ids(merged: Decoded) -> list[int]:
    return [row["id"] for row in rows_in(merged)]


@pytest.mark.parametrize(
    ("column", "rules", "good", "bad", "reason"),
    [
        ("n", {"not_null": True}, 0, None, "is null"),
        ("n", {"min": "1"}, 1, 0, "is not at least 1"),
        ("n", {"max": "1"}, 1, 2, "is not at most 1"),
        ("n", {"max": "9007199254740992"}, 2**53, 2**53 + 1, "is not at most 9007199254740992"),
        ("n", {"in": ["1", "2"]}, 2, 3, "is none of: 1, 2"),
        ("x", {"min": "0.5", "max": "1.5"}, 1.5, 1.6, "is not at most 1.5"),
        ("x", {"max": "1.5"}, -1.0, float("nan"), "is not at most 1.5"),
        ("money", {"min": "10"}, Decimal("10.00"), Decimal("9.99"), "is not at least 10"),
        ("money", {"in": ["10"]}, Decimal("10.00"), Decimal("10.10"), "is none of: 10"),
        ("day", {"min": "2024-01-01"}, 19_723, 19_722, "is not at least 2024-01-01"),
        ("at", {"max": "2024-01-01T12:00:00"}, 1_704_100_000_000_000, 1_704_200_000_000_000, "is not at most 2024-01"),
        ("text", {"min": "10"}, "9e9", "nine", "is not at least 10"),
        ("text", {"in": ["new", "paid"]}, "paid", "Paid", "is none of: new, paid"),
        ("text", {"in": list("abcdefghijkl")}, "a", "m", "is none of: a, b, c, d, e, f, g, h, i, j and 2 more"),
        ("text", {"matches": "[^@]+@[^@]+"}, "a@b", "a@b@c", "does not match [^@]+@[^@]+"),
        ("text", {"matches": "a|b"}, "b", "ab", "does not match a|b"),
        ("text", {"matches": "(?i)a+"}, "Aa", "b", "does not match (?i)a+"),
        ("yes", {"in": ["true"]}, True, False, "is none of: true"),
    ],
    ids=str,
)
def test_a_row_with_another_value_is_set_aside(column: str, rules: Mapping[str, Any], good: Any, bad: Any, reason: str):
    merged = decoded(table(**{column: rules}), {column: good}, {column: bad}, {column: good})
    assert ids(merged) == [0, 2]
    (error,) = merged.rows
    assert (error.record, error.code) == (1, "unexpected_value")
    assert error.reason.startswith(f"{column} {reason}"), "the rule, and never the value"


def test_a_null_fails_no_rule_but_not_null():
    rules = {"min": "1", "max": "2", "in": ["1"], "matches": "x"}
    assert ids(decoded(table(n=rules, text=rules), {})) == [0]


def test_the_case_of_an_expected_column_does_not_matter():
    merged = decoded(table(TEXT={"not_null": True, "in": ["a"]}), {"text": "a"}, {"text": "b"}, {})
    assert ids(merged) == [0] and [error.record for error in merged.rows] == [1, 2]
    unchanged = decoded(table(TEXT={"not_null": True}), {"text": "__debezium_unavailable_value", "op": "u"})
    assert ids(unchanged) == [0]


def test_a_column_that_no_object_has_is_null():
    assert [error.code for error in decoded(table(absent={"not_null": True}), {}).rows] == ["unexpected_value"]


def test_deletions_and_values_that_a_change_leaves_out_are_not_looked_at():
    rules = {"not_null": True, "matches": "x"}
    merged = decoded(table(text=rules), {"op": "d"}, {"text": "__debezium_unavailable_value", "op": "u"}, {"text": "x"})
    assert ids(merged) == [0, 1, 2]


@pytest.mark.parametrize("failures", ["count", "report"])
def test_counted_rows_are_merged_and_counted_by_column_and_rule(failures: str):
    config = table(failures, n={"min": "1", "not_null": True}, text={"in": ["a"]})
    merged = decoded(config, {"n": 0, "text": "b"}, {}, {"n": 5})
    assert ids(merged) == [0, 1, 2] and merged.rows == []
    assert dict(merged.seen.unexpected) == {"n min": 1, "n not_null": 1, "text in": 1}
    assert unexpected_in([merged.seen, merged.seen])["n min"] == 2
    assert "n min: 1, n not_null: 1, text in: 1" in unexpected_note(dict(merged.seen.unexpected), "b")


@pytest.mark.long
def test_many_bad_rows_refuse_the_object_as_other_bad_rows_do():
    config = table(n={"min": "1"})
    with pytest.raises(Exception, match="More than") as refused:
        decoded(config, *[{"n": 0}] * (config.limits.quarantined_rows + 1))
    assert refused.value.code == "too_many_bad_rows"  # type: ignore[attr-defined]


def test_rules_name_the_tables_columns_and_see_what_the_table_stores():
    columns = ColumnRules(rename={"n": "amount"}, mask={"text": 0})
    config = table(columns=columns, amount={"min": "1"}, text={"not_null": True})
    merged = decoded(config, {"n": 0, "text": "secret"}, {"n": 1, "text": "secret"}, {"n": 1})
    assert ids(merged) == [1] and [error.record for error in merged.rows] == [0, 2]
    assert "secret" not in repr(merged.rows)


def test_a_pattern_takes_no_longer_for_a_hostile_text():
    began = time.monotonic()
    merged = decoded(table(text={"matches": "(a+)+b"}), {"text": "a" * 200_000})
    assert [error.code for error in merged.rows] == ["unexpected_value"] and time.monotonic() - began < 5


def test_a_pattern_that_re2_lacks_is_found_before_an_object_is_read():
    check_patterns(Expectations("count", {"a": {"matches": r"[^@\s]+@\w+"}, "b": {"min": "1"}}))
    with pytest.raises(UnusablePattern, match="a is expected") as refused:
        check_patterns(Expectations("count", {"a": {"matches": "(?=a)"}}))
    assert refused.value.retriable
