"""Time travel, changes and differences between moments, without a JVM, on tables that Spark wrote."""

import csv
import datetime as dt
import io
import json
import shutil
from types import SimpleNamespace

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from botocore.exceptions import ClientError
from support.builders import avro_record
from support.silver_tables import SILVER_FOLDER, SilverFolder, kept_change, put_history, rows_by_id

from sluice.schema.history import StoredColumns, stored_key
from sluice_aws.s3.silver_files import read_if_allowed
from sluice_cli.main import run
from sluice_cli.tables import inspect as table_commands
from sluice_cli.tables import query as query_command
from sluice_read import reading
from sluice_read.diff import differences
from sluice_read.errors import (
    FilesMissing,
    InvalidMoment,
    InvalidQuery,
    NoCommit,
    NotRetained,
    UnknownColumn,
    UnsettledMoment,
)
from sluice_read.listing import table_listing
from sluice_read.moments import Span, instant_at, moment_of, point_in_time, span_of
from sluice_read.past_states import PastStates
from sluice_read.place import TableFolder, find_table
from sluice_read.reading import Shown, open_table, read_table
from sluice_read.silver import Silver
from sluice_read.sql import opened_duckdb, run_query

FAR_MS = 32_503_680_000_000  # the year 3000
LOADED, MOVED, NOTED = "20261121080011861", "20261121080012602", "20261121080013968"  # the commits of moma.works
ARTISTS_LOADED, ARTISTS_MOVED = "20261121080005027", "20261121080008725"
CLEANED = avro_record(
    {"earliestCommitToRetain": "string", "lastCompletedCommitTimestamp": "string"}, name="HoodieCleanMetadata"
)
PLANNED = avro_record(
    {"earliestInstantToRetain": ["null", avro_record({"timestamp": "string"}, name="A")]}, name="HoodieCleanerPlan"
)
INSTANT = avro_record({"commitTime": "string", "action": "string"}, name="I")
ROLLED_BACK = avro_record(
    {
        "commitsRollback": {"type": "array", "items": "string"},
        "partitionMetadata": {"type": "map", "values": "string"},
        "instantsRollback": {"type": "array", "items": INSTANT},
    },
    name="HoodieRollbackMetadata",
)


@pytest.fixture
def silver():
    return SilverFolder(SILVER_FOLDER)


@pytest.fixture
def own(tmp_path):
    """A copy of the tables, to be changed."""
    shutil.copytree(SILVER_FOLDER, tmp_path / "silver")
    return SilverFolder(tmp_path / "silver"), tmp_path / "silver"


@pytest.fixture
def on_silver(silver, monkeypatch):
    for module in (query_command, table_commands):
        monkeypatch.setattr(module, "chosen_target", lambda stack: silver)


def avro_file(path, schema, record):
    body = io.BytesIO()
    fastavro.writer(body, fastavro.parse_schema(schema), [record])
    path.write_bytes(body.getvalue())


def names(table):
    return {number: (row["name"], row["nationality"]) for number, row in rows_by_id(table).items()}


@pytest.mark.parametrize(
    ("moment", "instant"),
    [
        ("20260501101500123", "20260501101500123"),
        ("2026-05-01T10:15:00.123Z", "20260501101500123"),
        ("2026-05-01 12:15:00.123999+02:00", "20260501101500123"),
        (" 2026-12-31T23:59:59-00:30 ", "20270101002959000"),
    ],
)
def test_a_moment_is_an_instant_or_a_time_with_its_zone(moment, instant):
    assert instant_at(moment) == instant


@pytest.mark.parametrize(
    "moment",
    [
        *("2026-05-01T10:15:00", "2026-05-01", "20260501101500", "20269901101500123", "yesterday", "", "1'; drop"),
        *("0001-01-01T00:00:00+23:00", "２０260501101500123"),
    ],
)
def test_a_moment_that_could_mean_two_things_or_nothing_is_refused(moment):
    with pytest.raises(InvalidMoment):
        instant_at(moment)


@pytest.mark.parametrize(
    ("ago", "instant"),
    [
        ("90s", "20260501101330123"),
        ("15min", "20260501100000123"),
        (" 2 h ", "20260501081500123"),
        ("7d", "20260424101500123"),
        ("999999999d", "19700101000000000"),
    ],
)
def test_a_moment_may_be_so_long_ago_where_the_time_is_known(ago, instant):
    now = 1777630500123  # 2026-05-01T10:15:00.123Z
    assert instant_at(ago, now) == instant and span_of(as_of=ago, now=now) == Span(as_of=instant)
    for written, at, says_ago in (("2 weeks", now, True), (ago, None, False)):
        with pytest.raises(InvalidMoment) as refused:
            instant_at(written, at)
        assert ("2h or 7d" in refused.value.next_step) is says_ago


