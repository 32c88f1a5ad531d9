"""What a run knows of the tables that it wrote itself, so that the next batch needn't look again."""

from __future__ import annotations

import threading
from typing import Dict, Optional, Tuple

from sluice.table_config import TableConfig
from sluice_spark.table_facts import TableFacts


class KnownTables:
    """Facts by table, each from right after this run's own commit. Safe in several threads.

    They hold because nobody else writes while the lane is held. Whatever fails makes its table unknown,
    and so does a configuration with another key, other partitions or another type: it must be refused.
    """

    def __init__(self) -> None:
        self._facts: Dict[Tuple[object, ...], TableFacts] = {}
        self._cleaned: Dict[Tuple[object, ...], int] = {}
        self._lock = threading.Lock()

    def take(self, config: TableConfig) -> Optional[TableFacts]:
        """The facts, which are forgotten by this: only a part that ends well leaves new ones."""
        with self._lock:
            return self._facts.pop(_identity(config), None)

    def keep(self, config: TableConfig, facts: TableFacts) -> None:
        """Remember the table as it is now."""
        with self._lock:
            self._facts[_identity(config)] = facts

    def cleaned_at(self, config: TableConfig) -> Optional[int]:
        """When this run last looked for files to clean (epoch ms). One that found none leaves no trace on the timeline."""
        with self._lock:
            return self._cleaned.get(_identity(config))

    def keep_cleaned(self, config: TableConfig, at_ms: int) -> None:
        """Remember that there is nothing to clean until some of the window has passed."""
        with self._lock:
            self._cleaned[_identity(config)] = at_ms


def _identity(config: TableConfig) -> Tuple[object, ...]:
    return (config.table, config.record_key, config.partition_by, config.table_type)
