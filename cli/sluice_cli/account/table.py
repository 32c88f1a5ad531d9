"""What is said of a table: its state, why it doesn't do its work, and which step helps.

A table is one of `tables` in `sluice status --json`, made by `table_entry`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.batch.claim import TableState, fed_by, refuse_settings
from sluice.batch.kafka_watch import KafkaWatch
from sluice.changes.outdated import is_outdated_note, outdated_note
from sluice.config.document import Configuration
from sluice.config.pinned_topic import pinned_topic
from sluice.config.table import TableConfig
from sluice.errors import ChangeRefused, TwoTopics
from sluice.ledger.keys import PENDING, UNCOUNTED
from sluice.ledger.records import ObjectRecord
from sluice_cli.account.object import earlier_rules
from sluice_cli.account.steps import continued_rebuild
from sluice_cli.terminal.step import Step, completed
from sluice_cli.terminal.words import counted, cut, human_age

LATE = 2  # a table is late once its oldest waiting object is this many times older than its freshness
LEAST_FRESHNESS_S = 30  # for this answer


def table_entry(state: TableState, now: int, config: TableConfig | None = None) -> dict[str, Any]:
    """A table as `sluice status --json` has it, before its waiting objects are counted. Times are in epoch ms."""
    backs_off = state.backoff_until is not None and state.backoff_until > now
    lane = config.lane if config else None
    return {
        "table": state.table,
        "lane": lane,
        "freshness_s": config.freshness_s if config else None,  # None without a rule, or without data by a pattern's
        "late": False,
        "pending": {"objects": 0, "bytes": 0, "oldest_ms": None},
        "claimed": {"objects": 0, "bytes": 0},
        "committed": {"objects": state.totals.get("objects", 0)},
        "quarantined": {
            "objects": max(0, state.totals.get("objects_quarantined", 0)),
            "rows": max(0, state.totals.get("quarantined_rows", 0)),
        },
        "totals": dict(state.totals),
        "last_commit_at": state.last_instant_at,  # a part that changes nothing makes no commit
        "last_instant": state.last_instant,
        "last_batch": state.last_batch,
        "last_error": error_of(state, lane),
        "failures": state.failures,
        "backoff_until": state.backoff_until if backs_off else None,
        "paused": config is not None and config.paused,
        "blocked": state.blocked["error"] if state.blocked else None,
        "next_step": unblocking(state, lane) if state.blocked else None,
        "notes": list(_notes(state, config)),
    }


def error_of(state: TableState, lane: str | None) -> str | None:
    """The last error of a table, whose commands have its names; one of Java or Python names the log."""
    return state.last_error and completed(state.last_error, TABLE=state.table, LANE=lane)


def error_in_backoff(state: TableState, lane: str | None) -> str | None:
    """Its last error, with the step that shows more where it names none: that of Java or Python."""
    error = error_of(state, lane)
    return error if not error or "`" in error else f"{error.rstrip('.')}. {Step('logs')} shows more"


def _notes(state: TableState, config: TableConfig | None) -> Iterator[str]:
    lost = KafkaWatch.from_dict(state.watch).lost_under(config.generation if config else 0)
    if state.rebuild:
        yield f"its data is being moved aside; {Step('rebuild table', state.table)} continues"
    if (uncounted := state.totals.get(UNCOUNTED, 0)) > 0:
        yield not_counted(uncounted)
    if lost:
        yield outdated_note(state.table, lost)
    yield from (note for note in state.notes if not is_outdated_note(note))


def not_counted(commits: int) -> str:
    """What is missing in the changes of a table with so many commits that a later run found."""
    return f"its changes lack those of {counted(commits, 'commit')}, whose run died before recording it"


def is_late(oldest_ms: int | None, freshness_s: int | None) -> bool:
    """Whether the oldest waiting object of a table is late; never within a minute."""
    if oldest_ms is None or freshness_s is None:
        return False
    return oldest_ms > max(freshness_s, LEAST_FRESHNESS_S) * 1000 * LATE


def nothing_merged(table: Mapping[str, Any]) -> bool:
    """True for a table without a commit all of whose objects, or all of their rows, are in quarantine."""
    waits = table["pending"]["objects"] or table["claimed"]["objects"]
    aside = table["quarantined"]["objects"] or table["quarantined"]["rows"]
    return bool(aside) and table["last_commit_at"] is None and not waits


def state_of_table(table: Mapping[str, Any]) -> str:
    """The state of a table in a word."""
    if table["blocked"]:
        return "blocked"
    if table["last_error"]:
        return "failing"
    if table["late"]:
        return "late"
    if table["paused"]:
        return "paused"
    if table["claimed"]["objects"]:
        return "claimed"
    if nothing_merged(table):
        return "quarantined"
    return "pending" if table["pending"]["objects"] else "up to date"


def trouble_of_table(table: Mapping[str, Any], now: int, *, characters: int | None = None) -> list[str]:
    """Why a table doesn't do its work, and what is remarkable of it; each text of at most so many characters."""
    trouble = [word for word in ("late", "paused") if table[word]]
    if table["blocked"]:
        trouble.append(f"blocked: {table['blocked']}")
    else:
        trouble += [f"failed, retrying in {human_age(table['backoff_until'] - now)}"] if table["backoff_until"] else []
        trouble += [table["last_error"]] if table["last_error"] else []
    return [cut(text, characters) for text in (*trouble, *table["notes"])]


