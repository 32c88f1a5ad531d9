"""`sluice wait`: returns when every object in bronze is settled."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import typer

from sluice.config.document import Configuration
from sluice.ledger.records import ObjectRecord
from sluice_aws.clock import epoch_ms
from sluice_aws.errors import ConfigurationUnreadable
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.stack import LOCAL
from sluice_cli.account.lane import lane_entry, steps_of_lane
from sluice_cli.account.object import is_proposed, judged_now, key_and_version, rule_steps, waits_for_rule
from sluice_cli.account.service import synced_again
from sluice_cli.account.steps import TABLES_AND_LANES, entries, notice_missing
from sluice_cli.account.table import tried_again
from sluice_cli.ingest.entry import reason_of
from sluice_cli.ingest.set_aside import ReasonOfRows, reasons_of_rows
from sluice_cli.ingest.survey import TABLES_SHOWN, Survey, describe_counts
from sluice_cli.ingest.waiter import Waiter, WaitResult, identities_in
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.known_names import code_of
from sluice_cli.terminal.options import Json, Stack, TimeSpan, option, seconds
from sluice_cli.terminal.output import print_json, print_line, say, say_error, say_next_step, stderr_console
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import in_order
from sluice_cli.terminal.words import counted, first_names, human_age

LINE_EVERY_S = 10.0  # without a terminal
LINES_SHOWN = 50  # of one kind
JUST_BEFORE_MS = 60_000  # what was set aside so shortly before a wait is of the same work, and clocks differ
T = TypeVar("T")
G = TypeVar("G")


def wait(
    timeout: Annotated[
        float, option("--timeout DURATION", "Give up after this time: 90s, 5m, 2h.", parser=seconds)
    ] = TimeSpan(900),
    strict: Annotated[
        bool, option("--strict", "Fail also for parked or quarantined objects and quarantined rows.")
    ] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Wait until every object version in bronze is settled.

    Compares a listing of bronze with the ledger until nothing is pending, claimed or unseen. A Spark
    run that only lingers does not delay it. Lists what was parked or quarantined, objects and rows, since a minute
    before the wait: by table and reason, with one example. Counts the others. Progress counts the tables that are
    settled, and names those that a run merges. --json lists every object.

    Exits with 1 after the timeout, when the objects' lane is halted or paused, when their table is blocked,
    and with --strict when anything is parked or quarantined. A catalog sync that failed is named, and changes no
    exit code: the rows are in the tables.

    Examples:

      sluice put exports/ && sluice wait
      sluice wait --timeout 2m --strict --json
    """
    target = chosen_target(stack)
    ledger, store = target.ledger, target.config_store
    with _progress() as (show, note):
        outcome = Waiter(
            ledger,
            lambda: identities_in(target, _active(store)),
            lambda: _active(store),
            show=show,
            note=note,
            is_local=target.kind == LOCAL,
        ).wait(timeout)
    if outcome.survey.parked:
        configuration = _active(store)
        parked = tuple(judged_now(record, configuration) for record in outcome.survey.parked)
        outcome = replace(outcome, survey=replace(outcome.survey, parked=parked))
    outcome = replace(outcome, unsynced=_unsynced(ledger))
    if as_json:
        print_json(_document(outcome, strict))
    else:
        _print(outcome, timeout, reasons_of_rows(target))
    if not outcome.succeeded(strict=strict):
        raise typer.Exit(1)


def _active(store: ConfigStore) -> Configuration | None:
    try:
        return store.load()
    except ConfigurationUnreadable:
        return store.last  # `sluice status` and `sluice config show` report the unreadable one


def _unsynced(ledger: Ledger) -> Mapping[str, str]:
    """The tables whose last catalog sync failed, each with the code of its error."""
    failed = {state.table: state.catalog_failed for state in ledger.tables.all() if state.catalog_failed}
    return {table: code_of(str(failed[table].get("error", ""))) for table in sorted(failed)}


