"""Gathers the state of a stack from the ledger as JSON values: lanes, tables, services and set-aside objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, replace
from itertools import islice
from typing import Any

from sluice.admission.notices import TEST_EVENT
from sluice.batch.claim import TableState
from sluice.batch.kafka_watch import KafkaWatch
from sluice.changes.outdated import is_outdated_note, outdated_note
from sluice.config.document import Configuration
from sluice.config.pinned_topic import config_by_pinned_topic, config_in_force
from sluice.config.table import TableConfig
from sluice.cost import Load, freshness_advice, observed_monthly, streaming_monthly
from sluice.errors import NotConfigured
from sluice.lane.machine import PAUSED, LaneState
from sluice.ledger.keys import CLAIMED, IGNORED, PARKED, QUARANTINED, SUPERSEDED, UNCOUNTED
from sluice.ledger.records import SAME_BYTES, ObjectRecord, PendingCount
from sluice_aws.ledger.ledger import Ledger
from sluice_cli.ingest.blocked import with_names
from sluice_cli.ingest.entry import reason_of
from sluice_cli.ingest.parked import is_proposed, judged_now, waits_for_rule
from sluice_cli.ingest.set_aside import ReasonOfRows
from sluice_cli.ingest.survey import describe_lane
from sluice_cli.status.service_entries import due_entries, service_entries
from sluice_cli.terminal.output import counted, human_age

DAY_MS = 86_400_000
LEAST_WINDOW_MS = DAY_MS // 4  # of runs, from which a day is judged
RUNS_READ = 2_000  # at most: one a minute, and some
COUNTED_AT_MOST = 10_000  # objects counted per state; a larger number is shown as "and more"
EXAMPLES = 3
LATE = 2  # a table is late once its oldest waiting object is this many times older than its freshness


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
    aside = {
        state: _aside(judged_now(record, configuration) for record in ledger.objects.in_state(state))
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
    name, found = table["table"], table["quarantined"]
    totals = {"objects": found["objects"] + objects["at_admission"].get(name, 0), "rows": found["rows"]}
    for kind, listed in (("objects", objects), ("rows", rows)):
        number = listed["by_table"].get(name, 0)
        found[kind] = max(number, totals[kind]) if listed["more"] else number


def lanes_and_tables(
    ledger: Ledger, now: int, configuration: Configuration | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The state of all lanes and tables, without set-aside objects.

    A table is listed in the lane of its objects or, without any, in the lane of its rule. A configured lane without an
    item in the ledger is listed if objects are pending in it, since paused tables wake no lane. A table has an error
    only while objects of it wait: where these were set aside or discarded, nothing is left that fails.
    """
    tables: dict[str, dict[str, Any]] = {
        state.table: _table(state, now, _config(configuration, state)) for state in ledger.tables.all()
    }
    known = list(ledger.lanes.all())
    configured = set(configuration.lane_names()) if configuration else set()
    known += [
        ledger.lanes.get(name)
        for name in sorted(configured - {lane.lane for lane in known})
        if ledger.pending.oldest(name, 1)
    ]
    lanes = []
    resting = ledger.lanes.paused_for_standstill() if any(lane.state == PAUSED for lane in known) else ()
    for lane in known:
        pending = ledger.pending.counts(lane.lane)
        unsettled = ledger.batches.unsettled(lane.lane)
        lanes.append(_lane(lane, pending, [pointer.batch for pointer in unsettled], now, resting))
        for name, count in pending.items():
            table = tables.setdefault(name, _table(TableState(name), now, _config(configuration, TableState(name))))
            table["lane"] = lane.lane
            table["pending"] = {"objects": count.objects, "bytes": count.bytes, "oldest_ms": max(0, now - count.oldest)}
        for pointer in unsettled:
            for name, part in ledger.batches.parts(pointer.batch).items():
                if part["state"] == CLAIMED:
                    table = tables.setdefault(
                        name, _table(TableState(name), now, _config(configuration, TableState(name)))
                    )
                    table["lane"] = lane.lane
                    table["claimed"] = {
                        "objects": table["claimed"]["objects"] + part["objects"],
                        "bytes": table["claimed"]["bytes"] + part["bytes"],
                    }
    for table in tables.values():
        table["late"] = _is_late(table["pending"]["oldest_ms"], table["freshness_s"])
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
    found = []
    tables: dict[str, list[int]] = {}
    for state in states:
        config = config_by_pinned_topic(configuration, state.table, state.pinned)
        if config is not None:
            tables.setdefault(config.lane, []).append(config.freshness_s)
    for lane, up_ms in sorted(up.items()):
        freshness = tables.get(lane, [])
        hours = up_ms / window * 24
        usd = observed_monthly(hours, len(freshness))
        if not freshness or usd <= streaming_monthly(len(freshness)):
            continue
        every_s = window / 1000 / batches[lane] if batches[lane] else 60.0
        advice = freshness_advice(Load(lane, len(freshness), min(every_s, 60.0), 1, 0.1), min(freshness))
        if advice is not None:
            advice = replace(advice, hours_a_day=hours, usd=usd)
            found.append({"lane": lane, **asdict(advice), "described": advice.described})
    return found


