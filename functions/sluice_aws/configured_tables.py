"""Finds the configuration of a table by the table's name: rules name tables by topic, so its topic must be known."""

from __future__ import annotations

from typing import Optional

from sluice.configuration import Configuration
from sluice.errors import SluiceError
from sluice.table_config import TableConfig
from sluice_aws.ledger import Ledger


class NotConfigured(SluiceError):
    """No rule of the configuration in force makes the table; facts: `table`."""

    code = "table_not_configured"
    next_step = "`sluice config show` shows the rules, `sluice status` the tables"


def configured_table(configuration: Optional[Configuration], table: str, ledger: Ledger) -> TableConfig:
    """The table as the configuration in force makes it of its topic. Raises NotConfigured.

    A rule for exactly this table is asked first; for one that a pattern makes, the ledger knows the topic its data came from.
    """
    if configuration is not None:
        exact = next(
            (
                rule.topic
                for rule in configuration.rules
                if rule.table == table and rule.topic and "*" not in rule.topic
            ),
            None,
        )
        config = configuration.table_for_topic(exact) if exact else None
        if config is not None and config.table == table:
            return config
        topic = (ledger.table_state(table).pinned or {}).get("topic")
        config = configuration.table_for_topic(topic) if topic else None
        if config is not None and config.table == table:
            return config
    raise NotConfigured(f"No rule of the configuration in force makes {table}", table=table)