@contextmanager
def _progress() -> Iterator[tuple[Callable[[str], None], Callable[[str], None]]]:
    """Two functions that print on stderr: progress, and a line that stays.

    In a terminal progress is one changing line, otherwise a line every LINE_EVERY_S.
    """
    console, shown_at = stderr_console(), float("-inf")
    status = console.status("Listing bronze")

    def show(line: str) -> None:
        nonlocal shown_at
        status.update(line)
        if not console.is_terminal and time.monotonic() - shown_at >= LINE_EVERY_S:
            shown_at = time.monotonic()
            say(line)

    def note(line: str) -> None:
        status.stop()
        say(line)
        status.start()

    with status:
        yield show, note


def _print(outcome: WaitResult, timeout_s: float, reason_of_rows: ReasonOfRows = lambda record, code: None) -> None:
    seen = outcome.survey
    aside = set_aside_lines(seen, outcome.began, reason_of_rows)
    gap = "  " if sys.stdout.isatty() else "\t"
    for line in [*aside, *(() if seen.settled else waiting_lines(seen))]:
        print_line(line.replace("\t", gap))
    rows = f", {counted(seen.quarantined_rows, 'row')} quarantined" if seen.with_rows else ""
    ended = "settled in" if seen.settled else "waited"
    print_line(f"{ended} {outcome.seconds:.1f} s (in bronze: {describe_counts(seen.counts)}{rows})")
    sys.stdout.flush()
    waiting = [is_proposed(record) for record in seen.parked if waits_for_rule(record)]
    if waiting:
        say(f"No rule takes {counted(len(waiting), 'parked object')}")
        for step in rule_steps(sum(waiting), waiting.count(False)):
            say_next_step(step)
    if outcome.unsynced:
        say(_not_synced(outcome.unsynced))
    for lane in (*seen.halted, *seen.paused):
        entry = lane_entry(lane, epoch_ms(), outcome.resting, outcome.rebuilds)
        waits = counted(sum(item.lane == lane.lane for item in seen.waiting), "object waits", "objects wait")
        say_error(f"Lane {lane.lane} is {entry['summary']}, and {waits} in it", in_order(steps_of_lane(entry)))
    for table in outcome.blocked:
        say_error(f"{table.table} {table.reason}, and {counted(table.objects, 'object')} will wait", table.next_step)
    if not seen.settled and not seen.halted and not seen.paused and not outcome.blocked:
        for failing in outcome.failing:
            say(failing)
        unseen = seen.counts.get("unseen")
        say_error(
            f"Not settled within {human_age(round(timeout_s * 1000))}",
            notice_missing(unseen=True) if unseen else tried_again() if outcome.failing else str(TABLES_AND_LANES),
        )


def _not_synced(tables: Mapping[str, str]) -> str:
    names = first_names([f"{table} ({code})" for table, code in tables.items()], TABLES_SHOWN)
    return (
        f"warning: the last catalog sync of {visible(names)} failed, and engines that read by the catalog may miss "
        f"what is new: {synced_again(tables)} shows the reason and retries. The rows are in the tables, so this "
        "is no failure of the wait"
    )


