"""What a table is configured to be, and what of that can't change once it has data.

A rule of tables.yaml: which topics it takes, and the table that it makes of one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

from sluice.changes.hidden_columns import LINEAGE_WORDS, ROW
from sluice.config import placeholders as unavailable
from sluice.config.catalog import DEFAULTS as CATALOG_DEFAULTS
from sluice.config.catalog import CatalogRule
from sluice.config.limits import DEFAULTS, Limits
from sluice.config.services import UNTOLD, ServicePolicy
from sluice.errors import ChangeRefused, InvalidConfiguration
from sluice.names import COLUMN, NAME

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
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
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
    raw: tuple[str, ...] = ()
    rewrite_limit_bytes: int = REWRITE_LIMIT_BYTES
    json_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    lineage: tuple[str, ...] = LINEAGE_WORDS
    position: str | None = None
    append_only: bool = False
    services: ServicePolicy = UNTOLD
    catalog: CatalogRule = CATALOG_DEFAULTS
    coordinates: tuple[str, ...] = ()
    index: str = AUTO

    def to_dict(self) -> dict[str, Any]:
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
    def pinned(self) -> dict[str, Any]:
        """What the ledger remembers of a table that has data."""
        return {
            "record_key": list(self.record_key),
            "partition_by": list(self.partition_by),
            "table_type": self.table_type,
            "topic": self.topic,
            "position": self.position,
            "coordinates": list(self.coordinates),
        }


def refuse_changes(config: TableConfig, pinned: Mapping[str, Any] | None) -> None:
    """Refuse a key, partition columns or type other than those the table's data has (`pinned`; None: no data).

    In place these can't change: stored keys, paths and log files would disagree with the new value.
    Raises ChangeRefused naming every difference.
    """
    if not pinned:
        return
    wanted = config.pinned
    changes = {name: (pinned[name], wanted[name]) for name in PINNED if name in pinned and pinned[name] != wanted[name]}
    if changes:
        summary = "; ".join(
            f"{name} is {had!r} and would become {wants!r}" for name, (had, wants) in sorted(changes.items())
        )
        raise ChangeRefused(f"{config.table} has data whose {summary}", table=config.table, changes=changes)


PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")


@dataclass(frozen=True)
class TableRule:
    """Topics to tables. Exactly one of `topic` (exact, or `*` for one dot-free part) and `topic_regex`.

    `table`, `record_key` and `partition_by` may hold `{1}` (a `*` or group by number) or `{name}`.
    """

    table: str
    record_key: tuple[str, ...] = ()  # empty where append_only
    topic: str | None = None
    topic_regex: str | None = None
    partition_by: tuple[str, ...] = ()
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
    raw: tuple[str, ...] = ()
    rewrite_limit_bytes: int = REWRITE_LIMIT_BYTES
    json_types: Mapping[str, str] = field(default_factory=dict, hash=False)
    lineage: tuple[str, ...] = LINEAGE_WORDS
    position: str | None = None
    append_only: bool = False
    services: ServicePolicy = UNTOLD
    catalog: CatalogRule = CATALOG_DEFAULTS
    coordinates: tuple[str, ...] = ()
    index: str = AUTO

    @property
    def pattern(self) -> str:
        """The regular expression that a whole topic must match."""
        if self.topic_regex is not None:
            return self.topic_regex
        return "([^.]+)".join(re.escape(part) for part in (self.topic or "").split("*"))

    def apply(self, topic: str) -> TableConfig | None:
        """The table this rule makes of a topic; None when it doesn't match.

        Raises InvalidConfiguration when the rule matches and gives a name that no table can have.
        """
        matched = _compiled(self.pattern).fullmatch(topic)
        if matched is None:
            return None
        values = {str(number): value for number, value in enumerate(matched.groups(), 1)}
        values.update(matched.groupdict())

        def fill(template: str) -> str:
            return PLACEHOLDER.sub(lambda found: values.get(found[1]) or "", template)

        table = fill(self.table)
        database, _, name = table.partition(".")
        record_key = (ROW,) if self.append_only else tuple(fill(column) for column in self.record_key)
        partition_by = tuple(fill(column) for column in self.partition_by)
        if not (NAME.fullmatch(database) and NAME.fullmatch(name)):
            raise InvalidConfiguration(
                f"The rule for {self.topic or self.topic_regex} gives topic {topic} the table name {table!r}; names are lower-case letters, digits and _",
                topic=topic,
                table=table,
            )
        services = replace(self.services, cluster_by=tuple(fill(column) for column in self.services.cluster_by))
        named = (
            record_key + partition_by + services.cluster_by + (() if self.position is None else (fill(self.position),))
        )
        wrong = [column for column in named if not COLUMN.fullmatch(column)]
        if wrong:
            raise InvalidConfiguration(
                f"The rule for {self.topic or self.topic_regex} gives topic {topic} the column name {wrong[0]!r}",
                topic=topic,
                column=wrong[0],
            )
        as_described = {name: getattr(self, name) for name in _OF_BOTH}
        position = None if self.position is None else fill(self.position)
        return TableConfig(
            **{
                **as_described,
                "table": table,
                "database": database,
                "name": name,
                "topic": topic,
                "record_key": record_key,
                "partition_by": partition_by,
                "hudi": dict(self.hudi),
                "json_types": dict(self.json_types),
                "position": position,
                "services": services,
            }
        )


_OF_BOTH = frozenset(each.name for each in fields(TableRule)) & frozenset(each.name for each in fields(TableConfig))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
