"""Keys of hashed columns, read from AWS Secrets Manager, which a job without a VPC reaches.

Under another key every value would get another hash, and a hashed record key would name another row. So the first use
of a secret for a table leaves a mark of its key beside the table's schemas, and a secret with another value is refused.
"""

from __future__ import annotations

import hmac
import threading
from typing import Any, Callable

from botocore.exceptions import BotoCoreError, ClientError

from sluice.config.table import TableConfig
from sluice.schema.history import TABLES_PREFIX
from sluice_aws.errors import HashKeyChanged, HashKeyUnusable
from sluice_aws.s3.objects import Objects

LEAST_BYTES = 32  # of a key: as many as a hash of SHA-256 has
_MARKED = b"sluice: the mark of this key"


def marks_key(table: str) -> str:
    """Key of the marks of a table's hash keys in the silver bucket."""
    return f"{TABLES_PREFIX}{table}/hash_keys.json"


def exists(secrets: Any, name: str) -> bool:
    """Whether there is a secret of this name. One that the caller may not look at is taken to exist."""
    try:
        secrets.describe_secret(SecretId=name)
    except ClientError as error:
        return str(error.response.get("Error", {}).get("Code")) != "ResourceNotFoundException"
    except BotoCoreError:
        pass
    return True


class HashKeys:
    """The hash keys of one stack's tables, each read once. Safe to ask from several threads."""

    def __init__(self, secrets: Callable[[], Any], objects: Objects, silver_bucket: str, *, leaves_marks: bool) -> None:
        """`secrets` makes a client of Secrets Manager. A run `leaves_marks`; a reader compares with them."""
        self._secrets = secrets
        self._objects = objects
        self._silver = silver_bucket
        self._leaves_marks = leaves_marks
        self._known: dict[tuple[str, str], bytes] = {}
        self._lock = threading.Lock()

    def of(self, config: TableConfig) -> bytes:
        """The key of a table's hashed columns; empty where it hashes none.

        Raises HashKeyUnusable for a secret that can't be read or is too short, and HashKeyChanged.
        """
        name = config.columns.key
        if name is None or not config.columns.hash:
            return b""
        with self._lock:
            place = (name, config.table)
            if place not in self._known:
                key = self._read(name)
                self._compare(name, key, config.table)
                self._known[place] = key
            return self._known[place]

    def _read(self, name: str) -> bytes:
        try:
            answer = self._secrets().get_secret_value(SecretId=name)
        except (ClientError, BotoCoreError) as error:
            cause = error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__
            raise HashKeyUnusable(f"The secret {name} can't be read: {cause}", secret=name, cause=cause) from error
        text = answer.get("SecretString")
        key = bytes(answer.get("SecretBinary") or b"") if text is None else text.encode("utf-8")
        if len(key) < LEAST_BYTES:
            raise HashKeyUnusable(
                f"The secret {name} has fewer than {LEAST_BYTES} bytes", secret=name, cause="too short"
            )
        return key

    def _compare(self, name: str, key: bytes, table: str) -> None:
        mark = hmac.new(key, _MARKED, "sha256").hexdigest()[:16]
        marks = self._objects.get_json(self._silver, marks_key(table)) or {}
        if marks.get(name, mark) != mark:
            raise HashKeyChanged(f"The secret {name} has another value than when {table} first used it", secret=name)
        if name not in marks and self._leaves_marks:
            self._objects.put_json(self._silver, marks_key(table), {**marks, name: mark})
