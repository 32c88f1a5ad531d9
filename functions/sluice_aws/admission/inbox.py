"""What an invocation got from the queue: notices without repetition, and which message each of them came in.

Writes down what queue messages said that announces no object, so that nothing is dropped silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.admission.notices import IgnoredMessage, Notice, parse_body
from sluice.errors import SluiceError
from sluice.objects import ObjectId
from sluice_aws.telemetry import Report


@dataclass(frozen=True)
class Message:
    """One SQS message: its id, the objects it announces, and what in it is ignored."""

    id: str
    objects: tuple[ObjectId, ...]
    ignored: tuple[IgnoredMessage, ...]


@dataclass(frozen=True)
class Inbox:
    """The messages of one invocation; `notices` holds every announced object once, however often it was announced."""

    messages: tuple[Message, ...]
    notices: tuple[Notice, ...]


def open_inbox(event: Mapping[str, Any]) -> Inbox:
    """Decode every message of an SQS event once."""
    messages = []
    notices: dict[ObjectId, Notice] = {}
    for record in event.get("Records", ()):
        parsed = parse_body(record["body"])
        for notice in parsed.notices:
            notices.setdefault(notice.id, notice)
        messages.append(Message(record["messageId"], tuple(notice.id for notice in parsed.notices), parsed.ignored))
    return Inbox(tuple(messages), tuple(notices.values()))


def unfinished_messages(inbox: Inbox, unfinished: Iterable[ObjectId], unrecorded: Iterable[str]) -> dict[str, str]:
    """The messages that must come again, with the reason: any object of theirs or any ignored part is not written down."""
    open_objects, open_messages = set(unfinished), set(unrecorded)
    again = {}
    for message in inbox.messages:
        waiting = [id for id in message.objects if id in open_objects]
        if waiting:
            again[message.id] = (
                f"{len(waiting)} of {len(message.objects)} objects are not in the ledger, first {waiting[0].lineage}"
            )
        elif message.id in open_messages:
            again[message.id] = "what is ignored of it is not in the ledger"
    return again


class IgnoredMessages:
    """Ignored messages, each with its reason and its beginning, in the ledger, the log and a metric."""

    def __init__(self, *, ledger: Any, report: Report, now: Callable[[], int]) -> None:
        self._ledger = ledger
        self._report = report
        self._now = now

    def record(self, messages: Iterable[Message]) -> set[str]:
        """Write down what is ignored of each message; returns the ids of messages for which that failed."""
        failed: set[str] = set()
        reasons: Counter[str] = Counter()
        for message in messages:
            try:
                for n, ignored in enumerate(message.ignored):
                    self._ledger.ignore_message(message.id, n, ignored.reason, ignored.excerpt, self._now())
                    self._report.event("message_ignored", message_id=message.id, part=n, reason=ignored.reason)
                    reasons[ignored.reason] += 1
            except (ClientError, BotoCoreError, SluiceError) as error:
                failed.add(message.id)
                self._report.warn("message_not_recorded", message_id=message.id, error=str(error)[:500])
        for reason, n in reasons.items():
            self._report.count("MessagesIgnored", n, reason=reason)
        return failed
