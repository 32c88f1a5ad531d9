"""The whole local stack in one process: emulator, stand-in, deployed template."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice_local.cache import cache_directory
from sluice_local.emr.spark_command import Cloud, Machine
from sluice_local.emr.spark_runner import RunnerSettings
from sluice_local.emr.stand_in import StandIn, start_stand_in
from sluice_local.emulators.choose import Kind, chosen, start_emulator
from sluice_local.emulators.emulator import ACCESS_KEY, ACCOUNT, REGION, SECRET_KEY, Emulator
from sluice_local.emulators.ministack_program import ASKED
from sluice_local.errors import UnusablePython
from sluice_local.home import Description, Home
from sluice_local.images.jars import HUDI, Progress, ensure_jars, hudi_bundle
from sluice_local.images.java import find_java
from sluice_local.images.spark import build_image, build_remembered
from sluice_local.processes import LOOPBACK, require_port
from sluice_local.stack.deploy import Deployment, Timers, deploy

if TYPE_CHECKING:
    from sluice_aws.clients import Clients


@dataclass(frozen=True)
class Options:
    """A user's choices. Free ports are used unless given."""

    port: int | None = None
    emr_port: int | None = None
    bind: str = LOOPBACK  # the IPv4 address on which the emulator and the stand-in listen
    emulator: Kind | None = None  # the environment's choice
    hudi_version: str = HUDI
    timers: Timers = Timers()
    cores: int | None = None  # of the machine, for Spark
    executors: int = 0  # processes that share the cores; without them tasks run in the driver's process


@dataclass(frozen=True)
class LocalStack:
    """A running stack."""

    description: Description
    deployment: Deployment
    emulator: Emulator
    stand_in: StandIn


# What the extra `local` brings, by module. A Java may be the machine's own; LocalStack has packages of its own.
_PARTS = ("pyspark", "pandas", "pyarrow", "aws_lambda_powertools")
_MINISTACKS_PARTS = ("ministack", "samtranslator")
_NEWEST_PYTHON = (3, 11)  # of Spark 3.5


def require_parts(kind: Kind) -> None:
    """Raises ModuleNotFoundError for a part that isn't installed, UnusablePython where Spark can't be."""
    version = tuple(sys.version_info[:2])
    # Spark first: the extra brings it to no newer Python, so that nobody installs the rest in vain.
    for name in (*_PARTS, *(_MINISTACKS_PARTS if kind == Kind.MINISTACK else ())):
        if importlib.util.find_spec(name) is not None:
            continue
        if name == "pyspark" and version > _NEWEST_PYTHON:
            raise UnusablePython(f"Spark 3.5 doesn't run on Python {version[0]}.{version[1]}")
        raise ModuleNotFoundError(name, name=name)


def kept_start(home: Home, kind: Kind) -> tuple[tuple[int | None, int | None], str | None]:
    """The ports of the stack whose data is restored, and what to say of kept data. MiniStack alone restores it."""
    ports = home.kept_ports()
    if ports is None:
        return (None, None), None
    if kind != Kind.MINISTACK:
        return (None, None), "Starting empty: only MiniStack restores what `sluice local down --keep` kept"
    return ports, "Restoring the buckets, tables and ledger that `sluice local down --keep` kept"


def require_ports(home: Home, kind: Kind, options: Options) -> None:
    """Raises UnusablePort for a port, asked for or of the data to restore, on which another server listens.

    An emulator that can't listen ends only after the other server has answered in its place.
    """
    ports, _ = kept_start(home, kind)
    for port in (options.port or ports[0], options.emr_port or ports[1]):
        if port is not None:
            require_port(options.bind, port)


