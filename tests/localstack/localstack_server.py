"""LocalStack as a child process on a free port, without Docker, name server or downloads."""
import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localstack_environment import Pythons
from sluice_local import children

REGION = "us-east-1"
ACCOUNT = "000000000000"
ACCESS_KEY = "test"
START_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class LocalStack:
    """A running LocalStack."""

    endpoint: str
    log: Path


@contextmanager
def running_localstack(pythons: Pythons, home: Path) -> Iterator[LocalStack]:
    """Start LocalStack for the length of a block, all its files below `home`. Raises DidNotStart with the log's place."""
    port = children.free_port()
    log = home / "localstack.log"
    home.mkdir(parents=True, exist_ok=True)
    process = children.start([str(pythons.localstack), "-m", "localstack.runtime.main"], cwd=home, stdout=log, environment=_settings(pythons, home, port))
    running = LocalStack(f"http://127.0.0.1:{port}", log)
    try:
        children.wait_until(lambda: _answers(running.endpoint), process=process, what="LocalStack", log=log, timeout=START_TIMEOUT_S)
        yield running
    finally:
        _end_functions(process)
        children.end(process, grace=5.0)


def _settings(pythons: Pythons, home: Path, port: int) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "FILESYSTEM_ROOT": str(home / "files"),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "OVERRIDE_IN_DOCKER": "0",
        "DNS_ADDRESS": "0",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DISABLE_EVENTS": "1",
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        "SLUICE_LAMBDA_PYTHON": str(pythons.functions),
        "PROVIDER_OVERRIDE_DYNAMODB": "moto",
        "PROVIDER_OVERRIDE_DYNAMODBSTREAMS": "moto",
        "PYTHONUNBUFFERED": "1",
    }


def _answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint}/_localstack/health", timeout=2.0) as response:
            return response.status == 200 and "services" in json.load(response)
    except (urllib.error.URLError, ConnectionError, TimeoutError, json.JSONDecodeError):
        return False


def _end_functions(process: subprocess.Popen[bytes]) -> None:
    """Ask LocalStack to end in order, so that it ends its functions' processes, which are in groups of their own."""
    process.terminate()
    try:
        process.wait(20.0)
    except subprocess.TimeoutExpired:
        pass  # it is killed by the caller; the functions' processes then lose their runtime API and end by themselves
