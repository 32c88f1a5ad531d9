"""`sluice adopt-bucket`: has an existing bronze bucket announce its objects to the stack, beside whatever it announces to others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError

from sluice.errors import CommandFailed, UsageError
from sluice_cli.errors import NotificationOverlap
from sluice_cli.terminal.output import Json, Stack, chosen_target, print_json, say

ID = "sluice"
CREATED = "s3:ObjectCreated:*"
_PARTS = ("TopicConfigurations", "QueueConfigurations", "LambdaFunctionConfigurations", "EventBridgeConfiguration")
VIA = ("eventbridge", "queue")


def adopt_bucket(
    via: Annotated[
        str,
        typer.Option(
            "--via",
            help="eventbridge (beside any other notification) or queue (S3 to the stack's queue itself, a little sooner).",
        ),
    ] = "eventbridge",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the configuration that the bucket would have, and change nothing.")
    ] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Add the stack to the notifications of its bronze bucket, one that was given by BronzeBucketName. Every other notification stays as it is.

    S3 has one notification configuration a bucket, and setting it replaces it whole: this reads it, adds to it, and writes it back. Again, it changes nothing.
    S3 is told not to try the destinations: of a bucket that a deleted stack left, one is that stack's queue, which is gone, and for it S3 would refuse them all.

    Examples:

      sluice --stack sluice adopt-bucket --dry-run

      sluice --stack sluice adopt-bucket
    """
    if via not in VIA:
        raise UsageError(f"--via {via} is not one of {', '.join(VIA)}")
    target = chosen_target(stack)
    queue = queue_arn(target) if via == "queue" else None
    if via == "queue" and queue is None:
        raise CommandFailed(
            f"The stack {target.stack} has no output QueueUrl",
            next_step="Deploy the template again, or use --via eventbridge",
        )
    s3 = target.client("s3")
    before = configured(s3.get_bucket_notification_configuration(Bucket=target.bronze))
    after = with_stack(before, f"{ID}-{target.stack}", queue)
    if not dry_run and after != before:
        try:
            s3.put_bucket_notification_configuration(
                Bucket=target.bronze, NotificationConfiguration=after, SkipDestinationValidation=True
            )
        except ClientError as error:
            if "overlap" not in str(error).lower():
                raise
            raise NotificationOverlap(
                f"Another notification of {target.bronze} takes new objects already: {error}", bucket=target.bronze
            ) from error
    if s3.get_bucket_versioning(Bucket=target.bronze).get("Status") != "Enabled":
        say(
            f"{target.bronze} doesn't keep versions: turn versioning on, or an object that is overwritten before it is read is lost"
        )
    if as_json or dry_run:
        print_json({"bucket": target.bronze, "changed": after != before and not dry_run, "configuration": after})
    else:
        say(f"{target.bronze} announces its objects to {target.stack}" + ("" if after != before else " already"))


def configured(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a bucket's notification configuration that are there, without what the answer has besides."""
    return {
        part: answer[part] for part in _PARTS if part in answer and (answer[part] or part == "EventBridgeConfiguration")
    }


def with_stack(before: Mapping[str, Any], name: str, queue_arn: str | None) -> dict[str, Any]:
    """The configuration with the stack's part, by EventBridge or, with `queue_arn`, by its queue; all else as it was."""
    if queue_arn is None:
        return {**before, "EventBridgeConfiguration": before.get("EventBridgeConfiguration", {})}
    others = [one for one in before.get("QueueConfigurations", ()) if one.get("Id") != name]
    return {**before, "QueueConfigurations": [*others, {"Id": name, "QueueArn": queue_arn, "Events": [CREATED]}]}


def announces(found: Mapping[str, Any], *, queue: str | None, by_event_bus: bool) -> bool:
    """Whether a bucket announces what is put into it to a stack: to its queue (an ARN), or, of a stack that has the rule for it, by EventBridge."""
    if by_event_bus and "EventBridgeConfiguration" in found:
        return True
    summary = [one["Events"] for one in found.get("QueueConfigurations", ()) if one["QueueArn"] == queue]
    return any(event.startswith("s3:ObjectCreated:") for events in summary for event in events)


def queue_arn(target: Any) -> str | None:
    """The ARN of the queue of a stack's notices; None of a stack without that output."""
    url = target.outputs.get("QueueUrl")
    if url is None:
        return None
    return str(
        target.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    )