def set_aside_lines(state: Survey, began: int, reason_of_rows: ReasonOfRows) -> Iterator[str]:
    """List what was set aside since a wait began (epoch ms), or just before, by table and reason; count the rest."""

    def fresh(records: Sequence[ObjectRecord]) -> list[ObjectRecord]:
        return [item for item in records if item.listed_at is None or int(item.listed_at) >= began - JUST_BEFORE_MS]

    for title, records, choice in (("parked", state.parked, ("--parked",)), ("quarantined", state.quarantined, ())):
        new, listed = fresh(records), entries(*choice)
        # By the code where there is one: the words are those of the example.
        groups = _grouped(new, lambda item: (item.table or item.topic or "-", item.code or item.reason or "-"))
        lines = []
        for (whose, why), some in groups.items():
            # The newest first: the reasons before it may be of a rule that is in force no more.
            some.sort(key=lambda record: -int(record.listed_at or 0))
            reasons = list(dict.fromkeys(filter(None, map(reason_of, some)))) if some[0].code else []
            others = counted(len(reasons) - 1, "other reason")
            more = f"; and {others}: {listed}" if reasons[1:] else ""
            words = [f"{reasons[0]}{more}"] if reasons else []
            lines.append(_line([title, whose, counted(len(some), "object"), why], some[0].id.key, len(some), words))
        yield from _first(lines, title)
        if len(records) > len(new):
            yield f"{title}\t{counted(len(records) - len(new), 'object')} from before: {listed}"
    new = fresh(state.with_rows)
    rows = [(entry.table or "-", code, entry) for entry in new for code in entry.row_codes]
    lines = []
    for (table, code), those in sorted(_grouped(rows, lambda entry: entry[:2]).items()):
        some = [entry[2] for entry in those]
        number = f"{counted(sum(entry.row_codes[code] for entry in some), 'row')} of {counted(len(some), 'object')}"
        reason = reason_of_rows(some[0], code) if len(lines) < LINES_SHOWN else None
        words = [*([reason] if reason else []), str(entries("--table", table, "--code", code))]
        lines.append(_line(["rows quarantined", table, number, code], some[0].id.key, len(some), words))
    yield from _first(lines, "rows quarantined")
    if len(state.with_rows) > len(new):
        left = state.quarantined_rows - sum(record.quarantined_rows for record in new)
        objects = counted(len(state.with_rows) - len(new), "object")
        yield f"rows quarantined\t{counted(left, 'row')} of {objects} from before: {entries()}"


def waiting_lines(state: Survey) -> Iterator[str]:
    """List the objects that wait, by state and table."""
    groups = _grouped(state.waiting, lambda item: (item.state, item.table or "-"))
    lines = [_line([*group, counted(len(some), "object")], some[0].id.key, len(some)) for group, some in groups.items()]
    yield from _first(lines, "...")


def _grouped(items: Iterable[T], group: Callable[[T], G]) -> dict[G, list[T]]:
    """The members of each group, groups in the order of their first."""
    groups: dict[G, list[T]] = {}
    for one in items:
        groups.setdefault(group(one), []).append(one)
    return groups


def _line(group: Sequence[str], example: str, objects: int, words: Sequence[str] = ()) -> str:
    """A line of a group, with its only object, or an example, and what is said of that one."""
    return "\t".join(map(visible, [*group, f"{'' if objects == 1 else 'for example '}{example}", *words]))


def _first(lines: Sequence[str], title: str) -> Iterator[str]:
    yield from lines[:LINES_SHOWN]
    if len(lines) > LINES_SHOWN:
        yield f"{title}\t{len(lines) - LINES_SHOWN:,} more lines (--json lists every object)"


def _document(outcome: WaitResult, strict: bool) -> dict[str, Any]:
    seen = outcome.survey
    return {
        "settled": seen.settled,
        "succeeded": outcome.succeeded(strict=strict),
        "seconds": round(outcome.seconds, 3),
        "objects": dict(seen.counts),
        "waiting": [
            {**key_and_version(item.id), "state": item.state, "lane": item.lane, "table": item.table}
            for item in seen.waiting
        ],
        "parked": [_describe(record) for record in seen.parked],
        "quarantined": [_describe(record) for record in seen.quarantined],
        "quarantined_rows": seen.quarantined_rows,
        "with_quarantined_rows": [
            {**_describe(record), "rows": record.quarantined_rows, "rows_by_code": dict(record.row_codes)}
            for record in seen.with_rows
        ],
        "halted": [{"lane": lane.lane, "failures": lane.failures, "reason": lane.reason} for lane in seen.halted],
        "paused": [lane.lane for lane in seen.paused],
        "standing_tables": [vars(table) for table in outcome.blocked],
        "failing_tables": list(outcome.failing),
        "catalog_failed": dict(outcome.unsynced),
    }


def _describe(record: ObjectRecord) -> dict[str, Any]:
    told = {"table": record.table, "topic": record.topic, "code": record.code, "reason": reason_of(record)}
    return {**key_and_version(record.id), **told}
