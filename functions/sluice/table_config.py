"""What a table is configured to be, and which table a topic goes to."""
from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Dict, Mapping, Optional, Tuple

from sluice import unavailable
from sluice.catalog_names import DEFAULTS as CATALOG_DEFAULTS
from sluice.catalog_names import CatalogRule
from sluice.errors import ChangeRefused, InvalidConfiguration
from sluice.hidden_columns import LINEAGE_WORDS, ROW
from sluice.lane_config import LaneConfig
from sluice.limits import DEFAULTS, Limits
from sluice.service_config import UNTOLD, ServicePolicy

FORMAT = 1  # of the canonical JSON
COW, MOR = "cow", "mor"
SOFT, HARD, IGNORE = "soft", "hard", "ignore"
TABLE_TYPES = (COW, MOR)
DELETE_MODES = (SOFT, HARD, IGNORE)
AUTO, SIMPLE, RECORD = "auto", "simple", "record"
INDEXES = (AUTO, SIMPLE, RECORD)

# Lower-case names only: Glue folds case, and a name becomes an S3 path, a Hudi name and SQL.
NAME = re.compile(r"[a-z_][a-z0-9_]{0,127}")
LANE = re.compile(r"[a-z0-9-]{1,32}")
COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")  # Avro's own rule for names
TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")  # Kafka's own rule
PLACEHOLDER = re.compile(r"\{([A-Za-z0-9_]+)\}")

REWRITE_LIMIT_BYTES = 10 * 1024**3  # some minutes of one run's work

PINNED = ("record_key", "partition_by", "table_type", "position", "coordinates")  # what must not change once a table has data


@dataclass(frozen=True)
class TableConfig:
    """One table. `table` is "database.name"; times are seconds and hours; `hudi` are extra write options.

    `raw` are the columns whose dates and times are stored as the connector counts them ("*" for all); a table larger
    than `rewrite_limit_bytes` isn't written anew for a decimal that needs it.
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
        lists = {"record_key": list(self.record_key), "partition_by": list(self.partition_by), "raw": list(self.raw), "lineage": list(self.lineage),
                 "coordinates": list(self.coordinates)}
        return {**asdict(self), **lists, "hudi": dict(self.hudi), "json_types": dict(self.json_types), "limits": self.limits.changed(), "services": self.services.changed(), "catalog": self.catalog.changed()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TableConfig:
        """Read what `to_dict` wrote, also by a release that knew fewer keys."""
        known = {item.name for item in fields(cls)}
        taken = {name: value for name, value in values.items() if name in known}
        lists = {name: tuple(taken.get(name, ())) for name in ("record_key", "partition_by", "raw", "coordinates")}
        lineage = tuple(taken.get("lineage", LINEAGE_WORDS))
        built = {"limits": Limits.of(taken.get("limits", {})), "services": ServicePolicy.of(taken.get("services", {})), "catalog": CatalogRule.of(taken.get("catalog", {}))}
        return cls(**{**taken, **lists, **built, "lineage": lineage})

    @property
    def pinned(self) -> Dict[str, Any]:
        """What the ledger remembers of a table that has data."""
        return {"record_key": list(self.record_key), "partition_by": list(self.partition_by), "table_type": self.table_type, "topic": self.topic,
                "position": self.position, "coordinates": list(self.coordinates)}


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
            raise InvalidConfiguration(f"The rule for {self.topic or self.topic_regex} gives topic {topic} the table name {table!r}; names are lower-case letters, digits and _", topic=topic, table=table)
        services = replace(self.services, cluster_by=tuple(fill(column) for column in self.services.cluster_by))
        named = record_key + partition_by + services.cluster_by + (() if self.position is None else (fill(self.position),))
        wrong = [column for column in named if not COLUMN.fullmatch(column)]
        if wrong:
            raise InvalidConfiguration(f"The rule for {self.topic or self.topic_regex} gives topic {topic} the column name {wrong[0]!r}", topic=topic, column=wrong[0])
        return TableConfig(
            table=table, database=database, name=name, topic=topic, record_key=record_key, partition_by=partition_by,
            table_type=self.table_type, delete_mode=self.delete_mode, keep_deleted_values=self.keep_deleted_values, unavailable_value=self.unavailable_value,
            freshness_s=self.freshness_s, time_travel_h=self.time_travel_h, lane=self.lane,
            generation=self.generation, hudi=dict(self.hudi), paused=self.paused, limits=self.limits, lineage=self.lineage,
            raw=self.raw, rewrite_limit_bytes=self.rewrite_limit_bytes, json_types=dict(self.json_types),
            position=None if self.position is None else fill(self.position), append_only=self.append_only, services=services, catalog=self.catalog,
            coordinates=self.coordinates, index=self.index,
        )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@dataclass(frozen=True)
class TopicMatch:
    """A topic's table, or the reason (for the ledger and the operator) why there is none."""

    config: Optional[TableConfig]
    reason: Optional[str] = None


