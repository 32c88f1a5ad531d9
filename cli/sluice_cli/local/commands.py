"""`sluice local`: starts and ends the whole pipeline on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated

import typer

from sluice.errors import CommandFailed, UsageError
from sluice_cli.account.steps import PROPOSALS, TABLES_AND_LANES, put_first
from sluice_cli.local.progress import interruptible, progress_lines
from sluice_cli.terminal.interaction import ask, following
from sluice_cli.terminal.options import Json, Yes, option
from sluice_cli.terminal.output import print_json, say, say_next_step
from sluice_cli.terminal.step import Step
from sluice_local.emulators.choose import VARIABLE, Kind
from sluice_local.emulators.emulator import is_answering
from sluice_local.errors import DidNotStart, NotRunning
from sluice_local.home import Description, Home, chosen_home, running_home
from sluice_local.processes import LOOPBACK, is_running
from sluice_local.stack.deploy import Timers
from sluice_local.stack.stack import Options, local_stack, require_parts, require_ports, wait_for_end

_SLUICE = [sys.executable, "-c", "from sluice_cli.main import main; main()"]
_END_SECONDS, _KEEP_SECONDS = 30.0, 180.0
_DEPLOYED_TIMERS = Timers(
    batching_window_s=2, supervise="rate(2 minutes)", reconcile="rate(15 minutes)", reconcile_grace_s=900
)


def _ipv4(given: str) -> str:
    """An IPv4 address, for an option's `parser`. Raises typer.BadParameter."""
    try:
        return str(IPv4Address(given))
    except ValueError as error:
        raise typer.BadParameter(f"{given} is not an IPv4 address such as 0.0.0.0 or 172.17.0.1") from error


app = typer.Typer(
    no_args_is_help=True,
    help="""Run the whole pipeline on this machine: MiniStack or LocalStack emulates AWS, and real Spark
    replaces EMR Serverless.

    The stack belongs to the folder in which it starts (.sluice, or SLUICE_HOME), and every verb finds it
    from there. Its data is gone when it ends, unless `down --keep` keeps it.""",
)

Port = Annotated[int | None, option("--port N", "Port of the emulator; a free one by default.", min=1, max=65535)]


