"""What `sluice top` shows in a narrow terminal."""

import io
import re
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from sluice_cli.status import top
from sluice_cli.status.status import print_status
from sluice_cli.status.top import PIPE_WIDTH, screen
from sluice_cli.terminal.guard import escaping_console
from sluice_cli.trace.history import COLUMNS
from sluice_read.moments import clock
from tools.status_pictures import NOW, lane, run_name, sample_page, sample_status

DOCUMENT = {
    "at": NOW,
    "lanes": [lane("main", "running", "Spark is running for 12 min", 214, 48_200_000, 95_000)],
    "tables": [
        {
            **{"table": "crm.address", "waiting": 3, "bytes": 900, "oldest_ms": 95_000, "claimed": 1, "changes": 7},
            **{"freshness_s": 60, "late": True, "age_ms": 125_000, "last_commit_at": NOW - 125_000, "objects": 9},
            **{"paused": False, "blocked": None, "backoff_until": None, "last_error": None, "failures": 0, "notes": []},
        }
    ],
    "runs": [{"run": run_name("main", 4), "state": "released", "held_ms": 95_000, "batches": 2, "reason": None}],
    "rates": None,
}


def shown_in(width):
    out = io.StringIO()
    escaping_console(width=width, file=out).print(screen(DOCUMENT, height=40, width=width))
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_heading_and_no_state_is_cut(width):
    text = shown_in(width)
    assert "…" not in text and "trouble" in text and "released" in text and "reason" in text
    assert max(map(len, text.splitlines())) <= width


def test_top_status_and_the_page_call_the_same_things_by_the_same_names(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)
    status = sample_status()
    status["tables"][0]["claimed"]["objects"] = 1  # the page leaves columns without a value out
    print_status(status, NOW)
    printed = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    lanes, tables = (next(line for line in printed if line[0] == name) for name in ("lane", "table"))
    text = shown_in(PIPE_WIDTH)
    page = {text.strip() for text in re.findall(">([^<>]+)</th>", sample_page(status))}
    for names, kind in ((lanes, "lane"), (tables, "table")):
        shown = next(line for line in text.splitlines() if line.startswith(f"{kind} "))
        columns = re.split(" {2,}", shown.strip())
        assert set(columns) <= {*names, "freshness", "changes"}, kind
        assert {name for name in columns if name != "bytes"} - page <= {"changes"}, kind
    assert "duration" in text and {"duration", "reason"} <= page and not {"waiting", "activity", "held for"} & page


def test_the_documented_columns_are_those_of_the_tool():
    page = (Path(__file__).parents[4] / "docs" / "tracing.md").read_text(encoding="utf-8")
    shown = page.partition("$ sluice top --once\n")[2].partition("```")[0]
    headings = [line.split() for line in shown.splitlines() if line.startswith(("lane ", "table ", "run "))]
    text = shown_in(PIPE_WIDTH).splitlines()
    assert headings == [line.split() for line in text if line.startswith(("lane ", "table ", "run "))]
    shown = page.partition("$ sluice history\n")[2].splitlines()[0]
    assert shown.split() == list(COLUMNS)


def refused(code, status=400):
    about = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(about, "Query")


def watched(monkeypatch, *looks):
    """What a terminal gets of `sluice top` while it looks so often, each with this state or error; then Ctrl-C."""
    left = list(looks)

    def look(*_):
        state = left.pop(0) if left else KeyboardInterrupt()
        if isinstance(state, BaseException):
            raise state
        return state

    monkeypatch.setattr(top, "look", look)
    monkeypatch.setattr(top.time, "sleep", lambda seconds: None)
    store = type("Store", (), {"load": lambda self: None})()
    console = escaping_console(file=io.StringIO(), force_terminal=True, width=100, height=30)
    try:
        top._watch(None, store, DOCUMENT, 2.0, console)
    finally:
        shown = console.file.getvalue()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (refused("ThrottlingException"), "AWS refused Query (ThrottlingException): trying again"),
        (refused("InternalServerError", 500), "AWS refused Query (InternalServerError): trying again"),
        (ReadTimeoutError(endpoint_url="https://a"), "no answer came in time: trying again"),
        (EndpointConnectionError(endpoint_url="https://a"), "nothing answers at https://a: trying again"),
    ],
)
def test_an_error_that_passes_is_shown_and_the_watch_goes_on(monkeypatch, error, words):
    later = {**DOCUMENT, "at": NOW + 60_000}
    shown = watched(monkeypatch, error, later)
    assert shown.count(words) == 1 and "12 min" in shown.partition(words)[2], "the state stays below it"
    assert f"{clock(NOW + 60_000)}" in shown.partition(words)[2]


@pytest.mark.parametrize(
    "error", [refused("ExpiredTokenException"), refused("AccessDenied", 403), NoCredentialsError()]
)
def test_an_error_that_stays_ends_the_watch(monkeypatch, error):
    with pytest.raises(type(error)) as ended:
        watched(monkeypatch, error, DOCUMENT)
    assert ended.value is error
