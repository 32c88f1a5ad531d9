"""Arrow values in JSON."""

import datetime as dt
import json
import re
from decimal import Decimal

import pyarrow as pa
import pytest
from support.builders import to_a_terminal, unstyled

from sluice_cli.status.html import KINDS
from sluice_cli.terminal.colours import STATES
from sluice_cli.terminal.output import print_line, say_error, wrapped
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import counted, human_age, human_bytes, is_named
from sluice_read.values import column_names, rows_of


def one(array, **how):
    ((value,),) = rows_of(pa.RecordBatch.from_arrays([array], names=["v"]), **how)
    json.dumps(value, allow_nan=False)
    return value


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (pa.array([dt.date(2020, 2, 3)]), "2020-02-03"),
        (pa.array([7_000_000], pa.date32()), "21135-05-09"),
        (pa.array([1_704_103_200_123_456], pa.timestamp("us", "UTC")), "2024-01-01T10:00:00.123456Z"),
        (pa.array([1_704_103_200_123_456_789], pa.timestamp("ns")), "2024-01-01T10:00:00.123456789"),
        (pa.array([9_223_372_036_825_200_000], pa.timestamp("us", "UTC")), "294247-01-10T04:00:25.200000Z"),
        (pa.array([-9_223_372_036_832_400_000], pa.timestamp("us")), "-290308-12-21T19:59:27.600000"),
        (pa.array([dt.time(10, 0, 0, 500_000)]), "10:00:00.500000"),
        (pa.array([Decimal("0.0000001")]), "0.0000001"),
        (pa.array([Decimal("12.50")]), "12.50"),
        (pa.array([b"\x00\xff"]), "AP8="),
        (pa.array([float("nan")]), "NaN"),
        (pa.array([float("-inf")]), "-Infinity"),
        (pa.array([1.5]), 1.5),
        (pa.array([3.4028], pa.float32()), 3.4028),
        (pa.array([float("inf")], pa.float32()), "Infinity"),
        (pa.array([2**63 - 1]), 2**63 - 1),
        (pa.array([True]), True),
        (pa.array([[Decimal("1.5"), None]]), ["1.5", None]),
        (pa.array([{"at": dt.date(2020, 1, 1), "raw": b"a"}]), {"at": "2020-01-01", "raw": "YQ=="}),
        (pa.array([[("x", dt.date(2020, 1, 1))]], pa.map_(pa.string(), pa.date32())), {"x": "2020-01-01"}),
        (pa.array(["a"]).dictionary_encode(), "a"),
        (pa.array([(1, 2, 3_500_000_000)], pa.month_day_nano_interval()), "P1M2DT3.5S"),
        (pa.array([dt.timedelta(seconds=90)]), "PT90S"),
        (pa.array([None], pa.int32()), None),
        (pa.array([None], pa.timestamp("us")), None),
    ],
)
def test_a_value_is_written_without_loss(array, value):
    assert one(array) == value


def test_an_integer_beyond_64_bits_is_a_number():
    assert one(pa.array([Decimal(2**70)], pa.decimal128(38, 0)), whole_numbers=frozenset({0})) == 2**70


def test_equal_column_names_are_distinguished():
    assert column_names(["id", "id", "id_1", "id"]) == ("id", "id_1", "id_1_1", "id_2")


def test_sizes_and_ages_are_printed_briefly():
    assert [human_bytes(size) for size in (0, 1023, 1536, 5 * 1024**4)] == ["0 B", "1023 B", "1.5 KiB", "5.0 TiB"]
    expected = ["0 s", "0 s", "1 min 35 s", "1 h", "1 d 1 h"]
    assert [human_age(age) for age in (-5, 999, 95_000, 3_600_000, 90_000_000)] == expected
    assert (counted(1, "object"), counted(2000, "object")) == ("1 object", "2,000 objects")


ID, KEY = "3f2a9c3f2a9c", "topics/crm.public.user/partition=0/crm.public.user+0+0000000010.avro"
REASON = "The Avro container ends inside a block, and so the last of its rows are not there to be read"


def printed(monkeypatch, capsys, columns, rows, width=80, **how):
    to_a_terminal(monkeypatch, width)
    print_table(columns, rows, **how)
    return unstyled(capsys.readouterr().out)


def test_a_wide_text_is_wrapped_between_words_and_ids_stay_whole(monkeypatch, capsys):
    lines = printed(monkeypatch, capsys, ("id", "table", "reason"), [(ID, "crm.user", REASON), (ID, "b", "no")])
    assert all(len(line) <= 80 for line in lines) and sum(ID in line for line in lines) == 2
    assert [word for line in lines[1:-1] for word in line.split()] == [ID, "crm.user", *REASON.split()]


def test_a_row_that_fits_no_terminal_is_printed_as_lines_with_every_value_whole(monkeypatch, capsys):
    lines = printed(monkeypatch, capsys, ("id", "key", "reason"), [(ID, KEY, REASON), (ID, KEY, "no")])
    assert lines[:3] == [f"id      {ID}", f"key     {KEY}", f"reason  {REASON}"]
    assert (lines[3], lines[4]) == ("", f"id      {ID}")


STATUS = ("table", "pending", "bytes", "oldest", "quarantined", "last commit", "last error")
AT_REST = [(f"tickit.table_{n}", "0", "0 B", "-", "0", f"{n} min {n} s ago", "-") for n in range(10)]


def test_a_narrow_table_leaves_out_columns_without_a_value(monkeypatch, capsys):
    lines = printed(monkeypatch, capsys, STATUS, AT_REST, width=60)
    assert lines[0].split() == ["table", "last", "commit"]
    assert len(lines) == 11 and all(row[0] in line and row[5] in line for row, line in zip(AT_REST, lines[1:]))


