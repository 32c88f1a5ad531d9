"""`sluice doctor`: looks at the parts of a stack that must be right for the rest to work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
from botocore.exceptions import ClientError
from rich.text import Text

from sluice.errors import SluiceError
from sluice.lane.machine import HALTED, PAUSED
from sluice.ledger.keys import QUARANTINED
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.settings import NO_RELEASE
from sluice_aws.stack import Target
from sluice_cli.ingest.survey import describe_lane
from sluice_cli.ops.adopt_bucket import announces, configured, queue_arn
from sluice_cli.ops.engine import EngineTrial
from sluice_cli.terminal.findings import FAIL, OK, WARN, Finding
from sluice_cli.terminal.output import (
    Json,
    Stack,
    chosen_target,
    counted,
    print_json,
    print_table,
    say,
    stderr_console,
)

RELEASES = "emr-7."
ANNOUNCED_WITHIN_MS = (
    3_600_000  # the stream takes a second, its retries minutes, the schedule comes every quarter of an hour
)


def doctor(
    job: Annotated[
        bool,
        typer.Option(
            "--job",
            help="Also start a job that tries the engine: versions, and a small table of each type. "
            "It takes about a minute, and costs a minute of a driver and an executor.",
        ),
    ] = False,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            help="With --job: time limit of the job, its wait for workers included.",
        ),
    ] = 1200.0,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Look at what must be right: buckets, ledger, application, release, configuration, lanes, lost notices, announcements; with --job, the engine itself.

    The job writes, changes, compacts and reads a small table of each type in a folder of its own in the silver bucket, and removes it.
    Ends with 1 when something fails; a warning alone doesn't.

    Example:

      sluice doctor

      sluice --stack sluice doctor --job
    """
    target = chosen_target(stack)
    findings = [finding for about, look in LOOKS.items() for finding in _looked(about, look, target)]
    if job:
        findings += _tried(target, timeout)
    if as_json:
        print_json([item.to_dict() for item in findings])
    else:
        print_table(
            ("", "about", "found", "what to do"),
            [(item.result, item.about, item.found, item.advice) for item in findings],
        )
    if any(item.result == FAIL for item in findings):
        raise typer.Exit(1)


def _tried(target: Target, timeout_s: float) -> list[Finding]:
    """Findings of a trial job, or a finding that says why there is none."""
    console = stderr_console()
    try:
        with console.status("Starting a job") as status:
            trial = EngineTrial(
                target, progress=lambda line: status.update(Text(line)) if console.is_terminal else say(line)
            )
            return trial.run(timeout_s)
    except (ClientError, SluiceError) as error:
        advice = "Check that the stack is up and what the credentials allow" if isinstance(error, ClientError) else ""
        return [Finding("trial", FAIL, str(error), advice)]


def _looked(about: str, look: Callable[[Target], Iterator[Finding]], target: Target) -> list[Finding]:
    """One look that can't be taken doesn't keep the others from being taken."""
    try:
        return list(look(target))
    except (ClientError, SluiceError) as error:
        return [
            Finding(
                about,
                FAIL,
                f"could not be looked at: {error}",
                "Check that the stack is up and what the credentials allow",
            )
        ]


def _bronze(target: Target) -> Iterator[Finding]:
    s3 = target.client("s3")
    status = s3.get_bucket_versioning(Bucket=target.bronze).get("Status")
    if status == "Enabled":
        yield Finding("bronze bucket", OK, f"{target.bronze} keeps versions")
    else:
        advice = f"aws s3api put-bucket-versioning --bucket {target.bronze} --versioning-configuration Status=Enabled"
        yield Finding(
            "bronze bucket",
            FAIL,
            f"{target.bronze} keeps no versions: an object written again before it is read is lost",
            advice,
        )
    notices = configured(s3.get_bucket_notification_configuration(Bucket=target.bronze))
    adopted = bool(
        target.parameters.get("BronzeBucketName")
    )  # only then the stack has a rule that takes a bucket's events from EventBridge
    advice = "`sluice adopt-bucket`" if adopted else "`sluice adopt-bucket --via queue`"
    if announces(notices, queue=queue_arn(target), by_event_bus=adopted):
        yield Finding("bronze notices", OK, "the bucket announces its objects")
    elif notices:
        yield Finding(
            "bronze notices",
            WARN,
            "the bucket announces its objects to others, and not to this stack's queue: they are found by the schedule only",
            advice,
        )
    else:
        yield Finding(
            "bronze notices", FAIL, "the bucket announces nothing: objects are found by the schedule only", advice
        )


def _places(target: Target) -> Iterator[Finding]:
    s3 = target.client("s3")
    for about, bucket in (("silver bucket", target.silver), ("artifact bucket", target.artifacts)):
        s3.head_bucket(Bucket=bucket)
        yield Finding(about, OK, f"{bucket} is there")
    state = target.client("dynamodb").describe_table(TableName=target.ledger_table)["Table"]["TableStatus"]
    if state == "ACTIVE":
        yield Finding("ledger", OK, f"{target.ledger_table} is there")
    else:
        yield Finding("ledger", FAIL, f"{target.ledger_table} is {state}", "Nothing is admitted until it is ACTIVE")


