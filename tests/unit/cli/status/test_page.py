"""The status page: what is wrong in words, states told by shape and colour, its contrast, its commands, its layout."""

import json
import re
import shlex
from html.parser import HTMLParser

import pytest
from support.documented_commands import commands_in, problem

from sluice_cli.account.trouble import troubles
from sluice_cli.status.html import FAILS, KINDS, PAUSES, RESTS, RUNNING, WARNS, badge, kind_of, prose, state
from sluice_cli.status.style import STYLE
from sluice_cli.terminal.colours import DARK, DECORATION, GROUNDS, LIGHT, TEXT
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import LONGEST_TEXT, cut
from tools.status_pictures import SIZES, browser, headless, sample_page, sample_status
from tools.status_pictures import table as sample_table

COLOURS = pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])


class Page(HTMLParser):
    """The texts of a page, of its commands, and the attributes of its elements."""

    def __init__(self, text):
        super().__init__()
        self.texts, self.commands, self.attributes, self._command = [], [], [], False
        self.feed(text.replace("<wbr/>", "").replace("\u00a0", " "))

    def handle_starttag(self, name, attributes):
        given = dict(attributes)
        self.attributes.append((name, given))
        self._command = name == "code" and given.get("class") == "command"

    def handle_data(self, text):
        self.texts.append(text)
        if self._command:
            self.commands.append(text)
            self._command = False


@pytest.fixture(scope="module")
def shown():
    return Page(sample_page())


def healthy():
    """The sample without its troubles."""
    status = sample_status()
    calm = {"last_error": None, "backoff_until": None, "late": False}
    return {
        **status,
        "lanes": [lane for lane in status["lanes"] if lane["state"] in ("running", "idle")],
        "tables": [{**table, **calm} for table in status["tables"]],
        "services": [],
        "set_aside": {name: {**item, "objects": 0, "reasons": []} for name, item in status["set_aside"].items()},
        "quarantined_rows": {"rows": 0, "objects": 0, "more": False, "reasons": []},
    }


def test_what_is_wrong_stands_in_words_before_everything_else(shown):
    page = sample_page()
    assert page.index("What is wrong") < page.index('class="tiles"') < page.index(">Backlog<")
    names = [trouble.name for trouble in troubles(sample_status())]
    assert names == ["halted", "failing", "failed", "quarantined", "late", "parked", "paused"]
    text = "".join(shown.texts)
    assert "Lane orders: halted after 5 failed runs" in text
    assert "2 tables are late, oldest " in text
    assert "Table crm.loyalty: catalog failed: AccessDenied" in text
    assert "sluice --stack sluice ops catalog sync crm.loyalty" in text and "1 failed, 1 open, 1 due" in text
    assert "3 objects (most often: not_avro: the file is no Avro container" in text
    assert ") and 41 rows of 2 objects (no_record_key)" in text


def test_a_table_without_a_commit_whose_objects_are_in_quarantine_is_not_up_to_date():
    status = healthy()
    new = sample_table("a.b", "main", 0, None, 0, 0, quarantined=(1, 0), last_commit_at=None)
    old = sample_table("c.d", "main", 0, None, 5, 1, quarantined=(1, 0))
    texts = Page(sample_page({**status, "tables": [new, old]})).texts
    assert ("quarantined" in texts[texts.index("Tables") :], "up to date" in texts) == (True, True)
    assert troubles({**status, "tables": [new, old]}) == (), "neither is failing"


def test_the_worst_troubles_come_first():
    kinds = [kind_of(trouble.name) for trouble in troubles(sample_status())]
    assert kinds == sorted(kinds, key=[FAILS, WARNS, PAUSES].index)


def test_a_state_of_a_table_has_the_shape_that_the_legend_gives_it():
    status = healthy()
    status["tables"] = [sample_table("a.b", "main", 0, None, 0, 0, quarantined=(1, 0), last_commit_at=None)]
    tables = sample_page(status).split('id="tables"')[1]
    assert state("quarantined", FAILS) in tables and "quarantined" in FAILS.words