@contextmanager
def local_stack(
    home: Home, options: Options, *, environment: Mapping[str, str], progress: Progress
) -> Iterator[LocalStack]:
    """Run a local stack for the length of a block. All its processes have ended afterwards.

    Raises AlreadyRunning, UnusablePort, NoJava, JarsUnavailable, DidNotStart, DeploymentFailed, WheelsUnavailable,
    UnknownEmulator, NoPython313, UnusablePython, and ModuleNotFoundError where a part isn't installed.
    """
    began = time.monotonic()
    kind = options.emulator or chosen(environment)
    require_parts(kind)
    with ExitStack() as undo:
        undo.enter_context(home.own())
        require_ports(home, kind, options)
        java = find_java(environment)
        progress("Starting the emulator")
        shutil.rmtree(home.path / "emulator", ignore_errors=True)  # remove the log of an earlier stack
        (home.kept / ASKED).unlink(missing_ok=True)  # of a stack that was killed
        ports, said = kept_start(home, kind)
        if said is not None:
            progress(said)
        emulator = start_emulator(
            home.path / "emulator",
            kind=kind,
            port=options.port or ports[0],
            bind=options.bind,
            environment=environment,
            progress=progress,
            folder=home.kept,
        )
        undo.callback(lambda: emulator.stop(keeps=home.is_asked_to_keep()))
        jars = ensure_jars(options.hudi_version, environment=environment, progress=progress)
        image = build_image(home.path / "image", java, jars)
        cloud = Cloud(emulator.endpoint, REGION, ACCESS_KEY, SECRET_KEY)
        cache = cache_directory(environment)
        cores = options.cores or min(os.cpu_count() or 2, 4)
        machine = Machine(
            cores=max(1, cores // (options.executors or 1)),
            memory_bytes=_memory_for_spark() // (options.executors + 1),
            executors=options.executors,
        )
        settings = RunnerSettings(home.runs, cache, image, cloud, machine)
        clients = _clients(emulator)
        stand_in = start_stand_in(
            settings,
            s3=clients.s3,
            events=clients.events,
            functions=clients.client("lambda"),
            account=ACCOUNT,
            port=options.emr_port or ports[1],
            bind=options.bind,
        )
        undo.callback(stand_in.stop)
        threading.Thread(
            target=build_remembered, args=(java, cache / "classes"), name="class-archive", daemon=True
        ).start()
        deployment = deploy(
            _clients(emulator, stand_in),
            emr_endpoint=stand_in.endpoint,
            hudi_bundle=hudi_bundle(jars),
            cache=cache,
            timers=options.timers,
            progress=progress,
        )
        if ports != (None, None):
            progress("Settling the runs that ended with the last stack")
            # As the schedule does within a minute: until then their lanes would seem to run.
            clients.client("lambda").invoke(FunctionName=deployment.outputs["SuperviseFunction"], Payload=b"{}")
        ready_seconds = round(time.monotonic() - began, 2)
        description = _describe(emulator, stand_in, deployment, options.bind, ready_seconds=ready_seconds)
        home.describe(description)
        undo.callback(lambda: home.file.unlink(missing_ok=True))  # a stack that ends is none to work on
        yield LocalStack(description, deployment, emulator, stand_in)


def wait_for_end(stack: LocalStack, end: threading.Event) -> bool:
    """Wait for a request to end, or the emulator's end. Returns whether it was requested."""
    while stack.emulator.alive:
        if end.wait(0.5):
            return True
    return False


def _describe(
    emulator: Emulator, stand_in: StandIn, deployment: Deployment, bind: str, *, ready_seconds: float
) -> Description:
    outputs = deployment.outputs
    return Description(
        stack=deployment.stack,
        region=REGION,
        endpoint=emulator.endpoint,
        emr_endpoint=stand_in.endpoint,
        buckets={
            "bronze": outputs["BronzeBucket"],
            "silver": outputs["SilverBucket"],
            "artifacts": outputs["ArtifactBucket"],
        },
        ledger=outputs["LedgerTable"],
        credentials={"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY},
        application_id=outputs["ApplicationId"],
        release=deployment.release.version,
        pids={"owner": os.getpid(), "emulator": emulator.process.pid},
        outputs=dict(outputs),
        ready_seconds=ready_seconds,
        emulator=emulator.name,
        bind=bind,
    )


def _clients(emulator: Emulator, stand_in: StandIn | None = None) -> Clients:
    from sluice_aws.clients import COMMAND, Clients, Credentials  # loads boto3, which `--help` needs none of

    return Clients(
        region=REGION,
        endpoint_url=emulator.endpoint,
        emr_endpoint_url=stand_in.endpoint if stand_in else None,
        options=COMMAND,
        credentials=Credentials(ACCESS_KEY, SECRET_KEY),
    )


def _memory_for_spark() -> int:
    """A quarter of the machine's memory, and at least 1 GiB."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return max(1 << 30, pages * size // 4)
