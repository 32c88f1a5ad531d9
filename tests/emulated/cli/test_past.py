"""The status page and `sluice top` on an emulated stack."""

import io
import shlex
import time
from html.parser import HTMLParser
from http.client import IncompleteRead
from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from emulation.merged_stack import Merged
from emulation.stack import NOW
from rich.console import Console
from urllib3.exceptions import ProtocolError

from sluice.errors import UnreadableManifest, UsageError
from sluice.ledger import keys as items
from sluice.ledger.records import RETRIED, Decision
from sluice_aws.clock import epoch_ms
from sluice_aws.errors import LedgerBusy
from sluice_cli.status import page_file
from sluice_cli.status import top as top_command
from sluice_cli.status.past import BINS
from sluice_cli.terminal.stack import chosen_target


class Elements(HTMLParser):
    """The elements of a page, and whether they end in the order in which they began."""

    def __init__(self, text):
        super().__init__()
        self.open, self.names, self.attributes, self.texts = [], [], [], []
        self.feed(text.replace("<wbr/>", "").replace("\u00a0", " "))
        assert self.open == []

    def handle_starttag(self, name, attributes):
        self.names.append(name)
        self.attributes += attributes
        if name != "meta":
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.names.append(name)
        self.attributes += attributes

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        self.texts.append(text)


def test_the_page_is_whole_in_itself_and_escapes_what_came_from_outside(stack, tmp_path, sluice):
    hostile = 'topics/"><script>alert(1)</script>&<img src=x>.avro'
    stack.admit(stack.write(hostile), items.QUARANTINED, code="not_avro", reason="<b onload=x>")
    stack.admit(stack.write("a"))
    assert "Written to page.html" in sluice("status --html page.html --since 7d").err
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Elements(text)
    assert shlex.join(["sluice", "--stack", "s", "trace", hostile]) in page.texts and "<b onload=x>" in page.texts
    assert {"script", "img", "link", "iframe", "b onload"} & set(page.names) == set()
    assert not [name for name, _ in page.attributes if name in ("src", "onload", "style")]
    assert all(value.startswith("#") for name, value in page.attributes if name == "href")
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme:dark" in text and ("name", "viewport") in page.attributes
    sluice("status --html no/folder/page.html", code=1)


def test_the_page_counts_runs_that_had_no_batch(stack, tmp_path, sluice):
    now = epoch_ms()
    for run_id, ago in (("run-old", 2 * 86_400_000), ("run-a", 60_000), ("run-b", 30_000)):
        stack.ledger.history.run_started(run_id, "main", now - ago, "job")
    sluice("status --html page.html --since 1d")
    texts = " ".join(Elements((tmp_path / "page.html").read_text(encoding="utf-8")).texts)
    assert "2 runs, " in texts and "run-a" in texts and "run-old" not in texts


def test_the_backlog_of_the_page_has_a_retried_object_only_since_its_retry(stack):
    merged, retried_at = Merged(stack), NOW + 100_000
    _, (_, bad) = merged.merge("a", "bad", at=1, bad=["bad"])
    record = stack.ledger.objects.get([bad])[bad]
    decision = Decision(bad, RETRIED, retried_at, "sluice quarantine retry", "me", record.state, batch=record.batch)
    assert stack.ledger.quarantine.retry(record, record, decision)
    target = chosen_target("s")
    look = page_file.PageFile(target, lambda: None, Path("page.html"), "1d").look(NOW + 144_000)
    began = int(look.window.at(retried_at) * BINS)
    assert set(look.backlog[began:]) == {1}
    middle = int(look.window.at(NOW + 50_000) * BINS)
    assert set(look.backlog[middle:began]) == {0}, "it was in quarantine"
    assert look.document["lanes"][0]["pending"]["oldest_ms"] == 44_000


