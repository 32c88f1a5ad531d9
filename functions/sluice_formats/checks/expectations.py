"""Compares the rows of a decoded batch with what their table expects of values.

Patterns are matched by RE2, in Arrow, whose time grows with the length of a text and no faster.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sluice.changes import hidden_columns as hidden
from sluice.config.rules.expectations import Expectation, Expectations, Limit
from sluice.schema import columns as kinds
from sluice.schema.columns import Column
from sluice.schema.meaning import value_text
from sluice_formats.errors import UnusablePattern

_NOT_ROWS = (hidden.DELETE, hidden.TRUNCATE, hidden.MESSAGE)


@dataclass(frozen=True)
class Failure:
    """A row, by its place in the batch, that isn't as expected. `rule` is the key of the configuration."""

    row: int
    column: str
    rule: str


def first_failure(batch: pa.RecordBatch, columns: Sequence[Column], expected: Expectations) -> Failure | None:
    """The first row that isn't as expected."""
    return min(failures(batch, columns, expected), key=lambda failure: failure.row, default=None)


def failure_counts(batch: pa.RecordBatch, columns: Sequence[Column], expected: Expectations) -> Mapping[str, int]:
    """How many rows fail each rule, by `column rule`."""
    return Counter(f"{failure.column} {failure.rule}" for failure in failures(batch, columns, expected))


def failures(batch: pa.RecordBatch, columns: Sequence[Column], expected: Expectations) -> Iterator[Failure]:
    """Every rule that a row fails: of rows that are there, by the values that their change holds."""
    if not expected.columns:
        return
    by_name = {column.name.lower(): column for column in columns}  # as in Spark, case doesn't count
    own = {name: batch.column(batch.schema.get_field_index(name)) for name in (hidden.DELETED, hidden.OP)}
    rows = [
        place
        for place, (deleted, op) in enumerate(zip(own[hidden.DELETED].to_pylist(), own[hidden.OP].to_pylist()))
        if not deleted and op not in _NOT_ROWS
    ]
    left_out = batch.column(batch.schema.get_field_index(hidden.UNCHANGED)).to_pylist()
    for expectation in expected.all():
        column = by_name.get(expectation.column.lower())
        name = expectation.column if column is None else column.name
        places = [place for place in rows if name not in (left_out[place] or ())]
        if column is None:
            texts: list[str | None] = [None] * len(places)
        else:
            values = batch.column(batch.schema.get_field_index(name)).to_pylist()
            texts = [None if values[place] is None else _text(values[place], column) for place in places]
        for place, rule in _failed(expectation, texts):
            yield Failure(places[place], expectation.column, rule)


def check_patterns(expected: Expectations) -> None:
    """Raise UnusablePattern for a pattern that RE2 doesn't take."""
    for expectation in expected.all():
        try:
            _matches(expectation, [""])
        except pa.ArrowInvalid as error:
            raise UnusablePattern(
                f"The pattern that {expectation.column} is expected to match is none of RE2's",
                column=expectation.column,
            ) from error


def _failed(expected: Expectation, texts: Sequence[str | None]) -> Iterator[tuple[int, str]]:
    tests: tuple[tuple[str, bool, Callable[[str], bool]], ...] = (
        ("min", expected.least is not None, lambda text: _compared(text, expected.least) in (0, 1)),
        ("max", expected.most is not None, lambda text: _compared(text, expected.most) in (0, -1)),
        ("in", bool(expected.among), lambda text: text in expected.among),
    )
    for place, text in enumerate(texts):
        if text is None:
            if expected.not_null:
                yield place, "not_null"
            continue
        for rule, applies, passes in tests:
            if applies and not passes(text):
                yield place, rule
    present = [place for place, text in enumerate(texts) if text is not None]
    for place, matched in zip(present, _matches(expected, [texts[place] for place in present])):
        if not matched:
            yield place, "matches"


def _matches(expected: Expectation, texts: Sequence[str | None]) -> Sequence[bool]:
    if expected.pattern is None:
        return [True] * len(texts)
    whole = f"^(?:{expected.pattern})$"
    matches: Sequence[bool] = pc.match_substring_regex(pa.array(texts, pa.string()), whole).to_pylist()
    return matches


def _compared(text: str, limit: Limit | None) -> int | None:
    """-1, 0 or 1 where a value is below, at or above a limit; None for text where the limit is a number."""
    value: Any = text
    if isinstance(limit, Decimal):
        try:
            value = Decimal(text)
        except InvalidOperation:
            return None
        if value.is_nan():
            return None
    return 0 if value == limit else 1 if value > limit else -1


def _text(value: Any, column: Column) -> str:
    """The text of a raw value: hashes and masks are made of the same. An array's items are those of Arrow."""
    if isinstance(value, str):  # made of the decoded value before
        return value
    return json.dumps(value, default=str) if column.kind == kinds.ARRAY else value_text(value, column)
