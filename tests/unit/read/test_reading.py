"""Silver tables as Spark and Hudi 1.0.2 wrote them (tests/data/hudi_tables), read without a JVM."""

import datetime as dt
import json
import os
import shutil
from decimal import Decimal

import duckdb
import pytest
from botocore.exceptions import ClientError
from support.silver_tables import SILVER_FOLDER, SilverFolder, rows_by_id

from sluice.errors import NoTarget
from sluice_cli.tables import query as query_command
from sluice_read.errors import AwsCallFailed, InvalidQuery, UnknownTable, Unreadable
from sluice_read.place import tables_in
from sluice_read.reading import SilverTable, first_rows, open_table, read_table
from sluice_read.silver import Silver
from sluice_read.sql import load, named_columns, opened_duckdb, run_query, table_references

AVRO_LOGS = SILVER_FOLDER.parent / "avro_logs"


@pytest.fixture
def silver():
    return SilverFolder(SILVER_FOLDER)


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as made:
        yield made


def answer(silver, sql, **how):
    with run_query(silver, sql, **how) as (_, relation):
        return relation.fetchall()


@pytest.mark.parametrize("table", ["moma.artists", "moma.works", "moma.works_rt"])
def test_a_moved_row_is_there_once_and_a_deleted_one_not_at_all(silver, table):
    rows = rows_by_id(read_table(silver, table))
    assert sorted(rows) == ([1, 3, 4, 5, 6] if table == "moma.artists" else [1, 3, 4, 5, 6, 7])
    assert (rows[1]["nationality"], rows[1]["name"]) == ("German", "one moved")


@pytest.mark.parametrize("table", ["moma.artists", "moma.works"])
def test_partition_values_are_the_columns_own_and_not_those_of_the_path(silver, table):
    rows = rows_by_id(read_table(silver, table))
    assert [rows[number]["nationality"] for number in (3, 4, 5)] == [None, "", "Côte/d Ivoire=x"]


def test_every_type_keeps_its_value(silver):
    row = rows_by_id(read_table(silver, "moma.works"))[6]
    assert (row["born"], row["fee"], row["photo"]) == (dt.date(1906, 1, 2), Decimal("18.50"), b"\x00\xff\x06")
    assert row["seen"] == dt.datetime(2024, 1, 1, 10, 0, 6, 123456, tzinfo=dt.timezone.utc)
    assert row["tags"] == ["a", None]
    assert (row["name"], row["note"]) == ("six c", "n6")


def test_a_column_that_came_later_is_null_in_older_rows(silver):
    rows = rows_by_id(read_table(silver, "moma.works"))
    assert (rows[5]["note"], rows[7]["note"]) == (None, "new column")


def test_the_base_files_alone_know_nothing_of_the_logs(silver):
    rows = [row for row in read_table(silver, "ecomm.date_ro").to_pylist() if row["v"] == 7]
    assert rows == [{"id": 1, "day": dt.date(2020, 2, 3), "v": 7}]
    assert read_table(silver, "ecomm.date").to_pylist() == [{"id": 1, "day": dt.date(2020, 2, 4), "v": 9}]


def test_deleted_rows_and_lineage_are_shown_when_asked_for(silver):
    deleted = rows_by_id(read_table(silver, "moma.works", with_deleted=True))
    assert deleted[2]["__deleted"] is True and deleted[2]["name"] is None and deleted[2]["nationality"] is None
    assert deleted[1]["__deleted"] is False and "_sluice_op" not in deleted[1]
    traced = rows_by_id(read_table(silver, "moma.works", lineage=True))
    assert 2 not in traced
    assert (traced[1]["_sluice_op"], traced[1]["_sluice_offset"]) == ("u", 11)
    assert traced[1]["_hoodie_record_key"] == "1"


def test_a_table_without_any_live_row_still_has_its_columns(silver):
    with run_query(silver, 'select * from crm."user" where false') as (_, relation):
        assert relation.columns == ["id", "date", "name"]


