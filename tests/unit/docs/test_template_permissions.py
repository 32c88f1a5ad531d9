"""Permissions of template.yaml that an emulator doesn't check."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from emulation.iam_enforcement import ACCOUNT, REGION, Role
from emulation.job_role import job_names
from support.sam_template import RESOURCES, TEMPLATE

from sluice.ledger.keys import CLAIMED, COMMITTED


def statements(role: str) -> list[dict[str, Any]]:
    listed = RESOURCES[role]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    return [one["Fn::If"][1] if "Fn::If" in one else one for one in listed]  # with every condition met


def actions(statement: dict[str, Any]) -> list[str]:
    return statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]


def listed_buckets(role: str) -> list[dict[str, Any]]:
    lists = [one["Resource"] for one in statements(role) if "s3:ListBucket" in actions(one)]
    return [resource["Fn::Sub"][1] for resource in lists if isinstance(resource, dict)]


LEDGER_STREAM = RESOURCES["AnnounceFunction"]["Properties"]["Events"]["Ledger"]["Properties"]


@pytest.mark.parametrize("role", ["JobRole", "AdmitRole", "ReconcileRole"])
def test_every_role_that_reads_bronze_may_list_it_to_distinguish_404_from_403(role: str) -> None:
    reads = next(one for one in statements(role) if "s3:GetObjectVersion" in actions(one))
    assert reads["Resource"]["Fn::Sub"][1] in listed_buckets(role)


@pytest.mark.parametrize("role", ["AdmitRole", "ReconcileRole"])
def test_every_role_that_admits_may_read_and_list_schema_histories(role: str) -> None:
    keeps = next(one for one in statements(role) if "s3:PutObject" in actions(one))
    assert "s3:GetObject" in actions(keeps) and keeps["Resource"]["Fn::Sub"][0].endswith("/_sluice/schemas/*")
    assert keeps["Resource"]["Fn::Sub"][1] in listed_buckets(role)


def test_what_the_stream_gives_up_goes_to_a_queue_that_announce_may_send_to() -> None:
    on_failure = LEDGER_STREAM["DestinationConfig"]["OnFailure"]
    assert on_failure["Type"] == "SQS"
    assert RESOURCES[on_failure["Destination"]["Fn::GetAtt"][0]]["Type"] == "AWS::SQS::Queue"
    sends = [one["Resource"] for one in statements("AnnounceRole") if "sqs:SendMessage" in actions(one)]
    assert sends == [on_failure["Destination"]]


def test_announce_changes_nothing_of_the_ledger_but_what_was_announced() -> None:
    (changes,) = [one for one in statements("AnnounceRole") if "dynamodb:UpdateItem" in actions(one)]
    assert changes["Condition"] == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["batch#*", "event#*"]}}
    allowed = {action for one in statements("AnnounceRole") for action in actions(one)}
    assert not {"dynamodb:PutItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"} & allowed


@pytest.mark.parametrize("role", ["AnnounceRole", "ReconcileRole", "SuperviseRole"])
def test_whoever_announces_may_put_events_on_the_one_bus(role: str) -> None:
    (puts,) = [one for one in statements(role) if "events:PutEvents" in actions(one)]
    assert puts["Resource"]["Fn::Sub"].endswith(":event-bus/${EventBusName}")


def test_the_notes_that_announce_makes_do_not_call_it_again() -> None:
    wanted = json.loads(LEDGER_STREAM["FilterCriteria"]["Filters"][0]["Pattern"])["dynamodb"]
    assert (wanted["OldImage"]["state"]["S"], wanted["NewImage"]["state"]["S"]) == ([CLAIMED], [COMMITTED])


def test_the_stream_has_as_many_filters_as_lambda_takes_without_a_quota() -> None:
    assert len(LEDGER_STREAM["FilterCriteria"]["Filters"]) == 5


@pytest.mark.parametrize(
    ("configured", "database", "allowed"),
    [
        ("*", "anything", True),
        ("crm", "crm", True),
        ("crm", "shop", False),
        ("crm,shop_*,a,b", "shop_eu", True),
        ("crm,shop_*,a,b", "b", True),
        ("crm,shop_*,a,b", "shop", False),
    ],
)
def test_the_catalog_sync_changes_the_databases_that_a_parameter_names(
    configured: str, database: str, allowed: bool
) -> None:
    assert re.fullmatch(TEMPLATE["Parameters"]["CatalogDatabases"]["AllowedPattern"], configured)
    names = job_names("a", region=REGION, ledger="l", bronze="b", silver="s", artifacts="t")
    role = Role("SyncCatalogRole", {**names, "SyncCatalogLogs.Arn": "logs", "CatalogDatabases": configured})
    for resource in (f"database/{database}", f"table/{database}/orders"):
        asked = ("glue:UpdateTable", f"arn:aws:glue:{REGION}:{ACCOUNT}:{resource}", {})
        assert role.allows(asked) is allowed


def test_the_catalog_sync_may_call_what_it_calls_and_delete_no_table() -> None:
    (keeps,) = [one for one in statements("SyncCatalogRole") if any("glue:" in action for action in actions(one))]
    module = Path(__file__).resolve().parents[3] / "functions" / "sluice_aws" / "catalog" / "glue.py"
    source = module.read_text(encoding="utf-8")
    called = {*re.findall(r"self\._glue\.([a-z_]+)\(", source), *re.findall(r'get_paginator\("([a-z_]+)"', source)}
    names = {"".join(word.title() for word in name.split("_")) for name in called - {"get_paginator"}}
    assert {f"glue:{name}" for name in names} == set(actions(keeps))
    reads = [one for one in statements("SyncCatalogRole") if actions(one) == ["s3:GetObject"]]
    places = [one["Resource"]["Fn::Sub"][0].rsplit(":::", 1)[1] for one in reads]
    assert places == ["${Bucket}/*/.hoodie/*", "${Bucket}/_sluice/schemas/*", "${Bucket}/config/*"]
