"""The steps that help in several places, each with what it does: verbs name them, and write none of their own."""

from __future__ import annotations

from sluice.lane.machine import HALTED, LEDGER_LOST, PAUSED, LaneState
from sluice_cli.terminal.step import Step, in_order

CHECKS = Step("doctor", note="checks the stack")
TABLES_AND_LANES = Step("status", note="shows the tables and lanes")
ENTRIES = Step("quarantine list", note="lists what was set aside, with --parked parked objects")
OPEN_BATCHES = Step("batch show", note="lists the open batches")
NEWEST_OBJECTS = Step("history", note="lists the newest objects with their batches")
RUNS = Step("runs", note="lists the runs of the last days")
MERGED = Step("wait", note="waits until they are merged")
SET_ASIDE = Step("quarantine list", note="shows each with its id and what to do")
BACKFILL = Step("backfill")
MERGES_IT = Step("wait", note="waits for it")
ALL_SERVICES = Step("services list", note="shows all")
FORGOTTEN_IN_BRONZE = Step("forget", "--dry-run", note="lists those")
OBJECTS_COME = Step("put", "FILES", note="or any S3 client brings objects into bronze")
PROPOSALS = Step("config discover", note="proposes rules for objects that wait for one")


def put_first() -> str:
    """What brings the first objects, and waits for them."""
    return in_order((Step("put", "FILES"), Step("wait")))


def entries(*choice: str, note: str = "") -> Step:
    """What lists the entries of a choice."""
    return Step("quarantine list", *choice, note=note)


def notice_missing(unseen: bool) -> str:
    """What helps objects without a notice: `unseen` ones for which a wait has ended, or one that was put just now."""
    checks = f"{Step('doctor')} checks the notifications"
    return f"{checks}, {BACKFILL} admits unseen objects" if unseen else f"{MERGES_IT}, and {checks}"


def commits(table: str) -> Step:
    """What lists the commits of a table with their batches and times."""
    return Step("table commits", table)


def at_rest(lane: LaneState) -> str:
    """That a lane is paused or halted, and what resumes it; empty for any other lane."""
    step = ledger_back(lane.lane) if lane.reason == LEDGER_LOST else Step("resume", lane.lane)
    return f"{lane.lane} is {lane.state}: {step}" if lane.state in (PAUSED, HALTED) else ""


def continued_rebuild(table: str, lane: str) -> Step:
    """The steps for a lane with a table whose data is being moved aside."""
    return Step("rebuild table", table, note=f"continues it, then {Step('resume', lane)}")


def ledger_back(lane: str) -> Step:
    """The steps for a lane that paused itself: resumed before, it would merge its objects under other generations."""
    return Step("rebuild ledger", note=f"brings back what the ledger lost, then {Step('resume', lane)}")
