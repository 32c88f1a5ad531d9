"""The Iceberg table beside a Hudi table shows the same rows after every phase of its life, and is never ahead of it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable
from support.builders import change, flattened
from support.workbench import Died, Workbench, dies, table

from sluice.changes.forgotten import key_hash
from sluice.changes.hidden_columns import NAMES
from sluice.config.services import ServicePolicy
from sluice.config.table import TableConfig
from sluice.hudi.timeline import instant_ms, instant_of_ms
from sluice.iceberg.metadata import FOLDER, METADATA
from sluice.services.requests import CLUSTERING, FORGETTING, ICEBERG
from sluice_local.images.jars import Jar, cached
from sluice_spark.hudi.housekeeping import clean
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.iceberg.follow import IcebergTable
from sluice_spark.iceberg.keep_up import before_cleaning

FIRST = {"id": "int", "place": ["null", "string"], "name": ["null", "string"], "size": ["null", "int"]}
LATER = {**FIRST, "size": ["null", "long"], "tags": ["null", {"type": "array", "items": "string"}]}
PLACES = ("A", "", "Côte/d =x")
READ_ICEBERG = Path(__file__).with_name("read_iceberg.py")

Check = Callable[[Workbench, TableConfig], None]


class Ended(BaseException):
    """The process ended."""


def ends(*_: Any, **__: Any) -> Any:
    raise Ended


def folder_of(bench: Workbench, config: TableConfig) -> Path:
    return bench.local_path(config) / FOLDER / METADATA


def metadata_of(bench: Workbench, config: TableConfig) -> Path:
    folder = folder_of(bench, config)
    return folder / f"v{(folder / 'version-hint.text').read_text()}.metadata.json"


def snapshots(bench: Workbench, config: TableConfig) -> list[str]:
    return [str(one["snapshot-id"]) for one in json.loads(metadata_of(bench, config).read_text())["snapshots"]]


def by_pyiceberg(bench: Workbench, config: TableConfig, snapshot: str | None = None) -> list[Any]:
    number = None if snapshot is None else int(snapshot)
    rows = StaticTable.from_metadata(str(metadata_of(bench, config))).scan(snapshot_id=number).to_arrow()
    return sorted(rows.to_pylist(), key=str)


def by_hudi_rs(bench: Workbench, config: TableConfig) -> list[Any]:
    """The rows that a view shows, by the reader of Hudi tables that shares no code with Spark's."""
    rows = bench.table_by_hudi_rs(config).to_pylist()
    shown = [
        {name: value for name, value in row.items() if not name.startswith("_hoodie_") and name not in NAMES}
        for row in rows
        if not row["__deleted"]
    ]
    return sorted(shown, key=str)


def check_equal(bench: Workbench, config: TableConfig) -> None:
    """The newest commit is shown, and every older snapshot can be read."""
    hudi = bench.hudi(config)
    assert snapshots(bench, config)[-1] == hudi.newest_commit()
    assert by_pyiceberg(bench, config) == by_hudi_rs(bench, config)
    for snapshot in snapshots(bench, config):
        by_pyiceberg(bench, config, snapshot)


def changed(op: str, lsn: int, *ids: int, place: str | None = "A", schema: Any = FIRST) -> list[dict[str, Any]]:
    more = {"tags": ["a", "b"]} if schema is LATER else {}
    return [change(op, lsn + id, id=id, place=place, name=f"at {lsn}", size=id, **more) for id in ids]


