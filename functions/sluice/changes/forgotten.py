"""Marks of forgotten rows: the hash of each key, and the position up to which its changes stay out of the table."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal, Inexact, InvalidOperation

SEPARATOR = "\x1f"
MOST_MARKS = 500  # about 50 KB of the table's properties, which each run reads
_ISO_MOMENT = re.compile(r"(\d{4,}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?Z?")
_DECIMAL = re.compile(r"decimal\(\d+,(\d+)\)")
_EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])


def key_hash(table: str, key: Sequence[str]) -> str:
    """SHA-256 of a table's name and the texts of a key's values, in the order of the record key.

    Texts are those of Spark's cast: `5`, `true`, `2024-01-31`, `2024-01-31 12:00:00.5`. The hash names a key and does
    not hide one that can be guessed.
    """
    return hashlib.sha256(SEPARATOR.join((table, *key)).encode("utf-8")).hexdigest()


def hashed_text(text: str, spark_type: str) -> str:
    """The text of a key's value that its hash is made of (`key_hash`), of any that means the same."""
    moment = _ISO_MOMENT.fullmatch(text) if spark_type == "timestamp" else None
    if moment is not None:
        fraction = (moment[3] or "").rstrip("0")
        return f"{moment[1]} {moment[2]}{'.' if fraction else ''}{fraction}"
    digits = _DECIMAL.fullmatch(spark_type)
    if digits is not None:
        try:
            return str(Decimal(text).quantize(Decimal(1).scaleb(-int(digits[1])), context=_EXACT))
        except ArithmeticError:  # no number, or one with more digits than the table's
            return text
    return text


def marks(noted: str | None) -> Mapping[str, str]:
    """The positions by hash of a table's note; empty without one."""
    return {str(name): str(position) for name, position in json.loads(noted).items()} if noted else {}


def with_mark(noted: str | None, hash: str, position: str) -> str | None:
    """The note with one more mark, or with a higher position of the same; None where there is no room for it."""
    positions = dict(marks(noted))
    positions[hash] = max(position, positions.get(hash, ""))
    return json.dumps(positions, sort_keys=True, separators=(",", ":")) if len(positions) <= MOST_MARKS else None
