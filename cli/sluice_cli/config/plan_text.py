"""The plan of a push for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from sluice.config.table import in_words
from sluice_cli.config.plan import CHANGED, NEW, REMOVED, Plan, PlannedTable, SettingChange
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted, first_names

REFUSED = "refused"  # in the total, whatever kind of change it would be
NAMED = 10  # tables of one kind of change that are named to people


def lines_of(plan: Plan, *, refusals: bool) -> Iterator[str]:
    """The plan for people: tables with the same change in one paragraph, then lanes, rules and `refusals`."""
    groups: dict[tuple[Any, ...], list[PlannedTable]] = {}
    for table in plan.tables:
        settings = tuple(map(_setting_line, table.settings))
        alike = (table.kind, settings, (table.risk or "").replace(table.topic, ""), _waiting_lines(table), table.unfit)
        groups.setdefault(alike, []).append(table)
    for (kind, settings, _, _, unfit), tables in groups.items():
        yield f"{kind:<8} {first_names([table.table for table in tables], NAMED)}"
        risk = tables[0].risk if len(tables) == 1 else "objects of their topics are parked until a rule takes them"
        yield from (f"  ! {line}" for line in (*([risk] if tables[0].risk else []), *unfit) if line)
        yield from (f"  {line}" for line in (*settings, *_waiting_lines(tables[0], len(tables))))
    for title, changes in (("lane", plan.lanes), ("rule", plan.rules)):
        for change in changes:
            yield f"{change.kind:<8} {title} {change.name}"
            yield from (f"  {_setting_line(setting)}" for setting in change.settings)
    if refusals:
        yield from (f"refused  {refusal}" for refusal in plan.refusals)
    yield _total(plan)


def _setting_line(change: SettingChange) -> str:
    mark = "! " if change.risk else ""
    line = f"{mark}{change.key}: {in_words(change.old)} -> {in_words(change.new)}"
    if change.rebuild:
        return f"{line}: not in place, see {Step('rebuild table')}"
    if change.of_data:
        return f"{line}: as the table's data has it"
    return f"{line}: {change.risk}" if change.risk else line


def _waiting_lines(table: PlannedTable, tables: int = 1) -> tuple[str, ...]:
    """What waits for a table, or for each of several `tables` for which as much waits."""
    waiting, more = table.waiting, "" if table.waiting.counted_all else " or more"
    more += " each" if tables > 1 else ""
    lines = []
    if waiting.parked:
        lines.append(f"become pending: {counted(waiting.parked, 'parked object')}{more}")
    if waiting.pending:
        lines.append(f"can be claimed: {counted(waiting.pending, 'pending object')}{more}")
    if waiting.quarantined or waiting.with_quarantined_rows:
        whole = counted(waiting.quarantined, "object") if waiting.quarantined else ""
        rows = f"{counted(waiting.quarantined_rows, 'row')} of {counted(waiting.with_quarantined_rows, 'object')}"
        what = ", and ".join(filter(None, (whole, rows if waiting.with_quarantined_rows else "")))
        them = "it" if waiting.quarantined + waiting.quarantined_rows == 1 and not more else "them"
        retries = [Step("quarantine retry", "--code", code, "--table", table.table) for code in waiting.codes]
        lines.append(f"stay quarantined: {what}{more}; to judge {them} again: {', '.join(map(str, retries))}")
    return tuple(lines)


def _total(plan: Plan) -> str:
    if not plan.changes:
        return "Nothing would change"
    counts = Counter(
        REFUSED if table.refusals else table.kind
        for table in plan.tables
        if table.kind != CHANGED or table.settings or table.refusals
    )
    kinds = ", ".join(f"{counts[kind]:,} {kind}" for kind in (NEW, CHANGED, REMOVED, REFUSED) if counts[kind])
    patterns = sum(change.kind == NEW for change in plan.rules)
    takes = "takes" if patterns == 1 else "take"
    to_come = f"one of each topic that {counted(patterns, 'new rule')} with a pattern {takes}" if patterns else ""
    tables = (
        f"Tables: {', and '.join(filter(None, (kinds, to_come)))}" if kinds or patterns else "No known table changes"
    )
    marked = f"; {counted(len(plan.risks), 'change')} marked with ! can lose or stop something" if plan.risks else ""
    return f"{tables}{marked}"
