"""Patterns by which a rule reads topic, Kafka partition and offset from the keys of any writer (`key_pattern`).

Keys are untrusted and a pattern meets each of them, so a pattern whose match could take long is refused when it is
written: only single characters repeat, and the ways in which repeats can share the characters of a key are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from sluice.config.setting import Value
from sluice.names import stored_name

PARTITION, OFFSET, LAST_OFFSET, TOPIC_GROUP, ORDER = "partition", "offset", "last_offset", "topic", "order"
GROUPS = (TOPIC_GROUP, PARTITION, OFFSET, LAST_OFFSET, ORDER)
MAX_PATTERN = 500  # characters
MAX_KEY = 1024  # bytes; the limit of S3
# Ways to share a key's characters out: one repeat of any length beside three choices between two.
MAX_WAYS = 16 * MAX_KEY
# What orders objects: numbers, the first counts most. Folders as Hive names them (`month=11`) may stand between them.
_ORDER_NAME = re.compile(r"[A-Za-z_]+=")
_ORDER = re.compile(r"[0-9]{1,20}(?:(?:[-_:./ ]+|T)[0-9]{1,20})*Z?")
_DAY_FIRST = re.compile(r"[0-9]{1,2}[-_./][0-9]{1,2}[-_./][0-9]{4}(?![0-9]).*")
_MOST_DIGITS = {PARTITION: 9, OFFSET: 18, LAST_OFFSET: 18}


@dataclass(frozen=True)
class KeyName:
    """What a pattern reads from a key. `offset` is the object's first Kafka offset, or with `is_last` its last.

    `order` sorts as the objects of a table do that have no offset: by the numbers of a date, or by a number.
    `spelled_out` are the folders with a mark in front (`_raw`, `.raw`, `+raw`) that the pattern itself names.
    """

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    is_last: bool = False
    order: str | None = None
    spelled_out: frozenset[str] = frozenset()


def named_by(pattern: str, key: str) -> KeyName | None:
    """What a pattern reads from a key; None where it doesn't match the whole key.

    In a topic a `/` counts as a `.`: the folders `public/orders` are the topic `public.orders`. Nor does it match where
    the group `order` isn't made of numbers, or begins with a day: as text `02-11-2026` would precede `31-10-2026`.
    """
    match = _compiled(pattern).fullmatch(key) if len(key) <= MAX_KEY else None
    if match is None:
        return None
    groups = {name: value for name, value in match.groupdict().items() if value is not None}
    numbers = {}
    for name, most in _MOST_DIGITS.items():
        if name in groups:
            if not (groups[name].isascii() and groups[name].isdigit() and len(groups[name]) <= most):
                return None
            numbers[name] = int(groups[name])
    order = _sortable(groups[ORDER]) if ORDER in groups else None
    if ORDER in groups and order is None:
        return None
    topic = groups.get(TOPIC_GROUP)
    last = numbers.get(LAST_OFFSET)
    return KeyName(
        None if topic is None else topic.replace("/", "."),
        numbers.get(PARTITION),
        numbers.get(OFFSET) if last is None else last,
        last is not None,
        order,
        _spelled_out(pattern),
    )


def _sortable(text: str) -> str | None:
    """The numbers in a text, each behind the count of its digits, so that they sort as numbers; None without any."""
    bare = _ORDER_NAME.sub("", text)
    if not _ORDER.fullmatch(bare) or _DAY_FIRST.fullmatch(bare):
        return None
    numbers = (digits.lstrip("0") or "0" for digits in re.findall("[0-9]+", bare))
    return "".join(f"{len(digits):02d}{digits}" for digits in numbers)


_DATE_IN_DIGITS = re.compile(r"((?:19|20|21)[0-9]{2})([01][0-9])([0-3][0-9])[0-9]*")


def day_named(order: str) -> tuple[int, float] | None:
    """The digits of the first number of an `order`, and the day since year 1 that it names; None where it names none.

    A date has its year apart (`2026-11-02`) or is in digits (`20261102`), or the order counts seconds or parts of them.
    """
    numbers: list[str] = []
    while order:
        end = 2 + int(order[:2])
        numbers, order = [*numbers, order[2:end]], order[end:]
    first = numbers[0]
    parts = _DATE_IN_DIGITS.fullmatch(first)
    try:
        if parts or len(first) == 4 and len(numbers) > 1:
            return len(first), date(*map(int, parts.groups() if parts else [*numbers, "1"][:3])).toordinal()
        epoch = date(1970, 1, 1).toordinal()
        return (len(first), epoch + int(first[:10]) / 86_400) if len(first) in (10, 13, 16, 19) else None
    except ValueError:
        return None


_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"


def folder_values(key: str) -> dict[str, str | None]:
    """The values of Hive's folders in a key, by their columns as tables name them: `region=eu/` is `eu`."""
    folders = (folder.partition("=") for folder in key.split("/")[:-1])
    return {
        stored_name(unquote(name)): None if value == _NULL_FOLDER else unquote(value)
        for name, equals, value in folders
        if name and equals
    }


