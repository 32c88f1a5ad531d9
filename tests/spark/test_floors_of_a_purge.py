"""A purge raises both of its floors, the ledger's and the table's, before it removes a row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.workbench import SCHEMA, Workbench, row, table

from sluice.hudi.own_metadata import PURGED_PROPERTY
from sluice.services.requests import PURGE
from sluice_spark.services import purge
from sluice_spark.services.slice import SliceRates, serve_table


class Killed(Exception):
    pass


def test_a_purge_that_dies_before_it_removes_a_row_has_raised_both_floors(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table("purged", delete_mode="hard")
    config = replace(config, services=replace(config.services, purge_horizon_s=0))
    bench.merge(config, [bench.put([row("c", 1, 1), row("c", 2, 2)], SCHEMA)])
    deleted = bench.merge(config, [bench.put([row("d", 3, 1)], SCHEMA)])
    bench.services.clock.wait(0.01)  # the horizon is later than the deletion
    floors: list[Any] = []
    removed = purge._remove

    def dies(*given: Any, **named: Any) -> Any:
        raise Killed

    def serve() -> Any:
        return serve_table(
            bench.spark,
            config=config,
            service=PURGE,
            services=bench.services,
            rates=SliceRates(cores=1),
            still_held=lambda: True,
            slice_s=20,
            raise_floor=floors.append,
        )

    monkeypatch.setattr(purge, "_remove", dies)
    with pytest.raises(Killed):
        serve()
    position = dict(bench.rows(config, "id", "_sluice_position"))[1]
    assert floors == [{0: position}] and bench.properties(config)[PURGED_PROPERTY] == position

    monkeypatch.setattr(purge, "_remove", removed)
    assert serve().report.rows == 1
    late = bench.merge(config, [bench.put([row("u", 2, 1, name="late")], SCHEMA)], after=deleted)
    assert late.counts["below_purge_floor"] == 1 and [id for (id,) in bench.rows(config, "id")] == [2]
