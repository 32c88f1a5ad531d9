"""How long a run with nothing to claim stays: one pure decision, asked each time the lane was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

LOOK = "look"  # query what is pending: something may have come due or arrived
WAIT = "wait"
RELEASE = "release"


@dataclass(frozen=True)
class IdleLane:
    """What an idle run knows. Times are epoch milliseconds.

    `found_nothing_at_arrivals` is the arrivals counter as read before the query that found nothing claimable;
    `next_due_at` is when the first object or service request that waits comes due, `keep_alive_until` the last moment until which
    objects that wait only for their table's freshness, and not for long, keep the run alive (rule 2).
    """

    idle_since: int
    found_nothing_at_arrivals: int
    next_due_at: Optional[int] = None
    keep_alive_until: Optional[int] = None


@dataclass(frozen=True)
class Staying:
    """How long a run may stay: seconds it lingers, and the moment (epoch ms) at which it must end."""

    linger_s: int
    ends_at: int


def decide(idle: Optional[IdleLane], staying: Staying, *, arrivals: int, pause_requested: bool, now: int) -> str:
    """LOOK, WAIT or RELEASE; `idle` is None when the run has not looked since its last batch.

    A pause and the maximum age end a run even when more could be claimed.
    """
    if pause_requested or now >= staying.ends_at:
        return RELEASE
    if idle is None or arrivals != idle.found_nothing_at_arrivals:
        return LOOK
    if idle.next_due_at is not None and now >= idle.next_due_at:
        return LOOK
    if now < stays_until(idle, staying):
        return WAIT
    return RELEASE


def stays_until(idle: IdleLane, staying: Staying) -> int:
    """The moment at which this run lets go if nothing changes: linger, or what is left of the freshness."""
    lingers_until = idle.idle_since + staying.linger_s * 1000
    return min(staying.ends_at, max(lingers_until, idle.keep_alive_until or 0))


def due_at_release(idle: Optional[IdleLane], *, arrivals: int, now: int) -> Optional[int]:
    """The lane's `due_at` for a run that lets go: now when it did not look at all that arrived."""
    if idle is None or idle.found_nothing_at_arrivals != arrivals:
        return now
    return idle.next_due_at


def wait_seconds(idle: IdleLane, staying: Staying, *, poll_s: float, now: int) -> float:
    """Until the next look at the lane: the poll interval, or less when something comes due before it."""
    moments = [stays_until(idle, staying)]
    if idle.next_due_at is not None:
        moments.append(idle.next_due_at)
    return max(0.0, min(poll_s, (min(moments) - now) / 1000))
