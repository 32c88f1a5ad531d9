"""Sets up the surroundings of a sample event of events/ on an emulated AWS: buckets, ledger, object, lane.

    python -m sluice_local.stack.sample_world --endpoint http://127.0.0.1:4566 --out .aws-sam/world admit-s3-put

writes the event with the version of its object, and `names.json` for `sam local invoke --env-vars`.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro

from sluice.admission.notices import parse_body
from sluice.config.document import Configuration
from sluice.config.table import TableRule
from sluice_aws.clients import COMMAND, Clients, Credentials
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_deploy.release import source_root
from sluice_deploy.template import read_template

REGION = "us-west-2"  # the events'
BRONZE = "sluice-bronze-123456789012-us-west-2"
SILVER, ARTIFACTS, LEDGER = "sluice-events-silver", "sluice-events-artifacts", "sluice-events-ledger"
ROLE = "arn:aws:iam::123456789012:role/sluice-job"
RUN = "run-main-20240501T100000Z-0a1b2c3d"
RULE = TableRule("public.orders", ("id",), topic="shop.public.orders")
_SCHEMA = {"type": "record", "name": "shop.public.orders.Value", "fields": [{"name": "id", "type": "long"}]}


def set_up(clients: Clients, name: str, root: Path) -> dict[str, Any]:
    """Set up the surroundings of events/<name>.json anew. Returns the event with its object's version."""
    event: dict[str, Any] = json.loads((root / "events" / f"{name}.json").read_text(encoding="utf-8"))
    _buckets(clients.s3)
    _ledger(clients.dynamodb, root)
    clients.s3.put_object(Bucket=ARTIFACTS, Key="config/tables.json", Body=Configuration((RULE,)).to_json().encode())
    ledger = DynamoDbLedger(clients.dynamodb, LEDGER)
    if name in ("supervise-job-run-failed", "supervise-job-run-cancelled"):
        ledger.lanes.wake("main")
        ledger.lanes.request_start("main", RUN, 1_714_557_600_000)
        ledger.lanes.hold("main", RUN, event["detail"]["jobRunId"], 1, 1_714_557_600_000)
    return _with_object(clients.s3, event)


def names(endpoint: str, emr_endpoint: str, application: str) -> dict[str, str]:
    """The environment of a function. Without a release nothing is started."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT_URL_EMR_SERVERLESS": emr_endpoint,
        "AWS_REGION": REGION,
        "LEDGER_TABLE": LEDGER,
        "BRONZE_BUCKET": BRONZE,
        "SILVER_BUCKET": SILVER,
        "ARTIFACT_BUCKET": ARTIFACTS,
        "APPLICATION_ID": application,
        "JOB_ROLE_ARN": ROLE,
        "RELEASE": "",
        "HUDI_JARS": "file:///usr/lib/hudi/hudi-spark-bundle.jar",
        "EVENT_BUS": "default",
        "STACK_NAME": "sluice-events",
        "RECONCILE_GRACE_SECONDS": "0",
        "POWERTOOLS_METRICS_NAMESPACE": "Sluice/events",
    }


def emulator_clients(endpoint: str) -> Clients:
    """The clients of an emulator, which accepts any credentials."""
    return Clients(region=REGION, endpoint_url=endpoint, options=COMMAND, credentials=Credentials("test", "test"))


def _buckets(s3: Any) -> None:
    for bucket in (BRONZE, SILVER, ARTIFACTS):
        try:
            s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
        except (s3.exceptions.BucketAlreadyOwnedByYou, s3.exceptions.BucketAlreadyExists):
            pass  # of the previous event
    s3.put_bucket_versioning(Bucket=BRONZE, VersioningConfiguration={"Status": "Enabled"})
    listed = s3.list_object_versions(Bucket=BRONZE)
    for version in (*listed.get("Versions", ()), *listed.get("DeleteMarkers", ())):
        s3.delete_object(Bucket=BRONZE, Key=version["Key"], VersionId=version["VersionId"])


def _ledger(dynamodb: Any, root: Path) -> None:
    declared: Mapping[str, Any] = read_template(root / "template.yaml")["Resources"]["Ledger"]["Properties"]
    try:
        dynamodb.delete_table(TableName=LEDGER)
        dynamodb.get_waiter("table_not_exists").wait(TableName=LEDGER)
    except dynamodb.exceptions.ResourceNotFoundException:
        pass  # this is the first event
    dynamodb.create_table(
        TableName=LEDGER,
        **{
            name: declared[name]
            for name in ("BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
        },
    )
    dynamodb.get_waiter("table_exists").wait(TableName=LEDGER)


def _with_object(s3: Any, event: dict[str, Any]) -> dict[str, Any]:
    """Put the object that the event announces, and set the event's version to the object's."""
    bodies = [record["body"] for record in event.get("Records", ()) if "body" in record]
    announced = {notice.id for body in bodies for notice in parse_body(body).notices}
    for id in announced:
        if id.bucket == BRONZE and id.version_id:
            written = io.BytesIO()
            fastavro.writer(written, fastavro.parse_schema(_SCHEMA), [{"id": 1}])
            version = s3.put_object(Bucket=BRONZE, Key=id.key, Body=written.getvalue())["VersionId"]
            for record in event["Records"]:
                record["body"] = record["body"].replace(id.version_id, version)
    return event


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m sluice_local.stack.sample_world", description="Set up the surroundings of a sample event."
    )
    parser.add_argument("event", help="a file of events/, without .json")
    parser.add_argument("--endpoint", required=True, help="the emulator's address, as the function reaches it")
    parser.add_argument(
        "--emr-endpoint", default="", help="the address of the EMR Serverless stand-in (default: the emulator's)"
    )
    parser.add_argument("--application", default="00f1982r1uukb925", help="an application of it")
    parser.add_argument("--out", type=Path, required=True, help="a folder for event.json and names.json")
    given = parser.parse_args(list(arguments))
    root = source_root()
    if not (root / "events" / f"{given.event}.json").is_file():
        parser.error(f"there is no events/{given.event}.json")
    event = set_up(emulator_clients(given.endpoint), given.event, root)
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "event.json").write_text(json.dumps(event, indent=2))
    (given.out / "names.json").write_text(
        json.dumps(
            {"Parameters": names(given.endpoint, given.emr_endpoint or given.endpoint, given.application)}, indent=2
        )
    )
    print(f"{given.out}/event.json and {given.out}/names.json")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