@pytest.mark.parametrize("moment", [dt.datetime(2026, 5, 1, 10, 15), dt.date(2026, 5, 1)], ids=["datetime", "date"])
def test_a_datetime_without_its_zone_is_refused(silver, moment):
    with pytest.raises(InvalidMoment, match="has no zone"):
        Silver(silver).as_of("moma.works", moment)


def test_no_moment_is_refused_where_one_is_asked_for(silver):
    tables = Silver(silver)
    for read in (lambda: tables.as_of("crm.user", None), lambda: tables.differences("crm.user", None)):
        with pytest.raises(InvalidMoment, match="is not a moment"):
            read()


def test_a_datetime_with_its_zone_is_a_moment(silver):
    moved = dt.datetime.fromisoformat(moment_of(MOVED).replace("Z", "+00:00"))
    zone = dt.timezone(dt.timedelta(hours=-5))
    (reader, same) = (Silver(silver).as_of("moma.works", at) for at in (MOVED, moved.astimezone(zone)))
    assert names(same.read_all()) == names(reader.read_all())


@pytest.mark.parametrize(
    "options",
    [["--as-of", "3026-05-01T10:15:00Z"], ["--since", "30260501101500000"], ["--until", "3026-05-01T10:15:00+02:00"]],
    ids=lambda options: options[0],
)
@pytest.mark.parametrize("command", [["query", "moma.works"], ["query", "from moma.works"]], ids=lambda words: words[1])
def test_a_moment_in_the_future_is_refused(on_silver, sluice, command, options):
    assert "is in the future" in sluice(*command, *options, code=2).err


def test_the_newest_commit_of_a_writer_whose_clock_is_ahead_can_be_named(silver, monkeypatch):
    monkeypatch.setattr(reading, "epoch_ms", lambda: point_in_time(LOADED, FAR_MS))
    assert names(Silver(silver).as_of("moma.works", NOTED).read_all()) == names(read_table(silver, "moma.works"))
    with pytest.raises(InvalidMoment, match="is in the future"):
        Silver(silver).changes("moma.works", since="20261121080013969")


def test_a_point_in_time_after_now_is_refused():
    with pytest.raises(InvalidMoment, match="is in the future"):
        point_in_time("2026-05-01T10:15:00.124Z", 1777630500123)
    assert point_in_time("2026-05-01T10:15:00.123Z", 1777630500123) == 1777630500123


def test_a_difference_backwards_is_refused(on_silver, sluice):
    assert "Swap them" in sluice("diff moma.works --from", NOTED, "--to", LOADED, code=2).err
    with pytest.raises(InvalidMoment, match="is after"), Silver(silver).differences("moma.works", NOTED, MOVED):
        pass


def test_moments_before_the_first_commit_in_the_wrong_order_are_to_be_swapped(on_silver, sluice):
    first, second = "20200101000000002", "20200101000000001"
    said = " ".join(sluice("diff moma.works --from", first, "--to", second, code=2).err.split())
    with pytest.raises(InvalidMoment, match="the first moment .* is after the second") as raised:
        Silver(silver).differences("moma.works", first, second)
    assert raised.value.message in said and "Swap them" in said


def test_a_moment_is_shown_in_the_form_it_is_read_in():
    assert instant_at(moment_of(NOTED)) == NOTED
    assert moment_of("20261121080013") == "2026-11-21T08:00:13Z"


def test_a_state_and_changes_are_not_asked_for_at_once_and_not_backwards():
    both = ({"as_of": NOTED, "since": LOADED}, {"as_of": NOTED, "until": NOTED})
    for wrong in (*both, {"since": NOTED, "until": LOADED}):
        with pytest.raises(InvalidMoment):
            span_of(**wrong)
    assert span_of(until=NOTED) == Span(as_of=NOTED, changes=True)


@pytest.mark.parametrize("name", ["moma.artists", "moma.works"])
def test_a_moved_and_a_deleted_row_are_where_they_were(silver, name):
    first, second = (LOADED, MOVED) if name == "moma.works" else (ARTISTS_LOADED, ARTISTS_MOVED)
    then = names(read_table(silver, name, span=Span(as_of=first)))
    assert (then[1], then[2], then[6]) == (("one", "American"), ("two", "German"), ("six", "German"))
    later = names(read_table(silver, name, span=Span(as_of=second)))
    assert later[1] == ("one moved", "German") and 2 not in later and later[6] == ("six b", "German")


def test_between_two_commits_the_older_one_is_seen(silver):
    between = str(int(NOTED) - 1)
    assert open_table(silver, "moma.works", span=Span(as_of=between)).instant == MOVED
    older, seen = (names(read_table(silver, "moma.works", span=Span(as_of=at))) for at in (MOVED, between))
    assert seen == older


def test_a_log_of_a_later_commit_is_left_out_and_a_later_column_is_null(silver):
    then = rows_by_id(read_table(silver, "moma.works", span=Span(as_of=MOVED)))
    assert (then[6]["name"], then[6]["note"]) == ("six b", None) and 7 not in then


