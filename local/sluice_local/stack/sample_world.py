"""Sets up the surroundings of a sample event of events/ on an emulated AWS: buckets, ledger, object, lane.

    python -m sluice_local.stack.sample_world --endpoint http://172.17.0.1:4566 --out .aws-sam/world admit-s3-put

writes the event with the version of its object, and a template for `sam local invoke --template`, whose functions have
the emulator's address. SAM's `--env-vars` drops variables that a template doesn't name: the function would call AWS.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError
from botocore.parsers import ResponseParserError

from sluice.admission.notices import parse_body
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice_aws.clients import COMMAND, Clients, Credentials
from sluice_aws.ledger.ledger import Ledger
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
    ledger = Ledger(clients.dynamodb, LEDGER)
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


def template_for(
    template: Mapping[str, Any], package: Path, variables: Mapping[str, str], machine: str
) -> dict[str, Any]:
    """The template whose functions have these variables and this package, and run on a machine's own processor."""
    changed: dict[str, Any] = copy.deepcopy(dict(template))
    changed["Parameters"]["Architecture"]["Default"] = "arm64" if machine in ("arm64", "aarch64") else "x86_64"
    for resource in changed["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            properties = resource["Properties"]
            properties["CodeUri"] = str(package)
            own = properties.get("Environment", {}).get("Variables", {})
            properties["Environment"] = {"Variables": {**own, **variables}}
    return changed


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
    root = source_root()
    given = _given(arguments, root)
    inside = given.inside or given.endpoint
    try:
        event = set_up(emulator_clients(given.endpoint), given.event, root)
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "event.json").write_text(json.dumps(event, indent=2))
        template = template_for(
            read_template(root / "template.yaml"),
            given.package.absolute(),
            names(inside, given.emr_endpoint or inside, given.application),
            platform.machine(),
        )
        (given.out / "template.json").write_text(json.dumps(template, indent=2))
    except EndpointConnectionError:
        return _failed(
            f"nothing answers at {given.endpoint}. Start an emulator there: "
            "`sluice local up --port 4566 --bind 0.0.0.0`, in a folder of its own"
        )
    except (BotoCoreError, ClientError, ResponseParserError) as error:
        return _failed(f"{given.endpoint} did not answer as an emulator of AWS does: {error}")
    except OSError as error:
        return _failed(f"{error.filename} can't be written: {error.strerror}")
    print(f"{given.out}/event.json and {given.out}/template.json")
    return 0


def _given(arguments: Sequence[str], root: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sluice_local.stack.sample_world", description="Set up the surroundings of a sample event."
    )
    parser.add_argument("event", help="a file of events/, without .json")
    parser.add_argument(
        "--endpoint", required=True, type=_url, help="the emulator's address, such as http://127.0.0.1:4566"
    )
    parser.add_argument(
        "--inside", type=_url, help="its address as a function in a container reaches it, if that is another one"
    )
    parser.add_argument(
        "--emr-endpoint", type=_url, help="the address of the EMR Serverless stand-in (default: the emulator's)"
    )
    parser.add_argument("--application", default="00f1982r1uukb925", help="an application of it")
    parser.add_argument("--out", type=Path, required=True, help="a folder for event.json and template.json")
    parser.add_argument(
        "--package", type=Path, default=Path(".aws-sam/functions.zip"), help="the functions, as `make build` packs them"
    )
    given = parser.parse_args(list(arguments))
    events = sorted(path.stem for path in (root / "events").glob("*.json"))
    if given.event not in events:
        parser.error(f"there is no events/{given.event}.json: one of {', '.join(events)}")
    return given


def _url(text: str) -> str:
    """The address of a server. Raises argparse.ArgumentTypeError."""
    try:
        url = urlsplit(text)
        whole = url.scheme in ("http", "https") and url.hostname and url.port != 0 and url.path in ("", "/")
    except ValueError:  # a port that is no number, an open bracket
        whole = False
    if not whole:
        raise argparse.ArgumentTypeError(f"{text!r} is no address such as http://127.0.0.1:4566")
    return text.rstrip("/")


def _failed(text: str) -> int:
    print(f"error: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
