"""Finds a table's configuration in force by the topic that feeds the table.

The ledger pins the topic of a table's first data (`TableState.pinned`). As long as a rule takes that topic for the
table, that rule is the table's configuration, even where another rule names the table too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.config.document import Configuration
from sluice.config.table import TableConfig, as_stored
from sluice.errors import NotConfigured

Pinned = Mapping[str, Any]


def pinned_topic(pinned: Pinned | None) -> str | None:
    """The topic of a table's data; None for a table without data or recorded before topics were pinned."""
    topic = (pinned or {}).get("topic")
    return topic if isinstance(topic, str) and topic else None


def config_by_topic(
    configuration: Configuration | None, topic: str | None, table: str, *, lane: str | None = None
) -> TableConfig | None:
    """The configuration of a topic, None unless the topic feeds `table` (and, where given, `lane`) now."""
    config = configuration.own_or_first(topic, table) if configuration is not None and topic else None
    if config is None or config.table != table or lane not in (None, config.lane):
        return None
    return config


def config_by_pinned_topic(
    configuration: Configuration | None, table: str, pinned: Pinned | None, *, lane: str | None = None
) -> TableConfig | None:
    """The configuration of a table that has data, None unless its topic feeds it (and, where given, `lane`) now."""
    return config_by_topic(configuration, pinned_topic(pinned), table, lane=lane)


def config_in_force(configuration: Configuration | None, table: str, pinned: Pinned | None) -> TableConfig:
    """The configuration of a table: by its pinned topic, else by the first rule that names table and topic exactly.

    Its fixed settings are those of the table's data, where it has any. Raises NotConfigured.
    """
    rules = configuration.rules if configuration is not None else ()
    for topic in (pinned_topic(pinned), *(rule.topic for rule in rules if rule.table == table)):
        config = config_by_topic(configuration, topic, table)
        if config is not None:
            return as_stored(config, pinned)
    raise NotConfigured(f"No rule of the configuration in force makes {table}", table=table)
