"""What `sluice quarantine list` prints in a terminal of 80 columns."""

import pytest
from support.builders import to_a_terminal, unstyled

from sluice.batch.row_errors import RowError, row_error
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.ingest.quarantine_entries import print_entry, print_groups, print_lines
from sluice_formats.errors import DamagedJson


def test_eighty_columns_keep_every_column_and_a_long_key_whole(monkeypatch, capsys):
    to_a_terminal(monkeypatch)
    identity = ObjectId("bronze", f"topics/tickit.{'long_' * 12}/tickit.{'long_' * 12}+0+0000001030.avro", "v1")
    print_groups([ObjectRecord(identity, "quarantined", 1, code="not_avro", listed_at="1")], {}, 95_001)
    lines = unstyled(capsys.readouterr().out)
    assert lines[-4].split() == ["id", "kind", "age"] and lines[-3].strip() == "key"
    assert lines[-2].startswith(identity.hash[:12]) and "1 min 35 s" in lines[-2]
    assert lines[-1] == f"  {identity.key}"


def test_the_retry_of_a_row_is_for_the_table_of_its_entry(capsys):
    record = ObjectRecord(ObjectId("bronze", "k", "v"), "committed", 1, table="crm.user", quarantined_rows=1)
    why = "The key is null. Then `sluice quarantine retry --code null_record_key`"
    print_entry(record, None, [RowError(3, "null_record_key", why, 70, None, "json", "{}", 2)], ())
    assert "`sluice quarantine retry --code null_record_key --table crm.user`" in capsys.readouterr().out


def test_a_pipe_gets_a_line_for_each_entry_by_table_and_code(capsys):
    named = [("b.two", "not_avro", "k1"), ("a.one", "not_avro", "k2"), ("a.one", "corrupt", "k4"), ("b.two", "x", "k3")]
    shown = [
        ObjectRecord(ObjectId("bronze", key, "v"), "quarantined", 1, table=table, code=code, listed_at="1")
        for table, code, key in named * 2
    ]
    print_lines(shown, {}, 2)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [(table, code, key) for *_, table, code, _, key, _ in lines[1:]] == sorted(named * 2)


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b'{"id":1,"d":"\xc3\xb8\x1b[2J', '  {"id":1,"d":"ø\\x1b[2J'),
        ("ø".encode() + b"\xc3", "  ø"),
        (b"\x00\x02a", "  base64: AAJh (of 3 bytes)"),
        (b"\xff\xfea", "  base64: //5h (of 3 bytes)"),
    ],
)
def test_a_record_that_could_not_be_decoded_is_shown_as_text_where_it_is_text(content, shown, capsys):
    record = ObjectRecord(
        ObjectId("bronze", "k", "v"), "committed", 1, quarantined_rows=1, row_codes={"damaged_json": 1}
    )
    row = row_error(0, DamagedJson("No JSON"), content, offset=None, position=None)
    print_entry(record, None, [row], [])
    assert capsys.readouterr().out.splitlines()[-1] == shown


def test_a_cut_record_says_its_length(capsys):
    record = ObjectRecord(
        ObjectId("bronze", "k", "v"), "committed", 1, quarantined_rows=1, row_codes={"damaged_json": 1}
    )
    print_entry(record, None, [row_error(0, DamagedJson("No JSON"), b"x" * 20_000, offset=None, position=None)], [])
    assert capsys.readouterr().out.splitlines()[-1].endswith("xxx (of 20,000 bytes)")
