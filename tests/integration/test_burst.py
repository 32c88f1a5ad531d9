"""A burst of objects into an idle system: it takes one Spark application and few commits, and nothing is lost."""

import datetime as dt
import re
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from judging.running_stack import RunningStack

from sluice_bench.data.debezium_objects import SOURCES, writer_schema
from sluice_bench.data.tickit import Dataset, change_object
from sluice_bench.data.tickit_rows import EPOCH, Row, Sizes, row
from sluice_bench.measure import ledger_times
from sluice_bench.measure.stack import table_rules
from sluice_read.reading import read_table

pytestmark = pytest.mark.timeout(600)

OBJECTS, TABLES = 200, 7
BATCHES, COMMITS = 3, 21
LANE = "burst"
ROWS = 11  # of each table: fewer than its objects, so that later changes of a row meet earlier ones in one batch
COMPLETED = re.compile(r"/\.hoodie/(\d{17})\.(commit|deltacommit|replacecommit)$")
MIDNIGHT = dt.datetime.combine(EPOCH, dt.time(), dt.timezone.utc)
# How the reader gives what Debezium's types mean.
MEANING: Mapping[str, Callable[[Any], Any]] = {
    "io.debezium.time.Date": lambda days: EPOCH + dt.timedelta(days=days),
    "io.debezium.time.Timestamp": lambda millis: MIDNIGHT + dt.timedelta(milliseconds=millis),
    "io.debezium.time.MicroTimestamp": lambda micros: MIDNIGHT + dt.timedelta(microseconds=micros),
    "io.debezium.time.ZonedTimestamp": dt.datetime.fromisoformat,
}


def burst(dataset: Dataset) -> tuple[list[tuple[str, bytes]], dict[str, dict[int, Row]]]:
    """The objects, one change each, in turns over the tables; and the row that each key has after its last change."""
    objects: list[tuple[str, bytes]] = []
    rows: dict[str, dict[int, Row]] = {table: {} for table in SOURCES}
    for n in range(OBJECTS):
        turn, table = n // TABLES, list(SOURCES)[n % TABLES]
        number, change = 1 + turn % ROWS, 1 + turn
        first = turn < ROWS
        changed = {} if first else changed_column(table, change)
        objects.append(
            change_object(
                dataset, table, number, change=change, op="c" if first else "u", ts_ms=1_795_300_000_000 + n, **changed
            )
        )
        values = row(table, number, seed=dataset.seed, sizes=dataset.sizes) | changed
        rows[table][int(str(values[SOURCES[table].key]))] = values
    return objects, rows


def changed_column(table: str, change: int) -> Row:
    """One column that says which change of the table the row had last."""
    return {
        "user": {"city": f"city {change}"},
        "venue": {"venuename": f"venue {change}"},
        "event": {"eventname": f"event {change}"},
        "category": {"catdesc": f"text {change}"},
        "date": {"week": 100 + change},
        "listing": {"numtickets": 100 + change},
        "sale": {"qtysold": 100 + change},
    }[table]


def as_read(table: str, values: Row) -> Row:
    """A generated row in the values that a reader of silver gives."""
    names = {field["name"]: connect_name(field["type"]) for field in writer_schema(table)["fields"]}
    return {
        column: value if value is None or names.get(column) not in MEANING else MEANING[names[column]](value)
        for column, value in values.items()
    }


def connect_name(kind: Any) -> str:
    """The Connect name of an Avro type, also of a nullable one; empty where it has none."""
    kinds = kind if isinstance(kind, list) else [kind]
    return next((one["connect.name"] for one in kinds if isinstance(one, dict) and "connect.name" in one), "")


def commits(stack: RunningStack, database: str) -> Counter[str]:
    """The completed instants on each table's own timeline, of this database."""
    listing = stack.target.client("s3").get_paginator("list_objects_v2")
    keys = (
        item["Key"]
        for page in listing.paginate(Bucket=stack.target.silver, Prefix=f"{database}/")
        for item in page.get("Contents", ())
    )
    return Counter(key.split("/")[1] for key in keys if COMPLETED.search(key))


@pytest.mark.whole
def test_two_hundred_objects_at_once_make_one_run_and_few_commits(
    stack: RunningStack, record_property: Callable[[str, object], None]
) -> None:
    target = stack.target
    dynamodb, s3, emr = target.client("dynamodb"), target.client("s3"), target.client("emr-serverless")
    database = f"burst{secrets.token_hex(3)}"
    dataset = Dataset(Sizes(*[ROWS] * TABLES), prefix=f"{database}.")
    objects, expected = burst(dataset)
    # No pacing that would gather what arrives, and an idle lane: one of its own, which Spark leaves soon.
    rules = [{**rule, "lane": LANE} for rule in table_rules(dataset.prefix, database)]
    stack.configure(rules, defaults={"freshness": 0}, lanes={LANE: {"linger": "1s"}})
    before = runs(emr, target.outputs["ApplicationId"])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda entry: s3.put_object(Bucket=target.bronze, Key=entry[0], Body=entry[1]), objects))
    stack.wait(300)

    mine = stack.ledger_objects(target.bronze, prefix=f"topics/{database}.")
    assert Counter(item["state"] for item in mine) == {"committed": OBJECTS}
    batches = {str(item["batch"]) for item in mine}
    parts = [
        item
        for item in ledger_times.batch_items(dynamodb, target.ledger_table)
        if item["pk"].removeprefix("batch#") in batches and str(item["sk"]).startswith("table#")
    ]
    timeline = commits(stack, database)
    sizes = sorted(Counter(part["pk"] for part in parts).values())
    seen = f"{len(batches)} batches, parts {sizes}, commits {dict(timeline)}"
    record_property("seen", seen)
    assert len(runs(emr, target.outputs["ApplicationId"]) - before) == 1, seen
    assert len({part["run"] for part in parts}) == 1, seen
    assert len(batches) <= BATCHES, seen
    assert len(timeline) == TABLES and sum(timeline.values()) <= COMMITS, seen
    assert sum(timeline.values()) == sum(not part["no_change"] for part in parts), "the ledger tells of every commit"
    for table in SOURCES:
        key = SOURCES[table].key
        rows = sorted(read_table(target, f"{database}.{table}").to_pylist(), key=lambda stored: stored[key])
        assert rows == [as_read(table, values) for _, values in sorted(expected[table].items())], table


def runs(emr: Any, application: str) -> set[str]:
    """Every Spark application that the stand-in ever started."""
    pages = emr.get_paginator("list_job_runs").paginate(applicationId=application)
    return {run["id"] for page in pages for run in page["jobRuns"]}