@pytest.mark.parametrize("database", ["main", "temp", "information_schema", "pg_catalog", "system"])
def test_a_database_with_a_name_of_duckdb_is_read_or_refused(tmp_path, database):
    shutil.copytree(SILVER_FOLDER / "crm" / "user", tmp_path / database / "user")
    properties = tmp_path / database / "user" / ".hoodie" / "hoodie.properties"
    properties.write_text(
        properties.read_text().replace("hoodie.database.name=crm", f"hoodie.database.name={database}")
    )
    sql = f"select count(*) from {database}.user"
    if database == "main":
        assert answer(SilverFolder(tmp_path), sql) == [(read_table(SilverFolder(tmp_path), "main.user").num_rows,)]
        return
    with pytest.raises(InvalidQuery, match=rf"{database}\.user can't be named .* `sluice query {database}\.user`"):
        answer(SilverFolder(tmp_path), sql)


def test_all_tables_are_found(silver):
    assert tables_in(silver) == ("crm.user", "ecomm.date", "moma.artists", "moma.works")


LISTED = r"crm\.user, ecomm\.date.*`sluice doctor` says which tables had commits"
MEANT = r"No table 'moma\.artist' in .*; did you mean moma\.artists\?"


@pytest.mark.parametrize(
    ("name", "answered"),
    [
        *((name, LISTED) for name in ("moma.nothing", "nothing.artists", "artists", "..crm.user", "crm.../crm/user")),
        *(("crm.user/", LISTED), ("moma.artist", MEANT), ("crm.user_rt", "copy-on-write")),
    ],
)
def test_an_unknown_table_is_answered_with_those_there_are(silver, name, answered):
    with pytest.raises(UnknownTable, match=answered):
        open_table(silver, name)


def test_an_unreadable_table_is_reported_in_one_line(tmp_path):
    broken = tmp_path / "crm" / "user" / ".hoodie" / "hoodie.properties"
    broken.parent.mkdir(parents=True)
    broken.write_text("nonsense")
    with pytest.raises(Unreadable, match=r"crm\.user could not be read"):
        read_table(SilverFolder(tmp_path), "crm.user")


def test_a_column_beyond_ascii_that_an_older_release_wrote_has_a_way_out(tmp_path):
    shutil.copytree(SILVER_FOLDER / "crm" / "user", tmp_path / "crm" / "user")
    (commit,) = (tmp_path / "crm" / "user" / ".hoodie").glob("*.commit")
    commit.write_text(commit.read_text().replace(r"\"name\":\"id\"", r"\"name\":\"größe\""))
    with pytest.raises(Unreadable, match="größe") as refused:
        read_table(SilverFolder(tmp_path), "crm.user")
    assert "sluice rebuild table crm.user" in refused.value.next_step


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ('select * from crm."user" u join ecomm."date" d using (id)', [("crm", "user"), ("ecomm", "date")]),
        (
            "with w as (select * from moma.works) select * from w where id in (select id from moma.artists)",
            [("moma", "works"), ("moma", "artists")],
        ),
        ("from moma.works", [("moma", "works")]),
        ("describe moma.works", [("moma", "works")]),
        ("select * from (pivot moma.works on nationality in ('German'))", [("moma", "works")]),
        ("select 'from crm.user' -- from ecomm.date", []),
    ],
)
def test_the_tables_that_a_statement_names_are_known_from_its_syntax(connection, sql, tables):
    assert sorted(table_references(connection, sql)) == sorted(tables)


@pytest.mark.parametrize(
    "sql", ["drop table crm.user", "copy crm.user to '/tmp/x'", "select 1; select 2", "selec", "show tables", ""]
)
def test_only_one_select_is_taken(connection, sql):
    with pytest.raises(InvalidQuery):
        table_references(connection, sql)


