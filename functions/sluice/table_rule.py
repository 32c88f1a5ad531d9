"""A rule of tables.yaml: which topics it takes, and the table that it makes of one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Mapping, Optional, Tuple

from sluice import unavailable
from sluice.allowed_names import COLUMN, NAME
from sluice.catalog_names import DEFAULTS as CATALOG_DEFAULTS
from sluice.catalog_names import CatalogRule
from sluice.errors import InvalidConfiguration
from sluice.hidden_columns import LINEAGE_WORDS, ROW
from sluice.limits import DEFAULTS, Limits
from sluice.service_config import UNTOLD, ServicePolicy
from sluice.table_config import AUTO, COW, REWRITE_LIMIT_BYTES, SOFT, TableConfig

PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")


@dataclass(frozen=True)
class TableRule:
    """Topics to tables. Exactly one of `topic` (exact, or `*` for one dot-free part) and `topic_regex`.

    `table`, `record_key` and `partition_by` may hold `{1}` (a `*` or group by number) or `{name}`.
    """

    table: str
    record_key: Tuple[str, ...] = ()  # empty where append_only
    topic: Optional[str] = None
    topic_regex: Optional[str] = None
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

    @property
    def pattern(self) -> str:
        """The regular expression that a whole topic must match."""
        if self.topic_regex is not None:
            return self.topic_regex
        return "([^.]+)".join(re.escape(part) for part in (self.topic or "").split("*"))

    def apply(self, topic: str) -> Optional[TableConfig]:
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
        as_told = {name: getattr(self, name) for name in _OF_BOTH}
        position = None if self.position is None else fill(self.position)
        return TableConfig(
            **{
                **as_told,
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
