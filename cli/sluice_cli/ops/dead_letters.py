"""`sluice ops dlq`: lists the messages of the dead-letter queues, and processes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any

import typer

from sluice.admission.notices import parse_body
from sluice.errors import UsageError
from sluice.objects import ObjectId
from sluice_aws.clock import epoch_ms
from sluice_aws.stack import Target
from sluice_cli.ingest.workload import Throttle
from sluice_cli.terminal.options import DryRun, Json, Stack, argument, option
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.stack import chosen_target, output_of
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import counted, human_age

NOTICES, EVENTS, CALLS, RULES = "notices", "events", "calls", "rules"
_OUTPUTS = {
    NOTICES: "DeadLetterQueueUrl",
    EVENTS: "UnannouncedQueueUrl",
    CALLS: "UnreconciledQueueUrl",
    RULES: "UndeliveredQueueUrl",
}
_MEANING = {
    NOTICES: "notifications that admit failed five times",
    EVENTS: "records of committed batches that announce gave up",
    CALLS: "reconcile invocations that exhausted their retries",
    RULES: "events that a rule could not deliver",
}
LOOK_S, WORK_S = 20, 120  # seconds for which messages are hidden from others while they are listed, and processed
AT_ONCE = 10  # messages of one call
EXCERPT = 300  # characters of a text that isn't understood
EMPTY_ANSWERS = 3  # in a row, after which a queue counts as empty: SQS asks only some of its servers

Queue = Annotated[str, argument("[QUEUE]", "notices, events, calls or rules; by default all of them.")]

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True)
class Letter:
    """A message of a dead-letter queue. `sent_at` is epoch ms. `objects` have their state in the ledger, if known."""

    id: str
    sent_at: int
    text: str
    objects: tuple[tuple[ObjectId, str | None], ...] = ()
    body: str = field(default="", repr=False)
    receipt: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "id": self.id,
            "sent_at": self.sent_at,
            "text": self.text,
            "objects": [
                {"bucket": one.bucket, "key": one.key, "version": one.version, "state": state}
                for one, state in self.objects
            ],
        }


@app.command("list")
def list_letters(
    queue: Queue = "",
    limit: Annotated[int, option("--limit N", "Messages to show per queue.", min=0, max=1_000)] = 20,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show the messages of the dead-letter queues: how many, since when, and what each is about.

    A notification shows its keys, with the state of each object in the ledger: one that is committed needs nothing.
    Messages stay in their queue, and are hidden from others for some seconds. Exit code 1 if there are any.

    Example:

      sluice ops dlq list notices --limit 100
    """
    target = chosen_target(stack)
    queues, now = {}, epoch_ms()
    for name in _chosen(queue):
        url = output_of(target, _OUTPUTS[name])
        number = _number(target, url)
        letters = _shown(target, url, name, min(limit, number)) if number else []
        queues[name] = (number, letters)
    if as_json:
        print_json(
            {
                name: {"messages": number, "shown": [letter.to_dict() for letter in letters]}
                for name, (number, letters) in queues.items()
            }
        )
    else:
        rows = [
            (name, f"{number:,}", _oldest(letters, now), _MEANING[name]) for name, (number, letters) in queues.items()
        ]
        print_table(("queue", "messages", "oldest shown", "what they are"), rows, right=(1,))
        _print_letters([(name, letter) for name, (_, letters) in queues.items() for letter in letters], now)
    if any(number for number, _ in queues.values()):
        raise typer.Exit(1)


def _print_letters(letters: Sequence[tuple[str, Letter]], now: int) -> None:
    """Print messages with their objects: a table in a terminal, lines with tabs in a pipe."""
    rows = []
    for name, letter in letters:
        ago = f"{human_age(now - letter.sent_at)} ago"
        objects = [(state or "unknown", one.key) for one, state in letter.objects]
        (state, key), *more = objects or [("-", "-")]
        says = "-" if letter.text == counted(len(letter.objects), "object") else letter.text
        rows += [(name, letter.id[:8], ago, state, key, says), *(("", "", "", *other, "") for other in more)]
        if not sys.stdout.isatty():
            print_line(f"{name} {letter.id[:8]}  {ago}  {letter.text}")
            for row in objects:
                print("  " + "\t".join(row))
    if rows and sys.stdout.isatty():
        print()
        print_table(("queue", "message", "sent", "state", "object", "what it says"), rows, paths=(4,), apart=(5,))


