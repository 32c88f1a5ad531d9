"""Decides what a sync changes in a catalog table or view: only what differs, and nothing that a user added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.catalog.tables import DEFINITION, LAST_COMMIT, OWNER, VIEW, TableInput, definition, owned
from sluice.catalog.views import column_changes, decoded
from sluice.config.table import TableConfig
from sluice.errors import NameTaken, PartitionKeysDiffer

# The members of a found table that TableInput of the Glue API accepts. An update loses those that it leaves out.
_KEPT = (
    "Name Description Owner LastAccessTime LastAnalyzedTime Retention StorageDescriptor PartitionKeys ViewOriginalText "
    "ViewExpandedText TableType Parameters TargetTable"
).split()


@dataclass(frozen=True)
class TableChange:
    """A table or view to create or update: the full input of the call, and a description of what changes.

    `retyped` is set if a column's type changes, which the partitions in the catalog must follow.
    """

    table: TableInput
    described: tuple[str, ...]
    create: bool = False
    retyped: bool = False


def table_change(wished: TableInput, present: Mapping[str, Any] | None, config: TableConfig) -> TableChange | None:
    """The change from the found table to the wished one, None if nothing differs.

    The user's own parts stay: other properties of table and serde, the description, existing comments, further columns.
    Raises NameTaken and PartitionKeysDiffer.
    """
    if present is None:
        return TableChange(_marked(wished, config), (), create=True)
    _refuse_others(wished, present, config)
    is_view = wished["TableType"] == VIEW
    # Some catalogs return "" for an unset owner, and none accepts it.
    merged = {name: present[name] for name in _KEPT if present.get(name) not in (None, "")}
    described = _view_describe(wished, present) if is_view else []
    for name in ("TableType", "ViewOriginalText", "ViewExpandedText"):
        if name in wished:
            merged[name] = wished[name]
    parameters = present.get("Parameters") or {}
    described += _describe_parameters(parameters, wished["Parameters"])
    merged["Parameters"] = {
        **{name: value for name, value in parameters.items() if not _outdated(name, wished["Parameters"])},
        **wished["Parameters"],
    }
    if is_view and "comment" in parameters:
        merged["Parameters"]["comment"] = parameters["comment"]
    storage, storage_described, retyped = _storage(
        wished["StorageDescriptor"], present.get("StorageDescriptor") or {}, is_view
    )
    merged["StorageDescriptor"] = storage
    merged["PartitionKeys"], keys_described = _columns(
        wished["PartitionKeys"], present.get("PartitionKeys") or [], further=False
    )[:2]
    marked = _marked(merged, config)
    described += [*storage_described, *keys_described]
    # Without a mark that agrees, every sync would check the table again.
    if not described and marked["Parameters"][DEFINITION] == parameters.get(DEFINITION):
        return None
    return TableChange(marked, tuple(described) or ("the mark of the sync",), retyped=retyped)


def is_current(present: Mapping[str, Any], config: TableConfig, instant: str | None) -> bool:
    """True if a table (or, without an instant, a view) needs no change, decided without its schema."""
    parameters = present.get("Parameters") or {}
    if instant is not None and parameters.get(LAST_COMMIT) != instant:
        return False
    return DEFINITION in parameters and parameters[DEFINITION] == definition(present, config)


def synced_until(present: Mapping[str, Any] | None) -> str | None:
    """The commit up to which a table's partitions are in the catalog, None if unknown."""
    value = ((present or {}).get("Parameters") or {}).get(LAST_COMMIT)
    return value if isinstance(value, str) and value.isdigit() else None


def _marked(table: TableInput, config: TableConfig) -> TableInput:
    return {**table, "Parameters": {**table["Parameters"], DEFINITION: definition(table, config)}}


