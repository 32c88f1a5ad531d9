"""An instant of a table's timeline as a moment, and a moment as an instant."""

from __future__ import annotations

import re
from datetime import datetime, timezone


def instant_ms(instant: str) -> int:
    """Epoch milliseconds of an instant "yyyyMMddHHmmssSSS", whose time zone is UTC by the table's own property."""
    digits = re.sub(r"\D", "", instant)
    moment = datetime.strptime(digits[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) * 1000 + int((digits[14:17] or "999").ljust(3, "0"))


def instant_of_ms(epoch_ms: int) -> str:
    """The instant of a moment, in UTC."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, timezone.utc)
    return f"{moment:%Y%m%d%H%M%S}{epoch_ms % 1000:03d}"
