"""Tables for people: aligned in a terminal, where what is too wide gives way, and tab-separated in a pipe."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sluice.names import shortened
from sluice_cli.terminal.colours import STATES
from sluice_cli.terminal.guard import escaping_console, visible
from sluice_cli.terminal.output import say, wrapped
from sluice_cli.terminal.words import path_shortened

GAP, WRAPPED_WIDTH = 2, 24  # between columns of a table; of a text that is wrapped, at least
SHORTEST, LONGEST_SHORTENED = 14, 24  # characters that the narrowest table leaves of an id and of a long key
_NO_VALUE = frozenset({"", "-"})
_BLANK = frozenset({*_NO_VALUE, "0", "0 B"})


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    shorten: Collection[int] = (),
    paths: Collection[int] = (),
    apart: Collection[int] = (),
    minor: Sequence[int] = (),
    whole: bool = False,
    states: Collection[int] = (),
) -> None:
    """Print a table: aligned in a terminal, tab-separated in a pipe. `right` are the columns to align right.

    Where the terminal is too narrow, texts are wrapped between words, and `fitted_columns` decides what else gives way:
    columns that are empty or zero in every row, the folders of keys (`paths`), the middle of ids and texts (`shorten`),
    whole columns (`minor`, the first one first). Keys that are still too long get a line of their own below the row, in
    full. So do texts of `apart`, which may hold commands to copy, wrapped by `wrapped`, unless each fits into its row.
    Where that doesn't suffice, each row is printed below the other, a line for each column that has a value, in full;
    of a table without rows, its headings.
    `whole` is for tables of data: no column and no value of theirs gives way. Cells of `states` begin with one, which a
    terminal shows in its colour.
    """
    if not sys.stdout.isatty():
        for row in chain([columns], rows):
            print("\t".join(_cell(value) for value in row))
        return
    console = escaping_console()
    # Escaped here, since the table measures the cells.
    cells = [[_cell(value) for value in row] for row in chain([columns], rows)]
    below = sorted({*paths, *apart})
    fitted = fitted_columns(cells, console.width, shorten=shorten, paths=paths, apart=apart, minor=minor, whole=whole)
    if fitted is None:
        _print_below_each_other(console, cells, apart, states, whole=whole)
        return
    forms = {**dict.fromkeys(shorten, _words_shortened), **dict.fromkeys(paths, path_shortened)}
    shown = [
        [forms[at](row[at], width) if at in forms and number else row[at] for at, width in fitted.items()]
        for number, row in enumerate(cells)
    ]
    aligned = ["right" if at in set(right) else "left" for at in fitted]
    if all(at in fitted or _is_blank(cells, at) for at in below):
        console.print(_grid(shown, fitted, aligned, states))
    else:
        for number, (texts, row) in enumerate(zip(shown, cells, strict=True)):
            console.print(_grid([texts], fitted, aligned, states, headed=not number))
            for at in (at for at in below if at not in fitted and row[at] not in _BLANK):
                for part in wrapped(f"  {row[at]}", console.width) if at in apart else [f"  {row[at]}"]:
                    text = state_text(part) if number and at in states else Text(part, "" if number else "bold")
                    console.print(text, soft_wrap=True, highlight=False)
    if left_out := [cells[0][number] for number in minor if number not in fitted and not _is_blank(cells, number)]:
        say(f"Too narrow for {', '.join(left_out)}: a wider terminal, a pipe or --json shows everything")


def print_columns(
    items: Iterable[Any],
    columns: Mapping[str, str | Callable[[Any], object]],
    *,
    shorten: Sequence[str] = (),
    paths: Sequence[str] = (),
    apart: Sequence[str] = (),
    minor: Sequence[str] = (),
    states: Sequence[str] = (),
) -> None:
    """Print a table by its columns: a heading, and the key or attribute that an item has there, or a function of it.

    Headings that begin with `#` are of numbers, and aligned right. The other options name columns by their headings:
    see `print_table`.
    """
    names = [heading.lstrip("#") for heading in columns]
    print_table(
        names,
        [[_text(_value(item, of)) for of in columns.values()] for item in items],
        right=[at for at, heading in enumerate(columns) if heading.startswith("#")],
        shorten=[names.index(name) for name in shorten],
        paths=[names.index(name) for name in paths],
        apart=[names.index(name) for name in apart],
        minor=[names.index(name) for name in minor],
        states=[names.index(name) for name in states],
    )


def _value(item: Any, of: str | Callable[[Any], object]) -> object:
    if callable(of):
        return of(item)
    return item[of] if isinstance(item, Mapping) else getattr(item, of)


def _text(value: object) -> str:
    """A value as a cell has it: numbers with separators, the members of lists, `-` for None and empty lists."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(value) or "-"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def _grid(
    rows: Sequence[Sequence[str]],
    widths: Mapping[int, int],
    aligned: Sequence[str],
    states: Collection[int],
    *,
    headed: bool = True,
) -> Table:
    """Lay rows out in columns of these numbers and widths; the first row are the headings, if it is `headed`."""
    grid = Table(box=None, header_style="bold", pad_edge=False, show_header=headed)
    for heading, width, side in zip(rows[0], widths.values(), aligned, strict=True):
        # As Text a cell holds no markup.
        grid.add_column(Text(heading), justify="right" if side == "right" else "left", width=width, overflow="fold")
    for row in rows[1:] if headed else rows:
        grid.add_row(
            *(state_text(value) if at in states else Text(value) for at, value in zip(widths, row, strict=True))
        )
    return grid


