"""The messages of one SQS event: the objects they announce, what in them is ignored, and which must be delivered again.

Lambda deletes every message of the event that the answer doesn't list (`ReportBatchItemFailures`).
https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sluice.admission.notices import IgnoredMessage, Notice, parse_body
from sluice.objects import ObjectId


@dataclass(frozen=True)
class Message:
    """One SQS message: its id, the objects it announces, and the parts of it that are ignored."""

    id: str
    objects: tuple[ObjectId, ...]
    ignored: tuple[IgnoredMessage, ...]


@dataclass(frozen=True)
class Inbox:
    """The messages of one invocation. `notices` holds each object once, even when several messages announce it."""

    messages: tuple[Message, ...]
    notices: tuple[Notice, ...]


def open_inbox(event: Mapping[str, Any]) -> Inbox:
    """Parse every message of an SQS event."""
    messages = []
    notices: dict[ObjectId, Notice] = {}
    for record in event.get("Records", ()):
        parsed = parse_body(record["body"])
        for notice in parsed.notices:
            notices.setdefault(notice.id, notice)
        messages.append(Message(record["messageId"], tuple(notice.id for notice in parsed.notices), parsed.ignored))
    return Inbox(tuple(messages), tuple(notices.values()))


@dataclass(frozen=True)
class Unfinished:
    """Why something is not in the ledger yet: a stable `code`, and a `reason` in words."""

    code: str
    reason: str


@dataclass(frozen=True)
class FailedMessage:
    """A message that must be delivered again, with the code and the reason of its first unfinished part."""

    message_id: str
    code: str
    reason: str


def failed_messages(
    inbox: Inbox, unfinished: Mapping[ObjectId, Unfinished], unrecorded: Mapping[str, Unfinished]
) -> tuple[FailedMessage, ...]:
    """The messages of which an object or an ignored part is not in the ledger, in their order.

    `unfinished` holds the objects that were not admitted; `unrecorded`, by message id, the messages whose ignored
    parts were not written.
    """
    failed = []
    for message in inbox.messages:
        missing = [id for id in message.objects if id in unfinished]
        causes, reasons = [unfinished[id] for id in missing[:1]], []
        if missing:
            reasons.append(
                f"{len(missing)} of {len(message.objects)} objects are not in the ledger, "
                f"first {missing[0].lineage}: {causes[0].reason}"
            )
        if message.id in unrecorded:
            causes.append(unrecorded[message.id])
            reasons.append(f"its ignored parts are not in the ledger: {causes[-1].reason}")
        if causes:
            failed.append(FailedMessage(message.id, causes[0].code, "; ".join(reasons)))
    return tuple(failed)


def partial_batch_response(failed: Iterable[FailedMessage]) -> dict[str, list[dict[str, str]]]:
    """The answer in Lambda's form. An empty list tells Lambda that every message is done."""
    return {"batchItemFailures": [{"itemIdentifier": message.message_id} for message in failed]}