def test_before_the_first_commit_the_answer_names_it(silver):
    with pytest.raises(NotRetained, match=LOADED) as refused:
        open_table(silver, "moma.works", span=Span(as_of=str(int(LOADED) - 1)))
    assert refused.value.facts["earliest"] == LOADED


BEFORE = "1970-01-01T00:0{}:30Z"  # half a minute after the given one; the files of crm.user are of 2026
CREATED = (kept_change(1, "old", 0), kept_change(1, "ann", 1, "u"), kept_change(2, "bob", 2))
WHOLE = (*CREATED, kept_change(3, "c", 1), kept_change(3, None, 3, "d"))


def states_of(place, minute, sql="select id, name from crm.user order by id", **how):
    notes = []
    with run_query(place, sql, span=span_of(as_of=BEFORE.format(minute)), note=notes.append, **how) as (_, result):
        return result.fetchall(), notes


@pytest.mark.parametrize(
    ("minute", "rows"),
    [
        (0, [(1, "old")]),
        (1, [(1, "ann"), (3, "c")]),
        (2, [(1, "ann"), (2, "bob"), (3, "c")]),
        (5, [(1, "ann"), (2, "bob")]),
    ],
)
def test_before_its_files_begin_a_table_is_read_from_its_history_table(own, minute, rows):
    place, folder = own
    put_history(folder, reversed(WHOLE))
    states, (note,) = states_of(place, minute)
    assert states == rows
    assert "crm.user as of 197001010" in note and "by the source's times, from crm.user_history" in note
    assert states_of(place, minute, "select count(*) from crm.user")[0] == [(len(rows),)]
    assert [column[0] for column in states_of(place, minute, "describe crm.user")[0]] == ["id", "date", "name"]


def test_a_past_state_is_not_chosen_by_the_sources_own_column_is_current():
    table = SimpleNamespace(record_key=("id",), schema=lambda: SimpleNamespace(names=["id", "is_current"]))
    past = PastStates(table, table, "19700101000230000", None)
    columns = "id, is_current, _sluice_position, __deleted, _sluice_owed, _sluice_source_ts_ms"
    rows = "(1, true, '1', false, NULL, 60000), (1, false, '2', false, NULL, 120000), (2, false, '1', false, NULL, 0)"
    with opened_duckdb() as connection:
        connection.execute(f'CREATE TABLE "all changes" AS FROM (VALUES {rows}) AS changes ({columns})')
        states = connection.sql(past.select('"all changes"'))
        assert states.columns == ["id", "is_current"] and sorted(states.fetchall()) == [(1, False), (2, False)]


@pytest.mark.parametrize("made", [True, False], ids=["of a partition", "of the source"])
def test_a_past_state_lacks_the_column_of_a_partition_transform_and_no_other(own, made):
    """The history table isn't partitioned, so it has no column `date_day`."""
    place, folder = own
    put_history(folder, WHOLE)
    user = folder / "crm" / "user"
    (commit,), (file,) = (user / ".hoodie").glob("*.commit"), user.glob("*.parquet")
    written = json.loads(commit.read_text())
    schema = json.loads(written["extraMetadata"]["schema"])
    schema["fields"].append({"name": "date_day", "type": ["null", {"type": "int", "logicalType": "date"}]})
    written["extraMetadata"]["schema"] = json.dumps(schema)
    commit.write_text(json.dumps(written))
    table = pq.read_table(file)
    pq.write_table(table.append_column("date_day", pa.nulls(table.num_rows, pa.date32())), file)
    if not made:
        with pytest.raises(NotRetained, match="crm.user_history has no column date_day"):
            states_of(place, 1)
        return
    properties = user / ".hoodie" / "hoodie.properties"
    own_line = "hoodie.table.partition.fields="
    properties.write_text(properties.read_text().replace(own_line, f"{own_line}date_day"))
    assert states_of(place, 1)[0] == [(1, "ann"), (3, "c")]
    assert [column[0] for column in states_of(place, 1, "describe crm.user")[0]] == ["id", "date", "name"]
    with Silver(place).differences("crm.user", BEFORE.format(1)) as rows:
        assert sorted((row.kind, row.key) for row in rows) == [("added", (2,)), ("changed", (1,)), ("removed", (3,))]


def test_a_past_state_has_the_values_that_its_change_left_unchanged(own):
    put_history(own[1], [kept_change(2, None, 1, "u", unchanged=("name",)), kept_change(2, "first", 0), *WHOLE])
    assert (2, "first") in states_of(own[0], 1)[0]


