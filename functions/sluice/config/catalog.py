"""Names of a table in the Glue catalog: its database, its Hudi tables, and the views over them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sluice.config.setting import Value
from sluice.errors import InvalidConfiguration

SNAPSHOT, READ_OPTIMIZED, REAL_TIME = "", "_ro", "_rt"  # the suffixes are Hudi's (HiveSyncTool)
# Names have the length that Glue takes, in lower case: Glue folds case, and SQL engines compare without it.
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,254}")
_SWITCHES = ("athena_native", "debezium")
_OF_TABLES = ("tables", "views", "iceberg")
_FILLED = re.compile(r"\{(?:database|table)\}")


@dataclass(frozen=True)
class CatalogRule:
    """How a rule's tables appear in the catalog: patterns of {database} and {table}, the parts of the table's name.

    `tables` names the Hudi tables; Hudi's suffixes are added for merge-on-read. `views` names the views over them for
    Athena and Trino; None makes no views. With `debezium` they show all rows, with Debezium's metadata and Hudi's
    columns. `iceberg` names the Iceberg tables of rules with `iceberg: true`. Without `sync` the table is not in the
    catalog. `athena_native` is the value of Athena's table property for its newer reader of Hudi; None leaves that
    property as it is.
    """

    sync: bool = True
    database: str = "{database}"
    tables: str = "{table}_all"
    views: str | None = "{table}"
    athena_native: bool | None = None
    debezium: bool = False
    iceberg: str = "{table}_iceberg"

    def mistakes(self) -> dict[str, str]:
        """Return what is wrong with the patterns: key -> what it must be."""
        mistakes = {}
        for key in ("database", *_OF_TABLES):
            pattern = getattr(self, key)
            if pattern is not None and not _NAME.fullmatch(_FILLED.sub("a", pattern)):
                mistakes[key] = "is a name of lower-case letters, digits and _, with {database} and {table}"
        for key in _OF_TABLES:
            pattern = getattr(self, key)
            if key not in mistakes and pattern is not None and "{table}" not in pattern:
                mistakes[key] = "must use {table}: otherwise two tables would share a name"
        if not mistakes and self.views == self.tables:
            mistakes["views"] = "is the name of the Hudi tables; choose another, or off"
        if self.debezium and self.views is None:
            mistakes["debezium"] = "is for views, and there are none"
        return mistakes


def _parse(written: Any) -> dict[str, Any]:
    """Return the fields that the file sets; CatalogRule.mistakes checks the patterns."""
    if isinstance(written, bool) or written in ("on", "off"):  # on and off are true and false to YAML
        return {"sync": written in ("on", True)}
    if not isinstance(written, dict) or not set(written) <= {"database", *_OF_TABLES, *_SWITCHES}:
        words = " and ".join(_SWITCHES)
        raise ValueError(f"is off, or a mapping of database, tables, views and iceberg to patterns, with {words}")
    patterns = {key: None if key == "views" and said in (False, "off") else said for key, said in written.items()}
    for key, pattern in patterns.items():
        if key in _SWITCHES and not isinstance(pattern, bool):
            raise ValueError(f"has {key}, which is true or false")
        if key not in _SWITCHES and not isinstance(pattern, str) and not (key == "views" and pattern is None):
            raise ValueError(f"has {key}, which is a pattern such as {{table}}_all")
    return {"sync": True, **patterns}


def _written(rule: CatalogRule) -> str | dict[str, Any]:
    if not rule.sync:
        return "off"
    default = CatalogRule()
    values = ((key, getattr(rule, key)) for key in ("database", *_OF_TABLES, *_SWITCHES))
    own = {key: "off" if value is None else value for key, value in values if value != getattr(default, key)}
    return own or "on"


_PATTERN = {"type": "string", "minLength": 1, "maxLength": 255}
CATALOG = Value(
    _parse,
    {
        "anyOf": [
            {"type": "boolean"},
            {"enum": ["on", "off"]},
            {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "database": _PATTERN,
                    "tables": _PATTERN,
                    "views": {"anyOf": [_PATTERN, {"const": False}]},
                    **dict.fromkeys(_SWITCHES, {"type": "boolean"}),
                    "iceberg": _PATTERN,
                },
            },
        ]
    },
    _written,
)


@dataclass(frozen=True)
class CatalogEntry:
    """One Hudi table in the catalog and the view over it. `kind` is SNAPSHOT, READ_OPTIMIZED or REAL_TIME."""

    kind: str
    table: str
    view: str | None


@dataclass(frozen=True)
class CatalogNames:
    """The names of one table in the catalog; `iceberg` is that of its Iceberg table, None without one."""

    database: str
    entries: tuple[CatalogEntry, ...]
    iceberg: str | None = None

    @property
    def all(self) -> tuple[str, ...]:
        """All Hudi tables, then all views, then the Iceberg table."""
        views = (entry.view for entry in self.entries)
        return (*(entry.table for entry in self.entries), *filter(None, (*views, self.iceberg)))


def catalog_names(
    rule: CatalogRule, database: str, table: str, *, merge_on_read: bool, iceberg: bool = False
) -> CatalogNames:
    """Return the names of one table. A merge-on-read table has no name without a suffix: it would have two meanings.

    Raises InvalidConfiguration for a name that Glue doesn't allow, or that two entries would share.
    """

    def filled(pattern: str, suffix: str) -> str:
        made = pattern.replace("{database}", database).replace("{table}", table) + suffix
        if not _NAME.fullmatch(made):
            raise InvalidConfiguration(
                f"{database}.{table} would be {made!r} in the catalog; "
                "names are at most 255 lower-case letters, digits and _",
                table=f"{database}.{table}",
                name=made,
            )
        return made

    kinds = (READ_OPTIMIZED, REAL_TIME) if merge_on_read else (SNAPSHOT,)
    entries = tuple(
        CatalogEntry(kind, filled(rule.tables, kind), None if rule.views is None else filled(rule.views, kind))
        for kind in kinds
    )
    names = CatalogNames(filled(rule.database, ""), entries, filled(rule.iceberg, "") if iceberg else None)
    if len(set(names.all)) < len(names.all):
        raise InvalidConfiguration(
            f"Two entries of {database}.{table} would share a name in the catalog: {', '.join(names.all)}",
            table=f"{database}.{table}",
        )
    return names
