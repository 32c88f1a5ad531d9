"""What the driver's own log says of a batch: the seconds of each of its stages."""

import json
from collections.abc import Iterator
from pathlib import Path


def events(home: Path) -> Iterator[dict]:
    """Every event of every run's log below a local stack's folder, file by file. Lines that are no events are Spark's own."""
    for file in sorted(home.rglob("stdout")):
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("{"):
                    try:
                        event = json.loads(line)
                    except json.JSONDecodeError:
                        continue  # a line that is still being written
                    if isinstance(event, dict) and "event" in event:
                        yield event


def batch_profile(home: Path, batch: str, table: str) -> dict[str, float]:
    """Seconds by stage: of the batch (`driver_<stage>_s`) and, within its merge, of one table's part (`merge_<stage>_s`); empty when the log is not there."""
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