@app.command()
def redrive(
    queue: Annotated[str, argument("QUEUE", "notices, events, calls or rules.")],
    count: Annotated[int | None, option("--count N", "Maximum number of messages. Default: all.", min=1)] = None,
    rate: Annotated[float, option("--rate N", "Messages per second.", min=0.1)] = 50.0,
    dry_run: DryRun = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Process the messages of a dead-letter queue, once the cause is gone.

    notices go back to the queue that admit reads; an object that is known already changes nothing. For the
    others, reconcile is called once, which does their work; messages whose batches are announced are removed.

    Example:

      sluice ops dlq redrive notices --rate 20 --count 1000
    """
    (name,) = _chosen(queue)
    target = chosen_target(stack)
    url = output_of(target, _OUTPUTS[name])
    number = _number(target, url)
    wanted = number if count is None else min(count, number)
    if dry_run or not wanted:
        done = 0
    elif name == NOTICES:
        done = _send_back(target, url, wanted, rate)
    else:
        done = _reconciled(target, url, name, wanted, rate)
    left = max(0, number - done)  # the number is approximate
    if as_json:
        print_json({"queue": name, "messages": number, "wanted": wanted, "redriven": done, "left": left})
    elif dry_run:
        print_line(f"{counted(wanted, 'message')} of {name} would be redriven, at {rate:g} a second")
    else:
        print_line(f"{counted(done, 'message')} of {name} redriven, {left:,} left")


def describe_letter(name: str, message: Mapping[str, Any]) -> Letter:
    """Read a message of SQS. Never raises: what isn't understood is shown as the beginning of its text."""
    body = str(message.get("Body", ""))
    sent_at = int(message.get("Attributes", {}).get("SentTimestamp", 0))
    letter = Letter(str(message.get("MessageId", "")), sent_at, "", (), body, str(message.get("ReceiptHandle", "")))
    if name == NOTICES:
        parsed = parse_body(body)
        objects = tuple((notice.id, None) for notice in parsed.notices)
        ignored = [f"{part.reason}: {part.excerpt[:EXCERPT]}" for part in parsed.ignored]
        text = "; ".join([*([counted(len(objects), "object")] if objects else []), *ignored])
        return replace(letter, text=text, objects=objects)
    content = _json(body)
    if name == EVENTS and isinstance(content.get("DDBStreamBatchInfo"), Mapping):
        info = content["DDBStreamBatchInfo"]
        size, until = info.get("batchSize"), info.get("approximateArrivalOfLastRecord")
        records = counted(size, "record") if isinstance(size, int) else "an unknown number of records"
        return replace(letter, text=f"{records} until {until or 'an unknown time'}: {_condition(content)}")
    if name == CALLS and isinstance(content.get("requestContext"), Mapping):
        answer = content.get("responsePayload")
        error = answer.get("errorMessage") if isinstance(answer, Mapping) else None
        request = content["requestContext"].get("requestId")
        subject = f"request {request}" if request else "a request without an id"
        return replace(letter, text=f"{subject}: {str(error or _condition(content))[:EXCERPT]}")
    attributes = message.get("MessageAttributes", {})
    if name == RULES and "RULE_ARN" in attributes:
        rule = str(attributes["RULE_ARN"].get("StringValue", "")).rpartition("/")[2]
        error = attributes.get("ERROR_MESSAGE", attributes.get("ERROR_CODE", {})).get("StringValue")
        return replace(letter, text=f"{rule}: {str(error or _condition(content))[:EXCERPT]}")
    return replace(letter, text=body[:EXCERPT])


def last_record_at(letter: Letter) -> int:
    """When the last record of a message of `events` was written (epoch ms); when it was sent if it doesn't say."""
    info = _json(letter.body).get("DDBStreamBatchInfo")
    written = info.get("approximateArrivalOfLastRecord") if isinstance(info, Mapping) else None
    try:
        return int(datetime.fromisoformat(str(written).replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return letter.sent_at


def _json(body: str) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _condition(content: Mapping[str, Any]) -> str:
    context = content.get("requestContext")
    condition = context.get("condition") if isinstance(context, Mapping) else None
    return str(condition or "the message names no reason")


def _chosen(queue: str) -> tuple[str, ...]:
    if queue and queue not in _OUTPUTS:
        raise UsageError(f"{queue!r} is not a queue", next_step="Name notices, events, calls or rules")
    return (queue,) if queue else tuple(_OUTPUTS)


def _number(target: Target, url: str) -> int:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    attributes = target.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(attributes.get(name, 0)) for name in names)


def _oldest(letters: Iterable[Letter], now: int) -> str:
    oldest = min((letter.sent_at for letter in letters), default=None)
    return "-" if oldest is None else f"{human_age(now - oldest)} ago"


def _received(target: Target, url: str, name: str, most: int, hidden_s: int) -> Iterator[list[Letter]]:
    """Receive messages in groups until there are `most`, or none any more. A message is given once."""
    sqs, seen, empty = target.client("sqs"), set[str](), 0
    while len(seen) < most and empty < EMPTY_ANSWERS:
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=min(AT_ONCE, most - len(seen)),
            VisibilityTimeout=hidden_s,
            MessageSystemAttributeNames=["SentTimestamp"],
            MessageAttributeNames=["RULE_ARN", "ERROR_CODE", "ERROR_MESSAGE"],
            WaitTimeSeconds=1 if empty else 0,
        )
        letters = [describe_letter(name, message) for message in answer.get("Messages", ())]
        fresh = [letter for letter in letters if letter.id not in seen]
        empty = 0 if fresh else empty + 1
        seen.update(letter.id for letter in fresh)
        if fresh:
            yield fresh


def _shown(target: Target, url: str, name: str, most: int) -> list[Letter]:
    """The messages with the states of their objects. They stay in the queue, and are visible again at the end."""
    letters = [letter for group in _received(target, url, name, most, LOOK_S) for letter in group]
    _leave(target, url, letters)
    states = target.ledger.objects.get([one for letter in letters for one, _ in letter.objects])
    return [
        replace(letter, objects=tuple((one, states[one].state if one in states else None) for one, _ in letter.objects))
        for letter in letters
    ]


def _leave(target: Target, url: str, letters: Sequence[Letter]) -> None:
    """Make messages visible again at once."""
    for start in range(0, len(letters), AT_ONCE):
        target.client("sqs").change_message_visibility_batch(
            QueueUrl=url,
            Entries=[
                {"Id": str(number), "ReceiptHandle": letter.receipt, "VisibilityTimeout": 0}
                for number, letter in enumerate(letters[start : start + AT_ONCE])
            ],
        )


def _send_back(target: Target, url: str, most: int, rate: float) -> int:
    """Send messages to the queue that they came from, then delete them here: a crash repeats some, and loses none."""
    sqs, source, done, throttle = target.client("sqs"), output_of(target, "QueueUrl"), 0, Throttle(rate)
    for letters in _received(target, url, NOTICES, most, WORK_S):
        for letter in letters:  # one by one: ten large bodies don't fit into one call
            sqs.send_message(QueueUrl=source, MessageBody=letter.body)
            sqs.delete_message(QueueUrl=url, ReceiptHandle=letter.receipt)
            done += 1
        throttle.after(len(letters))
    return done


def _reconciled(target: Target, url: str, name: str, most: int, rate: float) -> int:
    """Call reconcile where its work is due, and delete the messages of which it isn't any more."""
    letters = [letter for group in _received(target, url, name, most, WORK_S) for letter in group]
    oldest = None
    if name == EVENTS:
        oldest = next((batch["committed_at"] for batch in target.ledger.batches.unannounced(epoch_ms())), None)
    if name != EVENTS or oldest is not None:
        target.client("lambda").invoke(
            FunctionName=output_of(target, "ReconcileFunction"), InvocationType="Event", Payload=b"{}"
        )
    done = [letter for letter in letters if oldest is None or last_record_at(letter) < oldest]
    if len(done) < len(letters):
        _leave(target, url, [letter for letter in letters if letter not in done])
        say("Reconcile was called, and announces the batches of the others. Run the command again in a minute")
    throttle = Throttle(rate)
    for letter in done:
        target.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=letter.receipt)
        throttle.after(1)
    return len(done)
