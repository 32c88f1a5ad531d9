"""The look at a table before a run's first write to it: created, checked, and rid of what a dead or failed writer left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Tuple

from sluice_spark.hudi_errors import TableDiffers
from sluice_spark.hudi_table import HudiTable
from sluice_spark.rolling_back import roll_back_unfinished
from sluice_spark.table_facts import TableFacts


@dataclass(frozen=True)
class FirstLook:
    """The table's facts, and what this look changed."""

    facts: TableFacts
    rolled_back: Tuple[str, ...] = ()


def first_look(hudi: HudiTable, log: Any) -> FirstLook:
    """Look at a table of which nothing is known. For the lane's holder, before it writes.

    A service that died leaves no manifest that a take-over would resolve, so what it left unfinished is undone
    here (rule 4); and where a purge was cut off, the log files that it wrote are compacted before anything else is.
    """
    try:
        facts = hudi.look()
    except TableDiffers as differs:
        if not hudi.make_anew():
            raise
        log.event("table_made_anew", table=hudi.config.table, differences=differs.facts["differences"])
        facts = hudi.look()
    if facts.properties_added:
        log.event("properties_added", table=hudi.config.table, properties=list(facts.properties_added))
    undone: Tuple[str, ...] = ()
    if facts.unfinished:
        undone = roll_back_unfinished(hudi)
        if undone:
            log.event("rolled_back", table=hudi.config.table, instants=list(undone))
            facts = hudi.look()
    if facts.purging:
        instant = hudi.compact_all()
        hudi.set_purging("")
        log.event("purge_finished", table=hudi.config.table, instant=instant)
        facts = hudi.look()
    return FirstLook(facts, undone)
