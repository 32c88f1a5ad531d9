"""What a table expects of its rows' values, and what becomes of rows that have others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Union

from sluice.config.key_pattern import MAX_PATTERN, parsed_regex, regex_parser
from sluice.config.setting import Value, setting
from sluice.config.values import COLUMNS, MARKS, SWITCH, choice
from sluice.names import listed

QUARANTINE, COUNT, REPORT = "quarantine", "count", "report"
MAX_COLUMNS = 100
_AMONG_SHOWN = 10  # values
_MOST_REPEATS = 1_000  # of RE2
_NOT_NULL, _MIN, _MAX, _IN, _MATCHES = "not_null", "min", "max", "in", "matches"
_KEYS = (_NOT_NULL, _MIN, _MAX, _IN, _MATCHES)
# What RE2 lacks, since its time would no longer be linear, by the names of Python's parser.
_UNKNOWN_TO_RE2 = frozenset("ASSERT ASSERT_NOT GROUPREF GROUPREF_EXISTS ATOMIC_GROUP POSSESSIVE_REPEAT".split())

Limit = Union[Decimal, str]  # numbers compare as numbers, other texts (such as dates) as texts


@dataclass(frozen=True)
class Expectation:
    """What is expected of one column. None, false and an empty tuple expect nothing."""

    column: str
    not_null: bool = False
    least: Limit | None = None
    most: Limit | None = None
    among: tuple[str, ...] = ()
    pattern: str | None = None


def _number(text: str) -> Limit:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


def _limit(written: Any) -> str:
    text = str(written) if isinstance(written, (int, float, str, date)) and not isinstance(written, bool) else ""
    if not 1 <= len(text) <= 100:
        raise ValueError("is a number, a date or text of up to 100 characters")
    return text


def _pattern(written: Any) -> str:
    tree = parsed_regex(written)
    if tree.state.flags & ~(re.UNICODE | re.IGNORECASE | re.DOTALL):
        raise ValueError("sets other flags than i and s")
    _check_items(tree)
    return str(written)


def _check_items(items: Any) -> None:
    for op, argument in items:
        name = str(op)
        if name in _UNKNOWN_TO_RE2 or name == "AT" and str(argument) == "AT_END_STRING":
            raise ValueError("has a look-around, a back-reference, an atomic group or \\Z, which RE2 doesn't have")
        if name == "SUBPATTERN":
            _check_items(argument[-1])
        elif name == "BRANCH":
            for branch in argument[1]:
                _check_items(branch)
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, repeated = argument
            if least > _MOST_REPEATS or most > _MOST_REPEATS and most < regex_parser().MAXREPEAT:
                raise ValueError(f"repeats something more than {_MOST_REPEATS:,} times")
            _check_items(repeated)


_PARSERS = {
    _NOT_NULL: SWITCH.parse,
    _MIN: _limit,
    _MAX: _limit,
    _IN: lambda written: list(MARKS.parse(written)),
    _MATCHES: _pattern,
}


def _columns(written: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(written, Mapping) or not 1 <= len(written) <= MAX_COLUMNS:
        raise ValueError(f"is a mapping of 1 to {MAX_COLUMNS} columns to what is expected of them")
    COLUMNS.parse([str(name) for name in written])
    by_column: dict[str, dict[str, Any]] = {}
    for name, rules in written.items():
        if not isinstance(rules, Mapping) or not rules or not set(rules) <= set(_KEYS):
            raise ValueError(f"says of {name} something else than {', '.join(_KEYS)}")
        for key, value in rules.items():
            try:
                by_column.setdefault(str(name), {})[str(key)] = _PARSERS[key](value)
            except ValueError as error:
                raise ValueError(f"says {key} of {name}, which {error}") from error
    return by_column


def _written_columns(columns: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        name: {key: _written_limit(value) if key in (_MIN, _MAX) else value for key, value in rules.items()}
        for name, rules in columns.items()
    }


def _written_limit(text: str) -> int | float | str:
    """A limit is stored as text: short numbers are written as such."""
    if not re.fullmatch(r"-?(0|[1-9][0-9]{0,8})(\.[0-9]{0,5}[1-9])?", text):
        return text
    return float(text) if "." in text else int(text)


_LIMIT_SCHEMA = {"type": ["number", "string"]}
_COLUMNS = Value(
    _columns,
    {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {
                _NOT_NULL: dict(SWITCH.schema),
                _MIN: _LIMIT_SCHEMA,
                _MAX: _LIMIT_SCHEMA,
                _IN: dict(MARKS.schema),
                _MATCHES: {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN},
            },
        },
    },
    _written_columns,
)


@dataclass(frozen=True)
class Expectations:
    """What is expected of rows. Deletions, and values that a change leaves out, are not looked at."""

    failures: str = setting(
        QUARANTINE,
        choice(QUARANTINE, COUNT, REPORT),
        "What becomes of a row with another value. `quarantine`: it is set aside. `count`: it is merged, and "
        "counted in the batch's outcome and event. `report`: the outcome also has a note, which the run logs.",
    )
    columns: Mapping[str, Mapping[str, Any]] = setting(
        dict,
        _COLUMNS,
        "By the table's columns: `not_null: true`, `min`, `max`, `in: [...]`, `matches` (a regular expression of "
        "RE2 for the whole text).",
    )

    @property
    def quarantines(self) -> bool:
        return bool(self.columns) and self.failures == QUARANTINE

    def all(self) -> tuple[Expectation, ...]:
        return tuple(
            Expectation(
                name,
                bool(rules.get(_NOT_NULL)),
                _number(rules[_MIN]) if _MIN in rules else None,
                _number(rules[_MAX]) if _MAX in rules else None,
                tuple(rules.get(_IN, ())),
                rules.get(_MATCHES),
            )
            for name, rules in self.columns.items()
        )

    def described(self, column: str, rule: str) -> str:
        """What is wrong with a value of a column that fails a rule, named by its key in the file; without the value."""
        expected = next(expectation for expectation in self.all() if expectation.column == column)
        return {
            _NOT_NULL: f"{column} is null",
            _MIN: f"{column} is not at least {expected.least}",
            _MAX: f"{column} is not at most {expected.most}",
            _IN: f"{column} is none of: {listed(expected.among, _AMONG_SHOWN)}",
            _MATCHES: f"{column} does not match {expected.pattern}",
        }[rule]

    def absent_from(self, names: Iterable[str]) -> tuple[str, ...]:
        """The columns of which something is expected and that are not among the table's `names`: misspelt, maybe."""
        lower_names = {name.lower() for name in names}
        return tuple(name for name in self.columns if name.lower() not in lower_names)

    def of_values(self) -> tuple[str, ...]:
        """The columns of which more is expected than not to be null."""
        return tuple(name for name, rules in self.columns.items() if set(rules) != {_NOT_NULL})
