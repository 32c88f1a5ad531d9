"""How CSV objects are written: header, null and delimiter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.config.setting import Value, setting
from sluice.config.values import COLUMNS, text


def _character(written: Any) -> str:
    if not isinstance(written, str) or len(written) != 1 or not written.isascii() or written in '"\r\n\0':
        raise ValueError("is one ASCII character, and neither a quote nor a line end")
    return written


_CHARACTER = Value(_character, {"type": "string", "minLength": 1, "maxLength": 1})


@dataclass(frozen=True)
class CsvForm:
    """What CSV objects of a table look like, beside RFC 4180."""

    columns: tuple[str, ...] = setting(
        (), COLUMNS, "The columns in their order, where objects have no header.", default_text="the first row's"
    )
    null_text: str = setting(
        "", text(100), 'The unquoted text that stands for null: `"NULL"` where AWS DMS writes.', default_text="empty"
    )
    delimiter: str = setting(",", _CHARACTER, "What stands between two values.")
    escape: str | None = setting(
        None,
        _CHARACTER,
        "What stands before a quote within quotes, in place of a second one: `'\\'` where Spark writes.",
        default_text="none",
    )
