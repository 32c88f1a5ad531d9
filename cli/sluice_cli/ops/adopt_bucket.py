"""`sluice ops adopt-bucket`: adds the stack to the notifications of an existing bronze bucket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from botocore.exceptions import ClientError

from sluice.errors import CommandFailed, UsageError
from sluice_cli.errors import BucketElsewhere, NotificationOverlap
from sluice_cli.terminal.options import DryRun, Json, Stack, option
from sluice_cli.terminal.output import print_json, say
from sluice_cli.terminal.stack import chosen_target

ID = "sluice"
CREATED = "s3:ObjectCreated:*"
_PARTS = ("TopicConfigurations", "QueueConfigurations", "LambdaFunctionConfigurations", "EventBridgeConfiguration")
VIA = ("eventbridge", "queue")


def adopt_bucket(
    via: Annotated[
        str | None,
        option(
            "--via WAY",
            "eventbridge (works beside any other notification) or queue (directly to the stack's queue, faster). "
            "Default: eventbridge; queue for the stack's own bucket, which no rule of EventBridge covers.",
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Add the stack to the notifications of its bronze bucket, which the parameter BronzeBucketName names.

    For the stack's own bucket, it restores the notification that was removed.

    All other notifications stay. A bucket has one notification configuration, which can only be replaced as a whole:
    the command reads it, adds the stack, and writes it back. Repeating the command changes nothing.
    S3 is told not to validate the destinations: it would refuse all of them if one is the queue of a deleted stack.

    Examples:

      sluice --stack sluice ops adopt-bucket --dry-run
      sluice --stack sluice ops adopt-bucket
    """
    if via not in (None, *VIA):
        raise UsageError(
            f"--via {via!r} is not a choice", next_step=f"Give {' or '.join(f'--via {way}' for way in VIA)}"
        )
    target = chosen_target(stack)
    adopted = has_rule(target)
    if via == "eventbridge" and not adopted:
        raise CommandFailed(
            f"The stack {target.stack} has no rule of EventBridge for its own bucket", next_step="Use --via queue"
        )
    via = via or ("eventbridge" if adopted else "queue")
    queue = queue_arn(target) if via == "queue" else None
    if via == "queue" and queue is None:
        raise CommandFailed(
            f"The stack {target.stack} has no output QueueUrl",
            next_step=f"Deploy the template again{', or use --via eventbridge' if adopted else ''}",
        )
    s3 = target.client("s3")
    elsewhere = region_of(s3, target.bronze)
    if elsewhere not in (None, target.region):
        raise BucketElsewhere(
            f"{target.bronze} is in {elsewhere} and the stack in {target.region}, and notices stay in a Region",
            bucket=target.bronze,
            region=elsewhere,
        )
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
                f"Another notification of {target.bronze} already covers new objects", bucket=target.bronze
            ) from error
    if s3.get_bucket_versioning(Bucket=target.bronze).get("Status") != "Enabled":
        say(f"{target.bronze} keeps no versions: turn versioning on, or overwritten objects may be lost")
    if as_json or dry_run:
        print_json({"bucket": target.bronze, "changed": after != before and not dry_run, "configuration": after})
    else:
        say(f"{target.bronze} {'now' if after != before else 'already'} announces its objects to {target.stack}")


def has_rule(target: Any) -> bool:
    """True if the stack has a rule for the bucket's events from EventBridge, as only with an existing bucket."""
    return bool(target.parameters.get("BronzeBucketName"))


def region_of(s3: Any, bucket: str) -> str | None:
    """The Region of a bucket; None where an emulator doesn't say."""
    region = s3.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region")
    return None if region is None else str(region)


def configured(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a notification configuration that are set, without the response's other members."""
    return {
        part: answer[part] for part in _PARTS if part in answer and (answer[part] or part == "EventBridgeConfiguration")
    }


def with_stack(before: Mapping[str, Any], name: str, queue_arn: str | None) -> dict[str, Any]:
    """The configuration with the stack added: its queue if `queue_arn` is given, else EventBridge."""
    if queue_arn is None:
        return {**before, "EventBridgeConfiguration": before.get("EventBridgeConfiguration", {})}
    others = [one for one in before.get("QueueConfigurations", ()) if one.get("Id") != name]
    return {**before, "QueueConfigurations": [*others, {"Id": name, "QueueArn": queue_arn, "Events": [CREATED]}]}


def announces(notifications: Mapping[str, Any], *, queue: str | None, by_event_bus: bool) -> bool:
    """True if a bucket announces new objects to a stack's `queue` (ARN) or, with `by_event_bus`, to EventBridge."""
    if by_event_bus and "EventBridgeConfiguration" in notifications:
        return True
    events_of = [one["Events"] for one in notifications.get("QueueConfigurations", ()) if one["QueueArn"] == queue]
    return any(event.startswith("s3:ObjectCreated:") for events in events_of for event in events)


def queue_arn(target: Any) -> str | None:
    """The ARN of a stack's queue of notices, None if the stack has no such output."""
    url = target.outputs.get("QueueUrl")
    if url is None:
        return None
    return str(
        target.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    )
