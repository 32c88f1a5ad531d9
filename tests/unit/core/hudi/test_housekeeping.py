"""When a table is due for housekeeping, and what cleaning must keep."""

from sluice.config.table import TableConfig
from sluice.hudi.housekeeping import HOUR_MS, cleaning_due, cleaning_horizon_ms, housekeeping_due


def table(**settings) -> TableConfig:
    return TableConfig(
        **{"table": "db.t", "database": "db", "name": "t", "topic": "x", "record_key": ("id",), **settings}
    )


def test_cleaning_keeps_files_for_the_hours_of_time_travel() -> None:
    assert cleaning_horizon_ms(table(time_travel_h=30), 1_000 * HOUR_MS) == 970 * HOUR_MS


def test_a_window_is_cleaned_in_steps_of_a_twenty_fourth() -> None:
    config, now = table(time_travel_h=48), 1_000 * HOUR_MS
    due = [hours for hours in range(5) if cleaning_due(config, last_cleaned_ms=now - hours * HOUR_MS, now_ms=now)]
    assert due == [2, 3, 4] and cleaning_due(config, last_cleaned_ms=None, now_ms=now)


def test_housekeeping_runs_every_twentieth_commit_even_when_one_counts_twice() -> None:
    due = {
        kind: [commits for commits in range(65) if housekeeping_due(table(table_type=kind), commits)]
        for kind in ("cow", "mor")
    }
    assert due == {"cow": [20, 40, 60], "mor": [20, 21, 40, 41, 60, 61]}
