"""What a driver is told on its command line."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Optional, Sequence

# One strongly consistent read of the lane per look: at ten a second 36,000 read units an hour, half a US cent.
POLL_SECONDS = 0.1
# Two tables at a time keep two cores busy while one of them waits for S3; more did not pay there.
TABLES_AT_ONCE = 2


@dataclass(frozen=True)
class Arguments:
    """The command line of spark/ingest.py. `job_run_id` None: to be learned from EMR Serverless."""

    lane: str
    run: str
    region: str
    ledger: str
    silver: str
    artifacts: str
    bronze: str
    job_run_id: Optional[str]
    attempt: int
    tables_at_once: int
    poll_seconds: float
    scope: str = ""


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line. Exits with status 2 and the usage when it is wrong, as argparse does."""
    parser = argparse.ArgumentParser(prog="ingest.py", allow_abbrev=False, description="One run of one lane.")
    parser.add_argument("--lane", required=True, help="the lane to hold")
    parser.add_argument("--run", required=True, help="this run's id, under which the lane was asked to start it")
    parser.add_argument("--region", required=True)
    parser.add_argument("--ledger", required=True, help="the ledger's DynamoDB table")
    parser.add_argument("--silver", required=True, help="the bucket of tables, manifests and outcomes")
    parser.add_argument("--artifacts", required=True, help="the bucket of the configuration")
    parser.add_argument("--bronze", required=True, help="the bucket that objects arrive in")
    parser.add_argument("--job-run-id", help="the job run's id, where EMR Serverless doesn't tell it")
    parser.add_argument(
        "--attempt", type=int, default=1, help="the job run's attempt (default 1: runs are never retried)"
    )
    parser.add_argument(
        "--tables-at-once", type=int, default=TABLES_AT_ONCE, help="tables merged in parallel (default %(default)s)"
    )
    parser.add_argument(
        "--poll-seconds",
        type=float,
        default=POLL_SECONDS,
        help="between two looks at an idle lane (default %(default)s)",
    )
    parser.add_argument(
        "--scope", default="", help="the name of the lane's scope that the run's policy was made for (default: any)"
    )
    given = parser.parse_args(list(argv))
    if given.tables_at_once < 1:
        parser.error("--tables-at-once must be at least 1")
    if not 0 < given.poll_seconds <= 60:
        parser.error("--poll-seconds must be above 0 and at most 60")
    return Arguments(**vars(given))
