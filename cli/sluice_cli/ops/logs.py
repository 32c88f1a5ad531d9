"""`sluice ops logs`: the log of a run's driver, readable, from the local stack's files or from S3."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from sluice.errors import CommandFailed, UsageError
from sluice_aws.stack import STACK_VARIABLE, Target
from sluice_cli.account.steps import RUNS
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.interaction import following
from sluice_cli.terminal.options import Stack, argument, named_stack, option
from sluice_cli.terminal.output import say
from sluice_cli.terminal.stack import chosen_target, output_of
from sluice_cli.terminal.words import is_named
from sluice_local.home import Home, running_home
from sluice_read.moments import iso

LONGEST_LINE = 1024 * 1024  # characters; the rest of a longer line is shown as a line of its own
RUNS_SEARCHED = 2_000  # newest first, for the beginning of an id
_HEAD = ("at", "event", "level", "run", "lane")  # of an event; shown in front or not at all
_BLOCKS = ("trace",)  # texts of several lines


def logs(
    run: Annotated[
        str | None,
        argument("[RUN]", "A run or the beginning of its id, or its job run at EMR Serverless; by default the newest."),
    ] = None,
    stderr: Annotated[bool, option("--stderr", "Spark's own output instead of the driver's events.")] = False,
    raw: Annotated[bool, option("--json --raw", "The events as the driver wrote them: JSON lines.")] = False,
    follow: Annotated[bool, option("--follow -f", "Follow the output until the run ends; local runs only.")] = False,
    stack: Stack = None,
) -> None:
    """Print what a run's driver logged, with times in UTC. `sluice ops runs` lists the runs.

    The log of a deployed stack is read from `logs/` in the artifact bucket, where EMR Serverless puts it. Local
    runs are kept beside the stack, and can be read after it has ended.

    Examples:

      sluice ops logs
      sluice ops logs run-main-20260501T101500 --stderr
      sluice ops logs --json | jq .event
    """
    if stack or named_stack.get() or os.environ.get(STACK_VARIABLE):
        if follow:
            raise UsageError("--follow is for local runs", next_step="Run the command again: EMR Serverless adds files")
        lines = _stored(chosen_target(stack), run, "stderr" if stderr else "stdout")
    else:
        lines = _local(running_home(os.environ, Path.cwd()), run, "stderr" if stderr else "stdout", follow)
    if raw and not stderr:
        lines = (line for line in lines if _event(line) is not None)  # the JVM may print, too
    for line in lines if stderr or raw else readable(lines):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def readable(lines: Iterable[str]) -> Iterator[str]:
    """The driver's events as text: time, event, fields. A line that is no event stays as it is.

    The date stands before the first event and whenever it changes.
    """
    day = ""
    for line in lines:
        event = _event(line)
        if event is None:
            yield line
            continue
        date, _, time = iso(event["at"]).removesuffix("Z").partition("T")
        if date != day:
            day = date
            yield f"-- {day} UTC, run {visible(str(event.get('run', '')))}"
        level = f" {str(event['level']).upper()}" if "level" in event else ""
        fields = " ".join(f"{name}={_text(value)}" for name, value in event.items() if name not in (*_HEAD, *_BLOCKS))
        event_name = visible(f"{level} {event['event']}")
        yield f"{time}{event_name} {fields}".rstrip()
        for block in (event[name] for name in _BLOCKS if name in event):
            yield from (f"    {visible(text)}" for text in str(block).splitlines())


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    usable = isinstance(event, dict) and isinstance(event.get("at"), int) and isinstance(event.get("event"), str)
    return event if usable and 0 <= event["at"] < 253_402_300_800_000 else None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return visible(value) if value and not any(mark in value for mark in ' "\n') else json.dumps(value)
    return visible(json.dumps(value, separators=(",", ":")))


def _local(home: Home, run: str | None, name: str, follow: bool) -> Iterator[str]:
    requests = sorted(home.runs.glob("*/request.json"), key=lambda path: path.stat().st_mtime)
    names = {path.parent: (path.parent.name, _name_of(path) or "") for path in requests}
    chosen = [folder for folder, run_names in names.items() if run is None or run in run_names]
    if not chosen and run is not None:
        chosen = [folder for folder, run_names in names.items() if any(is_named(run, name) for name in run_names)]
        _refuse_several(run, len(chosen))
    if not chosen:
        if not requests:
            home.description()  # raises NotRunning
        raise UsageError(f"No run {run or ''} is in {home.runs}", next_step=str(RUNS))
    folder = chosen[-1]
    say(f"job run {folder.name}")
    return _lines(following(folder / name, until=lambda: not follow or not (folder / "work").exists()))


def _refuse_several(run: str, count: int) -> None:
    if count > 1:
        raise UsageError(f"{count} runs begin with {run!r}", next_step=f"Give more of the id. {RUNS}")


def _name_of(request: Path) -> str | None:
    try:
        return str(json.loads(request.read_text(encoding="utf-8")).get("name"))
    except (OSError, ValueError, AttributeError):
        return None


def _stored(target: Target, run: str | None, name: str) -> Iterator[str]:
    job_run = _job_run(target, run)
    prefix = f"logs/applications/{output_of(target, 'ApplicationId')}/jobs/{job_run}/"
    parts = sorted(
        (entry.put_at, entry.key)
        for entry in target.objects.documents(target.artifacts, prefix)
        if "SPARK_DRIVER" in entry.key.split("/")
        and entry.key.rpartition("/")[2].startswith(name)
        and entry.key.endswith(".gz")
    )
    if not parts:
        raise CommandFailed(
            f"There is no {name} under s3://{target.artifacts}/{prefix}",
            next_step=f"EMR Serverless puts it there minutes after the start of the job. {RUNS}",
        )
    for _, key in parts:
        say(f"s3://{target.artifacts}/{key}")
        body = target.client("s3").get_object(Bucket=target.artifacts, Key=key)["Body"]
        with gzip.GzipFile(fileobj=body) as unpacked:
            text = io.TextIOWrapper(io.BufferedReader(unpacked), encoding="utf-8", errors="replace")
            yield from _lines(iter(partial(text.read, 64 * 1024), ""))


def _job_run(target: Target, run: str | None) -> str:
    """The job run of a run; without a name, of the newest run that has one. Any other name is that of a job run."""
    history = target.ledger.history
    if run is None:
        newest = next((item for item in history.runs() if item.get("job_run_id")), None)
        if newest is None:
            raise CommandFailed("No run is known", next_step="Name a job run of EMR Serverless")
        return str(newest["job_run_id"])
    item = history.run(run)
    if item is None:
        begun = [run_begun for run_begun in islice(history.runs(), RUNS_SEARCHED) if is_named(run, run_begun["run"])]
        _refuse_several(run, len(begun))
        item = begun[0] if begun else None
        if item is None and run.startswith("run-"):
            raise UsageError(f"No run is called {run!r}", next_step=str(RUNS))
    if item is not None and not item.get("job_run_id"):
        raise CommandFailed(f"The run {run} has not started", next_step=str(RUNS))
    return str(item["job_run_id"]) if item else run


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    """Whole lines of a text that comes in pieces; the last one may lack its end."""
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + piece).split("\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = ""
    if rest:
        yield rest
