"""What `sluice local down --keep` keeps: buckets with every version, and tables, as they were."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from emulation.aws import client_of

from sluice_local.emulators.emulator import Emulator
from sluice_local.emulators.ministack import start_ministack
from sluice_local.emulators.ministack_program import ASKED, COMPLETE

pytestmark = pytest.mark.long


def written(emulator: Emulator) -> None:
    s3, dynamodb = client_of(emulator, "s3"), client_of(emulator, "dynamodb")
    s3.create_bucket(Bucket="bronze")
    s3.put_bucket_versioning(Bucket="bronze", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"first", b"second"):
        s3.put_object(Bucket="bronze", Key="a/é", Body=body)
    s3.put_object(Bucket="bronze", Key="gone", Body=b"x")
    s3.delete_object(Bucket="bronze", Key="gone")
    dynamodb.create_table(
        TableName="ledger",
        KeySchema=[{"AttributeName": "k", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "k", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    dynamodb.put_item(TableName="ledger", Item={"k": {"S": "1"}, "n": {"N": "2"}, "b": {"B": b"\x00\xff"}})


def held(emulator: Emulator) -> list[Any]:
    s3, dynamodb = client_of(emulator, "s3"), client_of(emulator, "dynamodb")
    listed, names = s3.list_object_versions(Bucket="bronze"), ("Key", "VersionId", "ETag", "IsLatest", "LastModified")
    places = [{"Key": item["Key"], "VersionId": item["VersionId"]} for item in listed["Versions"]]
    return [
        sorted(tuple(item[name] for name in names) for item in listed["Versions"]),
        [(item["Key"], item["VersionId"]) for item in listed["DeleteMarkers"]],
        sorted(s3.get_object(Bucket="bronze", **place)["Body"].read() for place in places),
        dynamodb.get_item(TableName="ledger", Key={"k": {"S": "1"}})["Item"],
    ]


@pytest.mark.parametrize("asked", [True, False], ids=["kept", "discarded"])
def test_the_next_emulator_has_the_same_buckets_and_tables_where_that_was_asked(tmp_path: Path, asked: bool) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    first = start_ministack(tmp_path / "first", port=None, environment=os.environ, folder=folder)
    try:
        written(first)
        before = held(first)
        if asked:
            (folder / ASKED).touch()
    finally:
        first.stop(keeps=asked)
    assert (folder / COMPLETE).exists() == asked and not (folder / ASKED).exists()
    if not asked:
        assert list(folder.iterdir()) == []
        return
    second = start_ministack(tmp_path / "second", port=first.port, environment=os.environ, folder=folder)
    try:
        assert held(second) == before
    finally:
        second.stop()
