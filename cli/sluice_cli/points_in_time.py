"""Points in time as people write them on a command line, and as tables show them."""
from __future__ import annotations

import re
from datetime import UTC, datetime

from sluice_cli.failures import UsageError

_AGO = re.compile(r"(\d{1,9})\s?(s|min|m|h|d)")
_UNIT_MS = {"s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def point_in_time(text: str, now: int) -> int:
    """Epoch ms of `90s`, `15min`, `2h`, `7d` (that long ago) or of ISO 8601, UTC where it names no zone. `now` is epoch ms. Raises UsageError."""
    ago = _AGO.fullmatch(text.strip())
    if ago:
        return max(0, now - int(ago[1]) * _UNIT_MS[ago[2]])
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(f"{text!r} is no point in time", next_step="Write 15min, 2h or 7d for that long ago, or 2026-11-21T10:00:00") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def clock(at: int | None) -> str:
    """Epoch ms as `2026-11-21 10:00:00`, UTC; `-` for none."""
    return "-" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(at: int) -> str:
    """Epoch ms as ISO 8601 in UTC, to the millisecond: what `point_in_time` reads back."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
