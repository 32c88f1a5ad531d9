"""What one sync of a table would do to the catalog, as a value that can be shown, carried out, or both.

What must change of a table that the catalog has already: only what differs, and nothing that is a user's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.catalog.partitions import PartitionChange
from sluice.catalog.tables import DEFINITION, LAST_COMMIT, OWNER, VIEW, TableInput, definition, owned
from sluice.catalog.views import column_changes, decoded
from sluice.config.table import TableConfig
from sluice.errors import NameTaken, PartitionKeysDiffer

SHOWN = 20  # partitions that a report names one by one


@dataclass(frozen=True)
class TablePlan:
    """One Hudi table of the catalog. `table` is its input as it is in the end; `change` None where nothing about it differs."""

    table: TableInput
    change: TableChange | None
    partitions: PartitionChange

    @property
    def name(self) -> str:
        """The table's name in the catalog."""
        return str(self.table["Name"])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, for a person and for scripts."""
        return {
            **_describe(self.name, self.change),
            "partitions": {
                "added": len(self.partitions.add),
                "dropped": len(self.partitions.drop),
                "corrected": len(self.partitions.update),
                "first": [f"+ {path}" for path in sorted(self.partitions.add.values())[:SHOWN]]
                + [f"- {'/'.join(values)}" for values in self.partitions.drop[:SHOWN]],
            },
        }


@dataclass(frozen=True)
class CatalogPlan:
    """A sync of one table. `instant` is the commit that the catalog shows afterwards; None where the table has none, or isn't to be shown."""

    table: str
    database: str
    instant: str | None
    create_database: bool = False
    tables: tuple[TablePlan, ...] = ()
    views: tuple[TableChange, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the catalog is as it should be."""
        return not (
            self.create_database
            or self.views
            or any(plan.change or not plan.partitions.nothing for plan in self.tables)
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values: what a report of the sync says."""
        return {
            "table": self.table,
            "database": self.database,
            "instant": self.instant,
            "changed": not self.nothing,
            "creates_database": self.create_database,
            "tables": [plan.to_dict() for plan in self.tables],
            "views": [_describe(str(view.table["Name"]), view) for view in self.views],
        }


def _describe(name: str, change: TableChange | None) -> dict[str, Any]:
    return {
        "name": name,
        "does": "nothing" if change is None else "create" if change.create else "update",
        "changes": list(change.described) if change else [],
    }


# The members of a found table that an update may give back (TableInput of the Glue API). What is left out of an update is lost.
_KEPT = ("Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor", "PartitionKeys",
         "ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable")  # fmt: skip


@dataclass(frozen=True)
class TableChange:
    """A table or view to create or to update: the whole input of the call, and what is new about it, for a person.

    `retyped` says that a column's type changed, which the partitions in the catalog then tell too.
    """

    table: TableInput
    described: tuple[str, ...]
    create: bool = False
    retyped: bool = False


def table_change(wished: TableInput, found: Mapping[str, Any] | None, config: TableConfig) -> TableChange | None:
    """The change that makes of what was found what is wished; None when it is that already.

    A user's own stays: other properties of table and serde, the description, comments that are there, further columns.
    Raises NameTaken, PartitionKeysDiffer.
    """
    if found is None:
        return TableChange(_marked(wished, config), (), create=True)
    _refuse_others(wished, found, config)
    is_view = wished["TableType"] == VIEW
    # Some catalogs answer "" for an owner that nobody set, and none takes it back.
    merged = {name: found[name] for name in _KEPT if found.get(name) not in (None, "")}
    described = _view_describe(wished, found) if is_view else []
    for name in ("TableType", "ViewOriginalText", "ViewExpandedText"):
        if name in wished:
            merged[name] = wished[name]
    described += _describe_parameters(found.get("Parameters") or {}, wished["Parameters"])
    merged["Parameters"] = {
        **{name: value for name, value in (found.get("Parameters") or {}).items() if not _outdated(name, wished)},
        **wished["Parameters"],
    }
    if is_view and "comment" in (found.get("Parameters") or {}):
        merged["Parameters"]["comment"] = found["Parameters"]["comment"]
    storage, storage_described, retyped = _storage(
        wished["StorageDescriptor"], found.get("StorageDescriptor") or {}, is_view
    )
    merged["StorageDescriptor"] = storage
    merged["PartitionKeys"], keys_described = _columns(
        wished["PartitionKeys"], found.get("PartitionKeys") or [], further=False
    )[:2]
    marked = _marked(merged, config)
    described += [*storage_described, *keys_described]
    if not described and _same(marked, found):
        return None
    return TableChange(marked, tuple(described) or ("the mark of the sync",), retyped=retyped)


def is_current(found: Mapping[str, Any], config: TableConfig, instant: str | None) -> bool:
    """Whether nothing is to be done for a table (or, without an instant, a view), without looking at its schema."""
    parameters = found.get("Parameters") or {}
    if instant is not None and parameters.get(LAST_COMMIT) != instant:
        return False
    return DEFINITION in parameters and parameters[DEFINITION] == definition(found, config)


def synced_until(found: Mapping[str, Any] | None) -> str | None:
    """The commit up to which a table's partitions are in the catalog; None when that isn't known."""
    value = ((found or {}).get("Parameters") or {}).get(LAST_COMMIT)
    return value if isinstance(value, str) and value.isdigit() else None


def _marked(table: TableInput, config: TableConfig) -> TableInput:
    return {**table, "Parameters": {**table["Parameters"], DEFINITION: definition(table, config)}}


def _refuse_others(wished: TableInput, found: Mapping[str, Any], config: TableConfig) -> None:
    """A table is ours, or another tool's sync of ours, by where it lies; a view by the mark that it was made with."""
    parameters = found.get("Parameters") or {}
    if wished["TableType"] == VIEW:
        ours = found.get("TableType") == VIEW and parameters.get(OWNER) == config.table
        what = (
            f"a view of {parameters[OWNER]}"
            if parameters.get(OWNER)
            else str(found.get("TableType") or "something else").lower()
        )
    else:
        location = str((found.get("StorageDescriptor") or {}).get("Location") or "")
        ours = found.get("TableType") != VIEW and _place(location) == _place(wished["StorageDescriptor"]["Location"])
        what = "a view" if found.get("TableType") == VIEW else f"a table at {location}"
    if not ours:
        raise NameTaken(
            f"{config.table} would be {wished['Name']} in the catalog, where {what} has that name",
            table=config.table,
            name=wished["Name"],
            found=what,
        )
    had, wants = _names(found.get("PartitionKeys")), _names(wished["PartitionKeys"])
    if had != wants:
        raise PartitionKeysDiffer(
            f"{wished['Name']} of the catalog is partitioned by {', '.join(had) or 'nothing'} and {config.table} by {', '.join(wants) or 'nothing'}",
            table=config.table,
            name=wished["Name"],
            found=had,
            wished=wants,
        )


def _place(location: str) -> str:
    """Spark and Hadoop write s3a:// and s3n:// for the same place."""
    scheme, separator, rest = location.partition("://")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}{separator}{rest.rstrip('/')}"