@pytest.mark.parametrize(
    ("unchanged", "never_came", "known"),
    [
        ([("date",), ("name",)], "", True),  # each column came once, though no change has both
        ([("date", "name")], "date", False),
        ([("date", "name")], "date name", True),  # the table doesn't have them either
    ],
)
def test_a_past_state_is_known_by_its_columns(own, unchanged, never_came, known):
    changes = [
        kept_change(1, None if "name" in left else "ann", 2 - len(unchanged) + at, "u", unchanged=left)
        for at, left in enumerate(unchanged)
    ]
    put_history(own[1], [*changes, *WHOLE[2:]])
    (file,) = (own[1] / "crm" / "user").glob("*.parquet")
    table = pq.read_table(file)
    owed = json.dumps(dict.fromkeys(never_came.split(), ""), separators=(",", ":")) if never_came else None
    rows = [row | {"_sluice_owed": owed if row["id"] == 1 else None} for row in table.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    if known:
        assert (1, None if never_came else "ann") in states_of(own[0], 5)[0]
    else:
        with pytest.raises(NotRetained, match="doesn't know the state of 1 of its rows"):
            states_of(own[0], 5)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        (CREATED, "the change that the table has of a row is not in the history"),
        ((kept_change(1, "ann", 1, "u"), *WHOLE[2:]), "the row was there before its first change"),
        ((kept_change(1, "ann", 1, "r"), *WHOLE[2:]), "the row was there before the snapshot"),
        ((kept_change(1, "ann", 1, minute=None), *WHOLE[2:]), "the time of a row's first change isn't known"),
        ((*WHOLE, kept_change(1, None, 4, "d", minute=None)), "the time of a truncate isn't known"),
        ((kept_change(1, None, 1, "u", unchanged=("name",)), *WHOLE[2:]), "a value is of before the history began"),
    ],
)
def test_a_history_without_the_state_of_every_row_answers_with_their_number(own, changes, why):
    put_history(own[1], changes)
    with pytest.raises(NotRetained, match="crm.user_history doesn't know the state of 1 of its rows") as refused:
        states_of(own[0], 0 if "first" in why or "snapshot" in why else 5)
    assert refused.value.facts["rows"] == 1 and "rebuild" in refused.value.next_step, why


def test_a_history_table_by_its_name_alone_is_its_states(own, monkeypatch, sluice):
    monkeypatch.setattr(query_command, "chosen_target", lambda stack: own[0])
    put_history(own[1], [*CREATED, kept_change(1, None, 4, "u", unchanged=("name",))])
    lines = sluice("query crm.user_history --json -c id -c name -c valid_from -c is_current").out.splitlines()
    states = sorted(tuple(json.loads(line).values()) for line in lines)
    assert states == [
        (1, "ann", "1970-01-01T00:01:00.000000Z", False),
        (1, "ann", "1970-01-01T00:04:00.000000Z", True),
        (1, "old", "1970-01-01T00:00:00.000000Z", False),
        (2, "bob", "1970-01-01T00:02:00.000000Z", True),
    ]
    assert len(sluice("query crm.user_history --csv --limit 1").out.splitlines()) == 2
    tables = Silver(own[0])
    names = ["id", "date", "name", "valid_from", "valid_to", "is_current"]
    assert tables.snapshot("crm.user_history").read_all().column_names == names
    assert tables.schema("crm.user_history").names == names
    changes = tables.snapshot("crm.user_history", columns=["name", "_sluice_position"], lineage=True).read_all()
    assert changes["name"].null_count == 1 and changes.num_rows == 4
    with pytest.raises(UnknownColumn, match="shows no column 'vali'"):
        tables.snapshot("crm.user_history", columns=["vali"])


def test_differences_from_before_the_files_begin_are_those_of_the_history_table(own):
    place, folder = own
    put_history(folder, reversed(WHOLE))
    tables = Silver(place)

    def changed(first, last=None):
        after = None if last is None else BEFORE.format(last)
        with tables.differences("crm.user", BEFORE.format(first), after) as rows:
            return sorted((row.kind, row.key, row.columns if row.kind == "changed" else ()) for row in rows)

    assert changed(0, 1) == [("added", (3,), ()), ("changed", (1,), ("name",))]
    assert changed(1, 5) == [("added", (2,), ()), ("removed", (3,), ())]
    assert changed(5, 5) == []
    # The table's own row has a date besides, which no kept change has.
    assert changed(5) == [("changed", (1,), ("date",))]
    assert changed(0) == [("added", (2,), ()), ("changed", (1,), ("date", "name"))]


def test_diff_says_that_a_moment_comes_from_the_history_table(own, monkeypatch, sluice):
    put_history(own[1], WHOLE)
    monkeypatch.setattr(query_command, "chosen_target", lambda stack: own[0])
    shown = sluice("diff crm.user --csv --from", BEFORE.format(0))
    assert "changed,1,name,old,ann" in shown.out.splitlines()
    assert shown.err.count("from crm.user_history") == 1 and "1 added, 1 changed, 0 removed" in shown.err


