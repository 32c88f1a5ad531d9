"""AWS in the tests' own process: DynamoDB and S3 are MiniStack, which the local stack runs too, the rest is moto.

Clients are botocore's own. Where botocore would send a request, at its `before-send` event, MiniStack's ASGI
application answers, as moto answers for the other services. Calls of DynamoDB, which most are, leave botocore after
their parameters are validated: what it does before and after an answer takes as long as the answer.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property, partial
from typing import Any
from urllib.parse import unquote, urlsplit

import botocore.session
from boto3 import Session
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ParamValidationError
from botocore.loaders import create_loader
from botocore.parsers import create_parser
from botocore.validate import ParamValidator
from ministack.app import app
from ministack.core.responses import set_request_region
from ministack.services import dynamodb, s3
from moto.core.base_backend import BackendDict
from moto.core.models import MockAWS, botocore_stubber

from sluice_local.emulators import emulator as emulators

#: `moto` runs the same tests on moto's DynamoDB and S3. They take several times as long: moto copies its tables for
#: every write.
EMULATOR_VARIABLE = "SLUICE_TEST_EMULATOR"
MINISTACK_SERVICES = ("dynamodb", "s3")
#: Signatures and the user agent take a third of botocore's time for a call. moto takes the region from a signature.
CALLS = Config(user_agent="tests")
UNSIGNED_CALLS = Config(user_agent="tests", signature_version=UNSIGNED)
#: MiniStack takes the region and the service from the scope of a signature.
SIGNATURE = "AWS4-HMAC-SHA256 Credential=x/20260101/{}/aws4_request, SignedHeaders=host, Signature=0"

#: Called with the model and the parameters of each operation before it is sent.
Observer = Callable[[Any, dict[str, Any]], None]
_observers: list[Observer] = []


class _Body(io.BytesIO):
    """A response's body as botocore reads it."""

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self.read()


class MiniStack:
    """MiniStack in this process. Threads take turns, as requests do in the event loop of its own server."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._turn = threading.Lock()
        self._forms: set[str] = set()

    def answer(self, scope: str, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        """Answer a request that botocore is about to send."""
        sent = request.body or b""
        sent = sent.read() if hasattr(sent, "read") else sent
        body = sent.encode() if isinstance(sent, str) else bytes(sent)
        with self._turn:
            status, headers, content = self._loop.run_until_complete(_asked(scope, request, body))
        return AWSResponse(request.url, status, headers, _Body(content))

    def answer_dynamodb(self, client: Any, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a call of DynamoDB in place of its client. Raises the client's errors."""
        services = client.meta.service_model
        model = services.operation_model(operation)
        _observe(params, model)
        form = _form_of_query(params) if operation == "Query" else ""
        if form not in self._forms:
            invalid = ParamValidator().validate(params, model.input_shape)
            if invalid.has_errors():
                raise ParamValidationError(report=invalid.generate_report())
        with self._turn:
            set_request_region(client.meta.region_name)
            if form in self._forms and _is_empty(params):
                return {"Items": [], "Count": 0, "ScannedCount": 0}
            status, headers, content = _dynamodb(operation, json.dumps(params, default=_base64).encode())
        if status < 300:
            self._forms |= {form} - {""}
            if operation in _OF_ITEMS:
                return json.loads(content, object_hook=_with_bytes)  # type: ignore[no-any-return]
        about = {"status_code": status, "headers": headers, "body": content, "context": {"operation_name": operation}}
        parsed: dict[str, Any] = _json_parser().parse(about, model.output_shape)
        if status < 300:
            return parsed
        code = parsed.get("Error", {}).get("Code")
        shape = services.shape_for_error_code(code)
        parsed |= _json_parser().parse(about, shape) if shape is not None else {}  # the error's own members
        raise client.exceptions.from_code(code)(parsed, operation)

    def reset(self) -> None:
        with self._turn:
            for service in (dynamodb, s3):
                service.reset()


@cache
def _json_parser() -> Any:
    return create_parser("json")


_OF_ITEMS = {
    *("GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan"),
    *("BatchGetItem", "BatchWriteItem", "TransactWriteItems"),
}
_PARTITION = re.compile(r"(#\w+) = (:\w+)\b")


def _form_of_query(params: Mapping[str, Any]) -> str:
    """A query without its values. MiniStack checks each form once; after that it isn't asked for empty partitions."""
    varying = {"ExpressionAttributeValues", "ExclusiveStartKey", "Limit"}
    return repr(sorted((name, value) for name, value in params.items() if name not in varying))


def _is_empty(params: Mapping[str, Any]) -> bool:
    """Whether the queried partition of a table or an index has no items."""
    partition = _PARTITION.match(params["KeyConditionExpression"])
    if partition is None or "ExclusiveStartKey" in params:
        return False
    (value,) = params["ExpressionAttributeValues"][partition[2]].values()
    table = dynamodb._tables.get(params["TableName"])
    if table is None:
        return False
    if "IndexName" not in params:
        return not table["items"].get(value)
    members = dynamodb._index_members(table).get(params["IndexName"])
    return members is not None and not members.get(value)


def _base64(value: bytes) -> str:
    return b64encode(value).decode()


