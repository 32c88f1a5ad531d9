"""Values in words: ages, sizes, counts and lists of names, and texts that are cut to a length."""

from __future__ import annotations

import html
from collections.abc import Sequence

from sluice.errors import UsageError
from sluice.names import shortened
from sluice_cli.terminal.guard import visible

LONGEST_TEXT = 160  # characters of a reason or an error beside others
# A number and its unit, which stand on one line.
QUANTITY = r"\d (?:d|h|min|s|ms|B|[KMGT]iB)(?!\w)"


def human_bytes(count: int) -> str:
    """1536 -> "1.5 KiB"."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def human_age(milliseconds: int | None) -> str:
    """95000 -> "1 min 35 s"; "-" where it is not known."""
    if milliseconds is None:
        return "-"
    seconds = max(0, milliseconds) // 1000
    for length, unit, part_length, part in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= length:
            rest = seconds % length // part_length
            return f"{seconds // length} {unit} {rest} {part}" if rest else f"{seconds // length} {unit}"
    return f"{seconds} s"


def counted(count: int, noun: str, many: str | None = None) -> str:
    """(1, "object") -> "1 object", (2, "object") -> "2 objects"; (2, "batch", "batches") for other plurals."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def round_number(least: float) -> int:
    """The next 1, 2 or 5 times a power of ten."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if least <= size * factor:
                return size * factor
        size *= 10


def first_names(names: Sequence[str], most: int) -> str:
    """The first `most` names, and how many more there are: `a, b and 3 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def marked_up(text: str) -> str:
    """The text as content or quoted attribute of HTML and XML 1.0, which allows few control characters."""
    return html.escape(visible(text), quote=True)


def cut(text: str, characters: int | None = LONGEST_TEXT) -> str:
    """The beginning of the first line of a text, up to a whole word. No part of a command in backquotes is left.

    None for `characters` leaves the line whole.
    """
    line = (text.splitlines() or [""])[0]
    if characters is None or len(line) <= characters:
        return line
    begin = line[: characters - 1]
    begin = begin.rpartition("`")[0] if begin.count("`") % 2 else begin.rpartition(" ")[0] or begin
    return f"{begin.rstrip(' ,;:')}…"


def path_shortened(key: str, length: int) -> str:
    """Shorten a key to `length` characters. Its folders are left out from the front: `…/partition=0/file.avro`.

    Where not even the last part fits, the middle of the key is left out. `sluice trace` takes both.
    """
    if len(key) <= length:
        return key
    end = key[len(key) - (length - 1) :] if length > 1 else ""
    folder, slash, rest = end.partition("/")
    return f"…/{rest}" if slash else shortened(key, length)


def is_named(given: str, name: str) -> bool:
    """True if `given` is the beginning of a name, or the name as `shortened` shows it: `b-97…8fa55e00f`.

    Raises UsageError if `given` is empty, since every name begins so.
    """
    if not given:
        raise UsageError("The name is empty", next_step="Is a variable unset? Give a name or its beginning")
    head, cut, tail = given.partition("…")
    return name.startswith(head) and (not cut or len(name) > len(head) + len(tail) and name.endswith(tail))
