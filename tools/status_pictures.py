"""Draws the pictures of the status page in docs/status-page, with a headless Chromium.

    python tools/status_pictures.py

The page is that of an invented stack in trouble. A picture shows the first screen, or with `--whole` all of the page.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from sluice.batch.claim import PendingObject
from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED, Outcome, RowErrorCount, Stage
from sluice_aws.s3.past_batches import PastBatch
from sluice_cli.status.page import Look, page
from sluice_cli.status.past import Window, backlog, runs, table_pasts
from sluice_cli.terminal.options import named_stack

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "status-page"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SIZES = {"phone": (390, 844), "laptop": (1280, 900), "desktop": (1920, 1080)}
COLOURS = {"light": 1, "dark": 0}  # Chromium's numbers of the reader's choice
KEPT = (("phone", "light"), ("laptop", "dark"), ("desktop", "light"))  # in the documentation
WHOLE = 6_000  # pixels, more than any page

NOW = 1_777_629_600_000  # 2026-05-01 10:00 UTC
HOUR, MINUTE = 3_600_000, 60_000
KEY = "topics/{0}/partition=0/{0}+0+{1:010}.avro"


def sample_status() -> dict[str, Any]:
    """What `sluice status --json` prints of the invented stack."""
    return {
        "lanes": [
            lane("main", "running", "Spark is running for 12 min", 214, 48_200_000, 95_000, run=run_name("main", 4)),
            lane(
                "orders",
                "halted",
                "halted after 5 failed runs, trying again in 31 min: the driver was killed (SIGKILL)",
                1_840,
                912_000_000,
                2 * HOUR,
                last_run=run_name("orders", 3),
                failures=5,
                reason="the driver was killed (SIGKILL)",
            ),
            lane("archive", "paused", "paused", 12, 90_000, 26 * HOUR, last_run=run_name("archive", 0)),
            lane("reference", "idle", "idle", 0, 0, None, last_run=run_name("reference", 2)),
        ],
        "tables": [
            table("crm.address", "main", 96, 95_000, 4_210, 50_000, freshness_s=60),
            table("crm.customer_with_a_rather_long_name", "main", 118, 61_000, 18_904, 20_000, freshness_s=60),
            table(
                "crm.loyalty",
                "main",
                0,
                None,
                377,
                3 * HOUR,
                freshness_s=300,
                last_error="incompatible_schema: column points was int and is now string\nat 4",
                failures=3,
                backoff_until=NOW + 8 * MINUTE,
            ),
            table("ref.country", "reference", 0, None, 12, 20 * HOUR, freshness_s=60),
            table(
                "shop.orders",
                "orders",
                1_840,
                2 * HOUR,
                96_310,
                2 * HOUR,
                freshness_s=60,
                late=True,
                quarantined=(3, 41),
            ),
            table("shop.orders_2019", "archive", 12, 26 * HOUR, 5_118, 30 * HOUR, freshness_s=900, late=True),
        ],
        "advice": [],
        "services": [
            service("crm.address", "compact", "done", report=report()),
            service("shop.orders", "cluster", "running", open=True, started_at=NOW - 90_000, ended_at=None),
            service(
                "crm.loyalty",
                "catalog",
                "failed",
                error={
                    "code": "AccessDenied",
                    "message": "`sluice ops catalog sync crm.loyalty` shows the reason and retries",
                },
            ),
        ],
        "services_due": [{"table": "ref.country", "service": "clean", "reason": "24 h since the last one"}],
        "set_aside": {
            "parked": {
                **aside(57, ("topic crm.public.invoice: no rule takes it", 57, "crm.public.invoice")),
                "without_rule": 57,
                "rules_proposed": 57,
            },
            "quarantined": aside(
                3,
                ("not_avro: the file is no Avro container: it begins with <html>", 2, "shop.public.orders"),
                ("lost_before_read: the version was gone before it could be read", 1, "shop.public.orders"),
            ),
            "ignored": aside(1_204, ("keys_file", 1_204, "shop.public.orders")),
            "superseded": aside(0),
        },
        "quarantined_rows": {
            "rows": 41,
            "objects": 2,
            "more": False,
            "reasons": [{"reason": "no_record_key", "rows": 41, "examples": [KEY.format("shop.public.orders", 7)]}],
        },
        "ignored_messages": {"messages": 4, "more": False, "reasons": [{"reason": "test_event", "messages": 4}]},
    }


def run_name(lane: str, number: int) -> str:
    """The name of a lane's run."""
    return f"run-{lane}-20260501T0{number}0000Z-0a1b2c3{number}"