def test_reserved_words_joins_and_a_table_used_twice(silver):
    assert answer(silver, 'select u.name from crm."user" u join ecomm."date" d on u.id = d.id') == [("ann",)]
    assert answer(silver, 'select count(*) from crm."user" a, CRM."USER" b') == [(4,)]
    assert answer(silver, "select count(*) from moma.works_ro r, moma.works m") == [(7 * 6,)]


def test_a_python_variable_is_no_table(silver):
    crm_rows = read_table(silver, "crm.user")
    with pytest.raises(InvalidQuery, match=r"crm\.user"):
        answer(silver, "select * from crm_rows")
    assert crm_rows.num_rows == 2


@pytest.mark.parametrize(
    ("sql", "needed"),
    [
        ("select Name from moma.artists where id > 1 order by born", {"name", "id", "born"}),
        ("select a.id from moma.artists a join moma.works w using (note)", {"id", "note"}),
        ("select count(*) from moma.artists", set()),
        ("with t as (select id from moma.works) select max(id) from t", {"id"}),
        ("select tags[1], w.fee from moma.works as w group by all", {"tags", "fee"}),
        ("from moma.artists", None),
        ("select artists from moma.artists", None),
        ("select w.* from moma.works w", None),
        ("select columns('n.*') from moma.works", None),
        ("select id from moma.works natural join moma.artists", None),
        ("summarize moma.works", None),
    ],
)
def test_a_statement_names_the_columns_that_it_needs(connection, sql, needed):
    mentioned = named_columns(connection, sql)
    columns = {"id", "name", "born", "note", "tags", "fee", "photo", "seen", "nationality"}
    assert (None if mentioned is None else mentioned & columns) == needed


def test_names_that_a_statement_gives_a_tables_columns_go_by_their_places(silver):
    sql = 'select u.b, w.name from crm."user" u(a, b) join moma.works w on w.id = u.a'
    assert answer(silver, sql) == [(dt.date(2020, 2, 3), "one moved")]
    assert len(answer(silver, "select a, name from moma.works t(a)")) == 6


def test_only_the_columns_that_are_named_are_read(silver, monkeypatch):
    read = []
    reader = SilverTable.reader
    monkeypatch.setattr(SilverTable, "reader", lambda self, shown: read.append(shown.columns) or reader(self, shown))
    assert answer(silver, "select NAME from moma.artists where ID = 3") == [(rows_by_id(
        read_table(silver, "moma.artists"))[3]["name"],)]  # fmt: skip
    assert answer(silver, "select count(*) from moma.works") == [(6,)]
    assert sorted(read[0]) == ["id", "name"] and len(read[-1]) == 1


def test_a_mistake_is_found_before_anything_is_read(silver, monkeypatch):
    monkeypatch.delattr(SilverTable, "reader")
    with pytest.raises(InvalidQuery, match="nam"):
        answer(silver, "select nam from moma.artists")


def test_a_hidden_column_that_is_asked_for_by_name_points_to_the_option(silver):
    with pytest.raises(InvalidQuery, match="--lineage"):
        answer(silver, "select _sluice_op from moma.works")


NO_COLUMN, UNPARSED = 'Referenced column "nam" not found in FROM clause', "The SQL can't be parsed:"


@pytest.mark.parametrize(
    ("sql", "said", "step"),
    [
        ("select id,\n  nam from moma.works", NO_COLUMN, 'Columns with similar names: "name"'),
        ("select * from work", "Table with name work does not exist", "named database.table"),
        ("select floorr(id) from moma.works", "Scalar Function with name floorr does not", 'Did you mean "floor"'),
        ("select id, count(*) from moma.works", 'Column "id" must appear in the GROUP BY clause', "ANY_VALUE"),
        ("select id from moma.works order by 7", "ORDER term out of range - should be between 1", "describe"),
        ("select 'ö', nam from moma.works", NO_COLUMN, '"name"'),
        ("select id\nform moma.works", f'{UNPARSED} Syntax error at or near "moma" (line 2, column 6)', "Reserved"),
        ("select", f"{UNPARSED} SELECT clause without selection list", "Reserved words"),
    ],
)
def test_a_mistake_in_a_statement_is_one_line_with_its_place(silver, sql, said, step):
    with pytest.raises(InvalidQuery) as refused:
        answer(silver, sql)
    assert refused.value.message.startswith(said) and step in refused.value.next_step
    assert "Error:" not in str(refused.value) and "\n" not in str(refused.value)