def test_a_stack_without_trouble_says_that_nothing_is_wrong():
    assert troubles(healthy()) == ()
    page = sample_page(healthy())
    assert "Nothing is wrong" in page and "What is wrong" not in page


def test_a_lane_that_keeps_failing_is_wrong_before_it_halts():
    status = healthy()
    status["lanes"][0].update(failures=2, reason="no capacity\nat line 3")
    (trouble,) = troubles(status)
    assert trouble.text == "Lane main: Spark is running for 12 min; 214 objects pending"


def test_blocked_and_paused_tables_are_named():
    status = healthy()
    status["tables"] = [
        sample_table("a.b", "main", 7, 1, 1, 1, blocked="the table went back\nmore"),
        sample_table("c.d", "main", 7, 1, 1, 1, paused=True),
    ]
    expected = [("blocked", "Table a.b: the table went back"), ("paused", "Table c.d: 7 objects pending")]
    assert [(trouble.name, trouble.text) for trouble in troubles(status)] == expected


def test_late_tables_are_one_trouble():
    status = healthy()
    late = [sample_table(f"a.t{n}", "main", 1, 90_000 + n, 1, 1, freshness_s=1, late=True) for n in range(20)]
    (several,) = troubles({**status, "tables": late})
    assert several.text == "20 tables are late, oldest 1 min 30 s: a.t0, a.t1, a.t2, a.t3, a.t4, a.t5 and 14 more"
    assert several.steps == (Step("history", "--table", "a.t19"),)
    (one,) = troubles({**status, "tables": late[:1]})
    assert one.text == "1 table is late, oldest 1 min 30 s: a.t0"


def test_every_kind_of_state_has_a_shape_of_its_own_and_a_place_in_the_legend():
    assert len({kind.path for kind in KINDS}) == len(KINDS)
    page = sample_page()
    legend = page[page.index('id="legend"') :]
    assert all(kind.path in legend and kind.words in legend for kind in KINDS)
    assert FAILS.path in badge("halted", FAILS).content and RUNNING.path in badge("running", RUNNING).content
    assert page.count('class="state ') == page.count('class="shape ')
    assert "lapsed" in FAILS.words and "released" in RESTS.words, "how runs end"


def test_a_command_that_a_reason_names_is_set_as_code_and_the_rest_is_escaped():
    assert prose("<b> is cut: run `sluice put <f>`, then wait") == (
        "&lt;b&gt; is cut: run <code>sluice put &lt;f&gt;</code>, then wait"
    )
    status = sample_status()
    status["set_aside"]["quarantined"]["reasons"][0]["reason"] = "Then `sluice quarantine discard` it"
    assert "`" not in sample_page(status).split('id="trouble"')[1].split("</section>")[0]


@COLOURS
def test_text_has_the_contrast_of_wcag_aa(colours):
    contrasts = {(name, ground): contrast(colours[name], colours[ground]) for name in TEXT for ground in GROUNDS}
    assert {names: round(actual, 2) for names, actual in contrasts.items() if actual < 4.5} == {}


@COLOURS
def test_marks_have_the_contrast_of_wcag_aa(colours):
    marks = set(colours) - {*GROUNDS, *DECORATION}
    low = {(name, ground) for name in marks for ground in GROUNDS if contrast(colours[name], colours[ground]) < 3}
    assert low == set()


def test_the_style_has_no_colours_but_those_whose_contrast_is_known():
    declared = {
        mode: dict(re.findall(r"--([a-z]+):(#[0-9a-f]{6})", part))
        for mode, part in zip(("light", "dark"), STYLE.split("@media(prefers-color-scheme:dark)"))
    }
    assert (declared["light"], declared["dark"]) == (dict(LIGHT), dict(DARK))
    rules = re.sub(r"--[a-z]+:#[0-9a-f]{6}", "", STYLE)
    assert re.findall(r"#[0-9a-f]{3,8}\b", rules) == []
    painted = {
        value
        for name, value in re.findall(r"[{;\n](color|fill|stroke|background):([^;}]+)", rules)
        if name and value not in ("none", "currentColor", "inherit")
    }
    used = {name for value in painted for name in re.findall(r"var\(--([a-z]+)\)", value)}
    assert all(value.startswith("var(") for value in painted) and used <= set(LIGHT)
    written = set(re.findall(r"[{;\n]color:var\(--([a-z]+)\)", rules))
    assert written <= set(TEXT), "what colours text has the contrast of text"