def _lane(
    lane: LaneState, pending: dict[str, PendingCount], unsettled: list[str], now: int, resting: Collection[str]
) -> dict[str, Any]:
    oldest = min((count.oldest for count in pending.values()), default=None)
    summary = describe_lane(lane, now, resting)
    return {
        "lane": lane.lane,
        "state": lane.state,
        "standstill": lane.state == PAUSED and lane.lane in resting,
        "summary": summary,
        "told": summary,  # the former name of `summary`, kept for one release
        "run": lane.run_id,
        "job_run": lane.job_run_id,
        "last_run": lane.last_run_id,
        "failures": lane.failures + lane.capacity_failures,
        "reason": lane.reason,
        "pending": {
            "objects": sum(count.objects for count in pending.values()),
            "bytes": sum(count.bytes for count in pending.values()),
            "oldest_ms": None if oldest is None else max(0, now - oldest),
        },
        "unsettled_batches": unsettled,
    }


def _is_late(oldest_ms: int | None, freshness_s: int | None) -> bool:
    return oldest_ms is not None and freshness_s is not None and oldest_ms > max(freshness_s, 30) * 1000 * LATE


def _config(configuration: Configuration | None, state: TableState) -> TableConfig | None:
    try:
        return config_in_force(configuration, state.table, state.pinned)
    except NotConfigured:
        return None


def _table(state: TableState, now: int, config: TableConfig | None = None) -> dict[str, Any]:
    backs_off = state.backoff_until is not None and state.backoff_until > now
    lane = config.lane if config else None
    lost = KafkaWatch.from_dict(state.watch).lost_under(config.generation if config else 0)
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
        "last_error": with_names(state.last_error, state.table, lane) if state.last_error else state.last_error,
        "failures": state.failures,
        "backoff_until": state.backoff_until if backs_off else None,
        "paused": config is not None and config.paused,
        "blocked": state.blocked["error"] if state.blocked else None,
        "notes": [
            *(
                [f"its data is being moved aside; `sluice rebuild table {state.table}` continues"]
                if state.rebuild
                else []
            ),
            *([not_counted(uncounted)] if (uncounted := state.totals.get(UNCOUNTED, 0)) > 0 else []),
            *([outdated_note(state.table, lost)] if lost else []),
            *(note for note in state.notes if not is_outdated_note(note)),
        ],
    }


def not_counted(commits: int) -> str:
    """What is missing in the changes of a table with so many commits that a later run found."""
    return f"its changes lack those of {counted(commits, 'commit')}, whose run died before recording it"


