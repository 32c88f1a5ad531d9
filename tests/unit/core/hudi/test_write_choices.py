"""The choices for one write: index, sizes, housekeeping."""

from support.shapes import config as table

from sluice.hudi.write_choices import (
    HOUR_MS,
    MOST_BYTES_BY_ARROW,
    RECORD_INDEX_ROWS,
    RECORD_INDEX_ROWS_BY_ARROW,
    cleaning_due,
    cleaning_horizon_ms,
    has_record_index,
    housekeeping_due,
    shuffle_tasks,
    small_file_bytes,
    wants_record_index,
)


def test_the_record_index_starts_at_a_size_stays_and_excludes_purged_tables() -> None:
    many, few = RECORD_INDEX_ROWS_BY_ARROW, RECORD_INDEX_ROWS_BY_ARROW - 1
    assert [
        wants_record_index(table(), has=has, rows=rows)
        for has, rows in ((False, few), (False, None), (False, many), (True, few))
    ] == [False, False, True, True]
    assert wants_record_index(table(index="record"), has=False, rows=0)
    assert not wants_record_index(table(index="simple"), has=True, rows=many)
    assert not any(
        wants_record_index(table(index=index, delete_mode="hard"), has=True, rows=many) for index in ("auto", "record")
    )
    assert [has_record_index(text) for text in (None, "", "files", "files,record_index")] == [False, False, False, True]


def test_tables_that_arrow_does_not_merge_get_the_record_index_earlier() -> None:
    rows = RECORD_INDEX_ROWS
    other = table(hudi={"hoodie.parquet.page.size": "1"})
    assert [wants_record_index(other, has=False, rows=count) for count in (rows - 1, rows)] == [False, True]
    sizes = (MOST_BYTES_BY_ARROW, MOST_BYTES_BY_ARROW + 1)
    assert [
        wants_record_index(table(), has=False, rows=rows, table_bytes=lambda size=size: size) for size in sizes
    ] == [False, True]


def test_files_that_take_new_rows_are_together_a_twentieth_of_the_table() -> None:
    sizes = [small_file_bytes(1_000_000, partitions=count) for count in (1, 10, 100, 2_000)]
    assert sizes == [3_200_000, 320_000, 32_000, 16 * 1024]
    assert small_file_bytes(100, partitions=4) == 256 * 1024 and small_file_bytes(None, partitions=4) == 100 * 1024**2


def test_a_shuffle_has_a_task_per_64_mib_and_bounds() -> None:
    assert [shuffle_tasks(size, 2) for size in (0, 1, 64 * 1024**2 + 1, 10**12)] == [1, 1, 2, 8]


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
