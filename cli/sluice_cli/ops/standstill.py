"""`sluice standstill`: brings a deployed stack's Spark to rest before CloudFormation changes or deletes its application, and back."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import tomllib
import typer

from sluice.errors import NoTarget
from sluice.lane.machine import HALTED, IDLE, PAUSED
from sluice.ledger.ports import Ledger
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.stack import Target
from sluice_cli.errors import NotAtRest
from sluice_cli.terminal.output import Stack, chosen_target, say
from sluice_cli.terminal.stack import supervise_now
from sluice_deploy.template import changes_application, parameters_of

app = typer.Typer(
    help="Bring Spark to rest before its application is changed or deleted, and back.", no_args_is_help=True
)
POLL_S = 5.0
GIVEN = "ApplicationId"  # the parameter that names an application which isn't the stack's own
RESTING = ("CREATED", "STOPPED", "TERMINATED")
ENDED = ("SUCCESS", "FAILED", "CANCELLED")
Note = Annotated[
    Path | None,
    typer.Option(
        "--note",
        metavar="FILE",
        help="A file that notes the lanes that it paused, for `sluice standstill end`; else the ledger does, for whatever machine ends it.",
        show_default=False,
    ),
]


@app.command("begin")
def begin(
    note: Note = None,
    before_deploy: Annotated[
        Path | None,
        typer.Option(
            "--before-deploy", metavar="TEMPLATE", help="Only if deploying this template changes the application."
        ),
    ] = None,
    overrides: Annotated[
        str,
        typer.Option(
            "--parameter-overrides",
            metavar="TEXT",
            help="The parameters that the deployment will set, as `sam deploy` takes them.",
        ),
    ] = "",
    config_env: Annotated[
        str | None,
        typer.Option(
            "--config-env",
            metavar="NAME",
            help="Take the parameters that samconfig.toml sets for this environment, as `sam deploy` does when none are given.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long runs may take to end.")
    ] = 1800.0,
    stack: Stack = None,
) -> None:
    """Pause every lane, wait until its run has ended, and stop the application. Nothing is lost: what arrives waits in the ledger.

    A run ends after the batch it is in. Does nothing where there is no stack yet. An application that the stack was given (ApplicationId) is left as it is, others' jobs
    on it too. A halted lane starts nothing and stays halted. After a deployment that failed it may be begun again: what was paused before it is still noted.

    Example:

      sluice --stack sluice standstill begin --before-deploy template.yaml --parameter-overrides "MaximumCpu='32 vCPU'"
    """
    try:
        target = chosen_target(stack)
    except NoTarget as missing:
        say(f"{missing}: nothing to bring to rest")
        return
    if before_deploy is not None and not _would_change(
        target, before_deploy, _given(overrides, config_env, before_deploy.parent)
    ):
        say("The application stays as it is: runs go on")
        return
    ledger = DynamoDbLedger(target.client("dynamodb"), target.ledger_table)
    working = [
        state.lane for state in ledger.lanes.all() if state.state not in (PAUSED, HALTED) and not state.pause_requested
    ]
    _write(note, ledger, target, list(dict.fromkeys([*_noted(note, ledger), *working])))
    for lane in working:
        ledger.lanes.pause(lane)
        say(f"{lane}: paused")
    deadline = time.monotonic() + timeout
    back = f"sluice --stack {target.stack} standstill end" + (f" --note {note}" if note else "")
    _wait(
        lambda: [
            f"lane {state.lane} ({state.state})"
            for state in ledger.lanes.all()
            if state.state not in (IDLE, PAUSED, HALTED)
        ],
        deadline,
        back,
    )
    emr, application = target.client("emr-serverless"), target.outputs["ApplicationId"]
    if target.parameters.get(GIVEN):
        say(f"application {application}: left as it is, since the stack was given it")
        return
    _wait(
        lambda: [
            f"job run {run['name']}"
            for page in emr.get_paginator("list_job_runs").paginate(applicationId=application)
            for run in page["jobRuns"]
            if run["state"] not in ENDED
        ],
        deadline,
        back,
    )
    if emr.get_application(applicationId=application)["application"]["state"] not in RESTING:
        emr.stop_application(applicationId=application)
    _wait(
        lambda: [
            f"application {state}"
            for state in (emr.get_application(applicationId=application)["application"]["state"],)
            if state not in RESTING
        ],
        deadline,
        back,
    )
    say(f"application {application}: at rest")


@app.command("end")
def end(note: Note = None, stack: Stack = None) -> None:
    """Resume the lanes that `begin` paused; those that somebody else had paused stay paused. Without a note, nothing.

    Example:

      sluice --stack sluice standstill end
    """
    try:
        target = chosen_target(stack)
    except NoTarget as missing:
        say(f"{missing}: nothing rests")
        return
    ledger = DynamoDbLedger(target.client("dynamodb"), target.ledger_table)
    lanes = _noted(note, ledger)
    for lane in lanes:
        ledger.lanes.resume(lane)
        say(f"{lane}: goes on")
    if lanes:
        supervise_now(target)
    if note is not None:
        note.unlink(missing_ok=True)
    elif lanes:
        ledger.lanes.note_standstill([])


def _noted(note: Path | None, ledger: Ledger) -> list[str]:
    """The lanes that were paused and have not been let go on."""
    if note is None:
        return list(ledger.lanes.paused_for_standstill())
    return list(json_module.loads(note.read_text())["lanes"]) if note.is_file() else []


def _write(note: Path | None, ledger: Ledger, target: Target, lanes: list[str]) -> None:
    """Before any of them is paused: what is cut off is taken back, too."""
    if note is None:
        ledger.lanes.note_standstill(lanes)
        return
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json_module.dumps({"stack": target.stack, "lanes": lanes}))


def _given(overrides: str, config_env: str | None, folder: Path) -> dict[str, str]:
    """The command line's parameters; without any, those of samconfig.toml beside the template: `sam deploy` mixes them no more."""
    if overrides or config_env is None:
        return parameters_of(overrides)
    summary = tomllib.loads((folder / "samconfig.toml").read_text(encoding="utf-8"))
    return parameters_of(
        summary.get(config_env, {}).get("deploy", {}).get("parameters", {}).get("parameter_overrides", "")
    )


def _would_change(target: Target, template: Path, given: Mapping[str, str]) -> bool:
    from sluice_local.stack.overlay import read_template  # SAM's reader: heavy, and here only

    now = target.parameters
    if now.get(GIVEN):
        return False  # it is none of the stack's resources: no deployment changes it
    cloudformation = target.client("cloudformation")
    body: Any = cloudformation.get_template(StackName=target.stack, TemplateStage="Original")["TemplateBody"]
    if isinstance(body, str):
        from samtranslator.yaml_helper import yaml_parse

        body = json_module.loads(json_module.dumps(yaml_parse(body)))
    return changes_application(body, read_template(template), now, given)


def _wait(what: Callable[[], list[str]], deadline: float, back: str) -> None:
    """Until there is nothing to wait for; says once what that is. Raises NotAtRest, which names `back`, the command that takes the standstill back."""
    said: list[str] = []
    while waiting := what():
        if time.monotonic() > deadline:
            raise NotAtRest(
                f"Still waiting for {', '.join(waiting[:5])}",
                waiting_for=waiting,
                next_step=f"The lanes stay paused until this goes through or is taken back: look at `sluice status`, then run it again (--timeout waits longer), or `{back}`",
            )
        if waiting != said:
            say(f"waiting for {', '.join(waiting[:5])}")
            said = waiting
        time.sleep(POLL_S)
