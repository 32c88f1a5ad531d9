"""AWS in the tests' own memory: DynamoDB and S3 are MiniStack's, which the local stack runs too, and everything else is moto's."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import boto3
import botocore.handlers
import pytest
from botocore.awsrequest import AWSResponse
from botocore.endpoint import convert_to_response_dict
from botocore.parsers import ResponseParserFactory
from ministack.core.responses import request_scope
from ministack.services import dynamodb, s3
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID

#: `moto` runs the same tests on moto's DynamoDB and S3, which take several times as long: they copy their tables for every write.
EMULATOR_VARIABLE = "SLUICE_TEST_EMULATOR"
AWS = ".amazonaws.com"


class _Body(io.BytesIO):
    """A body as botocore reads it."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


class _MiniStack:
    """One service of MiniStack, called as soon as botocore has checked and serialized what was asked; silent outside `emulated_aws`.

    The answer goes through botocore's own parser. What is left out lies between: signing, connections, retries.
    One request at a time, as in its own server's loop: nothing else keeps its tables whole.
    """

    def __init__(self, service: Any) -> None:
        self.on = False
        self._service = service
        self._one_at_a_time = threading.Lock()
        self._parsers = ResponseParserFactory()

    def __call__(
        self, model: Any, params: dict[str, Any], context: dict[str, Any], **_: Any
    ) -> tuple[AWSResponse, dict[str, Any]] | None:
        url = urlsplit(params["url"])
        host = url.hostname or ""
        if not self.on or not host.endswith(AWS):
            return None
        bucket, dot, _ = host.partition(".s3.")  # S3's bucket is named by the host, or first in the path
        path = f"/{bucket}{unquote(url.path)}" if dot else unquote(url.path)
        headers = {
            name.lower(): value.decode() if isinstance(value, bytes) else str(value)
            for name, value in params["headers"].items()
        }
        sent = params["body"].read() if hasattr(params["body"], "read") else params["body"]
        body = sent.encode() if isinstance(sent, str) else bytes(sent)
        with self._one_at_a_time, request_scope(DEFAULT_ACCOUNT_ID, context["client_region"]):
            status, answered, content = _result(
                self._service.handle_request(
                    params["method"], path, headers, body, parse_qs(url.query, keep_blank_values=True)
                )
            )
        content = content.encode() if isinstance(content, str) else content  # of some answers of S3 about a bucket
        http = AWSResponse(params["url"], status, answered, _Body(b"" if params["method"] == "HEAD" else content))
        return http, self._parsed(http, model)

    def _parsed(self, http: AWSResponse, model: Any) -> dict[str, Any]:
        """What botocore makes of a response: the answer, or the error with the fields of its own kind."""
        response = convert_to_response_dict(http, model)
        parser = self._parsers.create_parser(model.service_model.resolved_protocol)
        parsed: dict[str, Any] = parser.parse(response, model.output_shape)
        if http.status_code >= 300:
            shape = model.service_model.shape_for_error_code(parsed["Error"]["Code"])
            if shape is not None:
                parsed.update(parser.parse(response, shape))
        return parsed


_MINISTACK = {"dynamodb": _MiniStack(dynamodb), "s3": _MiniStack(s3)}


@contextmanager
def emulated_aws() -> Iterator[None]:
    """An empty AWS, for clients that are made while it is there."""
    if os.environ.get(EMULATOR_VARIABLE) == "moto":
        with mock_aws():
            yield
        return
    for name, service in _MINISTACK.items():
        handler = (f"before-call.{name}", service)
        if (
            handler not in botocore.handlers.BUILTIN_HANDLERS
        ):  # as moto does: every session that is made from now on has it
            botocore.handlers.BUILTIN_HANDLERS.append(handler)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            dynamodb, "copy", SimpleNamespace(deepcopy=_copied)
        )  # of every item that it writes, several times
        patch.setattr(
            "moto.core.models.RESPONSES_METHODS", []
        )  # over a thousand answers for the `requests` package, which nothing here uses
        with mock_aws():
            _turn(on=True)
            try:
                yield
            finally:
                _turn(on=False)


class SharedSession:
    """A boto3 session of one region whose clients are made once for all tests: making one costs more than most tests do with it.

    What the emulator doesn't see of a client (credentials, addresses) must be the same for all who ask for it.
    """

    def __init__(self, region: str) -> None:
        self.region_name = region
        self._made: dict[str, Any] = {}

    @cached_property
    def _session(self) -> boto3.Session:
        """Made with the first client, when the emulators are there."""
        return boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=self.region_name)

    @property
    def events(self) -> Any:
        return self._session.events

    def client(self, service: str, **arguments: Any) -> Any:
        named = f"{service} {sorted(arguments)} {arguments.get('endpoint_url')}"
        if named not in self._made:
            self._made[named] = self._session.client(service, **arguments)
        return self._made[named]


def _turn(*, on: bool) -> None:
    for module in (dynamodb, s3):
        module.reset()
    for service in _MINISTACK.values():
        service.on = on


def _copied(item: Any) -> Any:
    """A deep copy of what an item can hold, which is what JSON can."""
    if isinstance(item, dict):
        return {name: _copied(value) for name, value in item.items()}
    return [_copied(value) for value in item] if isinstance(item, list) else item


def _result(coroutine: Any) -> Any:
    """What a coroutine returns that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("the emulator waits for something")
