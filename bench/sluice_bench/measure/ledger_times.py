"""Reads the times of admission, claim and commit from the ledger's items."""

import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer
from judging.patience import patient

POLL_S = 0.02


def plain(item: dict) -> dict[str, Any]:
    """A DynamoDB item as plain JSON values: whole numbers as int, other numbers as float."""
    read = TypeDeserializer().deserialize
    return {name: _undecimal(read(value)) for name, value in item.items()}


def _undecimal(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: _undecimal(item) for name, item in value.items()}
    return [_undecimal(item) for item in value] if isinstance(value, list) else value


def object_item(dynamodb: Any, table: str, bucket: str, key: str, version: str) -> dict[str, Any] | None:
    """The item of an object version by a consistent read, or None before its admission."""
    answer = dynamodb.get_item(
        TableName=table, ConsistentRead=True, Key={"pk": {"S": f"object#{bucket}/{key}"}, "sk": {"S": version}}
    )
    return plain(answer["Item"]) if "Item" in answer else None


def lane_item(dynamodb: Any, table: str, lane: str) -> dict[str, Any]:
    """The item of a lane; empty before its first wake-up."""
    answer = dynamodb.get_item(
        TableName=table, ConsistentRead=True, Key={"pk": {"S": f"lane#{lane}"}, "sk": {"S": "lane"}}
    )
    return plain(answer.get("Item", {}))


def batch_items(dynamodb: Any, table: str) -> list[dict[str, Any]]:
    """Every item of every batch: the batch (`sk` batch) and its parts (`sk` table#...). Scans, so for local ledgers."""
    pages = dynamodb.get_paginator("scan").paginate(
        TableName=table,
        ConsistentRead=True,
        FilterExpression="begins_with(pk, :batch)",
        ExpressionAttributeValues={":batch": {"S": "batch#"}},
    )
    return [plain(item) for page in pages for item in page["Items"]]


def await_until(condition: Callable[[], Any], *, timeout_s: float, what: str) -> Any:
    """Poll until the condition is true, and return its value. Raises TimeoutError.

    Waits longer on a slow stack.
    """
    timeout_s = patient(timeout_s)
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {timeout_s:.0f} s")
        time.sleep(POLL_S)
