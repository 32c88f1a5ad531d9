"""Tables of the status page, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence

from sluice_cli.html_nodes import Node, tag
from sluice_cli.output import human_age

CHARACTERS = 160  # of a reason or an error


def head(value: str) -> Node:
    """The first cell of a row: what the row is about."""
    return tag("th", value, scope="row")


def number(value: object) -> Node:
    """A cell of a number, or of what is set like one."""
    return tag("td", f"{value:,}" if isinstance(value, int) else value, class_="n")


def long(value: str, kind: str | None = None) -> Node:
    """A cell whose text may break anywhere; `kind` is its colour."""
    return tag("td", value, class_=" ".join(["long", *([kind] if kind else [])]))


def badge(value: str, kind: str) -> Node:
    """A cell of a state in its colour."""
    return tag("td", tag("span", value, class_=f"state {kind}"))


def table(columns: Sequence[str], rows: Sequence[Sequence[Node]], empty: str) -> Node:
    """Rows under the names of their columns, numbers' with `#` before them; the text `empty` where there is none."""
    if not rows:
        return nothing(empty)
    heads = [tag("th", name.lstrip("#"), class_="n" if name.startswith("#") else None) for name in columns]
    return tag(
        "div",
        tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *(tag("tr", *row) for row in rows))),
        class_="wide",
    )


def nothing(text: str) -> Node:
    """What is said instead of an empty table."""
    return tag("p", text, class_="faint")


def cut(text: str) -> str:
    """The beginning of a long text."""
    return text if len(text) <= CHARACTERS else text[: CHARACTERS - 1] + "…"


def age(ms: int | None) -> str:
    """A time that passed, or a dash."""
    return "-" if ms is None else f"{ms / 1000:.1f} s" if ms < 10_000 else human_age(ms)
