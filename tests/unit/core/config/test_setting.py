"""One field defines a setting: its values, its stored form and its description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from sluice.config.setting import differences, restored, setting, settings_of, stored, with_differences
from sluice.config.values import (
    COLUMNS,
    COORDINATES,
    DURATION,
    HOURS,
    LINEAGE,
    MARK_PLACE,
    RAW_COLUMNS,
    SIZE,
    SWITCH,
    choice,
    duration,
    text,
    whole,
)


@dataclass(frozen=True)
class Inner:
    on: bool = setting(True, SWITCH, "Whether.", key="enabled")
    age_s: int | None = setting(None, DURATION, "Age.", key="age")


@dataclass(frozen=True)
class Outer:
    name: str
    wait_s: int = setting(60, DURATION, "The `wait`.", key="wait", fixed=True)
    columns: tuple[str, ...] = setting((), COLUMNS, "Columns.", template=True)
    options: Mapping[str, str] = setting(dict, text(), "Options.")
    inner: Inner = setting(Inner(age_s=7_200), None, "A group.")
    depth: int = setting(1_000, whole(1, 9_999), "Depth.", key="inner.depth")


def test_a_field_without_metadata_is_no_setting_and_a_dotted_key_lies_in_a_group():
    settings = settings_of(Outer)
    assert [field.name for field in settings] == ["wait_s", "columns", "options", "inner", "depth"]
    assert [field.path for field in settings][-1] == ("inner", "depth")
    assert [field.name for field in settings if field.fixed] == ["wait_s"]


def test_a_setting_describes_itself_with_its_default():
    described = {field.key: field.description for field in settings_of(Outer)}
    assert described["wait"] == "The wait. Default: 60s."
    assert (described["columns"], described["inner.depth"]) == ("Columns.", "Depth. Default: 1,000.")
    assert described["inner"] == "A group. Default: age: 2h."


def test_a_group_has_the_defaults_of_its_own_place():
    (group,) = (field for field in settings_of(Outer) if field.name == "inner")
    assert {field.key: field.default for field in group.group} == {"enabled": True, "age": 7_200}


@pytest.mark.parametrize("value", [Outer("a"), Outer("a", 5, ("x", "y"), {"k": "v"}, Inner(on=False, age_s=None), 3)])
def test_the_stored_form_is_read_back(value):
    assert restored(Outer, stored(value)) == value
    assert with_differences(Outer("a"), differences(value, Outer("a"))) == value


def test_a_group_is_stored_as_what_differs_from_its_default():
    assert stored(Outer("a"))["inner"] == {}
    assert stored(Outer("a", inner=Inner(on=False, age_s=7_200)))["inner"] == {"on": False}
    assert differences(Outer("a", columns=("x",)), Outer("a")) == {"columns": ["x"]}


def test_an_unknown_name_is_an_error_in_a_whole_and_ignored_in_differences():
    with pytest.raises(TypeError):
        restored(Outer, {"name": "a", "other": 1})
    assert with_differences(Outer("a"), {"other": 1, "inner": {"later": 2}}) == Outer("a")
    with pytest.raises(TypeError):
        restored(Outer, {"name": "a", "inner": 5})


@pytest.mark.parametrize(
    ("value", "written", "parsed"),
    [
        (DURATION, "15m", 900),
        (DURATION, 0, 0),
        (HOURS, "7d", 168),
        (SIZE, "4GiB", 4 * 1024**3),
        (SIZE, "512MiB", 512 * 1024**2),
        (whole(1, 9), 9, 9),
        (choice("a", "b"), "b", "b"),
        (choice(1, 2), 2, 2),
        (SWITCH, True, True),
        (DURATION, "0s", 0),
        (text(3), "abc", "abc"),
        (COLUMNS, "id", ("id",)),
        (COLUMNS, ["id", "{1}id"], ("id", "{1}id")),
        (MARK_PLACE, "last_update", "last_update"),
        (COORDINATES, ["p", "o"], ("p", "o")),
        (RAW_COLUMNS, True, ("*",)),
        (LINEAGE, ["batch", "object"], ("object", "batch")),
    ],
)
def test_a_value_is_parsed(value, written, parsed):
    assert value.parse(written) == parsed


@pytest.mark.parametrize(
    ("value", "written", "message"),
    [
        (DURATION, "1.5h", "is a number with its unit"),
        (DURATION, True, "is a number with its unit"),
        (duration(60), "5s", "is at least 60s"),
        (duration(5, 600), "11m", "is between 5s and 10m"),
        (HOURS, "90m", "whole hours"),
        (SIZE, "5MB", "is a size such as"),
        (whole(1, 9_999), True, "is a whole number from 1 to 9,999"),
        (whole(1, 9), "5", "is a whole number"),
        (whole(1, 9), 10, "is a whole number"),
        (choice(1, 2), True, "is one of 1, 2"),
        (choice(1, 2), 2.0, "is one of"),
        (choice("a"), ["a"], "is one of a"),
        (SWITCH, "yes", "is true or false"),
        (text(3), "abcd", "at most 3 characters"),
        (text(), 5, "is text"),
        (COLUMNS, ["a", "a"], "names a column twice"),
        (COLUMNS, ["two words", "_hoodie_x"], "'two words' is not a column name.*; _hoodie_x is a column that Sluice"),
        (COLUMNS, "größe", "'größe' is not a column name"),
        (MARK_PLACE, "", "is a column name of 1 to 255"),
        (COORDINATES, ["p", "p"], "names a column twice"),
        (LINEAGE, 1, "is on, off or a list"),
    ],
)
def test_a_value_that_is_none_of_its_kind_is_refused(value, written, message):
    with pytest.raises(ValueError, match=message):
        value.parse(written)


@pytest.mark.parametrize(
    ("value", "default", "written"),
    [
        (DURATION, 60, "60s"),
        (DURATION, 3_600, "1h"),
        (DURATION, 86_400, "24h"),
        (DURATION, 604_800, "7d"),
        (DURATION, 0, "0"),
        (DURATION, 90, "90s"),
        (HOURS, 168, "7d"),
        (SIZE, 10 * 1024**3, "10GiB"),
        (SIZE, 256 * 1024**2, "256MiB"),
        (LINEAGE, (), "off"),
        (COLUMNS, ("a",), ["a"]),
    ],
)
def test_a_default_is_written_as_the_file_would_hold_it(value, default, written):
    assert value.write(default) == written
    assert value.parse(written) == default
