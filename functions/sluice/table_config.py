"""What a table is configured to be, and what of that can't change once it has data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Dict, Mapping, Optional, Tuple

from sluice import unavailable
from sluice.catalog_names import DEFAULTS as CATALOG_DEFAULTS
from sluice.catalog_names import CatalogRule
from sluice.errors import ChangeRefused
from sluice.hidden_columns import LINEAGE_WORDS
from sluice.limits import DEFAULTS, Limits
from sluice.service_config import UNTOLD, ServicePolicy

COW, MOR = "cow", "mor"
SOFT, HARD, IGNORE = "soft", "hard", "ignore"
TABLE_TYPES = (COW, MOR)
DELETE_MODES = (SOFT, HARD, IGNORE)
AUTO, SIMPLE, RECORD = "auto", "simple", "record"
INDEXES = (AUTO, SIMPLE, RECORD)

REWRITE_LIMIT_BYTES = 10 * 1024**3  # some minutes of one run's work

PINNED = (
    "record_key",
    "partition_by",
    "table_type",
    "position",
    "coordinates",
)  # what must not change once a table has data


@dataclass(frozen=True)
class TableConfig:
    """One table. `table` is "database.name"; times are seconds and hours; `hudi` are extra write options.

    `raw` are the columns whose dates and times are stored as the connector counts them ("*" for all); a table larger
    than `rewrite_limit_bytes` isn't written anew for a change of type that needs it.
    `json_types` say what columns of JSON without a schema are (json_types.py). `position` is the column that orders the
    rows of a query-based capture, None where the source's log does. An `append_only` table's key is hidden_columns.ROW;
    `coordinates` are the columns in which its records carry their Kafka partition and offset, empty where they don't.
    `services` is what table services do with it, and when. `index` is what finds rows: of INDEXES, AUTO by the table's size.
    """

    table: str
    database: str
    name: str
    topic: str
    record_key: Tuple[str, ...]
    partition_by: Tuple[str, ...] = ()
    table_type: str = COW
    delete_mode: str = SOFT
    keep_deleted_values: bool = False
    unavailable_value: str = unavailable.DEFAULT
    freshness_s: int = 60
    time_travel_h: int = 168
    lane: str = "main"
    generation: int = 0
    hudi: Mapping[str, str] = field(default_factory=dict, hash=False)
    paused: bool = False
    limits: Limits = DEFAULTS
    raw: Tuple[str, ...] = ()
    rewrite_limit_bytes: int = REWRITE_LIMIT_BYTES
    json_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    lineage: Tuple[str, ...] = LINEAGE_WORDS
    position: Optional[str] = None
    append_only: bool = False
    services: ServicePolicy = UNTOLD
    catalog: CatalogRule = CATALOG_DEFAULTS
    coordinates: Tuple[str, ...] = ()
    index: str = AUTO

    def to_dict(self) -> Dict[str, Any]:
        """Plain JSON values; `from_dict` gives the same TableConfig back."""
        lists = {
            "record_key": list(self.record_key),
            "partition_by": list(self.partition_by),
            "raw": list(self.raw),
            "lineage": list(self.lineage),
            "coordinates": list(self.coordinates),
        }
        return {
            **asdict(self),
            **lists,
            "hudi": dict(self.hudi),
            "json_types": dict(self.json_types),
            "limits": self.limits.changed(),
            "services": self.services.changed(),
            "catalog": self.catalog.changed(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableConfig:
        """Read what `to_dict` wrote, also by a release that knew fewer keys."""
        known = {item.name for item in fields(cls)}
        taken = {name: value for name, value in values.items() if name in known}
        lists = {name: tuple(taken.get(name, ())) for name in ("record_key", "partition_by", "raw", "coordinates")}
        lineage = tuple(taken.get("lineage", LINEAGE_WORDS))
        built = {
            "limits": Limits.of(taken.get("limits", {})),
            "services": ServicePolicy.of(taken.get("services", {})),
            "catalog": CatalogRule.of(taken.get("catalog", {})),
        }
        return cls(**{**taken, **lists, **built, "lineage": lineage})

    @property
    def pinned(self) -> Dict[str, Any]:
        """What the ledger remembers of a table that has data."""
        return {
            "record_key": list(self.record_key),
            "partition_by": list(self.partition_by),
            "table_type": self.table_type,
            "topic": self.topic,
            "position": self.position,
            "coordinates": list(self.coordinates),
        }


def refuse_changes(config: TableConfig, pinned: Optional[Mapping[str, Any]]) -> None:
    """Refuse a key, partition columns or type other than those the table's data has (`pinned`; None: no data).

    In place these can't change: stored keys, paths and log files would disagree with the new value.
    Raises ChangeRefused naming every difference.
    """
    if not pinned:
        return
    wanted = config.pinned
    changes = {name: (pinned[name], wanted[name]) for name in PINNED if name in pinned and pinned[name] != wanted[name]}
    if changes:
        told = "; ".join(
            f"{name} is {had!r} and would become {wants!r}" for name, (had, wants) in sorted(changes.items())
        )
        raise ChangeRefused(f"{config.table} has data whose {told}", table=config.table, changes=changes)
