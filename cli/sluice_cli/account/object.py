"""What is said of an object that was set aside: why it is parked now, and what makes it pending.

The ledger has the reason of its admission, and the configuration may be newer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sluice.admission.verdict import MAX_REASON
from sluice.changes.log_restart import LOG_RESTARTED
from sluice.config.document import Configuration
from sluice.ledger.keys import CLAIMED, COMMITTED, PARKED, PENDING
from sluice.ledger.records import ObjectRecord
from sluice.names import TOPIC
from sluice.objects import ObjectId
from sluice_cli.errors import UNNAMED
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted

SHORT_ID = 12  # hexadecimal digits of an id that are shown


def key_and_version(id: ObjectId) -> dict[str, str]:
    """The JSON form of an object version in bronze."""
    return {"key": id.key, "version": id.version}


def judged_now(record: ObjectRecord, configuration: Configuration | None) -> ObjectRecord:
    """The record, for a parked object with the reason that the configuration in force gives.

    Where a table takes it by now, it has that table. An object may be parked after the push that takes its topic, by an
    admission that read the configuration before.
    """
    if record.state != PARKED or configuration is None:
        return record
    from sluice_aws.admission.reassign import is_freed, renamed  # not for the help of a verb

    current = renamed(record, configuration)
    if current.topic is None:
        return record
    match = configuration.match_topic(current.topic, record.id.also_for)
    if match.config is not None and is_freed(current, match.config):
        return replace(current, table=match.config.table, reason=taken(match.config.table))
    if match.config is not None or record.code is not None:
        return record
    return replace(current, reason=(match.reason or "")[:MAX_REASON])


def taken(table: str) -> str:
    """The reason of a parked object that a table takes by the configuration in force."""
    return f"{table} takes it now, and a {Step('config push')} of the same file makes it pending"


def ways_out() -> str:
    """The steps that take an entry out of quarantine; nothing does so by itself."""
    retry, discard = Step("quarantine retry", "ID"), Step("quarantine discard", "ID")
    return f"{retry} merges an entry once its cause is gone, {discard} gives it up"


def waits_for_rule(record: ObjectRecord) -> bool:
    """True if no rule takes a parked object, as `judged_now` returns it: others have a table, or a code."""
    return record.state == PARKED and record.code is None and record.table is None


def is_proposed(record: ObjectRecord) -> bool:
    """True if `sluice config discover` proposes a rule for a parked object, as `judged_now` returns it.

    It does so where the key tells the topic and the format; the bytes are not read for this answer.
    """
    if not waits_for_rule(record):
        return False
    return tells_topic(record.id.key) if record.topic is None else bool(TOPIC.fullmatch(record.topic))


def tells_topic(key: str) -> bool:
    """True if a key alone tells a topic and a format, by its name or by the layout of its folders."""
    from sluice.admission.layouts import layout_of  # not for the help of a verb
    from sluice.admission.routing import CHANGE_FILE, classify

    if classify(key, None).kind == CHANGE_FILE:
        return True
    layout = layout_of(key)
    return layout is not None and layout.route(key, 1).kind == CHANGE_FILE


def earlier_rules() -> Step:
    """The steps that undo a push."""
    note = f"prints the rules before the last push, and {Step('config push', 'tables.yaml')} brings them back"
    return Step("config show", "--earlier", "1", note=note)


def rule_steps(proposed: int, unnamed: int, tables: Sequence[str] = ()) -> list[str]:
    """The steps that give waiting objects a rule: so many for which discover proposes one, and so many others.

    `tables` are those whose topics had a rule before.
    """
    lines = [f"No rule takes the topic of {', '.join(tables)} any longer: {earlier_rules()}"] if tables else []
    if proposed:
        some = f"{proposed:,} of " if unnamed else ""
        lines.append(f"{Step('config discover')} proposes rules for {some}them; --write adds those to tables.yaml")
    if unnamed:
        lines.append(f"{counted(unnamed, 'name tells', 'names tell')} no topic or format: {UNNAMED}")
    return lines


def rule_step(record: ObjectRecord) -> str | None:
    """What brings a rule to one object; None where it waits for none."""
    if not waits_for_rule(record):
        return None
    if is_proposed(record):
        return f"{Step('config discover')} proposes a rule for its topic"
    return f"Its name tells no topic or format: {UNNAMED}"


def next_step(record: ObjectRecord) -> str | None:
    """What shows more of an admitted object, or brings a rule to it."""
    if record.state in (PENDING, CLAIMED):
        return f"{Step('status')} shows what lane {record.lane} is at" if record.lane else None
    if record.state == COMMITTED and record.quarantined_rows:
        return f"{shown_entry(record.id.hash[:SHORT_ID])} shows what is in quarantine, and what to do"
    return rule_step(record)


def shown_entry(entry: str = "ID") -> Step:
    """What shows one entry, with all of its reasons."""
    return Step("quarantine show", entry)


def discarded(records: Iterable[ObjectRecord]) -> Step:
    """What gives these entries up."""
    return Step("quarantine discard", *(record.id.hash[:SHORT_ID] for record in records))


def traced(key: str, version: ObjectId | None = None) -> Step:
    """What follows an object: the newest of its key, or the one of this version, for its table."""
    if version is None:
        return Step("trace", key)
    of_table = ("--table", version.also_for) if version.also_for else ()
    return Step("trace", key, "--version", visible(version.version), *of_table)


def versions_of(key: str) -> Step:
    """What lists all versions of a key."""
    return Step("history", "--key", key)


def rows_left() -> str:
    """Why a replay leaves an object of which rows are in quarantine or discarded, and what merges them."""
    return f"rows in quarantine or discarded: {Step('quarantine retry')} with the key"


def way_in(record: ObjectRecord) -> str:
    """Why a retry leaves a parked object, as `judged_now` returns it, and what makes it pending."""
    if record.table is not None and record.reason == taken(record.table):
        return f"it is parked: {record.reason}"
    if record.code == LOG_RESTARTED:
        return (
            f"it is parked: raise its table's `generation` in tables.yaml and run {Step('config push')},"
            f" or run {Step('quarantine discard')}"
        )
    step = rule_step(record) or record.reason
    return f"it is parked: {step}, or run {Step('quarantine discard')}"


def reasons_by_code(reasons: Iterable[Mapping[str, Any]], unit: str) -> list[tuple[int, Sequence[Mapping[str, Any]]]]:
    """The reasons of each code, whose texts differ in a column or a position, with its number; the largest first."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for entry in reasons:
        groups.setdefault(entry.get("code") or entry["reason"], []).append(entry)
    return sorted(((sum(row[unit] for row in texts), texts) for texts in groups.values()), key=lambda one: -one[0])
