"""Moments in three forms: a 17-digit instant as timelines have it, a time with its zone, or a duration ago.

They are read from command lines and Python calls, which may also pass a `datetime`, and written as people read them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from sluice_read.errors import InvalidMoment

Moment = str | datetime
_INSTANT = re.compile(r"[0-9]{17}")
_AGO = re.compile(r"([0-9]{1,9})\s?(s|min|m|h|d)")
_UNIT_S = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
# Python 3.10 reads three or six digits of a second, and no Z.
_FRACTION = re.compile(r"(?<=:[0-9]{2})(?:\.([0-9]{1,9}))?([zZ]?)(?=$|[+-])")
_EXAMPLES = (
    "an instant such as 20260501101500123 (`sluice table commits`), "
    "or a time with its zone: 2026-05-01T10:15:00Z, '2026-05-01 12:15:00+02:00'"
)
_WITH_AGO = f"15m, 2h or 7d (ago), {_EXAMPLES}"


@dataclass(frozen=True)
class Span:
    """A part of a table's history, between instants; None is no limit.

    `as_of` alone is the table as of then. With `changes` it is the rows whose last change is after `since` and not
    after `as_of`.
    """

    as_of: str | None = None
    since: str | None = None
    changes: bool = False


NOW = Span()


def span_of(
    *, as_of: Moment | None = None, since: Moment | None = None, until: Moment | None = None, now: int | None = None
) -> Span:
    """The span between moments, which `instant_at` reads. Raises InvalidMoment."""
    if as_of is not None and (since is not None or until is not None):
        raise InvalidMoment(
            "`as_of` gives a state, `since` and `until` give changes",
            given=str(as_of),
            next_step="Use one or the other",
        )
    if as_of is not None:
        return Span(as_of=instant_at(as_of, now))
    first = None if since is None else instant_at(since, now)
    last = None if until is None else instant_at(until, now)
    refuse_backwards("since", first, "until", last)
    return Span(as_of=last, since=first, changes=since is not None or until is not None)


def refuse_backwards(first_name: str, first: str | None, last_name: str, last: str | None) -> None:
    """Refuse a first instant after the last. Raises InvalidMoment."""
    if first is not None and last is not None and first > last:
        raise InvalidMoment(
            f"{first_name} {moment_of(first)} is after {last_name} {moment_of(last)}",
            given=first,
            next_step="Swap them",
        )


def refuse_future(instant: str, latest: str) -> None:
    """Refuse an instant after `latest`, the newest that can be known: what will happen can't be read.

    Raises InvalidMoment.
    """
    if instant > latest:
        raise InvalidMoment(
            f"{moment_of(instant)} is in the future", given=instant, next_step=f"Ask for {moment_of(latest)} or earlier"
        )


def instant_at(moment: Moment, now: int | None = None) -> str:
    """Convert a moment to an instant, which is in UTC. A time without its zone is refused, since it is ambiguous.

    Where `now` (epoch ms) is given, `90s`, `15m`, `2h` and `7d` count back from it. Raises InvalidMoment.
    """
    text = moment.isoformat() if isinstance(moment, datetime) else str(moment).strip()
    examples = _EXAMPLES if now is None else _WITH_AGO
    ago = _AGO.fullmatch(text)
    if ago and now is not None:
        return instant_of(max(0, now - int(ago[1]) * _UNIT_S[ago[2]] * 1000))
    if _INSTANT.fullmatch(text):
        try:
            datetime.strptime(text[:14], "%Y%m%d%H%M%S")
        except ValueError as error:
            raise InvalidMoment(
                f"{text!r} is not an instant: there is no such date and time", given=text, next_step=f"Give {examples}"
            ) from error
        return text
    try:
        at = datetime.fromisoformat(_FRACTION.sub(_as_in_3_10, text))
    except ValueError as error:
        raise InvalidMoment(f"{text!r} is not a moment", given=text, next_step=f"Give {examples}") from error
    if at.tzinfo is None:
        raise InvalidMoment(
            f"{text!r} has no zone",
            given=text,
            next_step="Give it one: datetime.now(timezone.utc)"
            if isinstance(moment, datetime)
            else f"Add Z for UTC, or an offset: {text}Z"
            if "T" in text or " " in text
            else f"Give {examples}",
        )
    try:
        return _instant(at.astimezone(timezone.utc))
    except OverflowError as error:
        raise InvalidMoment(f"{text!r} is out of range", given=text, next_step=f"Give {examples}") from error


def _as_in_3_10(match: re.Match[str]) -> str:
    digits = f".{match[1][:6]:0<6}" if match[1] else ""
    return f"{digits}{'+00:00' if match[2] else ''}"


def instant_of(at: int) -> str:
    """The instant of epoch ms."""
    return _instant(datetime.fromtimestamp(at // 1000, timezone.utc) + timedelta(milliseconds=at % 1000))


def _instant(at: datetime) -> str:
    return f"{at.year:04d}{at:%m%d%H%M%S}{at.microsecond // 1000:03d}"


def moment_of(instant: str) -> str:
    """An instant as people read it: 2026-05-01T10:15:00.123Z. Instants of 14 digits have no milliseconds."""
    date, clock = f"{instant[:4]}-{instant[4:6]}-{instant[6:8]}", f"{instant[8:10]}:{instant[10:12]}:{instant[12:14]}"
    return f"{date}T{clock}{'.' + instant[14:17] if len(instant) > 14 else ''}Z"


def point_in_time(text: str, now: int) -> int:
    """A moment in epoch ms, by `instant_at`, that is not after `now` (epoch ms). Raises InvalidMoment."""
    instant = instant_at(text, now)
    refuse_future(instant, instant_of(now))
    return ms_of(instant)


def ms_of(instant: str) -> int:
    """The epoch ms of an instant."""
    whole = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
    return int(whole.timestamp()) * 1000 + int(instant[14:] or 0)


def clock(at: int | None) -> str:
    """Epoch ms as `2026-11-21T10:00:00Z`, the form of every time that is shown; `-` for none."""
    return "-" if at is None else f"{datetime.fromtimestamp(at // 1000, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def short_clock(at: int | None, now: int) -> str:
    """The `clock` of a moment, without the date if that is the date of `now`."""
    date, _, _ = clock(now).partition("T")
    return clock(at).removeprefix(f"{date}T")


def iso(at: int) -> str:
    """Epoch ms as ISO 8601 in UTC, to the millisecond; `point_in_time` reads it back."""
    return datetime.fromtimestamp(at / 1000, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
