"""What the tests on AWS emulated in this process share."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from emulated_aws import emulated_aws
from in_one_process import command_line_built_once, endpoints_found_once  # noqa: F401


@pytest.fixture(scope="module")
def emulated() -> Iterator[Any]:
    """A DynamoDB client of an emulator that is empty at first: each test makes its tables and deletes them."""
    with emulated_aws():
        yield boto3.client("dynamodb", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