def folder_of_order(pattern: str, key: str) -> str:
    """The folder, with its slash, in which a pattern's `order` begins; that above the object's without the group."""
    match = _compiled(pattern).fullmatch(key) if ORDER in groups_of(pattern) else None
    before = key[: match.start(ORDER)] if match is not None else key.rpartition("/")[0]
    return before[: before.rfind("/") + 1]


_LAST_PART = re.compile(r"/((?:\[\^?\]?[^]]*\]|\\.|[^\\/\[])*)")  # behind the last slash that no class names


def named_by_folder(pattern: str, folder: str) -> KeyName | None:
    """What the folders of a pattern read from a folder; None where they don't match, or groups span folders."""
    cuts = [part.start() for part in _LAST_PART.finditer(pattern) if part.end() == len(pattern)]
    try:
        return named_by(pattern[: cuts[0]], folder) if cuts else None
    except re.error:  # cut within a group
        return None


def groups_of(pattern: str) -> frozenset[str]:
    return frozenset(_compiled(pattern).groupindex)


@lru_cache(maxsize=1024)
def _spelled_out(pattern: str) -> frozenset[str]:
    """The folders with a mark in front that a pattern spells out from one / to the next: they match nothing else."""
    folders = (
        _ESCAPED.sub(lambda mark: mark[1] or mark[2], folder)
        for folder in pattern.split("/")[:-1]
        if not _MARKS.search(_ESCAPED.sub("", folder))
    )
    return frozenset(folder for folder in folders if folder.startswith(("_", ".", "+")))


# A character behind a backslash or alone in brackets stands for itself, but letters and digits name classes.
_ESCAPED = re.compile(r"\\([^0-9A-Za-z/])|\[([^]^\\/])\]")
_MARKS = re.compile(r"[\\[\](){}*?|]")


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII | re.DOTALL)


def _parse(written: Any) -> str:
    tree = parsed_regex(written, re.ASCII | re.DOTALL)
    unknown = sorted(set(tree.state.groupdict) - set(GROUPS))
    if unknown:
        raise ValueError(f"has the group {unknown[0]}, which is not one of {', '.join(GROUPS)}")
    if {OFFSET, LAST_OFFSET} <= set(tree.state.groupdict):
        raise ValueError(f"has both {OFFSET} and {LAST_OFFSET}: name the one that the key holds")
    if tree.state.flags & ~(re.ASCII | re.DOTALL):
        raise ValueError("sets flags, and takes none")
    if _sequence(tree, frozenset()).ways > MAX_WAYS:
        raise ValueError(
            "has more than one repeat that could also match what follows it, which may take too long: "
            "use [^/]+ or [0-9]+ in place of .+"
        )
    return str(written)


