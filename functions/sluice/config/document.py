"""All rules and lanes of tables.yaml as one document with a version, and which table a topic goes to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sluice.changes.hidden_columns import LINEAGE_WORDS
from sluice.config import placeholders as unavailable
from sluice.config.catalog import CatalogRule
from sluice.config.lane import LaneConfig
from sluice.config.limits import Limits
from sluice.config.services import ServicePolicy
from sluice.config.table import AUTO, REWRITE_LIMIT_BYTES, TableConfig, TableRule
from sluice.errors import InvalidConfiguration
from sluice.names import TOPIC

FORMAT = 1  # of the canonical JSON


@dataclass(frozen=True)
class TopicMatch:
    """A topic's table, or the reason (for the ledger and the operator) why there is none."""

    config: TableConfig | None
    reason: str | None = None


@dataclass(frozen=True)
class Configuration:
    """All rules in order and all lanes; `version` is a hash of the content."""

    rules: tuple[TableRule, ...] = ()
    lanes: tuple[LaneConfig, ...] = (LaneConfig(),)
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

    def table_for_topic(self, topic: str) -> TableConfig | None:
        """The table of a topic, None when no rule takes it."""
        return self.match_topic(topic).config

    def lane(self, name: str) -> LaneConfig:
        """A lane's sizes; a lane that the file only mentions has the defaults."""
        return next((lane for lane in self.lanes if lane.name == name), LaneConfig(name=name))

    def lane_of(self, table: TableConfig) -> LaneConfig:
        """The lane that a table shares runs with."""
        return self.lane(table.lane)

    def lane_names(self) -> tuple[str, ...]:
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
                raise InvalidConfiguration(
                    f"The configuration has format {found!r}, this release reads {FORMAT}", format=found
                )
            configuration = cls(
                rules=tuple(_rule(values) for values in content["rules"]),
                lanes=tuple(LaneConfig(**values) for values in content["lanes"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidConfiguration(
                f"The configuration is not what `sluice config push` writes: {error}", cause=repr(error)[:200]
            ) from error
        if content.get("version") != configuration.version:
            raise InvalidConfiguration(
                "The configuration was changed by hand: its content doesn't have the version it names",
                version=content.get("version"),
            )
        return configuration

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "rules": [_describe(rule) for rule in self.rules],
            "lanes": [_describe_lane(lane) for lane in self.lanes],
        }


def _describe(rule: TableRule) -> dict[str, Any]:
    """A rule as plain JSON values. What came with a later release isn't told where nobody changed it, so that a file keeps its version."""
    lists = {
        "record_key": list(rule.record_key),
        "partition_by": list(rule.partition_by),
        "raw": list(rule.raw),
        "lineage": list(rule.lineage),
        "coordinates": list(rule.coordinates),
    }
    summary = {
        **asdict(rule),
        **lists,
        "hudi": dict(rule.hudi),
        "limits": rule.limits.changed(),
        "json_types": dict(rule.json_types),
        "services": rule.services.changed(),
        "catalog": rule.catalog.changed(),
    }
    return {name: value for name, value in summary.items() if name not in _LATER or value != _LATER[name]}


def _describe_lane(lane: LaneConfig) -> dict[str, Any]:
    """Likewise for a lane."""
    return {
        name: value
        for name, value in asdict(lane).items()
        if name != "service_slice_s" or value != LaneConfig.service_slice_s
    }


_LATER: dict[str, Any] = {
    "limits": {},
    "json_types": {},
    "coordinates": [],
    "position": None,
    "append_only": False,
    "raw": [],
    "rewrite_limit_bytes": REWRITE_LIMIT_BYTES,
    "lineage": list(LINEAGE_WORDS),
    "unavailable_value": unavailable.DEFAULT,
    "services": {},
    "catalog": {},
    "index": AUTO,
}


def _rule(values: Mapping[str, Any]) -> TableRule:
    built = {
        "limits": Limits.of(values.get("limits", {})),
        "services": ServicePolicy.of(values.get("services", {})),
        "catalog": CatalogRule.of(values.get("catalog", {})),
    }
    rule = TableRule(**{**values, **built, "lineage": tuple(values.get("lineage", LINEAGE_WORDS))})
    return replace(
        rule,
        record_key=tuple(rule.record_key),
        partition_by=tuple(rule.partition_by),
        raw=tuple(rule.raw),
        coordinates=tuple(rule.coordinates),
    )


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