def test_a_value_that_cannot_be_converted_ends_the_query_without_a_traceback(on_silver, sluice):
    said = sluice("query", "select name::int from moma.works where id = 7", code=2).err.splitlines()
    assert said[-2].startswith("error: Could not convert string 'seven' to INT32")
    assert said[-1].startswith("next step: ")


@pytest.mark.parametrize(("limit", "more"), [(1, True), (4, True), (6, True), (7, False)])
def test_reading_ends_after_so_many_rows(on_silver, sluice, limit, more):
    shown = sluice("query moma.works --limit", str(limit), "--json")
    assert len(shown.out.splitlines()) == min(limit, 6) and ("--limit shows more" in shown.err) is more


def test_files_behind_the_limit_are_not_read(silver, monkeypatch):
    opened = []
    merged = SilverTable._merged
    monkeypatch.setattr(SilverTable, "_merged", lambda self, *of: opened.append(of) or merged(self, *of))
    table = open_table(silver, "moma.works")
    assert first_rows(table.reader(), 1).read_all().num_rows == 1 and 0 < len(opened) < len(table.slices())


@pytest.fixture
def on_silver(silver, monkeypatch):
    monkeypatch.setattr(query_command, "chosen_target", lambda stack: silver)


@pytest.mark.parametrize(
    "source",
    [
        *(f"read_{kind}('{{file}}')" for kind in ("csv", "text", "blob", "json", "parquet")),
        "sniff_csv('{file}')",
        "glob('{file}')",
        "'{file}'",
        "read_parquet('http://127.0.0.1:1/x.parquet')",
        "read_csv('s3://bucket/x.csv')",
    ],
)
def test_a_statement_reads_silver_tables_and_nothing_else(on_silver, tmp_path, sluice, source):
    (tmp_path / "x.csv").write_text("secret\n1\n")
    statement = f"select * from {source.format(file=tmp_path / 'x.csv')}, moma.works"
    printed = sluice("query", statement, code=2)
    assert "secret" not in printed.out and printed.err.startswith("error: ")


def test_a_statement_reads_files_where_the_option_says_so(on_silver, tmp_path, sluice):
    (tmp_path / "x.csv").write_text("secret\n1\n")
    statement = f"select secret, count(*) from read_csv('{tmp_path / 'x.csv'}'), moma.works group by all"
    assert "`sluice query --files` lets it read files of this machine" in sluice("query", statement, code=2).err
    assert sluice("query --files", statement).out.splitlines()[1] == "1\t6"


def test_a_statement_cannot_change_what_it_may_reach():
    with opened_duckdb() as connection:
        for setting in ("enable_external_access = true", "allowed_directories = ['/']", "temp_directory = '/tmp'"):
            with pytest.raises(duckdb.Error):
                connection.execute(f"SET {setting}")


@pytest.mark.long
def test_what_does_not_fit_in_memory_still_spills_to_disk(monkeypatch):
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda config: connect(config={**config, "memory_limit": "100MB"}))
    sorted_rows = "select random() r, repeat('x', 200) t from range(1_000_000) order by r"
    with opened_duckdb() as connection:
        assert connection.sql(f"select count(*), max(length(t)) from ({sorted_rows})").fetchall() == [(1_000_000, 200)]


