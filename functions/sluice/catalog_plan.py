"""What one sync of a table would do to the catalog, as a value that can be shown, carried out, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

from sluice.catalog_changes import TableChange
from sluice.catalog_partitions import PartitionChange
from sluice.catalog_tables import TableInput

SHOWN = 20  # partitions that a report names one by one


@dataclass(frozen=True)
class TablePlan:
    """One Hudi table of the catalog. `table` is its input as it is in the end; `change` None where nothing about it differs."""

    table: TableInput
    change: Optional[TableChange]
    partitions: PartitionChange

    @property
    def name(self) -> str:
        """The table's name in the catalog."""
        return str(self.table["Name"])

    def to_dict(self) -> Dict[str, Any]:
        """Plain JSON values, for a person and for scripts."""
        return {
            **_told(self.name, self.change),
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
    instant: Optional[str]
    create_database: bool = False
    tables: Tuple[TablePlan, ...] = ()
    views: Tuple[TableChange, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether the catalog is as it should be."""
        return not (
            self.create_database
            or self.views
            or any(plan.change or not plan.partitions.nothing for plan in self.tables)
        )

    def to_dict(self) -> Dict[str, Any]:
        """Plain JSON values: what a report of the sync says."""
        return {
            "table": self.table,
            "database": self.database,
            "instant": self.instant,
            "changed": not self.nothing,
            "creates_database": self.create_database,
            "tables": [plan.to_dict() for plan in self.tables],
            "views": [_told(str(view.table["Name"]), view) for view in self.views],
        }


def _told(name: str, change: Optional[TableChange]) -> Dict[str, Any]:
    return {
        "name": name,
        "does": "nothing" if change is None else "create" if change.create else "update",
        "changes": list(change.told) if change else [],
    }
