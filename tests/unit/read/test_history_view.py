"""The states of rows that a history table gives, in DuckDB."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest
from support.silver_tables import SILVER_FOLDER, SilverFolder

from sluice.catalog.history_view import DUCKDB, REDSHIFT, SPARK, TRINO, history_view_sql
from sluice_read.sql import run_query
from sluice_read.values import rows_of

MINUTE = 60_000


def change(id: int, position: int, name: str | None, *, deleted: bool = False, unchanged: tuple[str, ...] = ()) -> Any:
    owed = "{" + ",".join(f'"{column}":""' for column in unchanged) + "}" if unchanged else None
    return id, name, f"{position:04d}", deleted, owed, position * MINUTE


def states(*changes: Any) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(
            'CREATE TABLE h (id INT, "na""me" TEXT, _sluice_position TEXT, __deleted BOOL, _sluice_owed TEXT, '
            "_sluice_source_ts_ms BIGINT)"
        )
        connection.executemany("INSERT INTO h VALUES (?, ?, ?, ?, ?, ?)", list(changes))
        sql = history_view_sql(["id", 'na"me'], record_key=["id"], source="h", dialect=DUCKDB)
        # As the commands read it: DuckDB's own `fetchall` needs pytz for times with a zone.
        batches = connection.sql(f"SELECT * FROM ({sql}) ORDER BY id, valid_from").to_arrow_reader(1_000)
        rows = [row for batch in batches for row in rows_of(batch)]

    def minute(moment: str | None) -> int | None:
        if moment is None:
            return None
        return round(dt.datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp() / 60)

    return [(id, name, minute(start), minute(end), current) for id, name, start, end, current in rows]


def test_each_state_ends_where_the_next_change_of_its_row_begins() -> None:
    expected = [(1, "a", 1, 3, False), (1, "b", 3, None, True), (2, "x", 2, None, True)]
    assert states(change(1, 1, "a"), change(2, 2, "x"), change(1, 3, "b")) == expected


def test_a_change_that_comes_late_is_put_between_the_others_by_its_position() -> None:
    expected = [(1, "a", 1, 3, False), (1, "b", 3, 5, False), (1, "c", 5, None, True)]
    assert states(change(1, 5, "c"), change(1, 1, "a"), change(1, 3, "b")) == expected


def test_a_deletion_ends_a_state_and_a_row_that_is_made_again_begins_one() -> None:
    expected = [(1, "a", 1, 2, False), (1, "b", 4, None, True)]
    assert states(change(1, 1, "a"), change(1, 2, None, deleted=True), change(1, 4, "b")) == expected
    assert states(change(1, 1, "a"), change(1, 2, None, deleted=True)) == [(1, "a", 1, 2, False)]


@pytest.mark.parametrize("value", ["a", None])
def test_a_column_that_a_change_left_unchanged_has_the_value_before(value: str | None) -> None:
    name = 'na\\"me'  # as JSON writes it
    changes = (change(1, 1, value), change(1, 2, None, unchanged=(name,)), change(1, 3, None, unchanged=(name,)))
    assert [state[1] for state in states(*changes)] == [value] * 3


def test_columns_of_the_source_named_like_a_states_times_have_other_names() -> None:
    columns = ["id", "Valid_From", "valid_to", "is_current", "source_valid_to"]
    sql = history_view_sql(columns, record_key=["id", "valid_to"], source="h", dialect=DUCKDB)
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE h (id INT, Valid_From TEXT, valid_to TEXT, is_current BOOL, source_valid_to TEXT, "
            "_sluice_position TEXT, __deleted BOOL, _sluice_owed TEXT, _sluice_source_ts_ms BIGINT)"
        )
        rows = [
            (1, "a", "z", False, "s", "1", False, None, MINUTE),
            (1, "b", "z", True, "s", "2", False, None, 120_000),
        ]
        connection.executemany("INSERT INTO h VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        states = connection.sql(
            f"SELECT * REPLACE (epoch_ms(valid_from) AS valid_from) FROM ({sql}) ORDER BY valid_from"
        )
        assert states.columns == [
            *("id", "source_Valid_From", "source_source_valid_to", "source_is_current", "source_valid_to"),
            *("valid_from", "valid_to", "is_current"),
        ]
        shown = states.project("source_valid_from, source_source_valid_to, source_is_current, valid_from, is_current")
        assert shown.fetchall() == [("a", "z", False, MINUTE, False), ("b", "z", True, 120_000, True)]
        ends = states.project("epoch_ms(valid_to)").fetchall()
        assert ends == [(120_000,), (None,)]


def test_names_are_quoted_for_every_engine() -> None:
    for dialect, quoted in ((TRINO, '"a""b"'), (SPARK, '`a"b`'), (REDSHIFT, '"a""b"')):
        sql = history_view_sql(["id", 'a"b'], record_key=["id"], source="h", dialect=dialect)
        assert quoted in sql and "'" in sql
    assert "'\"it''s\":'" in history_view_sql(["id", "it's"], record_key=["id"], source="h", dialect=TRINO)
    assert "'\"it\\'s\":'" in history_view_sql(["id", "it's"], record_key=["id"], source="h", dialect=SPARK)
    assert "'\"it\\'s\":'" in history_view_sql(["id", "it's"], record_key=["id"], source="h", dialect=REDSHIFT)


def test_a_column_set_to_null_stays_so_where_later_changes_leave_it_unchanged() -> None:
    later = (change(1, number, None, unchanged=('na\\"me',)) for number in (3, 4))
    assert [state[1] for state in states(change(1, 1, "a"), change(1, 2, None), *later)] == ["a", None, None, None]


@pytest.mark.parametrize("at_ms", [-1, 0, 1_790_000_000_123, 4_102_444_800_000])
def test_redshifts_time_of_milliseconds_needs_no_more_than_32_bits(at_ms: int) -> None:
    # DuckDB has neither Redshift's DATEADD nor its division of whole numbers.
    sql = REDSHIFT.moment.format(at_ms).replace(" / ", " // ")
    sql = sql.replace("dateadd(ms, ", "add_ms(").replace("dateadd(day, ", "add_days(")
    with duckdb.connect() as connection:
        connection.execute("CREATE MACRO add_ms(n, t) AS t + to_milliseconds(n)")
        connection.execute("CREATE MACRO add_days(n, t) AS t + to_days(n)")
        assert connection.execute(f"SELECT epoch_ms({sql})").fetchone() == (at_ms,)


def test_a_query_shows_states_and_with_lineage_the_changes_themselves(tmp_path: Path) -> None:
    shutil.copytree(SILVER_FOLDER / "crm" / "user", tmp_path / "crm" / "user_history")
    properties = tmp_path / "crm" / "user_history" / ".hoodie" / "hoodie.properties"
    key = "hoodie.table.recordkey.fields=id"
    properties.write_text(properties.read_text().replace(key, f"{key},_sluice_position"))
    place = SilverFolder(tmp_path)
    with run_query(place, "select id, name, valid_to, is_current from crm.user_history order by id") as (_, result):
        assert result.fetchall() == [(1, "ann", None, True), (2, "bob", None, True)]
    with run_query(place, "select * from crm.user_history", lineage=True, with_deleted=True) as (_, result):
        assert "_sluice_position" in result.columns and "valid_from" not in result.columns
        assert len(result.fetchall()) == 3