@pytest.mark.parametrize(
    "command",
    [("query moma.seen",), ("query", "select count(*) from moma.seen"), ("diff moma.seen --from 20261122180719597",)],
)
def test_a_log_that_hudi_rs_cannot_merge_is_named_with_the_next_step(monkeypatch, sluice, command):
    monkeypatch.setattr(query_command, "chosen_target", lambda stack: SilverFolder(AVRO_LOGS))
    said = sluice(*command, code=1).err.splitlines()
    assert "Traceback" not in "".join(said) and said[-2].startswith("error: moma.seen has changes in an Avro log")
    assert said[-2].endswith("(seen)")
    assert said[-1].startswith("next step: `sluice ops services run moma.seen --service compaction`")
    sluice("query moma.seen_ro -c id")


def test_a_table_that_duckdb_cannot_hold_is_one_line(silver, monkeypatch):
    def fails(connection):
        raise duckdb.OutOfMemoryException("Out of Memory Error: failed to offload\nmore")

    with duckdb.connect() as connection, pytest.raises(Unreadable, match="into DuckDB: Failed to offload. Free"):
        limited = Limited(connection, fails)
        load(limited, "t", open_table(silver, "crm.user").reader())


class Limited:
    """A connection whose statements fail."""

    def __init__(self, connection, fails):
        self._connection, self.execute = connection, fails

    def register(self, *of):
        return self._connection.register(*of)


def test_json_is_one_object_per_line_with_nothing_rounded(on_silver, sluice):
    shown = sluice("query --json", "select id, fee, photo, seen, born, tags from moma.works where id = 5").out
    assert json.loads(shown) == {
        "id": 5,
        "fee": "17.50",
        "photo": "AP8F",
        "seen": "2024-01-01T10:00:05.123456Z",
        "born": "1905-01-02",
        "tags": ["a", None],
    }


def test_a_parquet_file_takes_the_place_of_no_pipe_or_device(on_silver, tmp_path, sluice):
    os.mkfifo(tmp_path / "pipe")
    said = sluice("query --parquet", str(tmp_path / "pipe"), "moma.works", code=1).err
    assert f"error: {tmp_path / 'pipe'} can't be written: it is no file\n" in said
    assert (tmp_path / "pipe").is_fifo()


def test_sums_are_numbers_and_equal_names_are_distinguished(on_silver, sluice):
    shown = sluice("query --json", "select sum(id) id, count(*) id from moma.works").out
    assert json.loads(shown) == {"id": 26, "id_1": 6}


@pytest.mark.parametrize("sql", ["select 42", "values (42)", "with a as (select 42) from a", "from range(42, 43)"])
@pytest.mark.parametrize("form", [(), ("--json",), ("--csv",)], ids=["tab-separated", "json", "csv"])
def test_a_statement_needs_no_silver_table(on_silver, sluice, sql, form):
    assert "42" in sluice("query", *form, sql).out.splitlines()[-1]


def test_without_a_local_stack_the_library_names_its_own_way_to_a_deployed_one(tmp_path, monkeypatch):
    monkeypatch.delenv("SLUICE_HOME", raising=False)
    with pytest.raises(NoTarget) as missing:
        Silver.local(tmp_path)
    assert missing.value.next_step == (
        "Start one with `sluice local up`, or read a deployed one: `Silver.of_stack(NAME)`"
    )


def test_an_error_of_aws_has_a_code_and_a_next_step_in_the_library_too(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_PROFILE", "me")
    with pytest.raises(AwsCallFailed) as failed:
        Silver.of_stack("sluice", region="eu-central-1")
    assert (failed.value.code, failed.value.facts) == ("aws_call_failed", {"cause": "ProfileNotFound"})
    assert "AWS_PROFILE" in failed.value.next_step


def test_an_error_of_aws_in_the_callers_own_code_stays_as_it_is(silver):
    with pytest.raises(ClientError), Silver(silver).query("select 1"):
        raise ClientError({"Error": {"Code": "NoSuchBucket"}}, "GetObject")


@pytest.mark.parametrize("name", [None, "", " "])
def test_no_other_stack_is_read_where_the_name_of_one_is_empty(name, monkeypatch):
    monkeypatch.setenv("SLUICE_STACK", "another")
    with pytest.raises(NoTarget, match="name of the stack is empty"):
        Silver.of_stack(name)