def _aside(records: Iterable[ObjectRecord]) -> dict[str, Any]:
    """The objects of one state by reason, the most frequent first, with a few keys each.

    `by_table` counts all of them by table, `at_admission` those that never were in a batch, and `without_rule` those
    that wait for a rule, of which `rules_proposed` get one by `sluice config discover`.
    """
    counts: Counter[str] = Counter()
    by_table: Counter[str] = Counter()
    at_admission: Counter[str] = Counter()
    without_rule = rules_proposed = 0
    codes: dict[str, str | None] = {}
    examples: dict[str, list[str]] = {}
    found = iter(records)
    for record in islice(found, COUNTED_AT_MOST):
        reason = _why(record)
        counts[reason] += 1
        without_rule += waits_for_rule(record)
        rules_proposed += is_proposed(record)
        if record.table:
            by_table[record.table] += 1
            at_admission[record.table] += int(record.batch is None)
        codes[reason] = record.code
        _add_example(examples.setdefault(reason, []), record.id.key)
    more = next(found, None) is not None
    reasons = [
        {"reason": reason, "code": codes[reason], "objects": count, "examples": examples[reason]}
        for reason, count in counts.most_common()
    ]
    return {
        "objects": counts.total(),
        "more": more,
        "reasons": reasons,
        "without_rule": without_rule,
        "rules_proposed": rules_proposed,
        "by_table": dict(by_table),
        "at_admission": {table: objects for table, objects in at_admission.items() if objects},
    }


def _add_example(keys: list[str], key: str) -> None:
    """Add a key unless there are enough, or another version of the object stands for it."""
    if len(keys) < EXAMPLES and key not in keys:
        keys.append(key)


def _rows(records: Iterable[ObjectRecord], reason_of_rows: ReasonOfRows) -> dict[str, Any]:
    """The quarantined rows of committed objects: by table, and by code, the most frequent first, with a few keys."""
    counts: Counter[str] = Counter()
    by_table: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    first: dict[str, ObjectRecord] = {}
    objects = 0
    found = iter(records)
    for record in islice(found, COUNTED_AT_MOST):
        objects += 1
        by_table[record.table or ""] += record.quarantined_rows
        for code, rows in record.row_codes.items():
            counts[code] += rows
            first.setdefault(code, record)
            _add_example(examples.setdefault(code, []), record.id.key)
    more = next(found, None) is not None
    reasons = [
        {
            "reason": ": ".join(filter(None, (code, reason_of_rows(first[code], code)))),
            "code": code,
            "rows": rows,
            "examples": examples[code],
        }
        for code, rows in counts.most_common()
    ]
    return {
        "rows": counts.total(),
        "objects": objects,
        "more": more,
        "reasons": reasons,
        "by_table": dict(by_table),
    }


def _why(record: ObjectRecord) -> str:
    if record.state == PARKED and record.topic:
        return f"topic {record.topic}: {record.reason}"
    if record.state == SUPERSEDED:
        return SAME_BYTES
    return record.rule or reason_of(record) or record.code or "no reason is recorded"


def _messages(parts: Iterable[Any]) -> dict[str, Any]:
    """Ignored messages by reason, without S3's own test of a queue."""
    counts: Counter[str] = Counter()
    found = (part for part in parts if part.reason != TEST_EVENT)
    for part in islice(found, COUNTED_AT_MOST):
        counts[part.reason] += 1
    more = next(found, None) is not None
    return {
        "messages": counts.total(),
        "more": more,
        "reasons": [{"reason": reason, "messages": count} for reason, count in counts.most_common()],
    }


def nothing_merged(table: Mapping[str, Any]) -> bool:
    """True for a table without a commit all of whose objects, or all of their rows, are in quarantine."""
    waits = table["pending"]["objects"] or table["claimed"]["objects"]
    aside = table["quarantined"]["objects"] or table["quarantined"]["rows"]
    return bool(aside) and table["last_commit_at"] is None and not waits


def describe_trouble(table: Mapping[str, Any], now: int, *, characters: int | None = None) -> list[str]:
    """Describe why a table is not doing its work: pause, back-off, and the first line of its last error.

    What is longer than `characters`, where they are given, ends with the last whole word and an ellipsis.
    """
    trouble = ["paused"] if table["paused"] else []
    if table["blocked"]:
        return [*trouble, f"blocked: {_first_line(table['blocked'], characters)}"]
    if table["backoff_until"]:
        trouble.append(f"failed, retrying in {human_age(table['backoff_until'] - now)}")
    if table["last_error"]:
        trouble.append(_first_line(table["last_error"], characters))
    return trouble


def _first_line(text: str, characters: int | None) -> str:
    line = text.splitlines()[0]
    if characters is None or len(line) <= characters:
        return line
    words = line[:characters].rpartition(" ")[0] or line[: characters - 1]
    return f"{words.rstrip(' ,;:')}…"
