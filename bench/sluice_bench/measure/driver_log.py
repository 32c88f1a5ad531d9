"""Reads the seconds of each stage of a batch from the driver's log."""

import json
from collections.abc import Iterator
from pathlib import Path


def events(home: Path) -> Iterator[dict]:
    """Every event of every run's log in a local stack's folder, file by file. Other lines are Spark's."""
    for file in sorted(home.rglob("stdout")):
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("{"):
                    try:
                        event = json.loads(line)
                    except json.JSONDecodeError:
                        continue  # a line that is being written
                    if isinstance(event, dict) and "event" in event:
                        yield event


def batch_profile(home: Path, batch: str, table: str) -> dict[str, float]:
    """Seconds by stage of the batch (`driver_<stage>_s`) and of one table's merge (`merge_<stage>_s`).

    Empty without a log.
    """
    stages: dict[str, float] = {}
    for event in events(home):
        if (
            event.get("batch") == batch
            and isinstance(event.get("seconds"), dict)
            and event.get("table", table) == table
        ):
            prefix = "driver" if event["event"] == "profile" else "merge"
            stages |= {f"{prefix}_{name}_s": value for name, value in event["seconds"].items()}
    return stages
