"""An empty stretch of time: when something happened before and after it, and the commands that show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sluice_cli.terminal.step import Step
from sluice_read.moments import clock, instant_of, iso, point_in_time, refuse_backwards

HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Nearest:
    """When the last thing before an empty time happened and the first one after it (epoch ms); None for none."""

    before: int | None = None
    after: int | None = None

    @property
    def described(self) -> str:
        """Both, as the end of a sentence."""
        before = "none before it" if self.before is None else f"the last one before it at {moment(self.before)}"
        after = "none after it" if self.after is None else f"the first one after it at {moment(self.after)}"
        return f"{before}, {after}"

    def to_dict(self) -> dict[str, str | None]:
        """The JSON form."""
        return {name: None if at is None else iso(at) for name, at in (("before", self.before), ("after", self.after))}

    def steps(self, command: Sequence[str], since: int | None, now: int) -> list[str]:
        """What shows them: a verb and its choices, with other times than since `since` (epoch ms)."""
        lines = []
        if self.before is not None and since is not None:
            lines.append(f"{Step(*command, '--before', moment(since))} shows what was before")
        if self.after is not None:
            until = self.after + HOUR_MS
            ends = ["--before", moment(until)] if until <= now else []  # the future can't be asked for
            lines.append(f"{Step(*command, '--since', moment(self.after), *ends)} shows what came after")
        return lines


def given_times(since: str | None, before: str | None, now: int) -> tuple[int | None, int | None]:
    """The times (epoch ms) that --since and --before give. Raises InvalidMoment, also for times in the wrong order."""
    begins, ends = (None if given is None else point_in_time(given, now) for given in (since, before))
    if begins is not None and ends is not None:
        refuse_backwards("--since", instant_of(begins), "--before", instant_of(ends))
    return begins, ends


def runs_then(since: int, before: int | None) -> str:
    """What shows the runs of a time (epoch ms)."""
    until = ("--before", moment(before)) if before is not None else ()
    return f"{Step('runs', '--since', moment(since), *until)} shows the runs of this time"


def moment(at: int) -> str:
    """A time (epoch ms) as options take it, as exact as it is."""
    return iso(at) if at % 1000 else clock(at)
