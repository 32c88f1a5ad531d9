"""A committed batch is visible whole, per table: readers see the commit before it or after it."""

import re
import secrets

import pytest
from faulting.proxy import fault_proxy
from faulting.scene import Scene
from faulting.world import World
from judging.running_stack import RunningStack

from sluice_aws.stack import Target
from sluice_bench.data.debezium_objects import SOURCES, object_bytes, object_key, record
from sluice_bench.data.tickit import Dataset
from sluice_bench.data.tickit_rows import Sizes, row
from sluice_bench.measure.stack import table_rule
from sluice_read.reading import read_table

TABLE = "venue"
ROWS = 12
PARTITION = "venuestate"  # several files for one commit, written one after the other
DATA = re.compile(r"/(?!\.hoodie)[^/]+(\.parquet|\.log\.[^/]+)$")
COMPLETED = re.compile(r"/\.hoodie/\d{17}\.(commit|deltacommit|replacecommit)$")


def whole_table(dataset: Dataset, change: int) -> tuple[str, bytes]:
    """Key and bytes of one object that changes every row; the rows say by which change."""
    rows = (
        row(TABLE, number, seed=dataset.seed, sizes=dataset.sizes) | {"venuename": f"change {change}"}
        for number in range(1, ROWS + 1)
    )
    body = object_bytes(TABLE, [record(TABLE, values, op="u" if change else "r", change=change) for values in rows])
    return object_key(TABLE, change * ROWS, prefix=dataset.prefix), body


def stored(target: Target, database: str) -> tuple[set[str], int]:
    """The data files of the table, and how many commits its timeline has completed."""
    listing = target.client("s3").get_paginator("list_objects_v2")
    pages = listing.paginate(Bucket=target.silver, Prefix=f"{database}/{TABLE}/")
    keys = [item["Key"] for page in pages for item in page.get("Contents", ())]
    commits = sum(bool(COMPLETED.search(key)) for key in keys)
    return {key for key in keys if "/.hoodie/" not in key and DATA.search(key)}, commits


def read(target: Target, database: str) -> set[str]:
    """Which change's rows a newly opened table shows; every row is there."""
    rows = read_table(target, f"{database}.{TABLE}").to_pylist()
    assert sorted(row[SOURCES[TABLE].key] for row in rows) == list(range(1, ROWS + 1))
    return {row["venuename"] for row in rows}


@pytest.mark.parametrize("table_type", ["cow", pytest.param("mor", marks=pytest.mark.whole)])
def test_readers_see_a_committed_batch_whole_or_not_at_all(stack: RunningStack, table_type: str) -> None:
    target, s3 = stack.target, stack.target.client("s3")
    database = f"whole{secrets.token_hex(3)}"
    dataset = Dataset(Sizes(venue=ROWS), prefix=f"{database}.")
    rule = table_rule(dataset.prefix, database, TABLE, table_type)
    stack.configure([{**rule, "partition_by": [PARTITION]}])
    assert target.endpoint is not None
    with fault_proxy(target.endpoint) as proxy:
        scene = Scene(stack, proxy, World(stack, table_type=table_type))
        with scene.behind_proxy():
            key, body = whole_table(dataset, 0)
            s3.put_object(Bucket=target.bronze, Key=key, Body=body)
            stack.wait(180)
            files, commits = stored(target, database)

            key, body = whole_table(dataset, 1)
            with scene.trap(scene.timeline_put("(delta)?commit", f"{database}.{TABLE}"), go_on=True) as trap:
                s3.put_object(Bucket=target.bronze, Key=key, Body=body)
                scene.caught(trap)
                written, committed = stored(target, database)
                assert written > files and committed == commits, "files that no commit names yet"
                assert read(target, database) == {"change 0"}
            stack.wait(180)
            assert read(target, database) == {"change 1"} and stored(target, database)[1] == commits + 1
