"""What `sluice history` prints in terminals of several widths."""

import re

import pytest

from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.terminal.output import is_named
from sluice_cli.trace.history import print_history
from sluice_cli.trace.history_search import Gathered
from sluice_cli.trace.object_history import Claim, Entry, totals

BATCH, RUN = "b-8a85abb73509df04e8c7fccfb81fb18e", "run-main-20261121T154711Z-94f63899"
PUT = 1_795_000_000_000


def entry(number):
    key = f"topics/tickit.crm.user/year=2026/month=11/day=21/tickit.crm.user+0+{number:010d}.avro"
    identity = ObjectId("bronze", key, "v1")
    record = ObjectRecord(identity, "committed", PUT + 500, size=37_474, table="crm.user", batch=BATCH)
    claim = Claim(BATCH, "crm.user", RUN, PUT + 7_900, "committed", 3, 9, PUT + 32_700, part={"read": 564})
    return Entry(identity, record, PUT, (claim,))


ENTRIES = tuple(entry(number) for number in range(3))


def printed(monkeypatch, capsys, *, width=None):
    if width is not None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", str(width))
    print_history(Gathered(ENTRIES, ()), totals(ENTRIES, ()))
    return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


@pytest.mark.parametrize("width", [80, 100, 140])
def test_a_terminal_shows_each_object_in_one_line(monkeypatch, capsys, width):
    lines = printed(monkeypatch, capsys, width=width)
    assert len(lines) == 4 and all(len(line) <= width for line in lines)
    for each, line in zip(ENTRIES, lines[1:], strict=True):
        assert line.startswith("2026-11-18T") and "crm.user" in line and is_named(line.split()[-1], each.id.key)


def test_a_pipe_gets_every_column_with_whole_names(monkeypatch, capsys):
    lines = printed(monkeypatch, capsys)
    assert lines[0].count("\t") == 10 and all(BATCH in line and RUN in line for line in lines[1:])
