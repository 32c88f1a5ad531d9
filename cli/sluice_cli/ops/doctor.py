"""`sluice doctor`: checks a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated

import typer
from botocore.exceptions import ClientError
from rich.text import Text

from sluice.errors import SluiceError
from sluice_aws.failures import SEE_STACK, failure_of
from sluice_aws.stack import Target
from sluice_cli.ops.checks import CHECKS
from sluice_cli.ops.engine import EngineTrial
from sluice_cli.ops.findings import FAIL, WARN, Finding
from sluice_cli.terminal.options import Json, Stack, TimeSpan, option, seconds
from sluice_cli.terminal.output import print_json, say, stderr_console
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import counted


def doctor(
    job: Annotated[
        bool,
        option(
            "--job",
            "Also start a job that tries the engine: versions, and a small table of each type. "
            "It takes about a minute, and costs a minute of a driver and an executor.",
        ),
    ] = False,
    timeout: Annotated[
        float,
        option(
            "--timeout DURATION", "With --job: time limit of the job, its wait for workers included.", parser=seconds
        ),
    ] = TimeSpan(1200),
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Check buckets, ledger, application, release, configuration, lanes, tables, catalog, notices, announcements.

    With --job, a job also checks the engine: it writes, changes, compacts and reads a small table of each type in its
    own folder of the silver bucket, and removes them. The exit code is 1 if a check fails; warnings don't count.

    Examples:

      sluice doctor
      sluice --stack sluice doctor --job
    """
    target = chosen_target(stack)
    checks: dict[str, Callable[[Target], Iterable[Finding]]] = {**CHECKS}
    if job:
        checks["trial"] = lambda target: _tried(target, timeout)
    findings = [finding for about, check in checks.items() for finding in _checked(about, check, target)]
    if as_json:
        print_json([item.to_dict() for item in findings])
    else:
        print_table(
            ("result", "about", "found", "what to do"),
            [(item.result, item.about, item.found, item.advice) for item in findings],
            apart=(3,),
            states=(0,),
        )
        say(summary(findings))
    if any(item.result == FAIL for item in findings):
        raise typer.Exit(1)


def summary(findings: Sequence[Finding]) -> str:
    """How many checks failed, and how many gave a warning."""
    failed, warned = (sum(item.result == result for item in findings) for result in (FAIL, WARN))
    warnings = f", {counted(warned, 'warning')}" if warned else ""
    return f"{failed or 'none'} of {counted(len(findings), 'check')} failed{warnings}"


def _tried(target: Target, timeout_s: float) -> list[Finding]:
    """The findings of a trial job."""
    console = stderr_console()
    with console.status("Starting a job") as status:
        progress = lambda line: status.update(Text(line)) if console.is_terminal else say(line)  # noqa: E731
        return EngineTrial(target, progress=progress).run(timeout_s)


def _checked(about: str, check: Callable[[Target], Iterable[Finding]], target: Target) -> list[Finding]:
    """The findings of one check, or a finding that it could not be made."""
    try:
        return list(check(target))
    except (ClientError, SluiceError) as error:  # one of Sluice holds its own next step
        advice = failure_of(error, otherwise=SEE_STACK).next_step if isinstance(error, ClientError) else ""
        return [Finding(about, FAIL, f"could not be checked: {error}", advice or SEE_STACK)]
