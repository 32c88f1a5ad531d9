"""The transactions of LocalStack's DynamoDB as its plugin makes moto undo them, tested on moto itself."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends

pytestmark = pytest.mark.long

# Its package needs LocalStack, it does not.
PACKAGE = Path(__file__).resolve().parents[3] / "local" / "localstack_executor" / "sluice_localstack_executor"
TABLE, REGION = "of-a-test", "eu-central-1"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A table with a stream whose transactions are undone by item, and two items in it."""
    spec = importlib.util.spec_from_file_location("transactions_of_localstack", PACKAGE / "transactions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(DynamoDBBackend, "transact_write_items", DynamoDBBackend.transact_write_items)  # to be restored
    module.undo_by_item()
    names = {"HASH": "pk", "RANGE": "sk"}
    with mock_aws():
        client = boto3.client("dynamodb", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
        client.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": name, "KeyType": of} for of, name in names.items()],
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names.values()],
            StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
        )
        for name in ("kept", "gone"):
            client.put_item(TableName=TABLE, Item={**key(name), "n": {"N": "1"}, "m": {"M": {"of_it": {"S": name}}}})
        yield client


def key(name: str) -> dict[str, dict[str, str]]:
    return {"pk": {"S": "p"}, "sk": {"S": name}}


def actions(condition: str) -> list[dict[str, Any]]:
    """One action of each kind, of which the last holds or doesn't."""
    n, s = {":n": {"N": "2"}}, {":s": {"S": "other"}}
    both = {"UpdateExpression": "SET n = :n, m.of_it = :s", "ExpressionAttributeValues": {**n, **s}}
    one = {"UpdateExpression": "SET n = :n", "ExpressionAttributeValues": n}
    return [
        {"Put": {"TableName": TABLE, "Item": {**key("new"), "n": {"N": "1"}}}},
        {"Update": {"TableName": TABLE, "Key": key("kept"), **both}},
        {"Update": {"TableName": TABLE, "Key": key("made by an update"), **one}},
        {"Delete": {"TableName": TABLE, "Key": key("gone")}},
        {"ConditionCheck": {"TableName": TABLE, "Key": key("absent"), "ConditionExpression": condition}},
    ]


def rows(client: Any) -> list[dict[str, Any]]:
    return sorted(client.scan(TableName=TABLE)["Items"], key=lambda row: row["sk"]["S"])


def records() -> list[str]:
    shard = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables[TABLE].stream_shard
    return [record.to_json()["eventName"] for record in shard.items]


def test_a_successful_transaction_is_applied_whole_and_appears_in_the_stream(table: Any) -> None:
    table.transact_write_items(TransactItems=actions("attribute_not_exists(pk)"))
    expected = [("kept", "2"), ("made by an update", "2"), ("new", "1")]
    assert [(row["sk"]["S"], row["n"]["N"]) for row in rows(table)] == expected
    assert {"INSERT", "MODIFY", "REMOVE"} == set(records()[2:])


def test_a_refused_transaction_leaves_items_and_stream_as_they_were(table: Any) -> None:
    before, summary = rows(table), records()
    with pytest.raises(ClientError, match="ConditionalCheckFailed"):
        table.transact_write_items(TransactItems=actions("attribute_exists(pk)"))
    assert rows(table) == before and records() == summary
    table.transact_write_items(TransactItems=actions("attribute_not_exists(pk)"))
    assert len(rows(table)) == 3
