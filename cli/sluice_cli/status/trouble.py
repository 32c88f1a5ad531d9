"""Says in words what is wrong with a stack: halted, failing, quarantined, late, parked, paused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.lane.machine import HALTED, PAUSED
from sluice.ledger.keys import PARKED, QUARANTINED
from sluice.services.policy import CATALOG
from sluice.services.requests import FAILED
from sluice_cli.status.html import FAILS, PAUSES, WARNS, StateKind, cut
from sluice_cli.status.service_entries import describe_error
from sluice_cli.terminal.guard import shell_text
from sluice_cli.terminal.output import counted, human_age

SHOWN = 6  # of one kind; the sections below list all
Words = tuple[str, ...]


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong: its kind and name, a sentence, the section that shows more, and commands that help."""

    kind: StateKind
    name: str
    text: str
    section: str
    commands: tuple[Words, ...] = ()


@dataclass(frozen=True)
class CommandLine:
    """Writes commands of a stack for a shell. `stack` is None for the local one."""

    stack: str | None = None

    def __call__(self, *words: str) -> str:
        return shell_text(["sluice", *(("--stack", self.stack) if self.stack else ()), *words])


def troubles(status: Mapping[str, Any]) -> tuple[Trouble, ...]:
    """What is wrong, the worst first. `status` is the document of `sluice status --json`."""
    lanes, tables = status["lanes"], status["tables"]
    kinds = (
        [_halted(lane) for lane in lanes if lane["state"] == HALTED],
        [_failing_lane(lane) for lane in lanes if lane["failures"] and lane["state"] not in (HALTED, PAUSED)],
        [_failing_table(table) for table in tables if table["blocked"] or table["last_error"]],
        [_failed_service(entry) for entry in status["services"] if entry["state"] == FAILED],
        list(_quarantined(status)),
        list(_late([table for table in tables if table["late"]])),
        list(_parked(status)),
        [_paused_lane(lane) for lane in lanes if lane["state"] == PAUSED],
        [_paused_table(table) for table in tables if table["paused"]],
    )
    return tuple(each for found in kinds for each in _shortened(found))


def _shortened(found: Sequence[Trouble]) -> Iterator[Trouble]:
    yield from found[:SHOWN]
    if len(found) > SHOWN:
        first = found[0]
        yield Trouble(first.kind, first.name, f"{len(found) - SHOWN:,} more of these", first.section)


def _halted(lane: Mapping[str, Any]) -> Trouble:
    run = lane["last_run"]
    logs: tuple[Words, ...] = (("ops", "logs", run),) if run else ()
    text = f"Lane {lane['lane']}: {_first_line(lane['summary'])}{_pending(lane)}"
    return Trouble(FAILS, "halted", text, "lanes", (*logs, ("resume", lane["lane"])))


def _failing_lane(lane: Mapping[str, Any]) -> Trouble:
    failed = counted(lane["failures"], "failed run")
    reason = f", the last one: {_first_line(lane['reason'])}" if lane["reason"] else ""
    text = f"Lane {lane['lane']}: {failed} in a row{reason}{_pending(lane)}"
    return Trouble(FAILS, "failing", text, "lanes", (("ops", "runs", "--lane", lane["lane"], "--failed"),))


def _failing_table(table: Mapping[str, Any]) -> Trouble:
    text = f"Table {table['table']}: {_first_line(table['blocked'] or table['last_error'])}"
    if table["blocked"]:
        return Trouble(FAILS, "blocked", text, "tables", (("history", "--table", table["table"]),))
    again: tuple[Words, ...] = (("resume", table["lane"]),) if table["lane"] else ()
    return Trouble(FAILS, "failing", text, "tables", (("ops", "logs"), *again))


def _failed_service(entry: Mapping[str, Any]) -> Trouble:
    name, service, error = entry["table"], entry["service"], entry["error"]
    if service == CATALOG:
        # The message of this error is the command, which the page shows as such.
        text = f"Table {name}: its catalog sync failed: {cut(error['code'])}"
        command = ("ops", "catalog", "sync", name)
    else:
        text, command = (
            f"Table {name}: {service} failed: {cut(describe_error(error))}",
            ("ops", "services", "list", name),
        )
    return Trouble(FAILS, "failed", text, "services", (command,))


