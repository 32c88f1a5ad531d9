"""The status page and `sluice top` on an emulated stack."""

import io
from html.parser import HTMLParser
from types import SimpleNamespace

from emulation.stack import NOW
from rich.console import Console

from sluice.ledger import keys as items
from sluice_cli.main import run
from sluice_cli.status import top as top_command


class Elements(HTMLParser):
    """The elements of a page, and whether they end in the order in which they began."""

    def __init__(self, text):
        super().__init__()
        self.open, self.names, self.attributes, self.texts = [], [], [], []
        self.feed(text)
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


def test_the_page_is_whole_in_itself_and_escapes_what_came_from_outside(stack, tmp_path, capsys):
    hostile = 'topics/"><script>alert(1)</script>&<img src=x>.avro'
    stack.admit(stack.write(hostile), items.QUARANTINED, code="not_avro", reason="<b onload=x>")
    stack.admit(stack.write("a"))
    assert run(["status", "--html", "page.html", "--since", "7d"]) == 0
    assert "Written to page.html" in capsys.readouterr().err
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    page = Elements(text)
    assert hostile in page.texts and "<b onload=x>" in page.texts
    assert {"script", "img", "link", "iframe", "b onload"} & set(page.names) == set()
    assert (
        not [name for name, _ in page.attributes if name in ("src", "href", "onload", "style")]
        and "url(" not in text
        and "@import" not in text
    )
    assert "prefers-color-scheme:dark" in text and ("name", "viewport") in page.attributes
    assert run(["status", "--html", "no/folder/page.html"]) == 2


def test_top_looks_once_where_nobody_watches(stack, capsys):
    stack.admit(stack.write("a"))
    stack.ledger.lanes.wake("main")
    assert run(["top", "--once"]) == 0
    out = capsys.readouterr().out
    assert "main" in out and "crm.user" in out and "1 waiting" in out
    assert run(["top", "--json"]) == 0
    assert '"waiting": 1' in capsys.readouterr().out


def test_top_looks_again_until_ctrl_c_and_leaves_its_last_look(stack, monkeypatch):
    screens, sleeps = io.StringIO(), []
    console = Console(file=screens, force_terminal=True, width=100, height=30)

    def sleep(seconds):
        sleeps.append(seconds)
        if len(sleeps) == 2:
            raise KeyboardInterrupt
        stack.admit(stack.write("b"))

    monkeypatch.setattr(top_command.time, "sleep", sleep)
    stack.ledger.lanes.wake("main")
    store = SimpleNamespace(load=lambda: None)
    top_command._watch(stack.ledger, store, top_command.look(stack.ledger, NOW, None), 2.0, console)
    assert sleeps[0] == 2.0 and len(sleeps) == 2
    assert "crm.user" in screens.getvalue().rpartition("\x1b[?1049l")[2], "what stays when the screen is given back"
