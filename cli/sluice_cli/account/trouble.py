"""Says in words what is wrong with a stack: halted, failing, quarantined, late, parked, paused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.lane.machine import HALTED, PAUSED
from sluice.ledger.keys import PARKED, QUARANTINED
from sluice.services.requests import FAILED
from sluice_cli.account.lane import resumption, steps_of_lane
from sluice_cli.account.object import reasons_by_code
from sluice_cli.account.service import describe_error, steps_of_service
from sluice_cli.account.table import steps_of_table, unpausing
from sluice_cli.terminal.step import Step, in_order
from sluice_cli.terminal.words import counted, cut, first_names, human_age

SHOWN = 6  # of one kind; the sections below list all


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong: its state in a word, a sentence, the section that shows more, and steps that help.

    `words` stand in place of steps where the error that blocks a table says what helps.
    """

    name: str
    text: str
    section: str
    steps: tuple[Step, ...] = ()
    words: str = ""

    @property
    def advice(self) -> str:
        """What helps, as a sentence; empty where nothing is known to."""
        return self.words or in_order(self.steps)


def troubles(status: Mapping[str, Any]) -> tuple[Trouble, ...]:
    """What is wrong, the worst first. `status` is the document of `sluice status --json`."""
    lanes, tables = status["lanes"], status["tables"]
    again = {lane["lane"]: resumption(lane) for lane in lanes}
    failing = [table for table in tables if table["blocked"] or table["last_error"]]
    kinds = (
        [_lane("halted", lane) for lane in lanes if lane["state"] == HALTED],
        [_lane("failing", lane) for lane in lanes if lane["failures"] and lane["state"] not in (HALTED, PAUSED)],
        [_lane("stuck", lane) for lane in lanes if lane["stuck"] and not lane["failures"]],
        [_failing_table(table, again.get(table["lane"])) for table in failing],
        [_failed_service(entry) for entry in status["services"] if entry["state"] == FAILED],
        list(_quarantined(status)),
        list(_late([table for table in tables if table["late"]])),
        list(_parked(status)),
        [_lane("paused", lane) for lane in lanes if lane["state"] == PAUSED],
        [_paused_table(table) for table in tables if table["paused"]],
    )
    return tuple(trouble for of_kind in kinds for trouble in _shortened(of_kind))


def _shortened(of_kind: Sequence[Trouble]) -> Iterator[Trouble]:
    yield from of_kind[:SHOWN]
    if len(of_kind) > SHOWN:
        yield Trouble(of_kind[0].name, f"{len(of_kind) - SHOWN:,} more of these", of_kind[0].section)


def _lane(name: str, lane: Mapping[str, Any]) -> Trouble:
    pending = lane["pending"]["objects"]
    waits = f"; {counted(pending, 'object')} pending" if pending else ""
    return Trouble(name, f"Lane {lane['lane']}: {cut(lane['summary'])}{waits}", "lanes", steps_of_lane(lane))


def _failing_table(table: Mapping[str, Any], again: Step | None) -> Trouble:
    text = f"Table {table['table']}: {cut(table['blocked'] or table['last_error'])}"
    steps, words = steps_of_table(table, again), table["next_step"] or ""
    return Trouble("blocked" if table["blocked"] else "failing", text, "tables", steps, words)


def _failed_service(entry: Mapping[str, Any]) -> Trouble:
    text = f"Table {entry['table']}: {entry['service']} failed: {cut(describe_error(entry['error']))}"
    return Trouble("failed", text, "services", steps_of_service(entry))


def _late(tables: Sequence[Mapping[str, Any]]) -> Iterator[Trouble]:
    """One trouble: the tables that are late, and the one whose object waits longest."""
    if not tables:
        return
    oldest = max(tables, key=lambda late: late["pending"]["oldest_ms"])
    number, names = (
        counted(len(tables), "table is", "tables are"),
        first_names([late["table"] for late in tables], SHOWN),
    )
    text = f"{number} late, oldest {human_age(oldest['pending']['oldest_ms'])}: {names}"
    yield Trouble("late", text, "tables", (Step("history", "--table", oldest["table"]),))


def _quarantined(status: Mapping[str, Any]) -> Iterator[Trouble]:
    aside, rows = status["set_aside"][QUARANTINED], status["quarantined_rows"]
    parts = []
    if aside["objects"]:
        parts.append(f"{_number(aside, 'objects', 'object')} ({_most_often(aside['reasons'], 'objects')})")
    if rows["rows"]:
        of = f"{_number(rows, 'rows', 'row')} of {_number(rows, 'objects', 'object')}"
        parts.append(f"{of} ({_most_often(rows['reasons'], 'rows')})")
    if parts:
        yield Trouble("quarantined", " and ".join(parts), "aside", (Step("quarantine list"),))


def _most_often(reasons: Sequence[Mapping[str, Any]], unit: str) -> str:
    """The first text of the code with the most objects or rows, since texts name their columns."""
    _, texts = reasons_by_code(reasons, unit)[0]
    return f"{'most often: ' if len(reasons) > 1 else ''}{cut(texts[0]['reason'])}"


def _parked(status: Mapping[str, Any]) -> Iterator[Trouble]:
    aside = status["set_aside"][PARKED]
    if aside["objects"]:
        text = f"{_number(aside, 'objects', 'object')}, most often: {cut(aside['reasons'][0]['reason'])}"
        lost = (Step("config show", "--earlier", "1"),) if aside["tables_left"] else ()
        rules = (*lost, *([Step("config discover")] if aside["rules_proposed"] else []))
        yield Trouble("parked", text, "aside", (Step("quarantine list", "--parked"), *rules))


def _paused_table(table: Mapping[str, Any]) -> Trouble:
    waits = counted(table["pending"]["objects"], "object")
    return Trouble("paused", f"Table {table['table']}: {waits} pending", "tables", words=unpausing())


def _number(aside: Mapping[str, Any], name: str, noun: str) -> str:
    return f"{counted(aside[name], noun)}{' and more' if aside['more'] else ''}"