def test_a_history_table_is_found_by_the_name_that_its_table_has_noted(own):
    place, folder = own
    put_history(folder, WHOLE)
    (folder / "crm" / "user_history").rename(folder / "crm" / "log")
    with pytest.raises(NotRetained, match="history: true"):
        states_of(place, 1)
    note = folder / stored_key("crm.user")
    note.parent.mkdir(parents=True)
    note.write_text("no note")
    with pytest.raises(NotRetained, match="history: true"):
        states_of(place, 1)
    note.write_text(StoredColumns("crm.user", {}, "log").to_json())
    states, (sentence,) = states_of(place, 1)
    assert states == [(1, "ann"), (3, "c")] and "from crm.log" in sentence


@pytest.mark.parametrize(("code", "refused"), [("AccessDenied", None), ("SlowDown", ClientError)])
def test_what_lies_beside_a_table_is_read_where_its_reader_may(code, refused):
    def read(key):
        raise ClientError({"Error": {"Code": code}}, "GetObject")

    files = SimpleNamespace(read=read)
    if refused is None:
        assert read_if_allowed(files, "k") is None
    else:
        with pytest.raises(refused):
            read_if_allowed(files, "k")


def test_query_says_that_a_table_comes_from_its_history(own, monkeypatch, sluice):
    put_history(own[1], WHOLE)
    monkeypatch.setattr(query_command, "chosen_target", lambda stack: own[0])
    shown = sluice("query --csv --as-of", BEFORE.format(1), "select name from crm.user order by 1")
    assert shown.out.splitlines() == ["name", "ann", "c"] and "from crm.user_history" in shown.err


def test_python_filters_by_the_sql_of_the_command_now_and_in_past_states(own):
    put_history(own[1], WHOLE)
    tables = Silver(own[0])
    with tables.query("select id, name from moma.works where nationality = 'German' and id < 3 order by id") as rows:
        assert [row["id"] for row in rows.read_all().to_pylist()] == [1]
    with tables.query("select name from crm.user order by 1", as_of=BEFORE.format(1)) as rows:
        assert rows.read_all().column("name").to_pylist() == ["ann", "c"]
    with tables.query("select id, __deleted from moma.works order by id", since=LOADED, until=MOVED) as rows:
        assert [row["id"] for row in rows.read_all().to_pylist()] == [1, 2, 6]
    with pytest.raises(InvalidQuery), tables.query("drop table moma.works"):
        pass


def test_read_takes_the_columns_of_a_past_state_from_the_history(own, monkeypatch, sluice):
    put_history(own[1], WHOLE)
    monkeypatch.setattr(query_command, "chosen_target", lambda stack: own[0])
    shown = sluice("query crm.user -c name --csv --as-of", BEFORE.format(1))
    assert sorted(shown.out.splitlines()) == ["ann", "c", "name"]
    assert "from crm.user_history" in shown.err and "2 rows" in shown.err
    wrong = sluice("query crm.user -c nane --as-of", BEFORE.format(1), code=2).err
    assert "shows no column 'nane'; did you mean name?" in wrong
    assert run(["query", "crm.user", "--as-of", BEFORE.format(1), "--lineage"]) != 0


def test_a_moment_before_the_files_begin_names_what_keeps_earlier_states(own):
    place, folder = own
    with pytest.raises(NotRetained) as refused:
        states_of(place, 1)
    assert "history: true" in refused.value.next_step
    put_history(folder, WHOLE)
    for read in (
        lambda: states_of(place, 1, with_deleted=True),
        lambda: open_table(place, "crm.user", span=span_of(as_of=BEFORE.format(1))),
    ):
        with pytest.raises(NotRetained) as refused:
            read()
        assert "with `--as-of`" in refused.value.next_step and "crm.user_history" in refused.value.next_step


def test_before_what_cleaning_keeps_the_answer_names_the_earliest_moment(own):
    place, folder = own
    retained = {"earliestCommitToRetain": MOVED, "lastCompletedCommitTimestamp": NOTED}
    avro_file(folder / "moma/works/.hoodie/20261121080020000.clean", CLEANED, retained)
    with pytest.raises(NotRetained, match=MOVED):
        read_table(place, "moma.works", span=Span(as_of=LOADED))
    assert names(read_table(place, "moma.works", span=Span(as_of=MOVED)))[6] == ("six b", "German")


@pytest.mark.parametrize(
    ("name", "record"),
    [
        ("clean", {"earliestCommitToRetain": str(int(NOTED) + 1), "lastCompletedCommitTimestamp": NOTED}),
        ("clean.requested", {"earliestInstantToRetain": {"timestamp": str(int(NOTED) + 1)}}),
    ],
    ids=["done", "planned"],
)
def test_the_newest_commit_is_readable_whatever_was_cleaned_before(own, name, record):
    place, folder = own
    as_now = names(read_table(place, "moma.works"))
    timeline = folder / "moma/works/.hoodie"
    avro_file(timeline / f"20261121080020000.{name}", CLEANED if name == "clean" else PLANNED, record)
    opened = open_table(place, "moma.works", span=Span(as_of=NOTED))
    assert (opened.listing.earliest, opened.instant) == (NOTED, NOTED)
    assert names(read_table(place, "moma.works", span=Span(as_of=NOTED))) == as_now
    for before in (str(int(NOTED) - 1), MOVED):
        with pytest.raises(NotRetained, match=NOTED):
            read_table(place, "moma.works", span=Span(as_of=before))


