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
LIGHT: Mapping[str, str] = {
    "bg": "#f6f8fa",
    "card": "#ffffff",
    "text": "#1b1f24",
    "faint": "#57606a",
    "accent": "#0969da",
    "good": "#1a7f37",
    "warn": "#8a5a00",
    "bad": "#c4202c",
    "wait": "#7a828b",
    "arrival": "#1b7c83",
    "line": "#d1d9e0",
    "soft": "#dbeafe",
}
DARK: Mapping[str, str] = {
    "bg": "#010409",
    "card": "#0d1117",
    "text": "#e6edf3",
    "faint": "#9198a1",
    "accent": "#4493f8",
    "good": "#3fb950",
    "warn": "#d29922",
    "bad": "#f85149",
    "wait": "#767e88",
    "arrival": "#39c5cf",
    "line": "#30363d",
    "soft": "#15304f",
}
