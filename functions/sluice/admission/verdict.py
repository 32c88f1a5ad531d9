"""Decides the state in which an object enters the ledger: pending, parked, quarantined or ignored, and why."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.admission.routing import CHANGE_FILE, MARKER, READABLE_FORMATS, Route
from sluice.admission.routing import IGNORED as IGNORED_KIND
from sluice.config.document import Configuration
from sluice.config.limits import DEFAULTS
from sluice.config.table import TableConfig
from sluice.errors import EmptyObject, ObjectTooLarge, SluiceError
from sluice.ledger.keys import IGNORED, PARKED, PENDING, QUARANTINED

NO_CONFIGURATION = "no configuration was in force when it came"
UNREADABLE_FORMAT = "unreadable_format"
LATE_NOTICE = "late_notice"  # the rule by which an object that is gone is ignored
# A notice waits 14 days in the queue and the dead-letter queue together, and as long again once it is redriven. A
# record that is kept for longer answers every such notice.
FORGET_AFTER_MS = 30 * 86_400_000
MAX_REASON = 500  # characters; a reason may quote an untrusted object


@dataclass(frozen=True)
class Verdict:
    """The state of an object as it enters the ledger.

    `config` is its table's, for a pending object and one whose schema doesn't fit its table. `rule` names the rule
    that ignores a file, `code` is the error code of a quarantined object, and `reason` says in words why an object is
    parked or quarantined.
    """

    state: str
    config: TableConfig | None = None
    reason: str | None = None
    rule: str | None = None
    code: str | None = None

    @property
    def table(self) -> str | None:
        return None if self.config is None else self.config.table

    @property
    def lane(self) -> str | None:
        return None if self.config is None else self.config.lane


def judge_unread(route: Route, size: int | None, config: TableConfig | None = None) -> Verdict | None:
    """The verdict on an object by its key and size alone, None when its head must be read first.

    `size` is in bytes, None when unknown; `config` is that of the table that its topic feeds.
    """
    limits = DEFAULTS if config is None else config.limits
    if route.kind == IGNORED_KIND:
        return Verdict(IGNORED, rule=route.rule)
    if route.kind != CHANGE_FILE:
        return Verdict(PARKED, reason=_cut(route.reason or "the key names no topic"))
    if route.format == MARKER:  # whatever is in it
        return Verdict(PENDING, config)
    if route.format not in READABLE_FORMATS:
        # Not parked: a rule for its topic would make it pending, and no release could read it then.
        return Verdict(
            QUARANTINED,
            config,
            reason=f"objects of format {route.format} can't be read: the messages of Kafka lack the schemas of their "
            "registry. Let the sink decode them, with AvroConverter and format.class AvroFormat",
            code=UNREADABLE_FORMAT,
        )
    if size == 0:
        return judge_unreadable(EmptyObject("The object has no bytes"), config)
    if size is not None and size > limits.object_bytes:
        message = f"The object has {size:,} bytes, and the limit is {limits.object_bytes:,}"
        return judge_unreadable(ObjectTooLarge(message, bytes=size, limit=limits.object_bytes), config)
    return None


def judge_read(route: Route, configuration: Configuration | None, also_for: str = "") -> Verdict:
    """The verdict on a change file with a valid head: pending for its topic's table, parked without one.

    `also_for` is that of the object's identity.
    """
    if configuration is None:
        return Verdict(PARKED, reason=NO_CONFIGURATION)
    match = configuration.match_topic(route.topic or "", also_for)
    if match.config is None:
        return Verdict(PARKED, reason=_cut(match.reason or "no rule takes this topic"))
    return Verdict(PENDING, match.config)


def judge_unreadable(error: SluiceError, config: TableConfig | None = None) -> Verdict:
    """The verdict on an object that is gone, or whose head is unusable: quarantined under the error's code.

    `config` is its table's, where that is known.
    """
    return Verdict(QUARANTINED, config, reason=_cut(str(error)), code=error.code)


def is_outdated(noticed_at: int | None, now: int, forget_after_ms: int) -> bool:
    """True if a notice is so old that the record of its object may have been dropped since (times in epoch ms).

    Records outlive their objects by `forget_after_ms`. If the object of an older notice is gone, nobody can tell
    whether it was merged before it expired, or lost.
    """
    return noticed_at is not None and now - noticed_at > forget_after_ms


def _cut(reason: str) -> str:
    return reason[:MAX_REASON]
