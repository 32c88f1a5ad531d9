"""The messages that admit asks for again, and its answer to SQS."""

from sluice.admission.notices import IgnoredMessage
from sluice.admission.sqs_event import (
    FailedMessage,
    Inbox,
    Message,
    Unfinished,
    failed_messages,
    partial_batch_response,
)
from sluice.objects import ObjectId

FIRST, SECOND = (ObjectId("bronze", key, "v1") for key in ("a", "b"))
LATE, BUSY = Unfinished("deadline", "no time left"), Unfinished("SlowDown", "slow down")
NOTE = IgnoredMessage("test_event", "{}")


def inbox(*messages):
    return Inbox(messages, ())


def test_a_message_fails_with_the_code_and_reason_of_its_first_unfinished_object():
    messages = inbox(Message("m1", (FIRST,), ()), Message("m2", (FIRST, SECOND), ()))
    reason = f"1 of 2 objects are not in the ledger, first {SECOND.lineage}: no time left"
    assert failed_messages(messages, {SECOND: LATE}, unrecorded={}) == (FailedMessage("m2", "deadline", reason),)


def test_a_message_fails_when_an_ignored_part_of_it_was_not_recorded():
    failed = failed_messages(inbox(Message("m1", (), (NOTE,))), {}, unrecorded={"m1": BUSY})
    assert failed == (FailedMessage("m1", "SlowDown", "its ignored parts are not in the ledger: slow down"),)


def test_a_message_that_fails_twice_is_listed_once_with_both_reasons():
    (failed,) = failed_messages(inbox(Message("m1", (FIRST,), (NOTE,))), {FIRST: LATE}, unrecorded={"m1": BUSY})
    assert failed.code == "deadline"
    assert "no time left" in failed.reason and "slow down" in failed.reason


def test_the_answer_lists_the_failed_messages_in_lambdas_form():
    failed = (FailedMessage("m2", "deadline", "r"), FailedMessage("m4", "deadline", "r"))
    assert partial_batch_response(failed) == {"batchItemFailures": [{"itemIdentifier": "m2"}, {"itemIdentifier": "m4"}]}
    assert partial_batch_response(()) == {"batchItemFailures": []}
