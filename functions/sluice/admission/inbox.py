"""The messages of one SQS event: the objects they announce, each once, and what in them is ignored."""

from __future__ import annotations

from collections.abc import Mapping
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
