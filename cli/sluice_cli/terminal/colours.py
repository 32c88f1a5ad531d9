"""The colours of the status page and of the waterfall, on light and on dark ground, and of states in a terminal.

Every colour of TEXT has a contrast of at least 4.5 to 1 with both grounds, and every other one of at least 3 to 1
(WCAG 2.2, AA).
"""

from __future__ import annotations

from collections.abc import Mapping

# Words of states and of results of checks; of those that are well only where it helps to see the others.
STATES: Mapping[str, str] = {
    **dict.fromkeys(("fail", "halted", "failing", "failed", "retrying", "lapsed", "blocked", "quarantined"), "red"),
    **dict.fromkeys(("warn", "late", "parked", "paused", "stuck"), "yellow"),
    "ok": "green",
}

GROUNDS = ("bg", "card")
TEXT = ("text", "faint", "accent", "good", "warn", "bad")
DECORATION = ("line", "soft")  # beside something that is told in text or in a colour of its own
_ON_LIGHT_AND_DARK: Mapping[str, tuple[str, str]] = {
    "bg": ("#f6f8fa", "#010409"),
    "card": ("#ffffff", "#0d1117"),
    "text": ("#1b1f24", "#e6edf3"),
    "faint": ("#57606a", "#9198a1"),
    "accent": ("#0969da", "#4493f8"),
    "good": ("#1a7f37", "#3fb950"),
    "warn": ("#8a5a00", "#d29922"),
    "bad": ("#c4202c", "#f85149"),
    "wait": ("#7a828b", "#767e88"),
    "arrival": ("#1b7c83", "#39c5cf"),
    "line": ("#d1d9e0", "#30363d"),
    "soft": ("#dbeafe", "#15304f"),
}
LIGHT: Mapping[str, str] = {name: light for name, (light, _) in _ON_LIGHT_AND_DARK.items()}
DARK: Mapping[str, str] = {name: dark for name, (_, dark) in _ON_LIGHT_AND_DARK.items()}
