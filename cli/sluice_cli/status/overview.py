"""Gathers the state of a stack from the ledger as JSON values: lanes, tables, services and set-aside objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace
from itertools import islice
from typing import Any, TypeVar

from sluice.admission.notices import TEST_EVENT
from sluice.batch.claim import TableState
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic, config_in_force, pinned_topic
from sluice.config.table import TableConfig
from sluice.cost import Assumptions, Load, freshness_advice, observed_monthly, streaming_monthly
from sluice.errors import NotConfigured
from sluice.lane.machine import PAUSED
from sluice.ledger.keys import CLAIMED, IGNORED, PARKED, QUARANTINED, SUPERSEDED
from sluice.ledger.records import SAME_BYTES, ObjectRecord, PendingCount
from sluice_aws.ledger.ledger import Ledger
from sluice_cli.account.lane import lane_entry, rebuilds_by_lane
from sluice_cli.account.object import is_proposed, judged_now, waits_for_rule
from sluice_cli.account.service import due_entries, service_entries
from sluice_cli.account.table import is_late, note_misfit, nothing_merged, table_entry
from sluice_cli.ingest.entry import reason_of
from sluice_cli.ingest.set_aside import ReasonOfRows

DAY_MS = 86_400_000
LEAST_WINDOW_MS = DAY_MS // 4  # of runs, from which a day is judged
RUNS_READ = 2_000  # at most: one a minute, and some
COUNTED_AT_MOST = 10_000  # objects counted per state; a larger number is shown as "and more"
EXAMPLES = 3
T = TypeVar("T")


def gather(
    ledger: Ledger,
    now: int,
    configured: Callable[[], Configuration | None],
    reason_of_rows: ReasonOfRows = lambda record, code: None,
) -> dict[str, Any]:
    """Gather everything that `sluice status` shows. `now` is in epoch ms, ages in milliseconds, sizes in bytes.

    `configured` reads the configuration after the ledger's first answer. Without a configuration, lanes that never had
    work are unknown and no service is due. `reason_of_rows` reads the reason of the rows of one object for each code.
    """
    states = list(ledger.tables.all())
    configuration = configured()
    lanes, tables = lanes_and_tables(ledger, now, configuration)
    requests = [request for lane in lanes for request in ledger.services.of_lane(lane["lane"])]
    fed = {topic: state.table for state in states if (topic := pinned_topic(state.pinned))}
    aside = {
        state: _aside((judged_now(record, configuration) for record in ledger.objects.in_state(state)), fed)
        for state in (PARKED, QUARANTINED, IGNORED, SUPERSEDED)
    }
    rows = _rows(ledger.quarantine.objects_with_rows(), reason_of_rows)
    for table in tables:
        _count_quarantined(table, aside[QUARANTINED], rows)
        if nothing_merged(table):
            table["notes"].append("all of its rows are in quarantine, and nothing retries them by itself")
    return {
        "lanes": lanes,
        "tables": tables,
        "advice": lane_advice(islice(ledger.history.runs(), RUNS_READ), states, configuration, now),
        "services": service_entries(states, requests),
        "services_due": due_entries(configuration, states, requests, now),
        "set_aside": aside,
        "quarantined_rows": rows,
        "ignored_messages": _messages(ledger.history.ignored_messages()),
    }


def _count_quarantined(table: dict[str, Any], objects: Mapping[str, Any], rows: Mapping[str, Any]) -> None:
    """Set a table's counts of what is in quarantine: those listed, or more by its totals where more was not read.

    The totals count batches, and objects that were quarantined at admission are in none.
    """
    name, counts = table["table"], table["quarantined"]
    totals = {"objects": counts["objects"] + objects["at_admission"].get(name, 0), "rows": counts["rows"]}
    for kind, listed in (("objects", objects), ("rows", rows)):
        number = listed["by_table"].get(name, 0)
        counts[kind] = max(number, totals[kind]) if listed["more"] else number


def lanes_and_tables(
    ledger: Ledger, now: int, configuration: Configuration | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The state of all lanes and tables, without set-aside objects.

    A table is listed in the lane of its objects or, without any, in the lane of its rule. A configured lane without an
    item in the ledger is listed if objects are pending in it, since paused tables wake no lane. A table has an error
    only while objects of it wait: where these were set aside or discarded, nothing is left that fails.
    """
    states = list(ledger.tables.all())
    rebuilds = rebuilds_by_lane(states)

    def unmerged(name: str) -> dict[str, Any]:
        return table_entry(TableState(name), now, _config(configuration, TableState(name)))

    tables = {state.table: table_entry(state, now, _config(configuration, state)) for state in states}
    all_lanes = list(ledger.lanes.all())
    configured = set(configuration.lane_names()) if configuration else set()
    all_lanes += [
        ledger.lanes.get(name)
        for name in sorted(configured - {lane.lane for lane in all_lanes})
        if ledger.pending.oldest(name, 1)
    ]
    lanes = []
    state_by_table = {state.table: state for state in states}
    resting = ledger.lanes.paused_for_standstill() if any(lane.state == PAUSED for lane in all_lanes) else ()
    for lane in all_lanes:
        pending = ledger.pending.counts(lane.lane)
        unsettled = ledger.batches.unsettled(lane.lane)
        parts_by_batch = {pointer.batch: ledger.batches.parts(pointer.batch) for pointer in unsettled}
        parts = [part for of_batch in parts_by_batch.values() for part in of_batch.values()]
        lanes.append(
            {
                **lane_entry(lane, now, resting, rebuilds, parts),
                "pending": _waiting(pending.values(), now),
                "unsettled_batches": [pointer.batch for pointer in unsettled],
            }
        )
        for name, count in pending.items():
            table = tables.setdefault(name, unmerged(name))
            table.update(lane=lane.lane, pending=_waiting([count], now))
            note_misfit(table, state_by_table.get(name, TableState(name)), configuration)
        for of_batch in parts_by_batch.values():
            for name, part in of_batch.items():
                if part["state"] == CLAIMED:
                    table = tables.setdefault(name, unmerged(name))
                    table["lane"] = lane.lane
                    table["claimed"] = {
                        "objects": table["claimed"]["objects"] + part["objects"],
                        "bytes": table["claimed"]["bytes"] + part["bytes"],
                    }
    for table in tables.values():
        table["late"] = is_late(table["pending"]["oldest_ms"], table["freshness_s"])
        waits = table["pending"]["objects"] or table["claimed"]["objects"]
        if not table["blocked"] and not (table["failures"] and waits):
            table.update(last_error=None, failures=0, backoff_until=None)
    return lanes, [tables[name] for name in sorted(tables)]


