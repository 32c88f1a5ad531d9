"""The stored configuration: rules, lanes and what is ignored, of tables.yaml, as one JSON document with a version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.config.key_pattern import KeyName
from sluice.config.lane import LaneConfig
from sluice.config.rules.ignore import Ignore
from sluice.config.rules.table_rule import TableRule, histories_taken
from sluice.config.setting import restored, stored
from sluice.config.table import JSON, TableConfig
from sluice.errors import InvalidConfiguration
from sluice.names import TOPIC, TOPIC_REFUSED

FORMAT = 1  # of the canonical JSON
MARKER_FORMAT = "marker"  # of a key that says that a full dump is complete

# The first release stored these settings with every rule and lane. A later setting is stored only if it differs from
# its default, so that a new release gives an unchanged file the same version. New settings never come in here.
_ALWAYS_STORED = frozenset(
    (
        "table record_key topic topic_regex partition_by table_type delete_mode keep_deleted_values freshness_s "
        "time_travel_h lane generation hudi paused name linger_s max_age_s batch_objects batch_bytes batch_rows "
        "driver_cores driver_memory_gb executor_cores executor_memory_gb min_executors max_executors"
    ).split()
)


@dataclass(frozen=True)
class TopicMatch:
    """The table of a topic, or the reason why it has none."""

    config: TableConfig | None
    reason: str | None = None


@dataclass(frozen=True)
class KeyMatch:
    """What a key tells by a rule's `key_pattern`, or as the marker of a full dump, and the format of its object.

    `otherwise` is that of a key whose extension says none.
    """

    name: KeyName
    format: str | None
    otherwise: str | None = None


@dataclass(frozen=True)
class Configuration:
    """All rules in their order, all lanes, and what is ignored. `version` is a hash of the content."""

    rules: tuple[TableRule, ...] = ()
    lanes: tuple[LaneConfig, ...] = (LaneConfig(),)
    version: str = ""
    ignore: Ignore = Ignore()

    def __post_init__(self) -> None:
        object.__setattr__(self, "lanes", tuple(sorted(self.lanes, key=lambda lane: lane.name)))
        object.__setattr__(self, "version", hashlib.sha256(_canonical(self._content()).encode()).hexdigest()[:32])

    def match_topic(self, topic: str, also_for: str = "") -> TopicMatch:
        """Return the table that the first matching rule makes of a topic, or why there is none.

        With `also_for`, the table of that name which a rule with `also` makes of it.
        """
        if not TOPIC.fullmatch(topic):
            return TopicMatch(None, TOPIC_REFUSED)
        if self.ignore.of_topic(topic) is not None:
            return TopicMatch(None, "`ignore` of tables.yaml leaves this topic out")
        for rule in self.rules:
            if rule.also != bool(also_for) or also_for and rule.table_of(topic) != also_for:
                continue
            try:
                config = rule.apply(topic)
            except InvalidConfiguration as error:
                return TopicMatch(None, error.message)
            if config is not None:
                taken = histories_taken(config, rule, self.rules)
                return TopicMatch(config) if taken is None else TopicMatch(None, taken)
        makes = f"makes {also_for} of it too" if also_for else "takes this topic"
        return TopicMatch(None, f"no rule of tables.yaml {makes}")

    def match_key(self, key: str) -> KeyMatch | None:
        """Return what the first rule with a matching `key_pattern` reads from a key, None where no pattern matches.

        A rule's pattern counts only for topics that this rule takes, and for those that are ignored. The marker of a
        full dump needs no pattern: it lies in the folder of its topic.
        """
        for rule in self.rules:
            for marker in rule.markers_by(key):
                config = self.match_topic(marker.topic).config if marker.topic else None
                if config is not None and (config.snapshot, config.key_pattern) == (rule.snapshot, rule.key_pattern):
                    return KeyMatch(marker, MARKER_FORMAT)
            name = rule.named_by(key)
            if name is not None and name.topic and self.ignore.of_topic(name.topic) is not None:
                return KeyMatch(name, rule.format)
            config = self.match_topic(name.topic).config if name is not None and name.topic else None
            if name is not None and config is not None and config.key_pattern == rule.key_pattern:
                return KeyMatch(name, config.file_format, JSON if config.dialect else None)
        return None

    def table_for_topic(self, topic: str, also_for: str = "") -> TableConfig | None:
        """Return the table of a topic, or None if no rule takes it. `also_for` is that of `match_topic`."""
        return self.match_topic(topic, also_for).config

    def tables_for_topic(self, topic: str) -> tuple[TableConfig, ...]:
        """Return the table of a topic, and those that rules with `also` make of it besides."""
        first = self.table_for_topic(topic)
        made = {} if first is None else {first.table: first}
        for name in filter(None, (rule.table_of(topic) for rule in self.rules if rule.also)):
            config = None if name in made else self.table_for_topic(topic, name)
            if config is not None:
                made[name] = config
        return tuple(made.values())

    def own_or_first(self, topic: str, table: str) -> TableConfig | None:
        """Return the table of that name which a topic feeds, else the one of the first rule that takes it, if any."""
        made = self.tables_for_topic(topic)
        return next((config for config in made if config.table == table), made[0] if made else None)

    def lane(self, name: str) -> LaneConfig:
        """Return a lane's sizes: the defaults for a lane that the file only mentions."""
        return next((lane for lane in self.lanes if lane.name == name), LaneConfig(name=name))

    def lane_names(self) -> tuple[str, ...]:
        """Return every lane that the file configures or a rule uses, sorted."""
        return tuple(sorted({lane.name for lane in self.lanes} | {rule.lane for rule in self.rules}))

    def to_json(self) -> str:
        """Return canonical JSON: the same content gives the same bytes."""
        return _canonical({**self._content(), "version": self.version})

    @classmethod
    def from_json(cls, text: str) -> Configuration:
        """Read canonical JSON. Raises InvalidConfiguration for anything that `to_json` didn't write."""
        try:
            content = json.loads(text)
            format_read = content["format"]
            if format_read != FORMAT:
                raise InvalidConfiguration(
                    f"The configuration has format {format_read!r}, this release reads {FORMAT}", format=format_read
                )
            configuration = cls(
                rules=tuple(restored(TableRule, values) for values in content["rules"]),
                lanes=tuple(restored(LaneConfig, values) for values in content["lanes"]),
                ignore=restored(Ignore, content.get("ignore", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InvalidConfiguration(
                f"The configuration is not what `sluice config push` writes: {error}", cause=repr(error)[:200]
            ) from error
        if content.get("version") != configuration.version:
            raise InvalidConfiguration(
                "The configuration was changed by hand: its content doesn't match its version",
                version=content.get("version"),
            )
        return configuration

    def _content(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "rules": [_sparse(stored(rule), stored(TableRule(""))) for rule in self.rules],
            "lanes": [_sparse(stored(lane), stored(LaneConfig())) for lane in self.lanes],
            **({"ignore": stored(self.ignore)} if self.ignore != Ignore() else {}),
        }


def _sparse(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name in _ALWAYS_STORED or value != defaults[name]}


def _canonical(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
