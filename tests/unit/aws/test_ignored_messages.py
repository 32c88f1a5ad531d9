"""Recording what the queue's messages hold beside announcements."""

from botocore.exceptions import ClientError

from sluice.admission.notices import IgnoredMessage
from sluice.admission.sqs_event import Message, Unfinished
from sluice_aws.admission.ignored_messages import IgnoredMessages


class Ledger:
    """Records everything but the parts of one message."""

    def __init__(self, refused):
        self.refused = refused
        self.recorded = []

    def ignore_message(self, message_id, n, reason, excerpt, now):
        if message_id == self.refused:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "busy"}}, "PutItem")
        self.recorded.append((message_id, n, reason, excerpt, now))


class Report:
    def __init__(self):
        self.events, self.metrics = [], {}

    def event(self, name, /, **fields):
        self.events.append((name, fields))

    def count(self, metric, n=1, /, **dimensions):
        self.metrics[(metric, *dimensions.values())] = n


def test_a_message_that_cannot_be_recorded_is_returned_with_its_cause():
    note = IgnoredMessage("test_event", "{}")
    ledger, report = Ledger(refused="m1"), Report()
    messages = [Message("m1", (), (note,)), Message("m2", (), (note, note))]
    failed = IgnoredMessages(history=ledger, report=report, now=lambda: 7).record(messages)
    assert set(failed) == {"m1"}
    assert failed["m1"] == Unfinished("ThrottlingException", failed["m1"].reason)
    assert "busy" in failed["m1"].reason
    assert ledger.recorded == [("m2", n, "test_event", "{}", 7) for n in (0, 1)]
    assert report.metrics == {("MessagesIgnored", "test_event"): 2}
    assert [name for name, _ in report.events] == ["message_ignored"] * 2