def _names(columns: Any) -> list[str]:
    return [str(column.get("Name", "")).lower() for column in columns or ()]


def _outdated(parameter: str, wished: TableInput) -> bool:
    """A property of ours that is wished no more: the seventh part of a schema that needs six now."""
    return owned(parameter) and parameter not in wished["Parameters"] and parameter not in (LAST_COMMIT, DEFINITION)


def _describe_parameters(found: Mapping[str, str], wished: Mapping[str, str]) -> list[str]:
    described = [
        f"{name}: {found.get(name, 'not set')} becomes {value}"
        for name, value in wished.items()
        if found.get(name) != value and len(value) < 100 and name != DEFINITION
    ]
    described += ["the schema in Spark's words"] * any(
        found.get(name) != value for name, value in wished.items() if len(value) >= 100
    )
    return described + [
        f"{name} goes" for name in found if owned(name) and name not in wished and name not in (LAST_COMMIT, DEFINITION)
    ]


def _view_describe(wished: TableInput, found: Mapping[str, Any]) -> list[str]:
    if wished["ViewOriginalText"] == found.get("ViewOriginalText"):
        return []
    after = decoded(wished["ViewOriginalText"]) or {}
    return column_changes(decoded(found.get("ViewOriginalText")), after) or ["the view's statement"]


def _storage(
    wished: Mapping[str, Any], found: Mapping[str, Any], is_view: bool
) -> tuple[dict[str, Any], list[str], bool]:
    columns, described, retyped = _columns(wished["Columns"], found.get("Columns") or [], further=not is_view)
    merged = {**found, "Columns": columns}
    for name in () if is_view else ("Location", "InputFormat", "OutputFormat"):
        if _place(str(found.get(name, ""))) != _place(wished[name]):
            described.append(f"{name} becomes {wished[name]}")
            merged[name] = wished[name]
    if is_view:
        return merged, [], False
    serde = found.get("SerdeInfo") or {}
    parameters = serde.get("Parameters") or {}
    described += [
        f"{name}: {parameters.get(name, 'not set')} becomes {value}"
        for name, value in wished["SerdeInfo"]["Parameters"].items()
        if parameters.get(name) != value
    ]
    if serde.get("SerializationLibrary") != wished["SerdeInfo"]["SerializationLibrary"]:
        described.append(f"the serde becomes {wished['SerdeInfo']['SerializationLibrary']}")
    merged["SerdeInfo"] = {
        **serde,
        **wished["SerdeInfo"],
        "Parameters": {**parameters, **wished["SerdeInfo"]["Parameters"]},
    }
    return merged, described, retyped


def _columns(
    wished: list[dict[str, str]], found: list[Mapping[str, Any]], *, further: bool
) -> tuple[list[dict[str, Any]], list[str], bool]:
    """The wished columns in their order, with what the user says of them, and then the user's `further` ones."""
    known = {str(column.get("Name", "")).lower(): column for column in found}
    made: list[dict[str, Any]] = []
    described = []
    retyped = False
    for column in wished:
        had = known.get(column["Name"])
        if had is None:
            described.append(f"adds {column['Name']} {column['Type']}")
        elif had.get("Type") != column["Type"]:
            described.append(f"{column['Name']} {had.get('Type')} becomes {column['Type']}")
            retyped = True
        elif not had.get("Comment") and column.get("Comment"):
            described.append(f"a comment on {column['Name']}")
        comment = (had or {}).get("Comment") or column.get("Comment")
        made.append({**(had or {}), **column, **({"Comment": comment} if comment else {})})
    names = set(_names(wished))
    made += [dict(column) for name, column in known.items() if further and name not in names]
    return made, described, retyped


def _same(marked: TableInput, found: Mapping[str, Any]) -> bool:
    """Whether the mark agrees, too: without it, every sync would look at the table anew."""
    return bool(marked["Parameters"][DEFINITION] == (found.get("Parameters") or {}).get(DEFINITION))
