"""A column that is hashed with a key of Secrets Manager, on the local stack: by a job that a release brought there."""

import hashlib
import hmac
import secrets

import pytest
from judging.running_stack import RunningStack

from sluice_read.reading import read_table

pytestmark = pytest.mark.timeout(600)


def test_a_column_is_hashed_with_the_key_that_secrets_manager_holds(stack: RunningStack) -> None:
    topic, key = f"crm.h{secrets.token_hex(3)}", secrets.token_hex(32)
    name = f"{stack.target.stack}/{topic}"
    stack.target.client("secretsmanager").create_secret(Name=name, SecretString=key)
    stack.configure([{"topic": topic, "table": topic, "record_key": "id", "columns": {"hash": "mail", "key": name}}])
    body = b'{"id": 1, "mail": "anne@x"}\n{"id": 2, "mail": null}\n'
    stack.put(f"topics/{topic}/{topic}+0+0.json", body)
    stack.wait(240)
    hashed = hmac.new(key.encode(), b"anne@x", hashlib.sha256).hexdigest()
    rows = sorted((row["id"], row["mail"]) for row in read_table(stack.target, topic).to_pylist())
    assert rows == [(1, hashed), (2, None)]