@pytest.mark.parametrize(
    ("end", "schema", "left"),
    [
        ("clean.requested", PLANNED, {"earliestInstantToRetain": {"timestamp": NOTED}}),  # files may be deleted
        ("clean", CLEANED, {"earliestCommitToRetain": "", "lastCompletedCommitTimestamp": NOTED}),  # the newest state
    ],
)
def test_a_cleaning_that_is_planned_or_names_no_moment_counts(own, end, schema, left):
    place, folder = own
    avro_file(folder / f"moma/works/.hoodie/20261121080020000.{end}", schema, left)
    with pytest.raises(NotRetained, match=NOTED):
        read_table(place, "moma.works", span=Span(as_of=MOVED))


def test_archived_commits_are_read_like_active_ones(own):
    place, folder = own
    for name in ("moma.works", "moma.artists"):
        before = {
            moment: names(read_table(place, name, span=Span(as_of=moment)))
            for moment in ((LOADED, MOVED) if name == "moma.works" else (ARTISTS_LOADED,))
        }
        for moment in before:
            for file in (folder / name.replace(".", "/") / ".hoodie").glob(f"{moment}*"):
                file.unlink()
        assert {moment: names(read_table(place, name, span=Span(as_of=moment))) for moment in before} == before


def test_a_moment_in_archived_commits_with_a_later_rollback_is_refused(own):
    place, folder = own
    timeline = folder / "moma/works/.hoodie"
    for moment in (LOADED, MOVED):
        for file in timeline.glob(f"{moment}*"):
            file.unlink()
    undone, at = str(int(MOVED) + 10), str(int(MOVED) + 500)
    record = {
        "commitsRollback": [undone],
        "partitionMetadata": {"p": "x"},
        "instantsRollback": [{"commitTime": undone, "action": "deltacommit"}],
    }
    avro_file(timeline / f"{at}.rollback", ROLLED_BACK, record)
    with pytest.raises(UnsettledMoment, match=at):
        open_table(place, "moma.works", span=Span(as_of=str(int(MOVED) + 20)))
    assert names(read_table(place, "moma.works", span=Span(as_of=at)))[6] == ("six b", "German")
    assert names(read_table(place, "moma.works", span=Span(as_of=MOVED)))[6] == ("six b", "German")
    base_files_only = {"instantsRollback": [{"commitTime": undone, "action": "compaction"}]}
    for harmless in ({"partitionMetadata": {}}, base_files_only):  # the first has written nothing yet
        avro_file(timeline / f"{at}.rollback", ROLLED_BACK, {**record, **harmless})
        assert open_table(place, "moma.works", span=Span(as_of=str(int(MOVED) + 20)))


def test_an_unfinished_write_is_not_seen_at_any_moment(own, monkeypatch):
    monkeypatch.setattr(reading, "epoch_ms", lambda: FAR_MS)
    place, folder = own
    table = folder / "moma/artists"
    (newest,) = (table / "nationality=American").glob(f"*{ARTISTS_MOVED}.parquet")
    unfinished = "20261121080009000"
    shutil.copy(newest, newest.with_name(newest.name.replace(ARTISTS_MOVED, unfinished)))
    (table / ".hoodie" / f"{unfinished}.commit.requested").touch()
    (table / ".hoodie" / f"{unfinished}.inflight").touch()
    for moment in (None, unfinished, "29991231235959999"):
        opened = open_table(place, "moma.artists", span=Span(as_of=moment))
        assert opened.instant == ARTISTS_MOVED
        assert all(item.base.instant != unfinished for item in opened.slices())


DELTA_BASE = "nationality=American/feb5f1dd-89fa-4e77-82b7-be2bbb53da9c-0_0-37-39_20261121080011861.parquet"
DELTA_LOG = "nationality=American/.feb5f1dd-89fa-4e77-82b7-be2bbb53da9c-0_20261121080011861.log.1_1-61-69"
NOTED_LOG = "nationality=German/.feb5f1dd-89fa-4e77-82b7-be2bbb53da9c-2_20261121080012602.log.1_0-92-101"
NOTED_BASE = "nationality=German/feb5f1dd-89fa-4e77-82b7-be2bbb53da9c-2_0-61-68_20261121080012602.parquet"