@app.command()
def up(
    config: Annotated[Path | None, option("--config FILE", "A tables.yaml to push once the stack is up.")] = None,
    detach: Annotated[
        bool, option("--detach -d", "Return when the stack is ready; it runs until `sluice local down`.")
    ] = False,
    port: Port = None,
    emr_port: Annotated[
        int | None,
        option("--emr-port N", "Port of the EMR Serverless stand-in; a free one by default.", min=1, max=65535),
    ] = None,
    bind: Annotated[
        str,
        option(
            "--bind ADDRESS",
            "Listen on this IPv4 address, so that containers or other machines reach the stack.",
            parser=_ipv4,
        ),
    ] = LOOPBACK,
    cores: Annotated[
        int | None, option("--cores N", "Cores of a Spark run.", min=1, show_default="all, at most 4")
    ] = None,
    executors: Annotated[
        int, option("--executors N", "Processes for a run's tasks; 0: the driver's own.", min=0, max=8)
    ] = 0,
    emulator: Annotated[
        Kind, option("--emulator", "The emulator of AWS. LocalStack needs its own Python 3.13.", envvar=VARIABLE)
    ] = Kind.MINISTACK,
    deployed_timers: Annotated[
        bool, option("--deployed-timers", "Use the schedules and batching window of a deployment, not the shortest.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start the stack and print its endpoints, bucket names and credentials.

    The first start on a machine downloads Spark's Hudi and S3 jars (120 MB), and its first Spark run is slow.

    Examples:

      sluice local up --config tables.yaml --detach
      sluice local up --port 4566 --bind 0.0.0.0
      aws --endpoint-url "$(sluice local info --json | jq -r .endpoint)" s3 ls
    """
    require_parts(emulator)  # a detached process would report it in its log
    home = chosen_home(os.environ, Path.cwd())
    if config is not None:
        from sluice_cli.config.push import read_file

        read_file(config)  # report a mistake before anything starts
    chosen = Options(
        port=port,
        emr_port=emr_port,
        bind=bind,
        emulator=emulator,
        timers=_DEPLOYED_TIMERS if deployed_timers else Timers(),
        cores=cores,
        executors=executors,
    )
    if home.owner() is None:
        require_ports(home, emulator, chosen)
    restored = emulator is Kind.MINISTACK and home.has_kept()
    if detach:
        given = {"port": port, "emr-port": emr_port, "bind": bind, "cores": cores, "executors": executors}
        options = [f"--emulator={emulator.value}", *(["--deployed-timers"] if deployed_timers else [])]
        options += [f"--{name}={value}" for name, value in given.items() if value is not None]
        _start_detached(home, options, config, as_json=as_json)
        say_next_step(str(TABLES_AND_LANES) if restored else f"{put_first()}. {PROPOSALS}")
        return
    with interruptible(), progress_lines() as progress:
        with local_stack(home, chosen, environment=os.environ, progress=progress.say) as stack:
            progress.stop()  # a spinner would stand among the lines that the push prints
            _push(home, config)
            _show(stack.description, home, as_json=as_json)
            say_next_step(str(TABLES_AND_LANES) if restored else f"{put_first()}. {PROPOSALS}")
            say("Ctrl-C ends it")
            try:
                was_asked = wait_for_end(stack, threading.Event())
            except KeyboardInterrupt:
                was_asked = True
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # a second Ctrl-C must not interrupt the clean-up
            if not was_asked:
                shutil.copyfile(stack.emulator.log, home.path / "ended.log")  # the next start removes the other
            keeps = home.is_asked_to_keep()
            say("Ending")
    if not was_asked:
        log = home.path / "ended.log"
        raise DidNotStart(f"The emulator ended unexpectedly, its data is gone; its output is in {log}", log=str(log))
    say(_ended(home, restored=keeps and home.has_kept()))


@app.command()
def down(
    keep: Annotated[
        bool, option("--keep", "Keep its buckets, tables and ledger for the next `up` in the same folder.")
    ] = False,
    yes: Yes = False,
) -> None:
    """End the stack and everything it started. Succeeds also when no stack runs.

    Without --keep, the stack's buckets, tables and ledger are gone, and so is what --keep kept before. That needs a
    yes: a question in a terminal, else --yes. A stack that ends in another way, by Ctrl-C or with the machine, leaves
    what was kept last. Only MiniStack keeps data.

    Example:

      sluice local down --keep
    """
    home = running_home(os.environ, Path.cwd())
    owner = home.owner()
    if owner is None:
        say(f"no local stack runs in {home.path}")
        return
    if keep:
        _ask_to_keep(home)
    elif not yes:
        ask(f"End the stack in {home.path} and discard its buckets, tables and ledger? (--keep keeps them)")
    if not keep:
        shutil.rmtree(home.kept, ignore_errors=True)
    os.kill(owner, signal.SIGTERM)
    deadline = time.monotonic() + (_KEEP_SECONDS if keep else _END_SECONDS)
    while is_running(owner):
        if time.monotonic() > deadline:
            os.kill(owner, signal.SIGKILL)  # the kernel ends its children, too
            home.file.unlink(missing_ok=True)
            break
        time.sleep(0.05)
    if keep and not home.has_kept():
        log = home.path / "emulator" / "emulator.log"
        raise CommandFailed("The stack ended, and its data was not kept", next_step=f"Its emulator's log is {log}")
    say(_ended(home, restored=keep))


def _ended(home: Home, *, restored: bool) -> str:
    """What is left of a stack that has ended. `restored` is whether its data is."""
    if restored:
        return f"ended; {Step('local up')} restores its buckets, tables and ledger from {home.kept}"
    return f"ended; its buckets, tables and ledger are gone, the logs of its runs stay in {home.runs}"


def _ask_to_keep(home: Home) -> None:
    """Have the running stack keep its data. Raises UsageError for an emulator that can't."""
    description = home.description()
    if description.emulator != "MiniStack":
        raise UsageError(
            f"{description.emulator} can't keep its data", next_step="Start the stack with MiniStack, the default"
        )
    home.ask_to_keep(description)


@app.command()
def info(as_json: Json = False) -> None:
    """Print endpoints, bucket names and credentials of the running stack.

    Example:

      export AWS_ENDPOINT_URL="$(sluice local info --json | jq -r .endpoint)"
    """
    home = running_home(os.environ, Path.cwd())
    description = home.description()
    if not is_answering(description.endpoint):
        raise NotRunning(
            f"No local stack runs in {home.path}: nothing answers at {description.endpoint}",
            home=str(home.path),
            next_step=f"Start it again with {Step('local up')}",
        )
    _show(description, home, as_json=as_json)


def _show(description: Description, home: Home, *, as_json: bool) -> None:
    if as_json:
        print_json({**asdict(description), "home": str(home.path)})
    else:
        print_ready(description, home)
    if not IPv4Address(description.bind).is_loopback:
        say(
            f"warning: the stack listens on {description.bind}. Whoever reaches its ports can change its data and run "
            "programs as you, since it asks for no password"
        )


def _start_detached(home: Home, options: Sequence[str], config: Path | None, *, as_json: bool) -> None:
    """Start `sluice local up` in its own session, and show its output until it is ready."""
    home.path.mkdir(parents=True, exist_ok=True)
    if home.owner() is not None:
        with home.own():  # raises, and names the owner
            return
    home.file.unlink(missing_ok=True)
    with home.log.open("wb") as log:
        child = subprocess.Popen(
            [*_SLUICE, "local", "up", *options],
            cwd=home.path,
            env={**os.environ, "SLUICE_HOME": str(home.path)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        with progress_lines() as progress:
            for text in following(home.log, until=lambda: home.file.exists() or child.poll() is not None):
                for line in text.splitlines() if not home.file.exists() else ():
                    progress.say(line)
        if not home.file.exists():
            raise DidNotStart(f"The stack did not start; its output is in {home.log}", log=str(home.log))
        _push(home, config)
    except BaseException:
        if child.poll() is None:
            child.terminate()
            child.wait()
        raise
    _show(home.description(), home, as_json=as_json)


def _push(home: Home, config: Path | None) -> None:
    """Push the configuration, if there is one, to the stack of `home`, as a user would."""
    if config is None:
        return
    done = subprocess.run(
        [*_SLUICE, "config", "push", "--yes", str(config.absolute())],
        env={**os.environ, "SLUICE_HOME": str(home.path), "SLUICE_STACK": ""},
        stdout=sys.stderr,
        check=False,
    )
    if done.returncode != 0:
        raise UsageError(f"{config} was not pushed")


def print_ready(description: Description, home: Home) -> None:
    """Print what an S3 client needs."""
    rows = [
        ("bronze", f"s3://{description.buckets['bronze']}"),
        ("silver", f"s3://{description.buckets['silver']}"),
        ("artifacts", f"s3://{description.buckets['artifacts']}"),
        ("endpoint", description.endpoint),
        ("EMR Serverless", description.emr_endpoint),
        ("region", description.region),
        ("access key", description.credentials["access_key_id"]),
        ("secret key", description.credentials["secret_access_key"]),
        ("release", description.release),
        ("file", str(home.file)),
    ]
    print(f"Ready after {description.ready_seconds:.1f} s", flush=True)
    for name, value in rows:
        print(f"  {name:<15} {value}", flush=True)
