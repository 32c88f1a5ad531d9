"""Writes down what queue messages said that announces no object, so that nothing is dropped silently."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Iterable, Set

from botocore.exceptions import BotoCoreError, ClientError

from sluice.errors import SluiceError
from sluice_aws.inbox import Message
from sluice_aws.telemetry import Report


class IgnoredMessages:
    """Ignored messages, each with its reason and its beginning, in the ledger, the log and a metric."""

    def __init__(self, *, ledger: Any, report: Report, now: Callable[[], int]) -> None:
        self._ledger = ledger
        self._report = report
        self._now = now

    def record(self, messages: Iterable[Message]) -> Set[str]:
        """Write down what is ignored of each message; returns the ids of messages for which that failed."""
        failed: Set[str] = set()
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