def _late(tables: Sequence[Mapping[str, Any]]) -> Iterator[Trouble]:
    if not tables:
        return
    table = max(tables, key=lambda late: late["pending"]["oldest_ms"])
    if len(tables) > 1:
        names = ", ".join(late["table"] for late in tables[:SHOWN])
        more = f" and {len(tables) - SHOWN:,} more" if len(tables) > SHOWN else ""
        text = f"{len(tables):,} tables are late, oldest {human_age(table['pending']['oldest_ms'])}: {names}{more}"
        yield Trouble(WARNS, "late", text, "tables", (("history", "--table", table["table"]),))
        return
    text = (
        f"Table {table['table']}: the oldest of {counted(table['pending']['objects'], 'pending object')} was admitted "
        f"{human_age(table['pending']['oldest_ms'])} ago; its freshness is {human_age(table['freshness_s'] * 1000)}"
    )
    yield Trouble(WARNS, "late", text, "tables", (("history", "--table", table["table"]),))


def _quarantined(status: Mapping[str, Any]) -> Iterator[Trouble]:
    found, rows = status["set_aside"][QUARANTINED], status["quarantined_rows"]
    if not found["objects"] and not rows["rows"]:
        return
    parts = []
    if found["objects"]:
        parts.append(f"{_number(found, 'objects', 'object')} ({_most_often(found['reasons'], 'objects')})")
    if rows["rows"]:
        of = f"{_number(rows, 'rows', 'row')} of {_number(rows, 'objects', 'object')}"
        parts.append(f"{of} ({_most_often(rows['reasons'], 'rows')})")
    yield Trouble(FAILS, "quarantined", " and ".join(parts), "aside", (("quarantine", "list"),))


def _most_often(reasons: Sequence[Mapping[str, Any]], unit: str) -> str:
    """The most frequent reason: the first of the code with the most objects or rows, since texts name their columns."""
    by_code: Counter[str] = Counter()
    for each in reasons:
        by_code[each.get("code") or each["reason"]] += each[unit]
    most = by_code.most_common(1)[0][0]
    reason = next(each["reason"] for each in reasons if (each.get("code") or each["reason"]) == most)
    return f"{'most often: ' if len(reasons) > 1 else ''}{cut(reason)}"


def _parked(status: Mapping[str, Any]) -> Iterator[Trouble]:
    found = status["set_aside"][PARKED]
    if found["objects"]:
        text = f"{_number(found, 'objects', 'object')}, most often: {cut(found['reasons'][0]['reason'])}"
        rules = (("config", "discover"),) if found["rules_proposed"] else ()
        yield Trouble(WARNS, "parked", text, "aside", (("quarantine", "list", "--parked"), *rules))


def _paused_lane(lane: Mapping[str, Any]) -> Trouble:
    text = f"Lane {lane['lane']}: {_first_line(lane['summary'])}{_pending(lane)}"
    back = ("standstill", "end") if lane["standstill"] else ("resume", lane["lane"])
    return Trouble(PAUSES, "paused", text, "lanes", (back,))


def _paused_table(table: Mapping[str, Any]) -> Trouble:
    waits = counted(table["pending"]["objects"], "object")
    return Trouble(PAUSES, "paused", f"Table {table['table']}: {waits} pending", "tables", (("config", "show"),))


def _pending(lane: Mapping[str, Any]) -> str:
    pending = lane["pending"]["objects"]
    return f"; {counted(pending, 'object')} pending" if pending else ""


def _number(found: Mapping[str, Any], name: str, noun: str) -> str:
    return f"{counted(found[name], noun)}{' and more' if found['more'] else ''}"


def _first_line(text: str) -> str:
    return cut((text or "no reason is recorded").splitlines()[0])