@dataclass(frozen=True)
class Configuration:
    """All rules in order and all lanes; `version` is a hash of the content."""

    rules: Tuple[TableRule, ...] = ()
    lanes: Tuple[LaneConfig, ...] = (LaneConfig(),)
    version: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "lanes", tuple(sorted(self.lanes, key=lambda lane: lane.name)))
        object.__setattr__(self, "version", hashlib.sha256(_canonical(self._content()).encode()).hexdigest()[:32])

    def match_topic(self, topic: str) -> TopicMatch:
        """The table of a topic by the first rule that takes it, or why there is none."""
        if not TOPIC.fullmatch(topic):
            return TopicMatch(None, "the topic's name is not one that Kafka allows")
        for rule in self.rules:
            try:
                config = rule.apply(topic)
            except InvalidConfiguration as error:
                return TopicMatch(None, error.message)
            if config is not None:
                return TopicMatch(config)
        return TopicMatch(None, "no rule of tables.yaml takes this topic")

    def table_for_topic(self, topic: str) -> Optional[TableConfig]:
        """The table of a topic, None when no rule takes it."""
        return self.match_topic(topic).config

    def lane(self, name: str) -> LaneConfig:
        """A lane's sizes; a lane that the file only mentions has the defaults."""
        return next((lane for lane in self.lanes if lane.name == name), LaneConfig(name=name))

    def lane_of(self, table: TableConfig) -> LaneConfig:
        """The lane that a table shares runs with."""
        return self.lane(table.lane)

    def lane_names(self) -> Tuple[str, ...]:
        """Every lane that the file configures or a rule uses, sorted."""
        return tuple(sorted({lane.name for lane in self.lanes} | {rule.lane for rule in self.rules}))

    def to_json(self) -> str:
        """Canonical JSON: the same content gives the same bytes."""
        return _canonical({**self._content(), "version": self.version})

    @classmethod
    def from_json(cls, text: str) -> Configuration:
        """Read canonical JSON. Raises InvalidConfiguration for anything `to_json` didn't write."""
        try:
            content = json.loads(text)
            found = content["format"]
            if found != FORMAT:
                raise InvalidConfiguration(f"The configuration has format {found!r}, this release reads {FORMAT}", format=found)
            configuration = cls(
                rules=tuple(_rule(values) for values in content["rules"]),
                lanes=tuple(LaneConfig(**values) for values in content["lanes"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidConfiguration(f"The configuration is not what `sluice config push` writes: {error}", cause=repr(error)[:200]) from error
        if content.get("version") != configuration.version:
            raise InvalidConfiguration("The configuration was changed by hand: its content doesn't have the version it names", version=content.get("version"))
        return configuration

    def _content(self) -> Dict[str, Any]:
        return {
            "format": FORMAT,
            "rules": [_told(rule) for rule in self.rules],
            "lanes": [_told_lane(lane) for lane in self.lanes],
        }


def _told(rule: TableRule) -> Dict[str, Any]:
    """A rule as plain JSON values. What came with a later release isn't told where nobody changed it, so that a file keeps its version."""
    lists = {"record_key": list(rule.record_key), "partition_by": list(rule.partition_by), "raw": list(rule.raw), "lineage": list(rule.lineage),
             "coordinates": list(rule.coordinates)}
    told = {**asdict(rule), **lists, "hudi": dict(rule.hudi), "limits": rule.limits.changed(), "json_types": dict(rule.json_types), "services": rule.services.changed(), "catalog": rule.catalog.changed()}
    return {name: value for name, value in told.items() if name not in _LATER or value != _LATER[name]}


def _told_lane(lane: LaneConfig) -> Dict[str, Any]:
    """Likewise for a lane."""
    return {name: value for name, value in asdict(lane).items() if name != "service_slice_s" or value != LaneConfig.service_slice_s}


_LATER: Dict[str, Any] = {
    "limits": {}, "json_types": {}, "coordinates": [], "position": None, "append_only": False, "raw": [], "rewrite_limit_bytes": REWRITE_LIMIT_BYTES,
    "lineage": list(LINEAGE_WORDS), "unavailable_value": unavailable.DEFAULT, "services": {}, "catalog": {}, "index": AUTO,
}


def _rule(values: Mapping[str, Any]) -> TableRule:
    built = {"limits": Limits.of(values.get("limits", {})), "services": ServicePolicy.of(values.get("services", {})), "catalog": CatalogRule.of(values.get("catalog", {}))}
    rule = TableRule(**{**values, **built, "lineage": tuple(values.get("lineage", LINEAGE_WORDS))})
    return replace(rule, record_key=tuple(rule.record_key), partition_by=tuple(rule.partition_by), raw=tuple(rule.raw), coordinates=tuple(rule.coordinates))


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


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
        told = "; ".join(f"{name} is {had!r} and would become {wants!r}" for name, (had, wants) in sorted(changes.items()))
        raise ChangeRefused(f"{config.table} has data whose {told}", table=config.table, changes=changes)
