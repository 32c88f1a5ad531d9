"""`sluice standstill`: stops a stack's Spark while CloudFormation changes or deletes its application."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.errors import NoRegion, NoTarget
from sluice.lane.machine import IDLE, PAUSED
from sluice_aws.stack import STACK_VARIABLE, Target, remove_failed_creation
from sluice_cli.errors import NotAtRest
from sluice_cli.terminal.interaction import ask
from sluice_cli.terminal.options import Stack, TimeSpan, Yes, named_stack, option, seconds
from sluice_cli.terminal.output import say
from sluice_cli.terminal.stack import chosen_target, supervise_now
from sluice_cli.terminal.step import Step
from sluice_deploy.parameters import configured_tags, parameters_of
from sluice_deploy.template import changes_application, parse_template, read_template

app = typer.Typer(no_args_is_help=True)
POLL_S = 5.0
GIVEN = "ApplicationId"  # the parameter that names an existing application, which the stack doesn't own
RESTING = ("CREATED", "STOPPED", "TERMINATED")
# Of job runs that have not ended. Those that have are many, a page of 50 a second.
GOING_ON = ("SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING", "CANCELLING")


@app.command("begin")
def begin(
    before_deploy: Annotated[
        Path | None,
        option("--before-deploy TEMPLATE", "Do so only if deploying this template changes the application."),
    ] = None,
    overrides: Annotated[
        str, option("--parameter-overrides TEXT", "The parameters of the deployment, as for `sam deploy`.")
    ] = "",
    environment: Annotated[
        str, option("--environment NAME", "The environment of samconfig.toml that is deployed, for its tags.")
    ] = "",
    timeout: Annotated[
        float, option("--timeout DURATION", "Time for runs to end: 90s, 5m, 2h.", parser=seconds)
    ] = TimeSpan(1800),
    yes: Yes = False,
    stack: Stack = None,
) -> None:
    """Pause all lanes, wait for their runs to end, and stop the application. New objects wait in the ledger.

    Runs end after their current batch. Halted lanes are paused, too: `end` lets them try again. Without a stack, the
    command does nothing; before a deployment it deletes a stack whose creation was rolled back. An existing application
    (parameter ApplicationId) is left running, with its other jobs. After a failed deployment the command may be
    repeated: the lanes it paused before stay noted. With --environment, other tags of the stack count as a change.

    In a terminal, the command first says what it stops and asks. A script is not asked.

    Example:

      sluice --stack sluice standstill begin --before-deploy template.yaml --parameter-overrides "MaximumCpu='32 vCPU'"
    """
    target = _target(stack, "nothing to stop")
    if target is None:
        name = stack or named_stack.get() or os.environ.get(STACK_VARIABLE)
        if name and before_deploy is not None and remove_failed_creation(name, os.environ, poll_s=int(POLL_S)):
            say(f"stack {name}: deleted, since its creation had failed and it holds nothing")
        return
    tags = configured_tags(environment, Path()) if environment else None
    if before_deploy is not None and not _would_change(target, before_deploy, parameters_of(overrides), tags):
        say("The application doesn't change: no lane is paused")
        return
    ledger = target.ledger
    working = [state.lane for state in ledger.lanes.all() if state.state != PAUSED and not state.pause_requested]
    if not yes and sys.stdin.isatty():
        ask(_question(working, target))
    # Before any is paused, so that `end` also resumes them after an interruption.
    ledger.lanes.note_standstill(list(dict.fromkeys([*ledger.lanes.paused_for_standstill(), *working])))
    for lane in working:
        ledger.lanes.pause(lane)
        say(f"{lane}: paused")
    named_stack.set(target.stack)
    wait = partial(_wait, deadline=time.monotonic() + timeout)
    wait(lambda: [f"lane {one.lane} ({one.state})" for one in ledger.lanes.all() if one.state not in (IDLE, PAUSED)])
    emr, application = target.client("emr-serverless"), target.outputs["ApplicationId"]
    if target.parameters.get(GIVEN):
        say(f"application {application}: left running, since the stack doesn't own it")
        return

    def awake() -> list[str]:
        state = emr.get_application(applicationId=application)["application"]["state"]
        return [] if state in RESTING else [f"application {state}"]

    def running() -> list[str]:
        pages = emr.get_paginator("list_job_runs").paginate(applicationId=application, states=GOING_ON)
        return [f"job run {run['name']}" for page in pages for run in page["jobRuns"]]

    wait(running)
    if awake():
        emr.stop_application(applicationId=application)
    wait(awake)
    say(f"application {application}: stopped")


@app.command("end")
def end(stack: Stack = None) -> None:
    """Resume the lanes that `begin` paused. Lanes that were paused before stay paused.

    Example:

      sluice --stack sluice standstill end
    """
    target = _target(stack, "no lane is paused")
    if target is None:
        return
    ledger = target.ledger
    lanes = ledger.lanes.paused_for_standstill()
    if not lanes:
        say("No lane is paused for a standstill")
        return
    for lane in lanes:
        ledger.lanes.resume(lane)
        say(f"{lane}: resumed")
    supervise_now(target)
    ledger.lanes.note_standstill([])


def _target(stack: str | None, otherwise: str) -> Target | None:
    """The stack; None where it doesn't exist, after saying so."""
    try:
        return chosen_target(stack)
    except NoRegion:
        raise
    except NoTarget as missing:
        say(f"{missing.message}: {otherwise}")
        return None


def _question(working: Sequence[str], target: Target) -> str:
    lanes = f"Pause {', '.join(working)}, wait for their runs to end" if working else "No lane is active. Wait for runs"
    application = "" if target.parameters.get(GIVEN) else f", and stop application {target.outputs['ApplicationId']}"
    return f"{lanes}{application}? Nothing is merged until {Step('standstill end')}."


def _would_change(target: Target, template: Path, given: Mapping[str, str], tags: Mapping[str, str] | None) -> bool:
    now = target.parameters
    if now.get(GIVEN):
        return False  # no deployment changes an application that the stack doesn't own
    if tags is not None and tags != target.tags:
        return True  # CloudFormation gives the stack's tags to the application
    cloudformation = target.client("cloudformation")
    body: Any = cloudformation.get_template(StackName=target.stack, TemplateStage="Original")["TemplateBody"]
    return changes_application(
        parse_template(body) if isinstance(body, str) else body, read_template(template), now, given
    )


def _wait(what: Callable[[], list[str]], deadline: float) -> None:
    """Wait until `what` lists nothing, and print each new list. Raises NotAtRest after the deadline (monotonic s)."""
    said: list[str] = []
    while waiting := what():
        if time.monotonic() > deadline:
            raise NotAtRest(
                f"Still waiting for {', '.join(waiting[:5])}",
                waiting_for=waiting,
                next_step=f"See {Step('status')}, then run the command again with a longer --timeout. The lanes stay "
                f"paused; {Step('standstill end')} resumes them",
            )
        if waiting != said:
            say(f"waiting for {', '.join(waiting[:5])}")
            said = waiting
        time.sleep(POLL_S)