def _refuse_others(wished: TableInput, present: Mapping[str, Any], config: TableConfig) -> None:
    """Refuse a name that something else has: a table at another location, or a view without Sluice's mark.

    A table at the right location may come from another tool's sync.
    """
    parameters = present.get("Parameters") or {}
    if wished["TableType"] == VIEW:
        ours = present.get("TableType") == VIEW and parameters.get(OWNER) == config.table
        what = (
            f"a view of {parameters[OWNER]}"
            if parameters.get(OWNER)
            else str(present.get("TableType") or "something else").lower()
        )
    else:
        location = str((present.get("StorageDescriptor") or {}).get("Location") or "")
        ours = present.get("TableType") != VIEW and _place(location) == _place(wished["StorageDescriptor"]["Location"])
        what = "a view" if present.get("TableType") == VIEW else f"a table at {location}"
    if not ours:
        raise NameTaken(
            f"{config.table} would be {wished['Name']} in the catalog, where {what} has that name",
            table=config.table,
            name=wished["Name"],
            found=what,
        )
    present_names, wants = _names(present.get("PartitionKeys")), _names(wished["PartitionKeys"])
    if present_names != wants:
        raise PartitionKeysDiffer(
            f"{wished['Name']} of the catalog is partitioned by {', '.join(present_names) or 'nothing'} "
            f"and {config.table} by {', '.join(wants) or 'nothing'}",
            table=config.table,
            name=wished["Name"],
            found=present_names,
            wished=wants,
        )


def _place(location: str) -> str:
    """The location with one scheme: Spark and Hadoop also write s3a:// and s3n://."""
    scheme, separator, rest = location.partition("://")
    return f"{'s3' if scheme in ('s3a', 's3n') else scheme}{separator}{rest.rstrip('/')}"


def _names(columns: Any) -> list[str]:
    return [str(column.get("Name", "")).lower() for column in columns or ()]


def _outdated(parameter: str, wished: Mapping[str, str]) -> bool:
    """True for a property of the sync that is obsolete, such as the seventh part of a schema that has six now."""
    return owned(parameter) and parameter not in wished and parameter not in (LAST_COMMIT, DEFINITION)


def _describe_parameters(present: Mapping[str, str], wished: Mapping[str, str]) -> list[str]:
    described = [
        f"{name}: {present.get(name, 'not set')} becomes {value}"
        for name, value in wished.items()
        if present.get(name) != value and len(value) < 100 and name != DEFINITION
    ]
    described += ["the schema in Spark's words"] * any(
        present.get(name) != value for name, value in wished.items() if len(value) >= 100
    )
    return described + [f"{name} goes" for name in present if _outdated(name, wished)]


def _view_describe(wished: TableInput, present: Mapping[str, Any]) -> list[str]:
    if wished["ViewOriginalText"] == present.get("ViewOriginalText"):
        return []
    after = decoded(wished["ViewOriginalText"]) or {}
    return column_changes(decoded(present.get("ViewOriginalText")), after) or ["the view's statement"]


def _storage(
    wished: Mapping[str, Any], present: Mapping[str, Any], is_view: bool
) -> tuple[dict[str, Any], list[str], bool]:
    columns, described, retyped = _columns(wished["Columns"], present.get("Columns") or [], further=not is_view)
    merged = {**present, "Columns": columns}
    for name in () if is_view else ("Location", "InputFormat", "OutputFormat"):
        if name in wished and _place(str(present.get(name, ""))) != _place(wished[name]):
            described.append(f"{name} becomes {wished[name]}")
            merged[name] = wished[name]
    if is_view:
        return merged, [], False
    if "SerdeInfo" not in wished:  # Iceberg's
        return merged, described, retyped
    serde = present.get("SerdeInfo") or {}
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
    wished: list[dict[str, str]], present: list[Mapping[str, Any]], *, further: bool
) -> tuple[list[dict[str, Any]], list[str], bool]:
    """The wished columns in their order with the user's comments, then the user's `further` columns."""
    present_columns = {str(column.get("Name", "")).lower(): column for column in present}
    made: list[dict[str, Any]] = []
    described = []
    retyped = False
    for column in wished:
        present_column = present_columns.get(column["Name"])
        if present_column is None:
            described.append(f"adds {column['Name']} {column['Type']}")
        elif present_column.get("Type") != column["Type"]:
            described.append(f"{column['Name']} {present_column.get('Type')} becomes {column['Type']}")
            retyped = True
        elif not present_column.get("Comment") and column.get("Comment"):
            described.append(f"a comment on {column['Name']}")
        comment = (present_column or {}).get("Comment") or column.get("Comment")
        made.append({**(present_column or {}), **column, **({"Comment": comment} if comment else {})})
    names = set(_names(wished))
    made += [dict(column) for name, column in present_columns.items() if further and name not in names]
    return made, described, retyped
