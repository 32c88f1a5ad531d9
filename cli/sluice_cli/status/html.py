"""Builds HTML and SVG from nodes. Anything that is not a node is escaped."""

from __future__ import annotations

from collections.abc import Sequence

from sluice_cli.terminal.output import human_age, marked_up

_VOID = frozenset({"meta", "br", "hr", "rect", "line", "path"})


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
        "".join(child if isinstance(child, Node) else marked_up(str(child)) for child in children if child is not None)
    )


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


CHARACTERS = 160  # shown of a reason or an error


def head(value: str) -> Node:
    """The first cell of a row, which names its subject."""
    return tag("th", value, scope="row")


def number(value: object) -> Node:
    """A cell with a number, or with text that is aligned like one."""
    return tag("td", f"{value:,}" if isinstance(value, int) else value, class_="n")


def long(value: str, kind: str | None = None) -> Node:
    """A cell whose text may break anywhere. `kind` is its colour."""
    return tag("td", value, class_=" ".join(["long", *([kind] if kind else [])]))


def badge(value: str, kind: str) -> Node:
    """A cell with a coloured state."""
    return tag("td", tag("span", value, class_=f"state {kind}"))


def table(columns: Sequence[str], rows: Sequence[Sequence[Node]], empty: str) -> Node:
    """A table, or the text `empty` without rows. The names of number columns begin with `#`."""
    if not rows:
        return nothing(empty)
    heads = [tag("th", name.lstrip("#"), class_="n" if name.startswith("#") else None) for name in columns]
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *(tag("tr", *row) for row in rows))),
        class_="wide",
    )


def nothing(text: str) -> Node:
    """The text in place of an empty table."""
    return tag("p", text, class_="faint")


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 1] + "…"


def age(ms: int | None) -> str:
    """A duration, or a dash without one."""
    return "-" if ms is None else f"{ms / 1000:.1f} s" if ms < 10_000 else human_age(ms)