def lane_advice(
    runs: Iterable[Mapping[str, Any]], states: Iterable[TableState], configuration: Configuration | None, now: int
) -> list[dict[str, Any]]:
    """Lanes whose runs of the last day cost more than streaming jobs, and the freshness with which they wouldn't.

    `runs` are the ledger's items, newest first. Nothing is said of less than LEAST_WINDOW_MS.
    """
    up: dict[str, float] = {}
    first, batches = now, Counter[str]()
    for run in runs:
        began, ended = run.get("started_at") or run.get("requested_at") or now, run.get("ended_at") or now
        if ended < now - DAY_MS:
            break
        began = max(began, now - DAY_MS)
        first = min(first, began)
        up[run["lane"]] = up.get(run["lane"], 0.0) + max(0, ended - began)
        batches[run["lane"]] += int(run.get("batches") or 0)
    window = now - first
    if window < LEAST_WINDOW_MS:
        return []
    advice_by_lane = []
    tables: dict[str, list[int]] = {}
    for state in states:
        config = config_by_pinned_topic(configuration, state.table, state.pinned)
        if config is not None:
            tables.setdefault(config.lane, []).append(config.freshness_s)
    for lane, up_ms in sorted(up.items()):
        freshness = tables.get(lane, [])
        if configuration is None or not freshness:
            continue
        hours, given = up_ms / window * 24, Assumptions(least_executors=configuration.lane(lane).min_executors)
        usd = observed_monthly(hours, len(freshness), given)
        if usd <= streaming_monthly(len(freshness)):
            continue
        every_s = window / 1000 / batches[lane] if batches[lane] else 60.0
        advice = freshness_advice(Load(lane, len(freshness), min(every_s, 60.0), 1, 0.1), min(freshness), given)
        if advice is not None:
            advice = replace(advice, hours_a_day=hours, usd=usd)
            advice_by_lane.append({"lane": lane, **asdict(advice), "described": advice.described})
    return advice_by_lane


