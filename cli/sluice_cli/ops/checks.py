"""The checks of `sluice doctor`, by what they are about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from sluice.batch.claim import TableState
from sluice.config.table import kept_history
from sluice.errors import TableWentBack
from sluice.lane.machine import HALTED, PAUSED, RUNNING, STARTING
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.lifecycle import expiring
from sluice_aws.s3.lost_properties import lost_properties
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.settings import NO_RELEASE
from sluice_aws.stack import LOCAL, Target
from sluice_cli.account.lane import resumed, steps_of_lane
from sluice_cli.account.service import service_entries
from sluice_cli.account.stack import (
    ANNOUNCED,
    RULES_PUSHED,
    anew,
    entries_decided,
    files_back,
    notices_again,
    restored_ledger,
    space_made,
)
from sluice_cli.account.table import steps_of_table
from sluice_cli.errors import BucketElsewhere
from sluice_cli.ingest.set_aside import in_quarantine
from sluice_cli.ops.adopt_bucket import announces, configured, has_rule, queue_arn, region_of
from sluice_cli.ops.findings import FAIL, OK, WARN, Finding
from sluice_cli.status.overview import lanes_and_tables
from sluice_cli.terminal.step import completed, in_order
from sluice_cli.terminal.words import counted, human_bytes
from sluice_deploy.release import distribution_version

RELEASES = "emr-7."
FAILS_AGAIN = 2  # failures of a table in a row: one may pass
NO_SPACE = 64 << 20  # bytes: a function of a local stack unpacks 30 MB before it starts
ANNOUNCED_WITHIN_MS = 3_600_000  # the stream takes a second, its retries minutes, reconcile runs every 15 minutes


def _bronze(target: Target) -> Iterator[Finding]:
    s3 = target.client("s3")
    if region_of(s3, target.bronze) not in (None, target.region):
        yield _far("bronze region", target.bronze, target)
    versioned = s3.get_bucket_versioning(Bucket=target.bronze).get("Status") == "Enabled"
    lost = f"{target.bronze} keeps no versions: objects overwritten before they are read are lost"
    advice = f"`aws s3api put-bucket-versioning --bucket {target.bronze} --versioning-configuration Status=Enabled`"
    yield _judged("bronze bucket", versioned, f"{target.bronze} keeps versions", lost, advice)
    notices = configured(s3.get_bucket_notification_configuration(Bucket=target.bronze))
    announced = announces(notices, queue=queue_arn(target), by_event_bus=has_rule(target))
    result, to = (WARN, "to others only") if notices else (FAIL, "nothing")
    text = f"the bucket announces {to}: the schedule must find its objects"
    fine = "the bucket announces its objects"
    yield _judged("bronze notices", announced, fine, text, str(ANNOUNCED), result=result)


def _judged(about: str, is_well: bool, fine: str, wrong: str, advice: str, *, result: str = FAIL) -> Finding:
    """What a check found: that all `is_well`, or what is wrong, and what to do."""
    return Finding(about, OK, fine) if is_well else Finding(about, result, wrong, advice)


def _far(about: str, bucket: str, target: Target) -> Finding:
    return Finding(
        about,
        FAIL,
        f"{bucket} is in another Region than the stack ({target.region}), where neither its notices nor runs reach it",
        BucketElsewhere.next_step,
    )


def _places(target: Target) -> Iterator[Finding]:
    s3 = target.client("s3")
    for about, bucket in (("silver bucket", target.silver), ("artifact bucket", target.artifacts)):
        here = region_of(s3, bucket) in (None, target.region)
        yield Finding(about, OK, f"{bucket} exists") if here else _far(about, bucket, target)
    for rule in expiring(s3, target.silver):
        goes = f"its lifecycle rule {rule.name!r} {rule.effect} {rule.which}"
        lost = "a table's newest files may be of any age, and rows go with them"
        yield Finding("silver lifecycle", FAIL, f"{goes}: {lost}", files_back())
    dynamodb = target.client("dynamodb")
    try:
        state = dynamodb.describe_table(TableName=target.ledger_table)["Table"]["TableStatus"]
    except dynamodb.exceptions.ResourceNotFoundException:
        step = anew() if target.kind == LOCAL else restored_ledger()
        yield Finding("ledger", FAIL, f"{target.ledger_table} is gone: nothing works without it", step)
        return
    waits = "Nothing is admitted until it is ACTIVE"
    of = target.ledger_table
    yield _judged("ledger", state == "ACTIVE", f"{of} is active", f"{of} is {state}", waits)


def _application(target: Target) -> Iterator[Finding]:
    application = target.outputs.get("ApplicationId")
    if application is None:
        yield Finding("application", FAIL, "the stack has no output ApplicationId", "Deploy the template again")
        return
    app = target.client("emr-serverless").get_application(applicationId=application)["application"]
    architecture = app.get("architecture", "X86_64")
    summary = f"{app['applicationId']}: {app['releaseLabel']}, {architecture}, {app['state'].lower()}"
    if app["state"] == "TERMINATED" or app["type"].upper() != "SPARK":
        summary = f"{summary}, of type {app['type']}"
        advice = "Deploy the template again, or correct the parameter ApplicationId"
    elif not app["releaseLabel"].startswith(RELEASES):
        summary = f"{summary}; Sluice is built for {RELEASES}x: Spark 3.5, Scala 2.12, Python 3.9 or 3.11"
        advice = "Deploy with another EmrRelease or, for an existing application, another ApplicationId"
    else:
        yield Finding("application", OK, summary, facts={"release": app["releaseLabel"], "state": app["state"]})
        return
    yield Finding("application", FAIL, summary, advice)


def _release(target: Target) -> Iterator[Finding]:
    release = target.outputs.get("Release", "")
    if release in NO_RELEASE:
        none = "none is set: objects are admitted, but no run is started"
        yield Finding("release", FAIL, none, "`make deploy` uploads one and sets it")
        return
    manifest = target.objects.get(target.artifacts, f"releases/{release}/release.json")
    if manifest is None:
        step = anew() if target.kind == LOCAL else "`make deploy` uploads it"
        yield Finding("release", FAIL, f"{release} is set, but missing from s3://{target.artifacts}", step)
        return
    built = json.loads(manifest.data)
    made_by = [f"sluice {built['sluice']}"] if built.get("sluice") else []
    made_by += [f"commit {built['commit']}"] if built.get("commit") else []
    own = distribution_version()
    if built.get("sluice", own) != own:
        yield Finding(
            "release",
            WARN,
            f"{', '.join([release, *made_by])}; this command is sluice {own}",
            "Use the command of the release, or `make deploy` with this one",
            facts={"release": release, "sluice": built["sluice"], "commit": built.get("commit")},
        )
    else:
        yield Finding("release", OK, ", ".join([release, *made_by]))


def _configuration(target: Target) -> Iterator[Finding]:
    configuration = target.configuration(without_ledger=True)
    if configuration is None:
        yield Finding("configuration", FAIL, "none was ever pushed: all objects are parked", str(RULES_PUSHED))
    else:
        rules = counted(len(configuration.rules), "rule")
        yield Finding("configuration", OK, f"{rules}, version {configuration.version[:12]}")


def _lanes(target: Target) -> Iterator[Finding]:
    for lane in lanes_and_tables(target.ledger, epoch_ms())[0]:
        failed, state = lane["failures"], lane["state"]
        result = FAIL if state == HALTED else WARN if state == PAUSED or failed or lane["stuck"] else OK
        text = lane["summary"]
        if failed and state in (STARTING, RUNNING):
            text = f"{text}, after {counted(failed, 'failed run')}"
        yield Finding(f"lane {lane['lane']}", result, text, in_order(steps_of_lane(lane)))


def _tables(target: Target) -> Iterator[Finding]:
    silver = TimelineReader(target.silver_files)
    ledger = target.ledger
    _, listed = lanes_and_tables(ledger, epoch_ms(), target.config_store.load())
    described = {table["table"]: table for table in listed}
    lanes = {name: table["lane"] for name, table in described.items()}
    for table in ledger.tables.all():
        if table.last_instant and not table.rebuild and lost_properties(silver.files, table.table):
            lost = TableWentBack.without_properties(table.table, table.last_instant)
            step = completed(lost.next_step, TABLE=table.table)
            yield Finding(f"table {table.table}", FAIL, lost.message, step)
        elif (of_table := described[table.table])["blocked"]:
            yield Finding(f"table {table.table}", FAIL, of_table["blocked"], of_table["next_step"])
        elif gone := _gone(table, silver):
            step = completed(TableWentBack.next_step, TABLE=table.table, LANE=lanes[table.table])
            text = f"{gone} is gone: it was deleted, or restored to an earlier state"
            yield Finding(f"table {table.table}", FAIL, text, step)
        elif table.last_error and described[table.table]["last_error"]:
            result = WARN if table.failures < FAILS_AGAIN else FAIL
            text = f"{counted(table.failures, 'failure')}: {table.last_error.splitlines()[0][:300]}"
            step = in_order(steps_of_table(described[table.table], resumed(lanes[table.table])))
            yield Finding(f"table {table.table}", result, text, step)


def _gone(table: TableState, silver: TimelineReader) -> str:
    """Which last commit in the ledger the table or its history table lacks; empty for none. One LIST each then."""
    history_name = kept_history(table.pinned)
    history = f"{table.table.partition('.')[0]}.{history_name}" if history_name else ""
    of_history = (history, table.history_instant if history else None, f"the last commit of {history}")
    for name, last, said in ((table.table, table.last_instant, "its last commit"), of_history):
        if last is None or table.rebuild or silver.timeline(name, since=last).holds(last):
            continue
        if silver.timeline(name).lacks(last):
            return f"{said} {last}"
    return ""


def _catalog(target: Target) -> Iterator[Finding]:
    states = target.ledger.tables.all()
    for entry in service_entries(states, ()):
        if entry["error"]:
            text = f"its catalog sync failed: {entry['error']['code']}"
            yield Finding(f"catalog {entry['table']}", WARN, text, str(entry["error"]["message"]))


def _set_aside(target: Target) -> Iterator[Finding]:
    aside = in_quarantine(target.ledger)
    if not aside.objects and not aside.rows:
        yield Finding("quarantine", OK, "empty")
    else:
        facts = {"objects": aside.objects, "rows": aside.rows}
        yield Finding("quarantine", WARN, f"not merged: {aside.described}", entries_decided(), facts)


def _lost_notices(target: Target) -> Iterator[Finding]:
    url = target.outputs.get("DeadLetterQueueUrl")
    if url is None:
        yield Finding("lost notices", WARN, "the stack has no output DeadLetterQueueUrl", "Deploy the template again")
        return
    attributes: dict[str, Any] = target.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
    )["Attributes"]
    waiting = int(attributes.get("ApproximateNumberOfMessages", 0))
    number = counted(waiting, "message")
    yield _judged("lost notices", not waiting, "none", f"{number} in the dead-letter queue", notices_again())


def _announcements(target: Target) -> Iterator[Finding]:
    owed = target.ledger.batches.unannounced(epoch_ms() - ANNOUNCED_WITHIN_MS)
    oldest = next(owed, None)
    if oldest is None:
        yield Finding("announcements", OK, "all committed batches are announced")
    else:
        owes = f"batch {oldest['batch']} was committed over an hour ago and not announced"
        advice = "Check the logs of announce and reconcile: the event bus refuses events or is missing"
        yield Finding("announcements", FAIL, owes, advice)


def _disk(target: Target) -> Iterator[Finding]:
    left = target.space_left
    if left is None:
        return
    summary = f"{human_bytes(left)} left for {target.home}"
    full = f"{summary}: functions and runs fail, and nothing is merged"
    yield _judged("disk", left >= NO_SPACE, summary, full, space_made())


CHECKS: dict[str, Callable[[Target], Iterator[Finding]]] = {
    "bronze bucket": _bronze,
    "buckets and ledger": _places,
    "application": _application,
    "release": _release,
    "configuration": _configuration,
    "lanes": _lanes,
    "tables": _tables,
    "catalog": _catalog,
    "quarantine": _set_aside,
    "lost notices": _lost_notices,
    "announcements": _announcements,
    "disk": _disk,
}