@pytest.mark.parametrize(
    ("table", "gone", "as_of"),
    [
        ("crm.user", "3560b200-1e71-43eb-9ecc-0d7e7daad1f0-0_0-104-108_20261121080015045.parquet", None),
        ("moma.works", NOTED_LOG, None),
        ("moma.works", NOTED_BASE, None),
        ("moma.works_ro", NOTED_BASE, None),
        ("moma.works", DELTA_LOG, MOVED),
        ("moma.works", DELTA_BASE, MOVED),
        ("moma.works", DELTA_BASE, LOADED),
    ],
)
def test_a_deleted_file_of_the_commit_that_is_read_is_an_error(own, table, gone, as_of):
    place, folder = own
    stored = table.removesuffix("_ro")
    (folder / stored.replace(".", "/") / gone).unlink()
    with pytest.raises(FilesMissing) as raised:
        open_table(place, table, span=Span(as_of=as_of))
    assert raised.value.facts["files"] == (gone,)
    assert f"`sluice rebuild table {stored}`" in raised.value.next_step


@pytest.mark.parametrize("table", ["moma.artists", "moma.works"])
def test_a_deleted_file_of_an_earlier_commit_that_holds_rows_is_an_error(own, table):
    place, folder = own
    instant = open_table(place, table).instant
    earlier = [item.base for item in open_table(place, table).slices() if item.base and item.base.instant != instant]
    assert earlier, "an earlier commit has a file that the newest one left as it was"
    (folder / table.replace(".", "/") / earlier[0].path).unlink()
    with pytest.raises(FilesMissing) as raised:
        open_table(place, table)
    assert raised.value.facts["files"] == (earlier[0].path,)


@pytest.mark.parametrize("how", ["gone", "empty"])
def test_lost_properties_are_named_with_the_verb_that_restores_them(own, how):
    place, folder = own
    lost = folder / "moma" / "works" / ".hoodie" / "hoodie.properties"
    lost.unlink() if how == "gone" else lost.write_bytes(b"")
    for name in ("moma.works", "moma.works_rt"):
        with pytest.raises(FilesMissing) as raised:
            open_table(place, name)
        assert raised.value.facts["files"] == (".hoodie/hoodie.properties",)
        assert "`sluice table accept moma.works`" in raised.value.next_step


def test_a_moment_before_the_damaged_commit_is_still_readable(own):
    place, folder = own
    (folder / "moma" / "works" / NOTED_LOG).unlink()
    assert 2 in rows_by_id(read_table(place, "moma.works", span=Span(as_of=LOADED)))


@pytest.mark.parametrize("how", ["completed", "archived"])
def test_a_file_of_a_commit_that_is_newer_than_the_listing_is_not_missed(own, monkeypatch, how):
    place, folder = own
    table = folder / "moma" / "artists"
    commit, late = table / ".hoodie" / f"{ARTISTS_MOVED}.commit", table / ".hoodie" / "late"
    commit.rename(late)
    listed = TableFolder.files

    def files(self):
        yield from listed(self)
        if late.exists():
            late.rename(commit)
            if how == "archived":  # with the files of the older commit cleaned: the next listing has the newer one
                (table / ".hoodie" / f"{ARTISTS_LOADED}.commit").unlink()

    monkeypatch.setattr(TableFolder, "files", files)
    opened = open_table(place, "moma.artists")
    assert opened.instant == (ARTISTS_LOADED if how == "completed" else ARTISTS_MOVED)


def test_files_that_a_cleaning_deletes_meanwhile_are_looked_for_in_the_newer_commit(own, monkeypatch):
    place, folder = own
    table = folder / "moma" / "artists"
    commit, late = table / ".hoodie" / f"{ARTISTS_MOVED}.commit", table / ".hoodie" / "late"
    commit.rename(late)
    listed = TableFolder.files

    def files(self):
        files = list(listed(self))
        if late.exists():
            late.rename(commit)
            files = [item for item in files if ARTISTS_LOADED not in item.path or ".hoodie" in item.path]
        return iter(files)

    monkeypatch.setattr(TableFolder, "files", files)
    assert open_table(place, "moma.artists").instant == ARTISTS_MOVED


def test_a_table_without_a_commit_is_reported(own):
    place, folder = own
    for file in (*(folder / "crm/user/.hoodie").glob("2*"), *(folder / "crm/user").glob("*.parquet")):
        file.unlink()
    with pytest.raises(NoCommit) as refused:
        table_listing(find_table(place, "crm.user")[0]).newest_until(None)
    assert "`sluice quarantine list --table crm.user`" in refused.value.next_step, "no wait ends if all are there"
    assert "Objects without rows make no commit" in refused.value.next_step


def test_changes_are_rows_as_their_last_change_left_them_with_deletions(silver):
    rows = rows_by_id(read_table(silver, "moma.works", span=span_of(since=LOADED, until=MOVED)))
    expected = {1: ("one moved", False), 2: (None, True), 6: ("six b", False)}
    assert {number: (row["name"], row["__deleted"]) for number, row in rows.items()} == expected
    assert sorted(rows_by_id(read_table(silver, "moma.works", span=span_of(since=MOVED)))) == [6, 7]
    assert sorted(rows_by_id(read_table(silver, "moma.works", span=span_of(until=LOADED)))) == [1, 2, 3, 4, 5, 6]
    assert read_table(silver, "moma.works", span=span_of(since=NOTED)).num_rows == 0