def _waiting(pending: Iterable[PendingCount], now: int) -> dict[str, Any]:
    counts = list(pending)
    return {
        "objects": sum(count.objects for count in counts),
        "bytes": sum(count.bytes for count in counts),
        "oldest_ms": max(0, now - min(count.oldest for count in counts)) if counts else None,
    }


def _config(configuration: Configuration | None, state: TableState) -> TableConfig | None:
    try:
        return config_in_force(configuration, state.table, state.pinned)
    except NotConfigured:
        return None


def _aside(records: Iterable[ObjectRecord], fed: Mapping[str, str]) -> dict[str, Any]:
    """The objects of one state by reason, the most frequent first, with a few keys each.

    `by_table` counts all of them by table, `at_admission` those that never were in a batch, and `without_rule` those
    that wait for a rule, of which `rules_proposed` get one by `sluice config discover`; `tables_left` are the tables
    whose topics they are of, by `fed`, which names tables by the topics of their data.
    """
    listed, more = _first(records)
    by_reason: dict[str, list[ObjectRecord]] = {}
    for record in listed:
        by_reason.setdefault(_why(record), []).append(record)
    unruled = [record for record in listed if waits_for_rule(record)]
    reasons = [
        {"reason": reason, "code": own[-1].code, "objects": len(own), "examples": _examples(own)}
        for reason, own in sorted(by_reason.items(), key=lambda entry: -len(entry[1]))
    ]
    return {
        "objects": len(listed),
        "more": more,
        "reasons": reasons,
        "without_rule": len(unruled),
        "rules_proposed": sum(map(is_proposed, listed)),
        "tables_left": sorted({fed[record.topic] for record in unruled if record.topic and record.topic in fed}),
        "by_table": dict(Counter(record.table for record in listed if record.table)),
        "at_admission": dict(Counter(record.table for record in listed if record.table and record.batch is None)),
    }


def _first(records: Iterable[T]) -> tuple[list[T], bool]:
    """The first COUNTED_AT_MOST, and whether there are more."""
    left = iter(records)
    return list(islice(left, COUNTED_AT_MOST)), next(left, None) is not None


def _examples(records: Iterable[ObjectRecord]) -> list[str]:
    """A few keys, each once: another version of an object stands for it."""
    return list(dict.fromkeys(record.id.key for record in records))[:EXAMPLES]


def _rows(records: Iterable[ObjectRecord], reason_of_rows: ReasonOfRows) -> dict[str, Any]:
    """The quarantined rows of committed objects: by table, and by code, the most frequent first, with a few keys."""
    listed, more = _first(records)
    counts, by_table = Counter[str](), Counter[str]()
    by_code: dict[str, list[ObjectRecord]] = {}
    for record in listed:
        by_table[record.table or ""] += record.quarantined_rows
        counts.update(record.row_codes)
        for code in record.row_codes:
            by_code.setdefault(code, []).append(record)
    reasons = [
        {
            "reason": ": ".join(filter(None, (code, reason_of_rows(by_code[code][0], code)))),
            "code": code,
            "rows": rows,
            "examples": _examples(by_code[code]),
        }
        for code, rows in counts.most_common()
    ]
    whole = {"rows": counts.total(), "objects": len(listed), "more": more, "reasons": reasons}
    return {**whole, "by_table": dict(by_table)}


def _why(record: ObjectRecord) -> str:
    if record.state == PARKED and record.topic:
        return f"topic {record.topic}: {record.reason}"
    if record.state == SUPERSEDED:
        return SAME_BYTES
    return record.rule or reason_of(record) or record.code or "no reason is recorded"


def _messages(parts: Iterable[Any]) -> dict[str, Any]:
    """Ignored messages by reason, without S3's own test of a queue."""
    listed, more = _first(part for part in parts if part.reason != TEST_EVENT)
    counts = Counter(part.reason for part in listed)
    return {
        "messages": counts.total(),
        "more": more,
        "reasons": [{"reason": reason, "messages": count} for reason, count in counts.most_common()],
    }
