"""Which columns of a source a table takes, under which names, and which values it stores in another form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.config.setting import Value, setting
from sluice.config.values import COLUMNS, whole

_SECRET = r"[A-Za-z0-9/_+=.@-]{1,256}"  # a name in Secrets Manager
_MOST_KEPT = 8  # characters of a masked value
_KEPT = whole(0, _MOST_KEPT)


def _renames(written: Any) -> dict[str, str]:
    if not isinstance(written, Mapping) or not all(isinstance(text, str) for pair in written.items() for text in pair):
        raise ValueError("is a mapping of the source's columns to the table's")
    COLUMNS.parse(list(written))
    if len({name.lower() for name in COLUMNS.parse(list(written.values()))}) < len(written):
        raise ValueError("gives two columns names that differ in case only")
    return dict(written)


def _masks(written: Any) -> dict[str, int]:
    if not isinstance(written, Mapping):
        return dict.fromkeys(COLUMNS.parse(written), 0)
    COLUMNS.parse([str(name) for name in written])
    try:
        return {str(name): _KEPT.parse(shown) for name, shown in written.items()}
    except ValueError as error:
        raise ValueError(f"maps a column to the number of last characters that stay, which {error}") from error


def _secret(written: Any) -> str:
    if not isinstance(written, str) or not re.fullmatch(_SECRET, written):
        raise ValueError("is the name of a secret: up to 256 letters, digits and /_+=.@-")
    return written


_NAME = {"type": "string", "minLength": 1}
_RENAMES = Value(_renames, {"type": "object", "additionalProperties": _NAME})
_MASKS = Value(
    _masks,
    {"anyOf": [*COLUMNS.schema["anyOf"], {"type": "object", "additionalProperties": dict(_KEPT.schema)}]},
    lambda masks: dict(masks) if any(masks.values()) else list(masks),
)
_SECRET_NAME = Value(_secret, {"type": "string", "pattern": f"^{_SECRET}$"})


@dataclass(frozen=True)
class ColumnRules:
    """What a table takes of its source's columns. Names are the source's; a null stays null in every form."""

    exclude: tuple[str, ...] = setting(
        (), COLUMNS, "Columns that the table doesn't take, one or a list.", default_text="none"
    )
    rename: Mapping[str, str] = setting(
        dict, _RENAMES, "The table's names of columns: `{eml: email}`. The rule's other settings use these names."
    )
    hash: tuple[str, ...] = setting(
        (),
        COLUMNS,
        "Columns stored as HMAC-SHA-256 of their text, in hexadecimal. Equal values stay equal.",
        default_text="none",
    )
    key: str | None = setting(
        None,
        _SECRET_NAME,
        "The secret in AWS Secrets Manager that holds the key of `hash`. Runs may read those named `STACK/...`.",
        default_text="none",
    )
    mask: Mapping[str, int] = setting(
        dict,
        _MASKS,
        "Columns stored as `***`: one, a list, or `{card: 4}` to keep the last characters of long enough values.",
        default_text="none",
    )

    @property
    def conceals(self) -> bool:
        """True if values of the source must not be stored as they come."""
        return bool(self.exclude or self.hash or self.mask)

    @property
    def any(self) -> bool:
        """True if a row differs from the source's."""
        return self.conceals or bool(self.rename)

    @property
    def concealed(self) -> tuple[str, ...]:
        """The source's columns whose values are not stored as they come."""
        return (*self.exclude, *self.hash, *self.mask)

    @property
    def named(self) -> tuple[str, ...]:
        """The source's columns that the rules name, each once."""
        return tuple(dict.fromkeys((*self.concealed, *self.rename)))

    def excludes(self, column: str) -> bool:
        """True if the table doesn't take a source's column. As in Spark, case doesn't count, here and below."""
        return column.lower() in _lower(self.exclude)

    def hashes(self, column: str) -> bool:
        return column.lower() in _lower(self.hash)

    def mask_of(self, column: str) -> int | None:
        """How many characters of a source's masked column stay; None for a column that isn't masked."""
        return next((shown for name, shown in self.mask.items() if name.lower() == column.lower()), None)

    def table_name(self, column: str) -> str:
        return next((new for name, new in self.rename.items() if name.lower() == column.lower()), column)

    def hashed(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the table's columns that hold hashes, sorted."""
        hashes = _lower(self.table_name(name) for name in self.hash)
        return tuple(sorted(name for name in names if name.lower() in hashes))

    def mistakes(self) -> dict[str, str]:
        """What contradicts itself, by key."""
        mistakes: dict[str, str] = {}
        gone, hashed, masked = _lower(self.exclude), _lower(self.hash), _lower(self.mask)
        for key, twice in (
            ("hash", gone & hashed),
            ("mask", masked & (gone | hashed)),
            ("rename", gone & _lower(self.rename)),
        ):
            if twice:
                mistakes[key] = f"names {', '.join(sorted(twice))}, which another key of columns excludes or changes"
        if self.hash and self.key is None:
            mistakes["key"] = "is missing: hash needs the name of the secret that holds its key"
        elif self.key is not None and not self.hash:
            mistakes["key"] = "has no effect without hash"
        return mistakes

    def misused(self, name: str, *, as_is: bool) -> str | None:
        """Why no setting can name this column of the table: what was done to it. Hashes count with `as_is` only."""
        given = _lower(self.rename.values())
        if name.lower() in _lower(self.rename) and name.lower() not in given:
            return f"{name} is renamed to {self.table_name(name)} by columns"
        if self.excludes(name) and name.lower() not in given:
            return f"{name} is excluded by columns"
        if name.lower() in _lower(self.table_name(column) for column in self.mask):
            return f"{name} is masked by columns"
        if as_is and self.hashed((name,)):
            return f"{name} is hashed by columns"
        return None


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)