def lane(
    name: str,
    state: str,
    summary: str,
    objects: int,
    size: int,
    oldest_ms: int | None,
    *,
    run: str | None = None,
    last_run: str | None = None,
    failures: int = 0,
    reason: str | None = None,
) -> dict[str, Any]:
    """A lane as `gather` has it."""
    return {
        "lane": name,
        "state": state,
        "standstill": False,
        "rebuilding": None,
        "summary": summary,
        "run": run,
        "job_run": None,
        "application": None,
        "progress_at": None,
        "stuck": False,
        "last_run": last_run,
        "failures": failures,
        "reason": reason,
        "pending": {"objects": objects, "bytes": size, "oldest_ms": oldest_ms},
        "unsettled_batches": ["b-1"] if run else [],
    }


def table(
    name: str,
    lane: str,
    waiting: int,
    oldest_ms: int | None,
    committed: int,
    age_ms: int,
    *,
    quarantined: tuple[int, int] = (0, 0),
    **more: Any,
) -> dict[str, Any]:
    """A table as `gather` has it."""
    return {
        "table": name,
        "lane": lane,
        "pending": {"objects": waiting, "bytes": waiting * 200_000, "oldest_ms": oldest_ms},
        "claimed": {"objects": 0, "bytes": 0},
        "committed": {"objects": committed},
        "quarantined": {"objects": quarantined[0], "rows": quarantined[1]},
        "totals": {"objects": committed},
        "last_commit_at": NOW - age_ms,
        "last_instant": "20260501095900000",
        "last_batch": "b-1",
        "last_error": None,
        "failures": 0,
        "backoff_until": None,
        "paused": False,
        "blocked": None,
        "next_step": None,
        "notes": [],
        "freshness_s": None,
        "late": False,
        **more,
    }


def service(name: str, kind: str, state: str, **more: Any) -> dict[str, Any]:
    """An entry of the services as `service_entries` has it."""
    return {
        "table": name,
        "service": kind,
        "state": state,
        "lane": "main",
        "request": None,
        "requested_at": NOW - 30 * MINUTE,
        "requested_by": None,
        "not_before": None,
        "started_at": NOW - 29 * MINUTE,
        "ended_at": NOW - 28 * MINUTE,
        "slices": 1,
        "failures": 0,
        "report": None,
        "error": None,
        "instant": None,
        "open": False,
        **more,
    }


def report() -> dict[str, Any]:
    """The report of a compaction."""
    return {
        "files_before": 96,
        "bytes_before": 310_000_000,
        "files_after": 12,
        "bytes_after": 250_000_000,
        "rows": 402_113,
        "ms": 18_400,
    }


def aside(objects: int, *reasons: tuple[str, int, str]) -> dict[str, Any]:
    """The objects of one state, each reason with its number and the topic of an example."""
    return {
        "objects": objects,
        "more": False,
        "by_table": {},
        "without_rule": 0,
        "rules_proposed": 0,
        "tables_left": [],
        "at_admission": {},
        "reasons": [
            {
                "reason": reason,
                "objects": number,
                "examples": [KEY.format(topic, 40 + number + item) for item in range(min(number, 3))],
            }
            for reason, number, topic in reasons
        ],
    }


