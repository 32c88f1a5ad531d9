"""Records the queue messages, or parts of them, that announce no object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.admission.sqs_event import Message, Unfinished
from sluice.errors import SluiceError
from sluice.ports import Report
from sluice_aws.admission.failures import unfinished
from sluice_aws.ledger.history import HistoryLedger


class IgnoredMessages:
    """Writes each ignored part, with its reason and its beginning, to the ledger, the log and a metric."""

    def __init__(self, *, history: HistoryLedger, report: Report, now: Callable[[], int]) -> None:
        self._history = history
        self._report = report
        self._now = now

    def record(self, messages: Iterable[Message]) -> dict[str, Unfinished]:
        """Record the ignored parts of all messages. Returns, by message id, those that could not be written."""
        failed: dict[str, Unfinished] = {}
        reasons: Counter[str] = Counter()
        for message in messages:
            try:
                for n, ignored in enumerate(message.ignored):
                    self._history.ignore_message(message.id, n, ignored.reason, ignored.excerpt, self._now())
                    self._report.event("message_ignored", message_id=message.id, part=n, reason=ignored.reason)
                    reasons[ignored.reason] += 1
            except (ClientError, BotoCoreError, SluiceError) as error:
                failed[message.id] = unfinished(error)
        for reason, n in reasons.items():
            self._report.count("MessagesIgnored", n, reason=reason)
        return failed
