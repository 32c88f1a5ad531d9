"""Points in time as people write them on a command line, and as tables show them."""

from __future__ import annotations

from datetime import UTC, datetime

from sluice_cli.moments import instant_at


def point_in_time(text: str, now: int) -> int:
    """Epoch ms of `90s`, `15min`, `2h`, `7d` (that long ago), of an instant, or of a time with its zone. `now` is epoch ms. Raises InvalidMoment."""
    instant = instant_at(text, now)
    whole = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return int(whole.timestamp()) * 1000 + int(instant[14:])


def clock(at: int | None) -> str:
    """Epoch ms as `2026-11-21 10:00:00`, UTC; `-` for none."""
    return "-" if at is None else datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(at: int) -> str:
    """Epoch ms as ISO 8601 in UTC, to the millisecond: what `point_in_time` reads back."""
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
