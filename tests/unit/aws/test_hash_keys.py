"""The key of a table's hashed columns: read from a secret, and never another one under the same name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig
from sluice_aws.errors import HashKeyChanged, HashKeyUnusable
from sluice_aws.hash_keys import HashKeys, marks_key
from sluice_deploy.template import read_template

LONG = "0123456789abcdef0123456789abcdef"
OTHER = LONG[::-1]


class Secrets:
    def __init__(self, **secrets: Any) -> None:
        self.secrets = secrets
        self.reads = 0

    def get_secret_value(self, *, SecretId: str) -> dict[str, Any]:
        self.reads += 1
        secret = self.secrets[SecretId.rpartition("/")[2]]
        if isinstance(secret, Exception):
            raise secret
        return {"SecretBinary" if isinstance(secret, bytes) else "SecretString": secret}


class Documents:
    def __init__(self) -> None:
        self.held: dict[str, Any] = {}

    def get_json(self, bucket: str, key: str) -> Any:
        return self.held.get(key)

    def put_json(self, bucket: str, key: str, document: Any) -> None:
        self.held[key] = document


def table(key: str | None = "shop/one", hash: tuple[str, ...] = ("email",)) -> TableConfig:
    return TableConfig("db.t", "db", "t", "x", ("id",), columns=ColumnRules(hash=hash, key=key))


def keys(secrets: Secrets, documents: Documents, *, leaves_marks: bool = True) -> HashKeys:
    return HashKeys(lambda: secrets, documents, "silver", leaves_marks=leaves_marks)  # type: ignore[arg-type]


def test_a_secret_is_read_once_as_text_or_bytes():
    secrets, documents = Secrets(one=LONG, two=LONG.encode()), Documents()
    held = keys(secrets, documents)
    assert held.of(table()) == held.of(table()) == held.of(table("shop/two")) == LONG.encode()
    assert secrets.reads == 2


def test_a_table_without_hashed_columns_asks_for_no_secret():
    secrets = Secrets()
    assert keys(secrets, Documents()).of(table(None, ())) == b"" and secrets.reads == 0


@pytest.mark.parametrize(
    "secret",
    [
        ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetSecretValue"),
        EndpointConnectionError(endpoint_url="https://s"),
        LONG[1:],
    ],
    ids=["denied", "unreachable", "too short"],
)
def test_a_secret_that_cannot_be_used_stops_its_table_and_not_the_objects(secret: Any):
    with pytest.raises(HashKeyUnusable, match="shop/one") as failed:
        keys(Secrets(one=secret), Documents()).of(table())
    assert failed.value.retriable and LONG[1:] not in f"{failed.value} {failed.value.facts}"


def test_a_secret_with_another_value_is_refused_and_another_name_is_not():
    documents = Documents()
    keys(Secrets(one=LONG), documents).of(table())
    for leaves_marks in (True, False):
        with pytest.raises(HashKeyChanged, match="another value"):
            keys(Secrets(one=OTHER), documents, leaves_marks=leaves_marks).of(table())
    assert keys(Secrets(two=OTHER), documents).of(table("shop/two")) == OTHER.encode()
    assert keys(Secrets(one=LONG), documents).of(table()) == LONG.encode()


def test_a_mark_tells_nothing_of_its_key_and_a_reader_leaves_none():
    documents = Documents()
    keys(Secrets(one=LONG), documents, leaves_marks=False).of(table())
    assert documents.held == {}
    keys(Secrets(one=LONG), documents).of(table())
    assert list(documents.held) == [marks_key("db.t")] and LONG not in json.dumps(documents.held)


@pytest.mark.long
def test_a_job_reads_the_secrets_of_its_stack_and_no_other():
    template = read_template(Path(__file__).resolve().parents[3] / "template.yaml")
    statements = template["Resources"]["JobRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    (reads,) = (one for one in statements if "secretsmanager" in str(one))
    assert reads["Action"] == "secretsmanager:GetSecretValue"
    assert reads["Resource"]["Fn::Sub"].endswith(":secret:${AWS::StackName}/*")