def test_a_narrow_table_shortens_ids_and_keys_in_the_middle(monkeypatch, capsys):
    batch = "b-8a85abb73509df04e8c7fccfb81fb18e"
    lines = printed(monkeypatch, capsys, ("batch", "key"), [(batch, KEY)] * 2, shorten=(0, 1), width=60)
    assert len(lines) == 3 and all(len(line) <= 60 for line in lines)
    shown_batch, shown_key = lines[1].split()
    assert is_named(shown_batch, batch) and is_named(shown_key, KEY) and shown_key.endswith("0000000010.avro")


def test_a_key_that_fits_beside_nothing_stands_whole_below_its_row(monkeypatch, capsys):
    rows = [(ID, "crm.user", KEY), (ID, "b", "-")]
    lines = printed(monkeypatch, capsys, ("id", "table", "key"), rows, paths=(2,), width=40)
    expected = ["id            table", "  key", f"{ID}  crm.user", f"  {KEY}", f"{ID}  b"]
    assert [line.rstrip() for line in lines] == expected


FIX = "Check what the log says of its last run, then run `sluice quarantine retry --code not_avro --table crm.user`"


@pytest.mark.parametrize("width", [50, 80, 120])
def test_a_command_to_copy_stands_in_one_piece_below_its_row(monkeypatch, capsys, width):
    rows = [("fail", "quarantine", "not merged: 3 objects", FIX), ("ok", "ledger", "is active", "")]
    lines = printed(monkeypatch, capsys, ("result", "about", "found", "what to do"), rows, apart=(3,), width=width)
    assert lines[1].strip() == "what to do" and lines[2].split()[:2] == ["fail", "quarantine"]
    assert any("`sluice quarantine retry --code not_avro --table crm.user`" in line for line in lines)
    assert [word for line in lines[3:-1] for word in line.split()] == FIX.split()
    assert all(len(line) <= max(width, 62) for line in lines) and lines[-1].startswith("ok ")


def styled(monkeypatch, capsys, *, terminal=True, **environment):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}.isatty", lambda: terminal, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"COLUMNS": "80", "TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    say_error("it failed", "try again")
    print_line("  warning: an error: of old")
    print_table(("result", "found"), [("fail", "ok then"), ("ok", "fail")], states=(0,))
    shown = capsys.readouterr()
    return shown.err + shown.out


def test_a_terminal_shows_errors_warnings_and_results_in_colour(monkeypatch, capsys):
    shown = styled(monkeypatch, capsys)
    assert "\x1b[1;31merror:\x1b[0m it failed\nnext step: try again\n" in shown
    assert re.search(r"\x1b\[33m *warning:\x1b\[0m an error: of old\n", shown)
    assert "\x1b[31mfail" in shown and "\x1b[32mok" in shown and "\x1b[32mok then" not in shown


def test_a_state_has_the_colour_that_the_status_page_gives_it():
    expected = {"bad": "red", "warn": "yellow"}
    words = {
        word: expected[kind.colour] for kind in KINDS if kind.colour in expected for word in kind.words.split(", ")
    }
    assert words.items() <= STATES.items()


def test_a_pipe_and_no_color_show_no_colour(monkeypatch, capsys):
    assert "\x1b" not in styled(monkeypatch, capsys, terminal=False)
    shown = styled(monkeypatch, capsys, NO_COLOR="1")
    assert "error: it failed" in re.sub(r"\x1b\[[01]?m", "", shown)
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shown)


@pytest.mark.parametrize(
    ("given", "matches"),
    [("b-97", True), ("b-97…01", True), ("b-97…02", False), ("b-98", False), ("b-97abcd…abcd01", False), ("…01", True)],
)
def test_a_name_is_found_by_its_beginning_or_its_shortened_form(given, matches):
    assert is_named(given, "b-97abcd01") is matches


def test_nothing_is_left_out_of_a_table_in_a_pipe(capsys):
    print_table(("id", "key", "reason"), [(ID, KEY, REASON * 9)])
    assert capsys.readouterr().out == f"id\tkey\treason\n{ID}\t{KEY}\t{REASON * 9}\n"


def test_lines_of_a_message_stay_apart_and_a_copied_text_stays_whole():
    expected = ["tables.yaml has 1 mistake:", "", "line 2: an unknown key"]
    assert wrapped("tables.yaml has 1 mistake:\n\nline 2: an unknown key", 30) == expected
    command = "`sluice quarantine retry --code x`"
    assert wrapped(f"retry it with {command} afterwards", 30) == ["retry it with", f"  {command}", "  afterwards"]
    expected = ["won", "  dt=2026 01/a b.avro", "  offset 7"]
    assert wrapped("won  dt=2026 01/a b.avro offset 7", 21, "dt=2026 01/a b.avro") == expected
    assert wrapped("東京 東京 東京", 10) == ["東京 東京", "  東京"]


PROSE = "  every row of crm.user is what its objects say, and nothing is left to do"


@pytest.mark.parametrize("text", ["", PROSE, f"\n{PROSE}", "tab\tkept", "a `b c"], ids=str.strip)
def test_prose_in_a_pipe_is_one_line(capsys, text):
    print_line(text)
    assert capsys.readouterr().out == f"{text}\n"


def test_prose_in_a_terminal_is_wrapped_between_words(monkeypatch, capsys):
    to_a_terminal(monkeypatch, 40)
    print_line(PROSE)
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("  every") and rest and all(line.startswith("    ") for line in rest)
    assert all(len(line) <= 40 for line in (first, *rest)) and " ".join([first, *rest]).split() == PROSE.split()
