"""Keeps raw results as JSON: the run, its machine, its caveats, and every value."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluice_bench.measure.machine import describe_machine

RESULTS = Path(__file__).resolve().parents[2] / "results"
CAVEATS = (
    (
        "Measured locally: emulated S3, SQS, Lambda and DynamoDB share the machine's cores with Spark in local "
        "mode. These are not figures of AWS."
    ),
    "On AWS, EMR Serverless adds a cold start, which was not measured, and S3 and DynamoDB add network round trips.",
)


def keep(
    name: str, *, parameters: Mapping, caveats: Sequence[str], values: object, summary: Mapping, folder: Path = RESULTS
) -> Path:
    """Write a run's results, caveats first, to `results/<name>-<UTC time>.json`. Returns the file."""
    now = dt.datetime.now(dt.timezone.utc)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-{now:%Y%m%dT%H%M%SZ}.json"
    content = {
        "caveats": [*CAVEATS, *caveats],
        "benchmark": name,
        "measured_at": now.isoformat(timespec="seconds"),
        "machine": describe_machine(),
        "parameters": dict(parameters),
        "summary": dict(summary),
        "values": values,
    }
    file.write_text(json.dumps(content, indent=1, default=str) + "\n")
    return file


def say(name: str, caveats: Sequence[str], summary: Mapping, file: Path) -> None:
    """Print a result, caveats before numbers."""
    print(f"\n{name} (local)")
    for caveat in (*CAVEATS, *caveats):
        print(f"  note: {caveat}")
    for label, value in summary.items():
        print(f"  {label}: {json.dumps(value, default=str)}")
    print(f"  raw values: {file}")