def steps_of_table(table: Mapping[str, Any], again: Step | None) -> tuple[Step, ...]:
    """What helps a table, or shows more. `again` is what has its lane run again, if the lane is known."""
    if table["last_error"] and not table["blocked"]:
        return (Step("logs"), *([again] if again else []))
    return () if table["blocked"] else (objects_of(table["table"]),)


def objects_of(table: str, note: str = "") -> Step:
    """What lists the objects of a table."""
    return Step("history", "--table", table, note=note)


def tried_again() -> str:
    """What helps a table in back-off."""
    return f"Correct the cause; {Step('resume', 'LANE')} then tries the table again at once"


def fresh_at_once() -> str:
    """How a local stack waits less."""
    return f"put `freshness: 0` into tables.yaml and {Step('config push')} it: nothing then waits"


def written_again(table: str, *, traced: bool = False) -> str:
    """What puts a table right whose rows differ from their objects; `traced` with what tells where a row comes from."""
    rebuilt = Step("rebuild table", table)
    traces = f"{Step('row', table, 'KEY')} shows where a row comes from, " if traced else ""
    return f"{traces}{rebuilt} writes the table again"


def unpausing() -> str:
    """The step that ends a pause by a rule."""
    return f"Remove `paused` from its rule in tables.yaml, and run {Step('config push')}"


def note_misfit(table: dict[str, Any], state: TableState, configuration: Configuration | None) -> None:
    """Have a table whose waiting objects no run will claim, by the rules in force, say so as a blocked one does.

    Those of a pause or a rebuild are said by their own words.
    """
    topic = pinned_topic(state.pinned)
    if table["blocked"] or table["paused"] or state.rebuild or topic is None or not table["pending"]["objects"]:
        return
    if why := _why_blocked(state, table["lane"] or "", topic, configuration):
        table.update(blocked=f"{state.table} {why[0]}", next_step=why[1])


def unblocking(state: TableState, lane: str | None) -> str:
    """The step that unblocks a blocked table, with the names of the table and of its lane, if it is known."""
    return completed(str((state.blocked or {}).get("next_step", "")), TABLE=state.table, LANE=lane)


@dataclass(frozen=True)
class BlockedTable:
    """A blocked table: the number of pending objects, the reason, and the step that unblocks it."""

    table: str
    lane: str
    objects: int
    reason: str
    next_step: str


def blocked_tables(
    records: Iterable[ObjectRecord],
    configured: Callable[[], Configuration | None],
    states_of: Callable[[list[str]], Mapping[str, TableState]],
) -> tuple[BlockedTable, ...]:
    """The tables among those of these objects that no run will claim, by name.

    The configuration and the states of the tables are asked for only if an object is pending.
    """
    waiting = Counter(
        (record.table, record.lane or "", record.topic or "")
        for record in records
        if record.state == PENDING and record.table
    )
    if not waiting:
        return ()
    configuration, states = configured(), states_of(sorted({table for table, _, _ in waiting}))
    return tuple(
        BlockedTable(table, lane, objects, *why)
        for (table, lane, topic), objects in sorted(waiting.items())
        if (why := _why_blocked(states[table], lane, topic, configuration))
    )


def _why_blocked(
    state: TableState, lane: str, topic: str, configuration: Configuration | None
) -> tuple[str, str] | None:
    """Why no run claims the objects of a topic for a table, and the step that helps; None where one will."""
    table = state.table
    config = configuration.own_or_first(topic, table) if configuration is not None else None
    if state.rebuild:
        return "is being rebuilt", str(continued_rebuild(table, lane))
    if state.blocked:
        return f"is blocked: {state.blocked['error']}", unblocking(state, lane)
    if config is not None and config.paused:
        return "is paused", unpausing()
    if configuration is None:
        return None
    if config is None:
        step = f"Run {Step('config push')} with a rule for it in tables.yaml; {earlier_rules()}"
        return f"is fed by topic {topic}, which no rule takes any longer", step
    if config.table != table:
        return None
    own = fed_by(configuration, config.lane, {table: config}, {table: state})[table].topic
    if own != topic and not config.several_topics:
        return f"is fed by topic {own}, not {topic}", TwoTopics.next_step
    try:
        refuse_settings(config, state)
    except ChangeRefused as refused:
        return f"is blocked: {refused.message}", completed(refused.next_step, TABLE=table, LANE=lane)
    return None