def parsed_regex(written: Any, flags: int = 0) -> Any:
    """The tree of a regular expression, as Python's own parser makes it. Raises ValueError, as a `Value` does."""
    if not isinstance(written, str) or not 1 <= len(written) <= MAX_PATTERN:
        raise ValueError(f"is a regular expression of 1 to {MAX_PATTERN} characters")
    try:
        return regex_parser().parse(written, flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is not a regular expression: {error}") from error


KEY_PATTERN = Value(_parse, {"type": "string", "minLength": 1, "maxLength": MAX_PATTERN})


def regex_parser() -> Any:
    """Python's own parser of regular expressions; its name changed in 3.11."""
    try:
        from re import _parser as found  # type: ignore[attr-defined,unused-ignore]
    except ImportError:
        import sre_parse as found  # type: ignore[no-redef,unused-ignore]
    return found


# Characters stand for all others of their kind: a pattern sees ASCII, and anything beyond it as one more kind.
_ALPHABET = frozenset(map(chr, range(128))) | {"é"}
_CATEGORIES = {"DIGIT": r"\d", "SPACE": r"\s", "WORD": r"\w"}


@dataclass(frozen=True)
class _Cost:
    """What a part of a pattern can begin with, whether it can be empty, and in how many ways it can match."""

    first: frozenset[str]
    empty: bool
    ways: int


def _sequence(items: Iterable[tuple[Any, Any]], follow: frozenset[str]) -> _Cost:
    """The cost of items in a row. `follow` is what can come after them."""
    first: frozenset[str] = frozenset()
    empty, ways = True, 1
    for op, argument in reversed(list(items)):
        after = first | (follow if empty else frozenset())
        item = _item(str(op), argument, after)
        first = item.first | (first if item.empty else frozenset())
        empty = empty and item.empty
        ways *= item.ways
    return _Cost(first, empty, ways)


def _item(op: str, argument: Any, follow: frozenset[str]) -> _Cost:
    characters = _characters(op, argument)
    if characters is not None:
        return _Cost(characters, False, 1)
    if op == "SUBPATTERN":
        _, more_flags, fewer_flags, items = argument
        if more_flags or fewer_flags:
            raise ValueError("sets flags, and takes none")
        return _sequence(items, follow)
    if op == "BRANCH":
        costs = [_sequence(items, follow) for items in argument[1]]
        every = frozenset().union(*(cost.first for cost in costs))
        return _Cost(every, any(cost.empty for cost in costs), sum(cost.ways for cost in costs))
    if op in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, items = argument
        return _repeat(least, most, items, follow)
    raise ValueError(
        "has a look-around, a back-reference, an anchor or an atomic group: it matches the whole key as is"
    )


def _repeat(least: int, most: Any, items: Any, follow: frozenset[str]) -> _Cost:
    if least == 0 and most == 1:
        once = _sequence(items, follow)
        return _Cost(once.first, True, 1 + once.ways)
    repeated = _characters(str(items[0][0]), items[0][1]) if len(items) == 1 else None
    if repeated is None:
        raise ValueError("repeats a group, or a part of several characters: only single ones and classes may repeat")
    shared = bool(repeated & follow) and least != most
    return _Cost(repeated, least == 0, 1 + min(int(most), MAX_KEY) - min(least, MAX_KEY) if shared else 1)


def _characters(op: str, argument: Any) -> frozenset[str] | None:
    """The characters of which an item takes one; None for any other item."""
    if op == "ANY":
        return _ALPHABET
    if op == "LITERAL":
        return frozenset((_kind(argument),))
    if op == "NOT_LITERAL":
        return _ALPHABET - {chr(argument)}
    return _class(argument) if op == "IN" else None


def _class(items: Sequence[tuple[Any, Any]]) -> frozenset[str]:
    letters: frozenset[str] = frozenset()
    negated = False
    for op, argument in items:
        name = str(op)
        if name == "NEGATE":
            negated = True
        elif name == "LITERAL":
            letters |= {_kind(argument)}
        elif name == "RANGE":
            low, high = argument
            letters |= {letter for letter in _ALPHABET if low <= ord(letter) <= high} | {_kind(low), _kind(high)}
        else:
            category = str(argument).replace("CATEGORY_", "").replace("UNI_", "")
            own = _CATEGORIES[category.replace("NOT_", "")]
            matched = frozenset(letter for letter in _ALPHABET if re.match(own, letter, re.ASCII))
            letters |= _ALPHABET - matched if category.startswith("NOT_") else matched
    # Beyond ASCII a negated class may still take what it names nothing of.
    return (_ALPHABET - letters) | {"é"} if negated else letters


def _kind(code: int) -> str:
    return chr(code) if code < 128 else "é"
