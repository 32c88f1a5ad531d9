"""The fault proxy under boto3: what no rule strikes passes unchanged, and each kind of fault looks like AWS's own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError
from faulting.proxy import DYNAMODB, FaultProxy, Trap, cut_off, delay, fault_proxy, refuse


class Recorder(ThreadingHTTPServer):
    """An S3 that takes everything and gives it back."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        super().__init__(("127.0.0.1", 0), _Recording)


class _Recording(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def do_PUT(self) -> None:
        self.server.stored[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._give(200, b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._give(200, b"{}")

    def do_GET(self) -> None:
        records = self.server.stored.get(self.path)
        self._give(404 if records is None else 200, records or b"")

    do_HEAD = do_GET

    def _give(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    server = Recorder()
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def proxy(recorder: Recorder) -> Iterator[FaultProxy]:
    with fault_proxy(f"http://127.0.0.1:{recorder.server_address[1]}") as running:
        yield running


def client(proxy: FaultProxy, service: str, attempts: int = 1) -> Any:
    return boto3.client(
        service,
        endpoint_url=proxy.endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(retries={"total_max_attempts": attempts}, s3={"addressing_style": "path"}),
    )


def put(s3: Any, key: str = "a b/c=d.txt") -> None:
    s3.put_object(Bucket="bronze", Key=key, Body=b"content")


@pytest.mark.long
def test_what_no_rule_strikes_passes_unchanged(proxy: FaultProxy) -> None:
    s3 = client(proxy, "s3")
    with proxy.rule(lambda request: "elsewhere" in request.path, before=refuse(503, "SlowDown")):
        put(s3)
        assert s3.get_object(Bucket="bronze", Key="a b/c=d.txt")["Body"].read() == b"content"
        assert s3.head_object(Bucket="bronze", Key="a b/c=d.txt")["ContentLength"] == len(b"content")


def test_a_refused_request_has_the_services_own_error_and_is_repeated(proxy: FaultProxy, recorder: Recorder) -> None:
    def throttled(request: Any) -> bool:
        return request.service == DYNAMODB and request.operation == "ListTables"

    with proxy.rule(lambda request: request.method == "PUT", before=refuse(503, "SlowDown"), times=2) as rule:
        with pytest.raises(ClientError, match="SlowDown"):
            put(client(proxy, "s3"))
        assert recorder.stored == {}
        put(client(proxy, "s3", attempts=3))
        assert (rule.struck, len(recorder.stored)) == (2, 1)
    with proxy.rule(throttled, before=refuse(400, "ThrottlingException")), pytest.raises(ClientError) as refused:
        client(proxy, "dynamodb").list_tables()
    assert refused.value.response["Error"]["Code"] == "ThrottlingException"


def test_a_request_is_cut_off_before_it_arrives_or_after_it(proxy: FaultProxy, recorder: Recorder) -> None:
    s3, closed = client(proxy, "s3"), (ConnectionClosedError, EndpointConnectionError)
    for how, stored in ({"before": cut_off}, 0), ({"after": cut_off}, 1):
        with proxy.rule(lambda request: True, **how), pytest.raises(closed):
            put(s3)
        assert len(recorder.stored) == stored


def test_a_trap_holds_one_request_and_forwards_it_late(proxy: FaultProxy, recorder: Recorder) -> None:
    s3, trap = client(proxy, "s3"), Trap()
    with proxy.rule(lambda request: True, before=trap, times=1), ThreadPoolExecutor(1) as pool:
        held = pool.submit(put, s3, "late")
        assert trap.wait(10).path == "/bronze/late"
        put(client(proxy, "s3"), "early")
        assert list(recorder.stored) == ["/bronze/early"]
        trap.let_go(forward=True)
        held.result(10)
    assert list(recorder.stored) == ["/bronze/early", "/bronze/late"]


def test_rules_skip_and_count_and_a_slow_one_only_delays(proxy: FaultProxy, recorder: Recorder) -> None:
    s3 = client(proxy, "s3")
    with proxy.rule(lambda request: True, before=delay(0.01), skip=1, times=1) as rule:
        for number in range(3):
            put(s3, str(number))
    assert (rule.seen, rule.struck, len(recorder.stored)) == (3, 1, 3)
