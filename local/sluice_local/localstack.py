"""LocalStack, the other emulator of AWS, as a child process without Docker, name server or downloads."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Callable, Mapping

from sluice_local import children
from sluice_local.emulator import TEMPORARY, Emulator, run_emulator
from sluice_local.localstack_pythons import Pythons, ensure_pythons

_READY_SECONDS = 120.0
_GRACE_SECONDS = (
    0.0  # in order it would take up to twenty, for a state that nobody keeps; its functions' processes are in its group
)
_POLL_SECONDS = "0.5"
# What it has no free provider for, or one that downloads a Java program, is served by the moto that it bundles; for state machines it would download a Java.
_PROVIDERS = {"DYNAMODB": "moto", "DYNAMODBSTREAMS": "moto", "GLUE": "moto", "STEPFUNCTIONS": "python_jsonata"}


def start_localstack(
    home: Path, *, port: int | None, environment: Mapping[str, str], progress: Callable[[str], None]
) -> Emulator:
    """Start LocalStack on 127.0.0.1 and return when it answers, all its files below `home`. Raises NoPython313, DidNotStart."""
    temporary = home / TEMPORARY
    temporary.mkdir(parents=True, exist_ok=True)
    pythons = ensure_pythons(environment, progress)
    chosen = port or children.free_port()
    return run_emulator(
        "LocalStack",
        [str(pythons.localstack), "-m", "localstack.runtime.main"],
        home=home,
        port=chosen,
        environment=_settings(pythons, home, chosen, environment),
        answers=_answers,
        ready_s=_READY_SECONDS,
        grace_s=_GRACE_SECONDS,
    )


def _settings(pythons: Pythons, home: Path, port: int, environment: Mapping[str, str]) -> dict[str, str]:
    return {
        "PATH": environment.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home / TEMPORARY),
        "TZ": "UTC",  # it writes the machine's own time into notices, and calls it UTC
        "FILESYSTEM_ROOT": str(home / "files"),
        "GATEWAY_LISTEN": f"127.0.0.1:{port}",
        "LOCALSTACK_HOST": f"127.0.0.1:{port}",  # in queue URLs, which would name a host that a name server must know
        "SQS_ENDPOINT_STRATEGY": "path",
        "OVERRIDE_IN_DOCKER": "0",
        "DNS_ADDRESS": "0",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DISABLE_EVENTS": "1",
        "LS_LOG": "warn",
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "60",  # seconds that a function may take to load, on a machine that Spark keeps busy
        "SLUICE_LAMBDA_PYTHON": str(pythons.functions),
        **{f"PROVIDER_OVERRIDE_{service}": provider for service, provider in _PROVIDERS.items()},
        # How long a message waits until its queue is looked at: seconds, growing to ten where nothing comes, unless told.
        "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": _POLL_SECONDS,
        "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": _POLL_SECONDS,
        "PYTHONUNBUFFERED": "1",
    }


def _answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(f"{endpoint}/_localstack/health", timeout=2.0) as response:  # nosec B310: this process made the address
            return response.status == 200 and "services" in json.load(response)
    except (urllib.error.URLError, ConnectionError, TimeoutError, json.JSONDecodeError):
        return False
