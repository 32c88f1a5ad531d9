"""Says why an object is parked now. The ledger has the reason of its admission, and the configuration may be newer."""

from __future__ import annotations

from dataclasses import replace

from sluice.admission.verdict import MAX_REASON
from sluice.config.document import Configuration
from sluice.ledger.keys import PARKED
from sluice.ledger.records import ObjectRecord


def judged_now(record: ObjectRecord, configuration: Configuration | None) -> ObjectRecord:
    """The record, for a parked object with the reason that the configuration in force gives.

    Where a table takes it by now, it has that table. An object may be parked after the push that takes its topic, by an
    admission that read the configuration before.
    """
    if record.state != PARKED or configuration is None:
        return record
    from sluice_aws.admission.reassign import is_freed, renamed  # not for the help of a verb

    named = renamed(record, configuration)
    if named.topic is None:
        return record
    match = configuration.match_topic(named.topic)
    if match.config is not None and is_freed(named, match.config):
        return replace(named, table=match.config.table, reason=taken(match.config.table))
    if match.config is not None or record.code is not None:
        return record
    return replace(named, reason=(match.reason or "")[:MAX_REASON])


def taken(table: str) -> str:
    """The reason of a parked object that a table takes by the configuration in force."""
    return f"{table} takes it now, and a `sluice config push` of the same file makes it pending"


def waits_for_rule(record: ObjectRecord) -> bool:
    """True if no rule takes a parked object, as `judged_now` returns it: others have a table, or a code."""
    return record.state == PARKED and record.code is None and record.table is None
