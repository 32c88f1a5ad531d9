"""AWS in the tests' own memory: DynamoDB is MiniStack's, which the local stack runs too, and everything else is moto's."""
from __future__ import annotations

import io
import os
import re
import threading
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional
from urllib.parse import urlsplit

import botocore.handlers
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from ministack.core.responses import request_scope
from ministack.services import dynamodb
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID

#: `moto` runs the same tests on moto's DynamoDB, which takes several times as long: it copies its tables for every write.
DYNAMODB_VARIABLE = "SLUICE_TEST_DYNAMODB"
_REGION = re.compile(r"Credential=[^/]+/\d+/([^/]+)/")  # of a signature of version 4


class _Answer(io.BytesIO):
    """A body as botocore reads it."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


class _DynamoDB:
    """MiniStack's DynamoDB, called where botocore would send a request; silent outside `emulated_aws`.

    One request at a time, as in its own server's loop: nothing else keeps its tables whole.
    """

    def __init__(self) -> None:
        self.on = False
        self._one_at_a_time = threading.Lock()

    def __call__(self, request: AWSPreparedRequest, **_: Any) -> Optional[AWSResponse]:
        if not self.on or not (urlsplit(request.url).hostname or "").endswith(".amazonaws.com"):
            return None
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        region = _REGION.search(headers.get("authorization", ""))
        assert region is not None, "the request isn't signed"
        with self._one_at_a_time, request_scope(DEFAULT_ACCOUNT_ID, region.group(1)):
            status, answered, body = _result(dynamodb.handle_request(request.method, "/", headers, request.body, {}))
        return AWSResponse(request.url, status, answered, _Answer(body))


_DYNAMODB = _DynamoDB()


@contextmanager
def emulated_aws() -> Iterator[None]:
    """An empty AWS, for clients that are made while it is there."""
    if os.environ.get(DYNAMODB_VARIABLE) == "moto":
        with mock_aws():
            yield
        return
    handler = ("before-send.dynamodb", _DYNAMODB)
    if handler not in botocore.handlers.BUILTIN_HANDLERS:  # as moto does: every session that is made from now on has it
        botocore.handlers.BUILTIN_HANDLERS.append(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("moto.core.models.RESPONSES_METHODS", [])  # over a thousand answers for the `requests` package, which nothing here uses
        with mock_aws(config={"core": {"passthrough": {"urls": [r"https?://dynamodb\."]}}}):
            dynamodb.reset()
            _DYNAMODB.on = True
            try:
                yield
            finally:
                _DYNAMODB.on = False
                dynamodb.reset()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _result(coroutine: Any) -> Any:
    """What a coroutine returns that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("the emulator waits for something")
