"""LocalStack as a child process without Docker, name server or downloads.

LocalStack needs two Pythons: its own (3.13) with pinned packages, and one for the functions with only Lambda's runtime
client.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sluice_deploy.pythons import find_python
from sluice_local import processes as children
from sluice_local.cache import cache_directory, only_one
from sluice_local.emulators.emulator import TEMPORARY, Emulator, run_emulator
from sluice_local.errors import NoPython313, NotInstalled

_READY_SECONDS = 120.0
# An orderly end takes up to twenty seconds, for a state that isn't kept. The group holds its functions' processes.
_GRACE_SECONDS = 0.0
_POLL_SECONDS = "0.5"
# The bundled moto serves what has no free provider, or a provider that downloads a Java program. For state machines
# LocalStack would download a Java.
_PROVIDERS = {"DYNAMODB": "moto", "DYNAMODBSTREAMS": "moto", "GLUE": "moto", "STEPFUNCTIONS": "python_jsonata"}


def start_localstack(
    home: Path,
    *,
    port: int | None,
    environment: Mapping[str, str],
    progress: Callable[[str], None],
    bind: str = children.LOOPBACK,
) -> Emulator:
    """Start LocalStack on the IPv4 address `bind`, with all its files in `home`, and return when it answers.

    Raises NoPython313, DidNotStart.
    """
    temporary = home / TEMPORARY
    temporary.mkdir(parents=True, exist_ok=True)
    pythons = ensure_pythons(environment, progress)
    chosen = port or children.free_port()
    return run_emulator(
        "LocalStack",
        [str(pythons.localstack), "-m", "localstack.runtime.main"],
        home=home,
        bind=bind,
        port=chosen,
        environment=_settings(pythons, home, bind, chosen, environment),
        health="/_localstack/health",
        answers=lambda health: "services" in health,
        ready_s=_READY_SECONDS,
        grace_s=_GRACE_SECONDS,
    )


def _settings(pythons: Pythons, home: Path, bind: str, port: int, environment: Mapping[str, str]) -> dict[str, str]:
    return {
        "PATH": environment.get("PATH", os.defpath),
        "HOME": str(home),
        "TMPDIR": str(home / TEMPORARY),
        "TZ": "UTC",  # it writes local time into notices as UTC
        "FILESYSTEM_ROOT": str(home / "files"),
        "GATEWAY_LISTEN": f"{bind}:{port}",
        "LOCALSTACK_HOST": f"{children.reached_at(bind)}:{port}",  # for queue URLs, which otherwise need a name server
        "SQS_ENDPOINT_STRATEGY": "path",
        "OVERRIDE_IN_DOCKER": "0",
        "DNS_ADDRESS": "0",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "DISABLE_EVENTS": "1",
        "LS_LOG": "warn",
        "LAMBDA_RUNTIME_EXECUTOR": "process",
        "LAMBDA_RUNTIME_ENVIRONMENT_TIMEOUT": "60",  # seconds for a function to load while Spark keeps the machine busy
        "SLUICE_LAMBDA_PYTHON": str(pythons.functions),
        **{f"PROVIDER_OVERRIDE_{service}": provider for service, provider in _PROVIDERS.items()},
        # The poll interval of queues: by default seconds, growing to ten for an empty queue.
        "LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC": _POLL_SECONDS,
        "LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC": _POLL_SECONDS,
        "PYTHONUNBUFFERED": "1",
    }


_EXECUTOR = Path(__file__).parents[2] / "localstack_executor"
# Pins that work together without Docker. Newer releases of the last four break LocalStack 4.14's bundled servers.
LOCALSTACK = (
    "localstack-core[runtime]==4.14.0",
    "cbor2<5.9",
    "pyopenssl==25.3.0",
    "cryptography<46",
    "service-identity",
)
_EXECUTOR_NEEDS = ("jsonata-python>=0.7",)  # without dependencies
LAMBDA_RUNTIME = ("awslambdaric>=3.0", "boto3")  # content of AWS's own Python runtime: its client and boto3
WANTED = "3.13"  # LocalStack's own Python


@dataclass(frozen=True)
class Pythons:
    """The Python that runs the emulator, and the one that runs the functions."""

    localstack: Path
    functions: Path


def find_python313(environment: Mapping[str, str]) -> Path:
    """SLUICE_PYTHON_313, `python3.13` on PATH, pyenv's versions, or uv's. Raises NoPython313."""
    looked: list[str] = []
    python = find_python(WANTED, environment, looked)
    if python is None:
        raise NoPython313(f"LocalStack needs a Python 3.13 of its own; looked at {', '.join(looked)}", looked_at=looked)
    return python


def ensure_pythons(environment: Mapping[str, str], progress: Callable[[str], None] = lambda line: None) -> Pythons:
    """Both environments, made once per machine and set of pins, in the cache.

    Raises NoPython313, NotInstalled.
    """
    python = find_python313(environment)
    home = cache_directory(environment) / "localstack"
    with only_one(home / "lock"):
        source = hashlib.sha256(
            b"".join(file.read_bytes() for file in sorted(_EXECUTOR.rglob("*")) if file.suffix in (".py", ".toml"))
        ).hexdigest()
        localstack = _environment(home / "emulator", python, LOCALSTACK, progress)
        _executor(home / "emulator", localstack, source)
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        functions = _environment(home / f"functions-{version}", Path(sys.executable), LAMBDA_RUNTIME, progress)
    return Pythons(localstack, functions)


def _environment(folder: Path, python: Path, packages: tuple[str, ...], progress: Callable[[str], None]) -> Path:
    made, wanted = folder / "made-of", f"{python}\n" + "\n".join(packages)
    if not made.exists() or made.read_text() != wanted:
        progress(f"Setting up {folder} (once per machine): {', '.join(packages)}")
        shutil.rmtree(folder, ignore_errors=True)
        _run(python, "venv", str(folder))
        _install(folder / "bin" / "python", *packages)
        made.write_text(wanted)
    return folder / "bin" / "python"


def _executor(folder: Path, python: Path, source: str) -> None:
    """Install the process executor if its source has changed. Builds a copy: a build leaves files in the source."""
    installed = folder / "executor"
    if installed.exists() and installed.read_text() == source:
        return
    copy = folder / "executor-source"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(_EXECUTOR, copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    _install(python, "--force-reinstall", "--no-deps", *_EXECUTOR_NEEDS, str(copy))
    installed.write_text(source)


def _install(python: Path, *arguments: str) -> None:
    _run(python, "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def _run(python: Path, module: str, *arguments: str) -> None:
    """Run a module of another Python. Raises NotInstalled."""
    # pip builds packages in processes of its own, which would import the modules of this Python by its variables.
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    ended = subprocess.run([str(python), "-I", "-m", module, *arguments], env=environment)
    if ended.returncode:
        raise NotInstalled(f"LocalStack could not be installed: {module} ended with {ended.returncode}", module=module)