def test_each_cell_names_its_column_for_the_layout_of_a_phone(shown):
    cells = [given for name, given in shown.attributes if name == "td"]
    assert len(cells) > 100 and all(given.get("data-label") for given in cells)
    assert "content:attr(data-label)" in STYLE


def test_every_link_leads_to_a_part_of_the_page(shown):
    links = {given["href"] for name, given in shown.attributes if name == "a"}
    identities = [given["id"] for _, given in shown.attributes if "id" in given]
    assert links <= {f"#{identity}" for identity in identities} and len(set(identities)) == len(identities)
    assert {"#table-4", "#run-0", "#aside"} <= links


def test_rows_lead_to_commands_that_exist(shown):
    for text in shown.commands:
        assert not any(problem(command.words) for command in commands_in(f"    {text}\n", "page")), text
    verbs = {tuple(text.split()[3:4]) for text in shown.commands}
    assert {("trace",), ("history",), ("ops",), ("resume",), ("quarantine",)} <= verbs
    assert all(text.startswith("sluice --stack sluice ") for text in shown.commands)


def test_a_name_from_outside_is_one_word_of_a_command():
    hostile = "a b'; rm -rf ~ #\"$(x)"
    status = healthy()
    status["tables"] = [{**sample_table(hostile, "main", 7, 1, 1, 1), "last_error": "x"}]
    (command,) = (text for text in Page(sample_page(status)).commands if "history" in text and "rm" in text)
    assert shlex.split(command) == ["sluice", "--stack", "sluice", "history", "--table", hostile]


MEASURE = """
addEventListener("load", () => {
  const sizes = {};
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, root = page.documentElement;
    const wide = [...page.querySelectorAll("main *")].filter(element =>
      !element.closest("svg") && element.getBoundingClientRect().right > root.clientWidth + 0.5);
    sizes[frame.width] = [root.scrollWidth, wide.map(one => one.tagName + " " + one.textContent.slice(0, 40))];
  }
  document.body.textContent = "measured " + JSON.stringify(sizes) + " end";
});
"""


def test_a_cut_text_has_no_part_of_a_command():
    assert cut("short `sluice status`") == "short `sluice status`"
    assert cut(f"{'why ' * 30}`sluice quarantine retry --code {'c' * LONGEST_TEXT}`") == f"{('why ' * 30).rstrip()}…"
    assert len(cut("x" * 2 * LONGEST_TEXT)) == LONGEST_TEXT


@pytest.mark.needs("chromium")
@pytest.mark.long
def test_no_column_is_cut_on_a_phone_and_none_on_larger_screens(tmp_path):
    widths = sorted({360, 768, 1201, *(width for width, _ in SIZES.values())})
    measures = measured(MEASURE, widths, tmp_path)
    assert measures == {str(width): [width, []] for width in widths}


def measured(script, widths, folder):
    """What a script finds of the page in frames of these widths."""
    inner = sample_page().replace("&", "&amp;").replace('"', "&quot;")
    frames = "".join(f'<iframe width="{width}" height="900" srcdoc="{inner}"></iframe>' for width in widths)
    (folder / "measured.html").write_text(f"<meta charset=utf-8><script>{script}</script><body>{frames}")
    answer = headless(browser(), (folder / "measured.html").as_uri(), folder, "--dump-dom")
    return json.loads(re.search(r"measured ([{\[].*[}\]]) end", answer)[1])


def contrast(one, other):
    """The contrast of two colours `#rrggbb`, from 1 to 21, as WCAG 2.2 defines it."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