def sleeping(monkeypatch, *between):
    """Have each pause of a watch do one thing, and the last one be ended by Ctrl-C."""
    pauses, left = [], list(between)

    def sleep(seconds):
        pauses.append(seconds)
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    # The module's own clock, not the process's: other threads of the tests' process sleep, too.
    monkeypatch.setattr(page_file, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    return pauses


def test_a_watched_page_is_written_again_until_ctrl_c(stack, tmp_path, monkeypatch, sluice):
    shown = tmp_path / "page.html"
    seen = []

    def change():
        seen.append(shown.read_text(encoding="utf-8"))
        stack.admit(stack.write("b"), items.PARKED, reason="no rule takes it")

    pauses = sleeping(monkeypatch, change, lambda: seen.append(shown.read_text(encoding="utf-8")))
    said = sluice("status --html page.html --watch --every 5s").err
    assert pauses[0] >= 5.0 and len(pauses) == 3
    first, second = seen
    assert "Nothing is wrong" in first and 'content="5"' in first
    assert "no rule takes it" in second and "Nothing is wrong" not in second
    last = shown.read_text(encoding="utf-8")
    assert "no rule takes it" in last and "its watch has ended" in last and 'http-equiv="refresh"' not in last
    assert [file.name for file in tmp_path.glob("page*")] == ["page.html"]
    assert "again every 5 s" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (EndpointConnectionError(endpoint_url="http://s"), "nothing answers at http://s"),
        (ConnectionResetError(104, "Connection reset by peer"), "the connection broke off"),
        (TimeoutError(), "no answer came in time"),
        (IncompleteRead(b"half"), "the connection broke off"),
        (ProtocolError("Connection broken"), "the connection broke off"),
        (ClientError({"Error": {"Code": "Throttled"}}, "Query"), "AWS refused Query (Throttled)"),
        (LedgerBusy("A page was not answered"), "A page was not answered"),
        (UnreadableManifest("A manifest can't be read"), "A manifest can't be read"),
    ],
    ids=lambda given: type(given).__name__ if isinstance(given, Exception) else "",
)
def test_a_watch_goes_on_while_the_stack_does_not_answer(stack, tmp_path, monkeypatch, sluice, error, said):
    shown, seen = tmp_path / "page.html", []
    look = page_file.PageFile.look

    def fail():
        def unanswered(self, now):
            monkeypatch.setattr(page_file.PageFile, "look", look)
            raise error

        monkeypatch.setattr(page_file.PageFile, "look", unanswered)

    def keep():
        seen.append(shown.read_text(encoding="utf-8"))

    sleeping(monkeypatch, fail, keep, keep)
    printed = sluice("status --html page.html --watch").err
    assert ["can&#x27;t be read since" in text for text in seen] == [True, False]
    (line,) = (line for line in printed.splitlines() if "can't be read since" in line)
    assert line.endswith(f": {said}") and "Traceback" not in line


@pytest.mark.parametrize("error", [KeyError("lanes"), UsageError("wrong")], ids=lambda error: type(error).__name__)
def test_a_watch_ends_at_mistakes_of_the_program_and_the_user(stack, tmp_path, monkeypatch, error, sluice):
    def fail():
        def mistaken(self, now):
            raise error

        monkeypatch.setattr(page_file.PageFile, "look", mistaken)

    sleeping(monkeypatch, fail)
    if isinstance(error, UsageError):
        sluice("status --html page.html --watch", code=2)
    else:
        with pytest.raises(KeyError):
            sluice("status --html page.html --watch", code=None)


def test_top_looks_again_until_ctrl_c_and_leaves_its_last_look(stack, monkeypatch):
    screens, sleeps = io.StringIO(), []
    console = Console(file=screens, force_terminal=True, width=100, height=30)

    def sleep(seconds):
        sleeps.append(seconds)
        if len(sleeps) == 2:
            raise KeyboardInterrupt
        stack.admit(stack.write("b"))

    monkeypatch.setattr(top_command, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    stack.ledger.lanes.wake("main")
    store = SimpleNamespace(load=lambda: None)
    top_command._watch(stack.ledger, store, top_command.look(stack.ledger, NOW, None), 2.0, console)
    assert sleeps[0] == 2.0 and len(sleeps) == 2
    assert "crm.user" in screens.getvalue().rpartition("\x1b[?1049l")[2], "what stays when the screen is given back"
