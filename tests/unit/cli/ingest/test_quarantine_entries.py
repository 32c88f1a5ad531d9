"""What `sluice quarantine list` prints in a terminal of 80 columns."""

import re

from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.ingest.quarantine_entries import print_groups


def test_eighty_columns_keep_every_column_and_a_long_key_whole(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    identity = ObjectId("bronze", f"topics/tickit.{'long_' * 12}/tickit.{'long_' * 12}+0+0000001030.avro", "v1")
    print_groups([ObjectRecord(identity, "quarantined", 1, code="not_avro", listed_at="1")], {}, 95_001)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[-4].split() == ["id", "kind", "since"] and lines[-3].strip() == "key"
    assert lines[-2].startswith(identity.hash[:12]) and "1 min 35 s" in lines[-2]
    assert lines[-1] == f"  {identity.key}"
