"""Measures a warm commit at the beginning and the end of many, and the bytes they leave, under the default policy.

python -m sluice_bench.pipeline.commits_2000 [--commits 2000] [--table-type cow]
"""

import argparse
import json
import secrets
import tempfile
import time
from pathlib import Path

from judging.running_stack import RunningStack

from sluice_bench.data.debezium_objects import object_key
from sluice_bench.data.tickit import Dataset, change_object, pieces, snapshot_object
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure import ledger_times
from sluice_bench.measure.driver_log import events
from sluice_bench.measure.percentiles import percentile
from sluice_bench.measure.results import keep, say
from sluice_bench.measure.stack import bench_stack, table_rules

CAVEATS = (
    (
        "Each commit changes one row, one commit after the other, with freshness 0. A deployment commits at most "
        "once a minute: 10,080 times a week."
    ),
    (
        "The run is shorter than the time-travel window of seven days, so nothing is cleaned: the bytes are those"
        " of a table that keeps everything."
    ),
)
TABLE = "event"
LANE = "main"
WEEK = 7 * 24 * 60  # commits in seven days at the default freshness of 60 s
WINDOW = 25  # commits in the median at a point
TIMEOUT_S = 180.0


def commit_one(stack: RunningStack, dataset: Dataset, change: int) -> dict[str, float | str]:
    """Put one change and wait until its object is settled. Returns the batch and the seconds."""
    target = stack.target
    key, body = change_object(
        dataset,
        TABLE,
        1 + change % dataset.sizes.event,
        change=change,
        ts_ms=int(time.time() * 1000),
        eventname=f"show {change}",
    )
    started = time.perf_counter()
    version = target.client("s3").put_object(Bucket=target.bronze, Key=key, Body=body).get("VersionId", "null")
    dynamodb = target.client("dynamodb")

    def settled() -> dict | None:
        item = ledger_times.object_item(dynamodb, target.ledger_table, target.bronze, key, version)
        return item if item and item.get("state") == "committed" else None

    item = ledger_times.await_until(settled, timeout_s=TIMEOUT_S, what=f"commit {change}")
    return {"commit": change, "batch": str(item["batch"]), "seconds": round(time.perf_counter() - started, 3)}


def stored(stack: RunningStack, table: str) -> dict[str, int]:
    """Bytes and files in a table's folder: data, and Hudi's own folder separately."""
    target = stack.target
    totals = {"data_bytes": 0, "data_files": 0, "hudi_bytes": 0, "hudi_files": 0}
    for page in (
        target.client("s3")
        .get_paginator("list_objects_v2")
        .paginate(Bucket=target.silver, Prefix=f"{table.replace('.', '/', 1)}/")
    ):
        for item in page.get("Contents", ()):
            kind = "hudi" if "/.hoodie/" in item["Key"] else "data"
            totals[f"{kind}_bytes"] += item["Size"]
            totals[f"{kind}_files"] += 1
    return totals


def merge_seconds(stack: RunningStack) -> dict[str, float]:
    """The driver's own merge time by batch."""
    return {
        str(event["batch"]): float(event["seconds"]["merge"])
        for event in events(stack.home)
        if isinstance(event.get("seconds"), dict) and "merge" in event["seconds"] and "batch" in event
    }


def around(values: list[float], commit: int) -> float:
    """The median of the WINDOW values up to a commit (counted from 1)."""
    return percentile(values[max(0, commit - WINDOW) : commit], 0.5)


def main() -> None:
    """Commit, keep the raw values, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=2_000)
    parser.add_argument("--table-type", choices=("cow", "mor"), default="cow")
    given = parser.parse_args()
    if given.commits < 200:
        parser.error("at least 200 commits are needed: the comparison is with commit 100")
    database = f"commits{secrets.token_hex(3)}"
    dataset = Dataset(Sizes.scaled(1.0), prefix=f"{database}.")
    table = f"{database}.{TABLE}"
    sizes: list[dict] = []
    with bench_stack() as stack, tempfile.TemporaryDirectory() as scratch:
        stack.configure(
            [rule for rule in table_rules(dataset.prefix, database, given.table_type) if rule["table"] == table],
            lanes={LANE: {"linger": "10m"}},
        )
        first = Path(scratch) / "snapshot.avro"
        piece = next(piece for piece in pieces(dataset) if piece.table == TABLE)
        first.write_bytes(snapshot_object(dataset, piece))
        stack.put(object_key(TABLE, 0, prefix=dataset.prefix), first)
        stack.wait(300.0)
        commits: list[dict] = []
        for change in range(1, given.commits + 1):
            commits.append(commit_one(stack, dataset, change))
            if change % 100 == 0:
                sizes.append({"commit": change, **stored(stack, table)})
                print(json.dumps({**commits[-1], **sizes[-1]}), flush=True)
        merges = merge_seconds(stack)
    merge = [merges[str(commit["batch"])] for commit in commits if commit["batch"] in merges]
    whole = [float(commit["seconds"]) for commit in commits]
    results: dict[str, object] = {
        "put_to_settled_at_100_s": around(whole, 100),
        f"put_to_settled_at_{given.commits}_s": around(whole, given.commits),
        "ratio_put_to_settled": round(around(whole, given.commits) / around(whole, 100), 3),
    }
    if len(merge) == len(commits):
        results |= {
            "merge_at_100_s": around(merge, 100),
            f"merge_at_{given.commits}_s": around(merge, given.commits),
            "ratio_merge": round(around(merge, given.commits) / around(merge, 100), 3),
        }
    total = sizes[-1]["data_bytes"] + sizes[-1]["hudi_bytes"]
    results |= {
        "stored_mb": round(total / 1e6, 1),
        "rows": dataset.sizes.event,
        "bytes_per_commit": round(total / given.commits),
        "seven_days_at_one_a_minute_gb": round(total / given.commits * WEEK / 1e9, 2),
    }
    file = keep(
        "commits",
        parameters=vars(given),
        caveats=CAVEATS,
        values={"commits": commits, "merge_s": merge, "stored": sizes},
        summary=results,
    )
    say("Many commits", CAVEATS, results, file)


if __name__ == "__main__":
    main()