def live(bench: Workbench, config: TableConfig, monkeypatch: pytest.MonkeyPatch, check: Check) -> None:
    """Everything that happens to a table, with `check` after each phase."""

    def merge(changes: list[dict[str, Any]], schema: Any = FIRST) -> None:
        bench.apply(config, *changes, schema=flattened(schema))

    merge([row for id in range(9) for row in changed("r", 10, id, place=PLACES[id % 3])])
    check(bench, config)
    merge([*changed("u", 100, 1, 2, place="B"), *changed("d", 100, 4, place=None)])
    check(bench, config)
    merge([*changed("u", 200, 3, 10, schema=LATER), *changed("d", 200, 5, 6, schema=LATER)], LATER)
    check(bench, config)
    bench.new_run()
    bench.in_tasks()
    merge([*changed("u", 300, 4, 7, place="", schema=LATER), *changed("d", 300, 0, schema=LATER)], LATER)
    check(bench, config)
    bench.serve(config, CLUSTERING)
    assert any(name.endswith(".replacecommit") for name in bench.timeline(config))
    check(bench, config)

    shown = by_pyiceberg(bench, config)
    manifest = bench.manifest(config, [bench.put(changed("u", 400, 1, 8, schema=LATER), flattened(LATER))])
    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "follow", ends)
        with pytest.raises(Ended):
            bench.merge_manifest(manifest, config)
    assert by_pyiceberg(bench, config) == shown != by_hudi_rs(bench, config)
    bench.new_run()
    assert bench.resolve(manifest, config) is not None
    check(bench, config)

    with monkeypatch.context() as patched:
        patched.setattr(IcebergTable, "follow", dies)
        merge(changed("u", 500, 2, schema=LATER), LATER)
    assert "iceberg_failed" in bench.events.names()
    bench.serve(config, CLUSTERING)
    check(bench, config)

    manifest = bench.manifest(config, [bench.put(changed("u", 600, 1, schema=LATER), flattened(LATER))])
    with monkeypatch.context() as patched:
        patched.setattr("sluice_spark.hudi.table.append", write_then_die)
        with pytest.raises(Died):
            bench.merge_manifest(manifest, config)
    bench.new_run()
    assert bench.resolve(manifest, config) is None
    check(bench, config)
    bench.merge_manifest(manifest, config)
    check(bench, config)

    hudi = bench.hudi(config)
    horizon = instant_of_ms(instant_ms(hudi.newest_commit() or "") + 1)
    cleaned = clean(hudi, horizon=horizon, before_delete=before_cleaning(hudi, bench.services, lambda: None))
    assert cleaned.files and snapshots(bench, config) == [hudi.newest_commit()]
    bench.new_run()
    check(bench, config)
    merge(changed("u", 700, 7, schema=LATER), LATER)
    assert len(snapshots(bench, config)) == 2
    check(bench, config)

    client = hudi.client()
    assert client.rollback(hudi.newest_commit())
    client.close()
    bench.new_run()
    merge(changed("u", 800, 8, schema=LATER), LATER)
    check(bench, config)

    bench.serve(config, FORGETTING, arguments={"key": key_hash(config.table, ["3"])})
    assert 3 not in [row["id"] for row in by_pyiceberg(bench, config)]
    assert len(snapshots(bench, config)) == 1
    check(bench, config)

    metadata_of(bench, config).write_text("{")
    bench.serve(config, ICEBERG)
    assert len(snapshots(bench, config)) == 1
    check(bench, config)

    off = dataclasses.replace(config, iceberg=False)
    bench.new_run()
    # A row's values may bound the files in manifests.
    bench.serve(off, FORGETTING, arguments={"key": key_hash(config.table, ["7"])})
    assert not list(folder_of(bench, config).iterdir())
    merge(changed("u", 900, 8, schema=LATER), LATER)
    assert len(snapshots(bench, config)) == 2, "of the state before, and of its own commit"
    check(bench, config)


def write_then_die(*arguments: Any, **more: Any) -> None:
    """In place of a write by Spark: its files are there, and no commit."""
    from sluice_spark.hudi.data_source import append

    rows, path, options, _ = arguments
    append(rows, path, options, dies, **more)


@pytest.mark.parametrize(
    "partition_by", [pytest.param((), id="flat", marks=pytest.mark.whole), pytest.param(("place",), id="partitioned")]
)
def test_iceberg_shows_the_rows_of_hudi_after_every_phase(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, partition_by: tuple[str, ...]
) -> None:
    services = ServicePolicy(cluster_by=("id",))
    config = table(iceberg=True, partition_by=partition_by, services=services)

    live(bench, config, monkeypatch, check_equal)

    assert HudiJvm(bench.spark).names(f"{bench.path(config)}/{FOLDER}/{METADATA}")


DUCKDB = ("duckdb==1.4.4", "duckdb-ext-iceberg==1.4.4.20260205", "duckdb-ext-avro==1.4.4.20260205")
RUNTIME = Jar(
    "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0",
    47130096,
    "70f9471870b2d456167d703c829f098a446b86bb1379eee338c0efa03a341026",
)


@pytest.mark.whole
@pytest.mark.needs("the package index")
@pytest.mark.parametrize("reader", ["DuckDB", "Spark"])
def test_other_readers_of_iceberg_read_every_snapshot_alike(bench: Workbench, tmp_path: Path, reader: str) -> None:
    config = table(iceberg=True, partition_by=("place",), services=ServicePolicy(cluster_by=("id",)))
    first = [row for id in range(9) for row in changed("r", 10, id, place=PLACES[id % 3])]
    moved = [*changed("u", 100, 1, 2, place="B"), *changed("d", 100, 4, place=None)]
    evolved = [*changed("u", 200, 3, 10, schema=LATER), *changed("d", 200, 5, 6, schema=LATER)]
    for changes, schema in ((first, FIRST), (moved, FIRST), (evolved, LATER)):
        bench.apply(config, *changes, schema=flattened(schema))
    bench.serve(config, CLUSTERING)
    bench.apply(config, *changed("d", 300, 10, schema=LATER), schema=flattened(LATER))
    if reader == "DuckDB":
        target, by = str(tmp_path / "duckdb"), "duckdb"
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", target, *DUCKDB], check=True)
    else:
        target, by = "", str(cached((RUNTIME,), "Fetching Iceberg")[0])

    done = subprocess.run(
        [sys.executable, str(READ_ICEBERG), by, str(folder_of(bench, config).parent), *snapshots(bench, config)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": target},
    )

    assert done.returncode == 0, done.stderr[-2000:]
    read = [sorted(json.loads(line), key=str) for line in done.stdout.splitlines()]
    assert read == [by_pyiceberg(bench, config, snapshot) for snapshot in snapshots(bench, config)]
    assert len(read) == 5 and read[-1] == by_hudi_rs(bench, config)
