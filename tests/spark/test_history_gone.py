"""A history table that was deleted or restored is not made anew: its last commit is known."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from support.workbench import COW, SCHEMA, Workbench, row, table

from sluice.errors import TableWentBack


@pytest.mark.parametrize("restored", [False, True], ids=["deleted", "restored"])
@COW
def test_a_history_table_that_was_deleted_or_restored_is_not_written(
    bench: Workbench, restored: bool, table_type: str
) -> None:
    config = table("gone", history=True, table_type=table_type)
    first = bench.apply(config, row("c", 1, 1, name="a"), row("c", 2, 2))
    folder = bench.local_path(config.history_table)
    copy = folder.with_name("copy")
    shutil.copytree(folder, copy)
    second = bench.apply(config, row("u", 3, 1, name="b"), after=first)
    assert second.history_instant is not None and second.history_instant > (first.history_instant or "")
    shutil.rmtree(folder)
    if restored:
        copy.rename(folder)
    of_history = bench.timeline(config.history_table) if restored else []
    before = bench.timeline(config)

    bench.new_run()
    part = bench.manifest(config, [bench.put([row("u", 4, 2, name="c")], SCHEMA)], after=second)
    with pytest.raises(TableWentBack, match=second.history_instant):
        bench.merge_manifest(part, config)
    assert bench.timeline(config) == before
    assert folder.exists() == restored and (not restored or bench.timeline(config.history_table) == of_history)


@pytest.mark.whole
def test_a_part_that_adds_no_change_to_the_history_names_its_newest_commit(bench: Workbench) -> None:
    config = table("same", history=True)
    item = bench.put([row("c", 1, 1)], SCHEMA)
    first = bench.merge(config, [item])
    again = bench.merge(config, [replace(item, attempt=1)], after=first)
    assert (again.no_change, again.history_instant) == (True, first.history_instant)
    manifest = bench.manifest(config, [bench.put([row("u", 2, 1, name="b")], SCHEMA)], after=again)
    second = bench.merge_manifest(manifest, config)
    bench.new_run()
    resolved = bench.resolve(manifest, config)
    assert resolved is not None and resolved.history_instant == second.history_instant
