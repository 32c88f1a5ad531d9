"""Concealed columns on their way into tables: by Arrow and by Spark, in state and history, and read again."""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from support.builders import change, flattened
from support.workbench import REGION, Workbench, table

from sluice.config.rules.columns import ColumnRules
from sluice_aws.hash_keys import HashKeys
from sluice_aws.s3.objects import Objects
from sluice_cli.trace.row_changes import keyed_changes

TEXT = ["null", "string"]
SCHEMA = flattened({"email": TEXT, "card": TEXT, "note": TEXT, "n": ["null", "int"]})
KEY = "0123456789abcdef0123456789abcdef"
NOTE, CARD = "a-note-that-nobody-may-read", "4111222233334444"
RULES = ColumnRules(("note",), {"email": "mail"}, ("email",), "stack/key", {"card": 4})


def row(op: str, lsn: int, email: str | None, n: int = 1) -> dict[str, Any]:
    return change(op, lsn, email=email, card=CARD, note=NOTE, n=n)


def hashed(email: str) -> str:
    return hmac.new(KEY.encode(), email.encode(), "sha256").hexdigest()


def stored_bytes(bench: Workbench, *configs: Any) -> Iterator[bytes]:
    """All files of the tables, and all that is beside them in silver but for bronze's own schemas."""
    for config in configs:
        yield from (path.read_bytes() for path in bench.local_path(config).rglob("*") if path.is_file())
    for entry in bench.s3.list_objects_v2(Bucket=bench.silver)["Contents"]:
        yield bench.s3.get_object(Bucket=bench.silver, Key=entry["Key"])["Body"].read()


@pytest.mark.whole
def test_every_path_into_a_table_stores_the_same_concealed_values(bench: Workbench) -> None:
    secrets = boto3.client(
        "secretsmanager",
        endpoint_url=bench.services.source.endpoint_url,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    secrets.create_secret(Name="stack/key", SecretString=KEY)
    keys = HashKeys(lambda: secrets, Objects(bench.s3), bench.silver, leaves_marks=True)
    bench.services = dataclasses.replace(bench.services, hash_keys=keys)
    here = table(record_key=("mail",), columns=RULES)
    misspelt = dataclasses.replace(RULES, exclude=(*RULES.exclude, "emial"))
    there = table("tasks", record_key=("mail",), columns=misspelt, history=True)
    first = bench.put([row("c", 1, "anne@x"), row("c", 2, "bert@x")], SCHEMA)
    then = bench.put(
        [row("u", 3, "anne@x", 2), row("d", 4, "bert@x"), row("c", 5, "carl@x"), row("c", 6, None)], SCHEMA
    )
    for config in (here, there):
        noted = bool(bench.merge(config, [first]).notes)
        assert noted is (config is there), "a column that no object has is told with the first batch"
        outcome = bench.merge(config, [then])
        assert [count.codes for count in outcome.quarantined_rows] == [{"null_record_key": 1}]
        assert bench.rows(config, "mail", "card", "n", "__deleted") == sorted(
            [
                (hashed("anne@x"), "***4444", 2, False),
                (hashed("bert@x"), None, None, True),
                (hashed("carl@x"), "***4444", 1, False),
            ],
            key=str,
        )
    history = there.history_table
    assert len(bench.rows(history, "mail")) == 5 and {mail for (mail,) in bench.rows(history, "mail")} == {
        hashed(f"{name}@x") for name in ("anne", "bert", "carl")
    }
    for body in stored_bytes(bench, here, there, history):
        assert not any(secret in body for secret in (NOTE.encode(), CARD.encode(), b"anne@x", KEY.encode()))
    body = bench.s3.get_object(Bucket=bench.bronze, Key=then.key)["Body"].read()
    again, _ = keyed_changes(body, then, here, wanted=lambda key: True, types={}, hash_key=KEY.encode())
    assert sorted((key[0], row.values["card"]) for key, row in again) == sorted(
        (hashed(f"{name}@x"), "***4444") for name in ("anne", "bert", "carl")
    )
