"""Builds HTML and SVG from nodes. Anything that is not a node is escaped."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sluice_cli.terminal.words import QUANTITY, human_age, marked_up

_QUANTITY = re.compile(QUANTITY)
_VOID = frozenset({"meta", "br", "hr", "wbr", "rect", "line", "path"})


class Node(str):
    """Markup. Only `tag`, `joined` and constants make nodes."""


def tag(name: str, /, *children: object, **attributes: object) -> Node:
    """An element. Children other than nodes are text, and None is left out.

    In attribute names, a trailing `_` is dropped (`class_`) and any other `_` becomes a dash.
    """
    summary = "".join(
        f' {_attribute(key)}="{marked_up(str(value))}"' for key, value in attributes.items() if value is not None
    )
    if name in _VOID and not children:
        return Node(f"<{name}{summary}/>")
    return Node(f"<{name}{summary}>{joined(*children)}</{name}>")


def joined(*children: object) -> Node:
    """Nodes and texts in sequence."""
    return Node(
        "".join(child if isinstance(child, Node) else _text(str(child)) for child in children if child is not None)
    )


def prose(text: str) -> Node:
    """A text whose commands in backquotes are set as code."""
    parts = _COMMANDS.split(text)
    return joined(*(tag("code", part) if at % 2 else part for at, part in enumerate(parts)))


def _text(text: str) -> str:
    """A text whose numbers stay with their units."""
    return _QUANTITY.sub(lambda match: match[0].replace(" ", "\u00a0"), marked_up(text))


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


NONE = "-"  # the text of an empty cell

# The shape of each kind of state: those who don't see its colour see this. Paths in a square of 12.
DISC, HALF, RING = "M6 1a5 5 0 1 1 0 10a5 5 0 1 1 0-10Z", "M6 1a5 5 0 0 0 0 10Z", "M6 2a4 4 0 1 1 0 8a4 4 0 1 1 0-8Z"
BARS, TRIANGLE, DIAMOND = "M2 1h3v10H2ZM7 1h3v10H7Z", "M6 1 11.5 11H.5Z", "M6 .5 11.5 6 6 11.5.5 6Z"
CHECK = "M.8 6.8 2.6 5 5 7.2 9.4 1.8 11.2 3.3 5.2 10.6Z"
CROSS = "M2.8 1 6 4.2 9.2 1 11 2.8 7.8 6 11 9.2 9.2 11 6 7.8 2.8 11 1 9.2 4.2 6 1 2.8Z"


_COMMANDS = re.compile("`([^`]+)`")
_BREAKS = re.compile(r"(?<=\w[/._=-])(?=[^\s/._=-])")  # of a name or key; not behind the dashes of an option


@dataclass(frozen=True)
class StateKind:
    """A kind of state: the class of its colour, its shape, and the words of the legend."""

    colour: str
    path: str
    words: str
    outlined: bool = False


RUNNING = StateKind("good", DISC, "running, claimed")
STARTS = StateKind("good", HALF, "starting")
RESTS = StateKind("faint", RING, "idle, done, released, ended, up to date", outlined=True)
WAITS = StateKind("accent", DIAMOND, "pending, requested, due")
PAUSES = StateKind("warn", BARS, "paused")
WARNS = StateKind("warn", TRIANGLE, "late, parked, stuck")
FAILS = StateKind("bad", CROSS, "halted, failing, failed, lapsed, blocked, quarantined")
CALM = StateKind("good", CHECK, "nothing is wrong")
KINDS = (FAILS, WARNS, PAUSES, WAITS, RUNNING, STARTS, RESTS)


def kind_of(word: str) -> StateKind:
    """The kind of a state by its word, as the legend lists it."""
    return next((kind for kind in KINDS if word in kind.words.split(", ")), RESTS)


@dataclass(frozen=True)
class Cell:
    """A cell of a table. A column whose cells are all empty is left out."""

    content: Node
    classes: str = ""
    name: str = "td"
    empty: bool = False


def head(value: str, link: str | None = None) -> Cell:
    """The first cell of a row, which names its subject. `link` is the id of an element of the page."""
    name = breakable(value)
    return Cell(name if link is None else tag("a", name, href=f"#{link}"), name="th")


def breakable(name: str) -> Node:
    """A name or key that may break after `/ . _ - =`; copied, it has no blank there."""
    return Node(tag("wbr").join(map(marked_up, _BREAKS.split(name))))


def number(value: object) -> Cell:
    """A cell with a number, or with text that is aligned like one. None and the text of none are empty."""
    empty = value is None or value == NONE
    return Cell(joined(NONE if empty else f"{value:,}" if isinstance(value, int) else value), "n", empty=empty)


def count(value: int) -> Cell:
    """A cell with a number of which 0 says nothing."""
    return number(value or None)


def words(value: str) -> Cell:
    """A cell with a short text."""
    return Cell(joined(value), empty=value == NONE)


def long(value: str, colour: str | None = None) -> Cell:
    """A cell whose text may break anywhere."""
    return Cell(prose(value), " ".join(["long", *([colour] if colour else [])]), empty=value == NONE)


def code(value: str, link: str | None = None) -> Cell:
    """A cell with an identifier, linked to the element of the id `link`."""
    text = tag("code", Node(marked_up(value)))
    return Cell(text if link is None else tag("a", text, href=f"#{link}"), empty=value == NONE)


def badge(value: str, kind: StateKind | None = None) -> Cell:
    """A cell with a state: its shape, its colour and its word. `kind` is that of the word unless it is given."""
    return Cell(state(value, kind or kind_of(value)))


def state(value: str, kind: StateKind) -> Node:
    """A state: its shape, its colour and its word."""
    return tag("span", shape(kind), value, class_=f"state {kind.colour}")


def shape(kind: StateKind) -> Node:
    """The shape of a kind of state."""
    path = tag("path", d=kind.path, class_="outlined" if kind.outlined else None)
    return tag("svg", path, class_=f"shape {kind.colour}", viewBox="0 0 12 12", aria_hidden="true")


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], empty: str) -> Node:
    """A table without its empty columns, or the text `empty` without rows. Names of number columns begin with `#`.

    Each cell names its column, as a phone shows a row as a list.
    """
    if not rows:
        return nothing(empty)
    columns_kept = [place for place in range(len(columns)) if not all(row[place].empty for row in rows)]
    heads = [
        tag("th", name.lstrip("#"), scope="col", class_="n" if name.startswith("#") else None)
        for name in (columns[place] for place in columns_kept)
    ]
    body = [tag("tr", *(_cell(row[place], columns[place].lstrip("#")) for place in columns_kept)) for row in rows]
    return tag("div", tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body)), class_="wide")


def _cell(cell: Cell, column: str) -> Node:
    classes = " ".join(part for part in (cell.classes, "empty" if cell.empty else "") if part)
    if cell.name == "th":
        return tag("th", cell.content, scope="row", class_=classes or None)
    return tag("td", tag("span", cell.content), class_=classes or None, data_label=column)


def section(title: str, *children: object, identity: str | None = None) -> Node:
    """A section of the page under its title."""
    return tag("section", tag("h2", title), *children, id=identity)


def nothing(text: str) -> Node:
    """The text in place of an empty table."""
    return tag("p", text, class_="faint")


def wrong(text: str, number: int) -> Node:
    """A text about a number of things that are wrong, in colour if there are any."""
    return tag("span", text, class_="bad") if number else joined(text)


def age(ms: int | None) -> str:
    """A duration, or a dash without one."""
    return NONE if ms is None else f"{ms / 1000:.1f} s" if ms < 10_000 else human_age(ms)
