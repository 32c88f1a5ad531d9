"""What a table is called in the Glue catalog: its database, its tables, and the views over them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from sluice.errors import InvalidConfiguration

SNAPSHOT, READ_OPTIMIZED, REAL_TIME = "", "_ro", "_rt"  # the suffixes are Hudi's (HiveSyncTool)
PLACEHOLDERS = ("{database}", "{table}")
_NAME = re.compile(
    r"[a-z_][a-z0-9_]{0,254}"
)  # Glue's length; lower case, since it folds case and SQL engines compare without
_FILLED = re.compile(r"\{(?:database|table)\}")


@dataclass(frozen=True)
class CatalogRule:
    """How a rule's tables appear in the catalog: patterns of {database} and {table}, which are those of the table's own name.

    `tables` names the Hudi tables, with Hudi's suffixes in merge-on-read; `views` the views over them for Athena and Trino, None
    for no views. `sync` False keeps the table out of the catalog.
    """

    sync: bool = True
    database: str = "{database}"
    tables: str = "{table}_all"
    views: str | None = "{table}"

    def changed(self) -> dict[str, Any]:
        """What differs from the defaults; `of` gives the same rule back."""
        return {name: value for name, value in asdict(self).items() if value != getattr(DEFAULTS, name)}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CatalogRule:
        """A rule from what differs, also as written by a release that knew other keys."""
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known})

    def mistakes(self) -> dict[str, str]:
        """What is wrong with the patterns: key -> what it must be."""
        found = {}
        for key in ("database", "tables", "views"):
            pattern = getattr(self, key)
            if pattern is not None and not _NAME.fullmatch(_FILLED.sub("a", pattern)):
                found[key] = "is a name of lower-case letters, digits and _, with {database} and {table}"
        for key in ("tables", "views"):
            pattern = getattr(self, key)
            if key not in found and pattern is not None and "{table}" not in pattern:
                found[key] = "must use {table}: else two tables would have one name"
        if not found and self.views == self.tables:
            found["views"] = "is the name of the tables themselves; give another, or off"
        return found


DEFAULTS = CatalogRule()


@dataclass(frozen=True)
class CatalogEntry:
    """One Hudi table of the catalog and the view over it: `kind` is SNAPSHOT, READ_OPTIMIZED or REAL_TIME."""

    kind: str
    table: str
    view: str | None


@dataclass(frozen=True)
class CatalogNames:
    """The catalog's names of one table."""

    database: str
    entries: tuple[CatalogEntry, ...]

    @property
    def all(self) -> tuple[str, ...]:
        """Every table and view, tables first."""
        return tuple(entry.table for entry in self.entries) + tuple(entry.view for entry in self.entries if entry.view)


def catalog_names(rule: CatalogRule, database: str, table: str, *, merge_on_read: bool) -> CatalogNames:
    """The names of one table. A merge-on-read table has none without a suffix: it would give two answers.

    Raises InvalidConfiguration for a name that Glue can't have, or that two of them would share.
    """

    def filled(pattern: str, suffix: str) -> str:
        made = pattern.replace("{database}", database).replace("{table}", table) + suffix
        if not _NAME.fullmatch(made):
            raise InvalidConfiguration(
                f"{database}.{table} would be {made!r} in the catalog; names are at most 255 lower-case letters, digits and _",
                table=f"{database}.{table}",
                name=made,
            )
        return made

    kinds = (READ_OPTIMIZED, REAL_TIME) if merge_on_read else (SNAPSHOT,)
    entries = tuple(
        CatalogEntry(kind, filled(rule.tables, kind), None if rule.views is None else filled(rule.views, kind))
        for kind in kinds
    )
    names = CatalogNames(filled(rule.database, ""), entries)
    if len(set(names.all)) < len(names.all):
        raise InvalidConfiguration(
            f"Two entries of {database}.{table} would share a name in the catalog: {', '.join(names.all)}",
            table=f"{database}.{table}",
        )
    return names
