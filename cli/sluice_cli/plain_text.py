"""Untrusted text where it is shown: without what would steer a terminal, and as text of HTML and XML."""

from __future__ import annotations

import html
import unicodedata

_STEERING = frozenset(
    {"Cc", "Cf", "Cs", "Zl", "Zp"}
)  # controls, formats such as the bidirectional ones, lone surrogates, separators of lines


def visible(text: str) -> str:
    r"""The text on one line, with every character that isn't printed as itself escaped: a bell becomes `\x07`."""
    if text.isprintable():
        return text
    return "".join(_escaped(mark) if unicodedata.category(mark) in _STEERING else mark for mark in text)


def marked_up(text: str) -> str:
    """The text as the content or a quoted attribute of HTML and XML 1.0, which has no way to write most control characters."""
    return html.escape(visible(text), quote=True)


def shortened(text: str, length: int) -> str:
    """At most `length` characters: the middle of a longer text is left out, since keys differ at their ends."""
    if len(text) <= length:
        return text
    head = (length - 1) // 3
    return f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"


def _escaped(mark: str) -> str:
    code = ord(mark)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