def sample_batches() -> Iterator[PastBatch]:
    """The batches of the invented stack's last day."""
    for number in range(140):
        claimed = NOW - 24 * HOUR + number * 10 * MINUTE + 4 * MINUTE
        for name, lane in (("crm.address", "main"), ("shop.orders", "orders"), ("ref.country", "reference")):
            if lane == "orders" and claimed > NOW - 2 * HOUR - 10 * MINUTE or lane == "reference" and number % 40:
                continue
            size = 3 + (number * 37 + len(name)) % 60
            begun = claimed - 50_000 - (number % 9) * 4_000
            objects = tuple(
                ManifestObject(
                    "bronze",
                    f"topics/{name}/partition=0/{name}+0+{number * 60 + second:010}.avro",
                    "v",
                    1,
                    None,
                    "avro",
                    "t",
                    0,
                    0,
                    begun + second * 500,
                )
                for second in range(size)
            )
            batch = f"b-{lane}-{number}"
            run = run_name(lane, number // (35 if lane == "main" else 50))
            manifest = Manifest(batch, lane, run, claimed, "c", {name: TablePart({"freshness_s": 60}, objects)})
            outcome = Outcome(
                batch,
                name,
                COMMITTED,
                claimed + 21_000,
                "20260501095900000",
                no_change=number % 16 == 5,
                counts={"objects": size, "read": size * 230},
                stages=(Stage("commit", claimed, 12_000 + (number % 11) * 700),),
                quarantined_rows=(RowErrorCount(objects[0].id.hash, 41, {"no_record_key": 41}),)
                if name == "shop.orders" and number == 60
                else (),
            )
            yield PastBatch(manifest, {name: outcome})


def waits(number: int) -> PendingObject:
    """A pending object of the sample; one became pending every 3.9 s."""
    key, at = f"waits-{number}", NOW - 2 * HOUR + number * 3_900
    topic, table = "shop.public.orders", "shop.orders"
    return PendingObject("bronze", key, "v", 200_000, None, "avro", topic, 0, 0, at, table=table, shard=0)


def sample_page(status: dict[str, Any] | None = None, **more: Any) -> str:
    """The page of the invented stack, or of another document of its state."""
    window = Window(NOW - 24 * HOUR, NOW)
    batches = list(sample_batches())
    items = {
        run_name("main", 4): {
            "lane": "main",
            "requested_at": NOW - 13 * MINUTE,
            "started_at": NOW - 12 * MINUTE,
            "state": "running",
        },
        run_name("orders", 3): {
            "lane": "orders",
            "requested_at": NOW - 125 * MINUTE,
            "started_at": NOW - 124 * MINUTE,
            "ended_at": NOW - 118 * MINUTE,
            "state": "lapsed",
            "reason": "the driver was killed (SIGKILL)",
        },
    }
    token = named_stack.set("sluice")
    look = Look(
        now=NOW,
        document=sample_status() if status is None else status,
        window=window,
        tables=table_pasts(batches),
        backlog=backlog(batches, [waits(number) for number in range(1_840)], window),
        runs=runs(batches, items, NOW),
        oldest={
            name: KEY.format(f"{name.split('.')[0]}.public.{name.split('.')[1]}", 4_711)
            for name in ("shop.orders", "crm.address")
        },
    )
    shown = page(look, "stack sluice in eu-central-1", **more)
    named_stack.reset(token)
    return shown


def browser() -> str | None:
    """The path of a Chromium, or None."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def headless(program: str, address: str, folder: Path, *options: str) -> str:
    """Open a page without a window; returns the browser's standard output."""
    command = [
        program,
        "--headless",
        "--no-sandbox",  # containers have no user namespaces, and the page is our own
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        *options,
        address,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def draw(program: str, text: str, picture: Path, size: tuple[int, int], colours: str) -> None:
    """Write a picture of a page at a size in pixels, in light or dark colours."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.html").write_text(text, encoding="utf-8")
        headless(
            program,
            (folder / "page.html").as_uri(),
            folder,
            f"--window-size={size[0]},{size[1]}",
            f"--blink-settings=preferredColorScheme={COLOURS[colours]}",
            f"--screenshot={picture}",
        )


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(description="Draw the pictures of the status page.")
    parser.add_argument("--to", type=Path, default=FOLDER, help="the folder for the pictures")
    parser.add_argument("--all", action="store_true", help="every size in light and dark")
    parser.add_argument("--whole", action="store_true", help="the whole page instead of its first screen")
    given = parser.parse_args(list(arguments))
    program = browser()
    if program is None:
        print(f"There is no {' or '.join(BROWSERS)}: no picture is drawn", file=sys.stderr)
        return 1
    given.to.mkdir(parents=True, exist_ok=True)
    text = sample_page()
    for name, colours in product(SIZES, COLOURS) if given.all else KEPT:
        width, height = SIZES[name]
        picture = given.to.absolute() / f"{name}-{colours}.png"
        draw(program, text, picture, (width, WHOLE if given.whole else height), colours)
        print(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