def test_changes_of_base_files_alone_are_refused(silver, on_silver, sluice):
    with pytest.raises(InvalidMoment, match="moma.works_ro can't say what changed") as refused:
        Silver(silver).changes("moma.works_ro", since=MOVED)
    assert refused.value.next_step == "Ask moma.works, the merged state, for changes"
    assert "Ask moma.works" in sluice("query --since", MOVED, "from moma.works_ro", code=2).err
    assert Silver(silver).changes("moma.works_ro", until=MOVED).read_all().num_rows == 7
    assert sorted(rows_by_id(Silver(silver).changes("moma.works_rt", since=MOVED).read_all())) == [6, 7]


def test_files_without_a_change_are_not_opened(silver):
    slices = open_table(silver, "moma.artists", span=span_of(since=ARTISTS_LOADED)).slices()
    partitions = [item.partition.removeprefix("nationality=") for item in slices]
    assert partitions == ["American", "German", "__HIVE_DEFAULT_PARTITION__"]


def test_columns_are_chosen_and_unknown_or_hidden_ones_are_named(silver):
    table = open_table(silver, "moma.works")
    assert table.reader(Shown(columns=("name", "id"))).read_all().column_names == ["name", "id"]
    for wrong in ("nam", "_sluice_op", "__deleted"):
        with pytest.raises(UnknownColumn, match="nationality"):
            table.schema(Shown(columns=(wrong,)))


def test_a_difference_names_the_columns_and_knows_a_moved_row_for_the_same(silver):
    first, last = (open_table(silver, "moma.works", span=Span(as_of=moment)) for moment in (LOADED, NOTED))
    with differences(first, last) as rows:
        described = {item.key[0]: (item.kind, item.columns if item.kind == "changed" else None) for item in rows}
    assert described == {
        1: ("changed", ("nationality", "name")),
        2: ("removed", None),
        6: ("changed", ("name", "note")),
        7: ("added", None),
    }
    with differences(last, last) as rows:
        assert list(rows) == []


def test_read_writes_json_csv_and_parquet_in_which_null_and_empty_text_differ(on_silver, sluice, tmp_path):
    printed = sluice("query moma.artists -c id -c nationality --json --as-of", ARTISTS_MOVED).out
    lines = [json.loads(line) for line in printed.splitlines()]
    described = {line["id"]: line["nationality"] for line in lines}
    assert (described[3], described[4], described[5]) == (None, "", "Côte/d Ivoire=x")
    text = sluice("query moma.artists -c id -c nationality --csv").out
    assert "3,\n" in text and '4,""\n' in text and sorted(csv.reader(io.StringIO(text)))[-1] == ["id", "nationality"]
    file = tmp_path / "artists.parquet"
    sluice("query moma.artists --parquet", str(file))
    assert {row["id"]: row["nationality"] for row in pq.read_table(file).to_pylist()} == described
    assert list(tmp_path.iterdir()) == [file]
    nowhere = str(tmp_path / "nowhere" / "x.parquet")
    assert "can't be written" in sluice("query moma.artists --parquet", nowhere, code=1).err


def test_a_query_sees_every_table_as_of_the_moment(on_silver, sluice):
    statement = (
        "select (select count(*) from moma.works) w, (select string_agg(name, '|' order by name) from "
        "moma.works where nationality = 'German') named"
    )
    answer = sluice.json("query --as-of 2026-11-21T09:00:12.700+01:00", statement)
    assert answer == {"w": 5, "named": "one moved|six b"}
    assert sluice.json("query --since", LOADED, "select id from moma.works where __deleted") == {"id": 2}


def test_the_python_api_reads_what_the_command_reads(silver):
    from sluice_read import CHANGED, NotRetained, Silver

    tables = Silver(silver)
    assert tables.tables() == ("crm.user", "ecomm.date", "moma.artists", "moma.works")
    commits = tables.commits("moma.works")
    assert [(commit.instant, commit.time) for commit in commits] == [
        (instant, moment_of(instant)) for instant in (LOADED, MOVED, NOTED)
    ]
    assert [tuple(commit) for commit in commits][0] == (LOADED, moment_of(LOADED))
    assert tables.earliest("moma.works") == LOADED
    assert tables.schema("crm.user").names == ["id", "date", "name"]
    assert sum(batch.num_rows for batch in tables.snapshot("moma.works")) == 6
    assert tables.as_of("moma.works", moment_of(LOADED), columns=["name"]).read_all().num_rows == 6
    assert sorted(rows_by_id(tables.changes("moma.works", since=LOADED, until=MOVED).read_all())) == [1, 2, 6]
    assert rows_by_id(tables.changes("moma.works").read_all())[2]["__deleted"] is True
    with tables.differences("moma.works", MOVED) as rows:
        assert [item.key for item in rows if item.kind == CHANGED] == [(6,)]
    with pytest.raises(NotRetained):
        tables.as_of("moma.works", "2020-01-01T00:00:00Z")
