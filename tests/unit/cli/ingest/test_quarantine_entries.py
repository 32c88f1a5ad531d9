"""What `sluice quarantine list` prints in a terminal of 80 columns."""

import pytest

from sluice.batch.row_errors import RowError, row_error
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.ingest.quarantine_entries import print_entry
from sluice_formats.errors import DamagedJson

ID = ObjectId("bronze", "k", "v")


def test_the_retry_of_a_row_is_for_the_table_of_its_entry(capsys):
    record = ObjectRecord(ID, "committed", 1, table="crm.user", quarantined_rows=1)
    why = "The key is null. Then `sluice quarantine retry --code null_record_key`"
    print_entry(record, None, [RowError(3, "null_record_key", why, 70, None, "json", "{}", 2)], ())
    assert "`sluice quarantine retry --code null_record_key --table crm.user`" in capsys.readouterr().out


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
    record = ObjectRecord(ID, "committed", 1, quarantined_rows=1, row_codes={"damaged_json": 1})
    row = row_error(0, DamagedJson("No JSON"), content, offset=None, position=None)
    print_entry(record, None, [row], [])
    assert capsys.readouterr().out.splitlines()[-1] == shown
