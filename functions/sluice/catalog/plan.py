"""The plan of a sync: the changes to the catalog as a value that can be shown, applied, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.catalog.partitions import PartitionChange
from sluice.catalog.table_change import TableChange
from sluice.catalog.tables import TableInput

SHOWN = 20  # partitions that a report names


@dataclass(frozen=True)
class TablePlan:
    """One Hudi or Iceberg table of the catalog. `table` is its final input, `change` None if only partitions differ.

    `version` is Glue's number of the definition that the change is made of; None where another may be replaced, too.
    """

    table: TableInput
    change: TableChange | None
    partitions: PartitionChange
    version: str | None = None

    @property
    def name(self) -> str:
        return str(self.table["Name"])

    def to_dict(self) -> dict[str, Any]:
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
    """The sync of one table.

    `instant` is the commit that the catalog shows afterwards, None without a commit or with the sync switched off.
    """

    table: str
    database: str
    instant: str | None
    create_database: bool = False
    tables: tuple[TablePlan, ...] = ()
    views: tuple[TableChange, ...] = ()

    @property
    def nothing(self) -> bool:
        changed = any(plan.change or not plan.partitions.nothing for plan in self.tables)
        return not (self.create_database or self.views or changed)

    def to_dict(self) -> dict[str, Any]:
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
