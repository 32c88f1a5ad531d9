"""A forgotten row is in no file of its table, its history or their older versions, and no replay brings it back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.workbench import SCHEMA, Died, Silver, Workbench, dies_at, row, table

from sluice.changes.forgotten import key_hash
from sluice.config.table import TableConfig
from sluice.hudi.timeline import instant_ms, instant_of_ms
from sluice.services.requests import FORGETTING, SliceDone
from sluice_cli.trace.row_life import forgotten_row
from sluice_read.errors import NotRetained
from sluice_read.moments import Span
from sluice_read.reading import open_table, read_table
from sluice_spark.hudi.late_files import remove_late_files
from sluice_spark.hudi.table import HudiTable

COLUMNS = ("id", "place", "name", "__deleted")
UNCOMPRESSED = {"hoodie.parquet.compression.codec": "uncompressed"}
SECRET = b"Ada-Lovelace"


def forget(bench: Workbench, config: TableConfig, *key: str, **given: Any) -> SliceDone:
    return bench.serve(config, FORGETTING, arguments={"key": key_hash(config.table, key)}, **given)


def files_with(folder: Path, id: int) -> list[str]:
    """The files below a folder that hold a row's id or its name, logs included."""
    holding = [file for file in folder.rglob("*") if file.is_file() and SECRET in file.read_bytes()]
    for file in folder.rglob("*.parquet"):
        if id in pq.read_table(file, columns=["id"]).column("id").to_pylist():
            holding.append(file)
    return sorted({file.name for file in holding})


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_forgotten_row_is_in_no_file_and_no_replay_brings_it_back(bench: Workbench, kind: str) -> None:
    config = table(table_type=kind, history="t_history", hudi=UNCOMPRESSED)
    first = bench.put([row("c", 1, 1, "A", SECRET.decode()), row("c", 2, 2)], SCHEMA)
    second = bench.put([row("u", 3, 1, "B", SECRET.decode()), row("u", 4, 2, "A", "kept")], SCHEMA)
    for item in (first, second):
        bench.merge(config, [item])
    own = [bench.local_path(config), bench.local_path(config.history_table)]
    assert all(files_with(folder, 1) for folder in own)

    done = forget(bench, config, "1")

    assert [files_with(folder, 1) for folder in own] == [[], []]
    assert (done.report.rows, done.report.more["history_rows"], done.report.more["marked"]) == (1, 2, 1)
    assert bench.rows_by_both(config, *COLUMNS) == [(2, "A", "kept", False)]

    place = Silver(bench.services.tables_uri)
    newest = open_table(place, config.table).instant
    assert read_table(place, config.table, span=Span(as_of=newest)).column("id").to_pylist() == [2]
    with pytest.raises(NotRetained):
        open_table(place, config.table, span=Span(as_of=instant_of_ms(instant_ms(newest) - 1)))
    marked = forgotten_row(place, config.table, ["1"])
    assert marked is not None and marked.instant is not None and marked.instant <= newest

    again = [dataclasses.replace(item, attempt=1) for item in (first, second)]
    replayed = bench.merge(config, again)
    assert replayed.no_change and replayed.counts["forgotten"] == 2
    assert [files_with(folder, 1) for folder in own] == [[], []]

    bench.apply(config, row("c", 9, 1, "C", "somebody new"))
    assert bench.rows(config, "id", "name") == [(1, "somebody new"), (2, "kept")], "a newer change is a new row"


@pytest.mark.whole
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_crash_behind_the_commit_leaves_the_counts(
    bench: Workbench, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table(table_type=kind, history="t_history")
    bench.apply(config, row("c", 1, 1), row("c", 2, 2))
    bench.apply(config, row("u", 3, 1, "B"))

    def dies(hudi: HudiTable, check_held: Callable[[], None]) -> None:
        if hudi.config.table == config.table:
            raise RuntimeError("died behind the commit")
        remove_late_files(hudi, check_held)

    with monkeypatch.context() as dying, pytest.raises(RuntimeError, match="died behind"):
        dying.setattr("sluice_spark.services.forgetting.remove_late_files", dies)
        forget(bench, config, "1")

    done = forget(bench, config, "1").report
    assert (done.rows, done.more["history_rows"], done.more["marked"]) == (1, 2, 1)
    assert done.instant is not None and bench.rows(config, "id") == [(2,)]


@pytest.mark.whole
def test_a_row_that_the_table_lost_is_removed_from_its_older_files(bench: Workbench) -> None:
    config = table(hudi=UNCOMPRESSED)
    bench.apply(config, row("c", 1, 1, "A", SECRET.decode()), row("c", 2, 2))
    bench.apply(config, row("d", 3, 1))

    done = forget(bench, config, "1")

    assert (done.report.rows, done.report.more["older_files"] > 0) == (1, True)
    assert files_with(bench.local_path(config), 1) == []
    nothing = forget(bench, config, "7").report
    assert (nothing.rows, nothing.more["marked"]) == (0, 0)


@pytest.mark.whole
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_forgetting_that_died_before_any_of_its_writes_is_finished_later(bench: Workbench, kind: str) -> None:
    for at in count(1):
        config = table(f"t{at}", table_type=kind, history=f"t{at}_h", hudi=UNCOMPRESSED)
        bench.apply(config, row("c", 1, 1, "A", SECRET.decode()), row("c", 2, 2))
        bench.apply(config, row("u", 3, 1, "B", SECRET.decode()), row("u", 4, 2, "A", "kept"))
        try:
            forget(bench, config, "1", still_held=dies_at(at))
        except Died:
            marked = forget(bench, config, "1").report.more["marked"]
            assert (at, marked) == (at, 1)
        else:
            assert at > 5, "it looks at the lane before each write"
            break
        for folder in (bench.local_path(config), bench.local_path(config.history_table)):
            assert (at, files_with(folder, 1)) == (at, [])
        assert bench.rows_by_both(config, *COLUMNS) == [(2, "A", "kept", False)]