def state_text(text: str) -> Text:
    """A text that begins with a state, this word in its colour."""
    shown, word = Text(text), re.match(r" *([a-z]+)", text)
    if word:
        shown.stylize(STATES.get(word[1], ""), *word.span(1))
    return shown


def fitted_columns(
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    shorten: Collection[int] = (),
    paths: Collection[int] = (),
    apart: Collection[int] = (),
    minor: Sequence[int] = (),
    whole: bool = False,
) -> dict[int, int] | None:
    """The columns that a terminal of `width` columns shows, each with its width. None if too few would be left.

    `rows` include the headings. Values of `paths` and `apart` that have no column get lines of their own. See
    `print_table` for what gives way, in the order that it names.
    """
    everything = tuple(range(len(rows[0])))
    filled = tuple(number for number in everything if number == 0 or not _is_blank(rows, number))
    attempts: list[tuple[tuple[int, ...], Collection[int], Collection[int]]] = [(everything, (), ())]
    if not whole:
        gone = [{*apart, *minor[:position]} for position in range(len(minor) + 1)]
        left = [tuple(number for number in filled if number not in away) for away in gone]
        attempts += [(filled, (), ()), (left[0], (), ()), *((numbers, shorten, paths) for numbers in left)]
        attempts += [(tuple(at for at in numbers if at not in paths), shorten, ()) for numbers in left if paths]
    for chosen, short, folders in attempts:
        shown = [[row[number] for number in chosen] for row in rows]
        places = [[chosen.index(number) for number in given if number in chosen] for given in (short, folders)]
        pieces = [chosen.index(number) for number in apart if number in chosen]
        widths = column_widths(shown, width, shorten=places[0], paths=places[1], pieces=pieces)
        if widths is not None:
            return dict(zip(chosen, widths, strict=True))
    return None


def _is_blank(rows: Sequence[Sequence[str]], number: int) -> bool:
    """True if a column is empty or zero in every row; rows[0] are the headings."""
    return len(rows) > 1 and all(row[number] in _BLANK for row in rows[1:])


def column_widths(
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    shorten: Collection[int] = (),
    paths: Collection[int] = (),
    pieces: Collection[int] = (),
) -> list[int] | None:
    """The widths of a table's columns in a terminal of `width` columns, headings included. None if they don't fit.

    A column is never narrower than its longest word, or what `shorten` leaves of it; one of `paths` than the last part
    of its longest key, and one of `pieces` than its longest text. A text that is wrapped gets at least WRAPPED_WIDTH.
    """
    columns = list(zip(*rows, strict=True))
    natural = [max(map(cell_len, column)) for column in columns]
    least = [
        natural[number]
        if number in pieces
        else max(
            _least_width(_last_part(value) if number in paths else value, short=bool(row) and number in shorten)
            for row, value in enumerate(column)
        )
        for number, column in enumerate(columns)
    ]
    left = width - GAP * (len(columns) - 1) - sum(least)
    if left < 0:
        return None
    widths = list(least)
    wanting = sorted(range(len(columns)), key=lambda number: natural[number] - least[number])
    for position, number in enumerate(wanting):
        more = min(natural[number] - least[number], left // (len(wanting) - position))
        widths[number] += more
        left -= more
    return widths


def _least_width(value: str, *, short: bool) -> int:
    words = [cell_len(word) for word in value.split(" ")]
    if short:
        words = [min(length, max(SHORTEST, min(length // 3, LONGEST_SHORTENED))) for length in words]
    return max(*words, min(cell_len(value), WRAPPED_WIDTH)) if len(words) > 1 else words[0]


def _last_part(key: str) -> str:
    return f"…/{key.rpartition('/')[2]}" if key.count("/") else key


def _words_shortened(value: str, width: int) -> str:
    return " ".join(shortened(word, width) for word in value.split(" "))


def _print_below_each_other(
    console: Console, cells: Sequence[Sequence[str]], prose: Collection[int], states: Collection[int], *, whole: bool
) -> None:
    """Print each row as a line for each column; those of `prose` are wrapped between words beside their heading.

    Columns without a value are left out, unless the row is `whole`.
    """
    headings = max(map(cell_len, cells[0]))
    if len(cells) == 1:
        for part in wrapped((" " * GAP).join(cells[0]), console.width):
            console.print(Text(part, "bold"), soft_wrap=True, highlight=False)
    for number, row in enumerate(cells[1:]):
        if number:
            console.print()
        for at, (heading, value) in enumerate(zip(cells[0], row, strict=True)):
            if value in _NO_VALUE and not whole:
                continue
            beside = console.width - headings - GAP
            first, *rest = wrapped(value, max(beside, WRAPPED_WIDTH)) if at in prose else [value]
            for label, part in [(heading, first), *(("", text.strip()) for text in rest)]:
                shown = state_text(part) if label and at in states else Text(part)
                line = Text.assemble((label.ljust(headings + GAP), "bold"), shown)
                console.print(line, soft_wrap=True, highlight=False)


def _cell(value: str) -> str:
    return visible(value.replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n"))