def _application(target: Target) -> Iterator[Finding]:
    application = target.outputs.get("ApplicationId")
    if application is None:
        yield Finding("application", FAIL, "the stack has no output ApplicationId", "Deploy the template again")
        return
    found = target.client("emr-serverless").get_application(applicationId=application)["application"]
    summary = f"{found['applicationId']}: {found['releaseLabel']}, {found.get('architecture', 'X86_64')}, {found['state'].lower()}"
    if found["state"] == "TERMINATED" or found["type"].upper() != "SPARK":
        yield Finding(
            "application",
            FAIL,
            f"{summary}, of type {found['type']}",
            "Deploy the template again, or correct the parameter ApplicationId",
        )
    elif not found["releaseLabel"].startswith(RELEASES):
        yield Finding(
            "application",
            WARN,
            f"{summary}; Sluice is built for {RELEASES}x, the line of Spark 3.5",
            "`sluice doctor --job` says whether it fits",
        )
    else:
        yield Finding("application", OK, summary, facts={"release": found["releaseLabel"], "state": found["state"]})


def _release(target: Target) -> Iterator[Finding]:
    release = target.outputs.get("Release", "")
    if release in NO_RELEASE:
        yield Finding(
            "release",
            FAIL,
            "none is set: objects are ledgered and nothing is started",
            "`make deploy` uploads one and sets it",
        )
        return
    manifest = Objects(target.client("s3")).get(target.artifacts, f"releases/{release}/release.json")
    if manifest is None:
        yield Finding(
            "release",
            FAIL,
            f"{release} is set, and s3://{target.artifacts} doesn't hold it",
            "`make deploy` uploads it",
        )
    else:
        yield Finding("release", OK, release)


def _configuration(target: Target) -> Iterator[Finding]:
    configuration = ConfigStore(Objects(target.client("s3")), target.artifacts).load()
    if configuration is None:
        yield Finding(
            "configuration", FAIL, "none was ever pushed: every object is parked", "`sluice config push tables.yaml`"
        )
    else:
        yield Finding(
            "configuration", OK, f"{counted(len(configuration.rules), 'rule')}, version {configuration.version[:12]}"
        )


def _lanes(target: Target) -> Iterator[Finding]:
    for lane in DynamoDbLedger(target.client("dynamodb"), target.ledger_table).lanes.all():
        result = (
            FAIL
            if lane.state == HALTED
            else WARN
            if lane.state == PAUSED or lane.failures or lane.capacity_failures
            else OK
        )
        advice = (
            f"Look at the last run {lane.last_run_id}, then `sluice resume {lane.lane}`"
            if lane.state == HALTED
            else f"`sluice resume {lane.lane}`"
            if lane.state == PAUSED
            else ""
        )
        yield Finding(f"lane {lane.lane}", result, describe_lane(lane, epoch_ms()), advice)


def _tables(target: Target) -> Iterator[Finding]:
    for table in DynamoDbLedger(target.client("dynamodb"), target.ledger_table).tables.all():
        if table.last_error:
            yield Finding(
                f"table {table.table}",
                WARN,
                f"{counted(table.failures, 'failure')}: {table.last_error.splitlines()[0][:300]}",
                "`sluice status` says when it is tried again",
            )


def _set_aside(target: Target) -> Iterator[Finding]:
    if next(DynamoDbLedger(target.client("dynamodb"), target.ledger_table).objects.in_state(QUARANTINED), None) is None:
        yield Finding("quarantine", OK, "empty")
    else:
        yield Finding(
            "quarantine", WARN, "some objects could not be merged", "`sluice quarantine list` says which and why"
        )


def _lost_notices(target: Target) -> Iterator[Finding]:
    url = target.outputs.get("DeadLetterQueueUrl")
    if url is None:
        yield Finding("lost notices", WARN, "the stack has no output DeadLetterQueueUrl", "Deploy the template again")
        return
    attributes: dict[str, Any] = target.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
    )["Attributes"]
    waiting = int(attributes.get("ApproximateNumberOfMessages", 0))
    if waiting:
        yield Finding(
            "lost notices",
            FAIL,
            f"{counted(waiting, 'message')} in the dead-letter queue",
            "Look at the log of admit, then `aws sqs start-message-move-task`",
        )
    else:
        yield Finding("lost notices", OK, "none")


def _announcements(target: Target) -> Iterator[Finding]:
    owed = DynamoDbLedger(target.client("dynamodb"), target.ledger_table).batches.unannounced(
        epoch_ms() - ANNOUNCED_WITHIN_MS
    )
    oldest = next(owed, None)
    if oldest is None:
        yield Finding("announcements", OK, "no committed batch waits for one")
    else:
        yield Finding(
            "announcements",
            FAIL,
            f"batch {oldest['batch']} was committed over an hour ago and not announced",
            "Look at the logs of announce and reconcile: the event bus refuses, or isn't there",
        )


LOOKS: dict[str, Callable[[Target], Iterator[Finding]]] = {
    "bronze bucket": _bronze,
    "buckets and ledger": _places,
    "application": _application,
    "release": _release,
    "configuration": _configuration,
    "lanes": _lanes,
    "tables": _tables,
    "quarantine": _set_aside,
    "lost notices": _lost_notices,
    "announcements": _announcements,
}
