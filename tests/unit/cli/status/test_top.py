"""What `sluice top` shows in a narrow terminal."""

import io

import pytest

from sluice_cli.status.top import screen
from sluice_cli.terminal.guard import escaping_console
from tools.status_pictures import NOW, lane, run_name

DOCUMENT = {
    "at": NOW,
    "lanes": [lane("main", "running", "Spark is running for 12 min", 214, 48_200_000, 95_000)],
    "tables": [
        {
            "table": "crm.address",
            "waiting": 3,
            "bytes": 900,
            "oldest_ms": 95_000,
            "claimed": 1,
            "freshness_s": 60,
            "late": True,
            "age_ms": 125_000,
            "last_commit_at": NOW - 125_000,
            "changes": 7,
            "objects": 9,
            "paused": False,
            "blocked": None,
            "backoff_until": None,
            "last_error": None,
            "failures": 0,
        }
    ],
    "runs": [
        {"run": run_name("main", 4), "state": "released", "held_ms": 95_000, "batches": 2, "reason": None},
    ],
    "rates": None,
}


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_heading_and_no_state_is_cut(width):
    out = io.StringIO()
    escaping_console(width=width, file=out).print(screen(DOCUMENT, height=40, width=width))
    text = out.getvalue()
    assert "…" not in text and "trouble" in text and "released" in text and "reason" in text
    assert max(map(len, text.splitlines())) <= width