def _with_bytes(value: dict[str, Any]) -> dict[str, Any]:
    return {"B": b64decode(value["B"])} if isinstance(value.get("B"), str) else value


def _dynamodb(operation: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """DynamoDB's answer, without the application's routing and an event loop."""
    asked = dynamodb.handle_request("POST", "/", {"x-amz-target": f"DynamoDB_20120810.{operation}"}, body, {})
    try:
        asked.send(None)
    except StopIteration as answered:
        return answered.value  # type: ignore[no-any-return]
    raise AssertionError("MiniStack's DynamoDB waits for something")


async def _asked(scope: str, request: AWSPreparedRequest, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and content of the application's answer."""
    url = urlsplit(request.url)
    headers = [(name.lower().encode(), _bytes(value)) for name, value in request.headers.items()]
    connection = {
        "type": "http",
        "method": request.method,
        "path": unquote(url.path),
        "raw_path": url.path.encode(),
        "query_string": url.query.encode(),
        "headers": [*headers, (b"host", url.netloc.encode()), (b"authorization", SIGNATURE.format(scope).encode())],
    }
    started: dict[str, Any] = {}
    content = bytearray()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        elif message["type"] == "http.response.body":
            content.extend(message.get("body", b""))

    await app(connection, receive, send)
    return started["status"], {name.decode(): value.decode() for name, value in started["headers"]}, bytes(content)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@cache
def _ministack() -> MiniStack:
    return MiniStack()


class _Moto(MockAWS):
    """moto without its answers to `requests`: nothing here sends any, and to register them takes longer than a test."""

    def reset(self) -> None:
        BackendDict.reset()

    def _enable_patching(self, reset: bool = True) -> None:
        botocore_stubber.enabled = True
        self.reset()

    def _disable_patching(self, remove_data: bool) -> None:
        botocore_stubber.enabled = False
        self.reset()


@contextmanager
def emulated_aws() -> Iterator[None]:
    """An empty AWS, empty again at the end."""
    _ministack().reset()
    with _Moto():
        yield
    _ministack().reset()


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Have every call of an emulated session seen before it is sent. What the observer raises reaches the caller."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


class EmulatedSession:
    """A boto3 session of one region whose clients are made once for all tests: making one takes longer than most tests.

    Clients of one service must not differ in what the emulator doesn't see, such as credentials.
    """

    def __init__(self, region: str) -> None:
        self.region_name = region
        self._made: dict[str, Any] = {}

    @cached_property
    def _on_moto(self) -> Session:
        return _session(self.region_name)

    @cached_property
    def _on_ministack(self) -> Session:
        session = _session(self.region_name)
        session.events.unregister("before-send", botocore_stubber)  # botocore asks every handler, and moto answers too
        session.events.register("before-send.s3", partial(_ministack().answer, f"{self.region_name}/s3"))
        return session

    @property
    def events(self) -> Any:
        """The events of moto's services. Clients that are made later have what is registered here."""
        return self._on_moto.events

    def client(self, service: str, **arguments: Any) -> Any:
        """The client of these arguments, made when it is first asked for."""
        name = f"{service} {sorted(arguments)} {arguments.get('endpoint_url')}"
        if name not in self._made:
            on_ministack = service in MINISTACK_SERVICES and os.environ.get(EMULATOR_VARIABLE) != "moto"
            session, cheap = (self._on_ministack, UNSIGNED_CALLS) if on_ministack else (self._on_moto, CALLS)
            given = arguments.get("config")
            arguments["config"] = given.merge(cheap) if given else cheap
            made = self._made[name] = session.client(service, **arguments)
            if on_ministack and service == "dynamodb":
                made._make_api_call = partial(_ministack().answer_dynamodb, made)
        return self._made[name]


def ministack_client(service: str, region: str = "eu-central-1") -> Any:
    """A client of one of MiniStack's other services, such as CloudFormation. The caller resets what it made."""
    session = _session(region)
    session.events.unregister("before-send", botocore_stubber)
    session.events.register(f"before-send.{service}", partial(_ministack().answer, f"{region}/{service}"))
    return session.client(service)


def _session(region: str) -> Session:
    core = botocore.session.get_session()
    core.register_component("data_loader", _service_models())
    session = Session(botocore_session=core, aws_access_key_id="x", aws_secret_access_key="x", region_name=region)
    session.events.register("before-parameter-build", _observe)
    return session


@cache
def emulated_session(region: str) -> EmulatedSession:
    """The one session of a region."""
    return EmulatedSession(region)


@cache
def _service_models() -> Any:
    """One loader for all sessions: reading a service's model takes longer than most tests."""
    return create_loader()


def _observe(params: dict[str, Any], model: Any, **_: Any) -> None:
    for observer in tuple(_observers):
        observer(model, params)


def client_of(emulator, service, **more):
    """A client of a MiniStack that runs as a process of its own."""
    session = Session(emulators.ACCESS_KEY, emulators.SECRET_KEY, region_name=emulators.REGION)
    return session.client(service, endpoint_url=emulator.endpoint, **more)


def set_fields(ledger, key, **fields):
    """Set attributes of an item of the ledger, as no code of the product does. `key` is one of `sluice.ledger.keys`."""
    ledger.objects._table.update(key, fields)
