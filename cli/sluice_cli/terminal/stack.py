"""The stack behind a command: which one and who operates it, its configuration and lanes, and a start of what waits."""

from __future__ import annotations

import getpass
import os
import socket
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from sluice.config.document import Configuration
from sluice.errors import CommandFailed
from sluice_aws.errors import ConfigurationUnreadable
from sluice_aws.stack import LOCAL, Target, find_target
from sluice_cli.terminal.options import named_stack, stacks_named
from sluice_cli.terminal.output import say
from sluice_cli.terminal.run import debugging

if TYPE_CHECKING:
    from sluice_aws.ledger.ledger import Ledger


def chosen_target(stack: str | None) -> Target:
    """Choose the stack to work on and name it on stderr. `stack` is the verb's own option. Raises NoTarget."""
    if stack is not None:
        named_stack.set(stack)
    target = find_target(named_stack.get(), os.environ, Path.cwd())
    stacks = stacks_named.get()
    if stacks is None or target.described not in stacks:
        say(target.described)
    if stacks is not None:
        stacks.add(target.described)
    return target


def operator_of(target: Target) -> str:
    """The caller's ARN, or on the local stack the user of this machine."""
    if target.kind == LOCAL:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    return str(target.client("sts").get_caller_identity()["Arn"])


def readable_configuration(target: Target) -> tuple[bool, Configuration | None]:
    """Whether the caller can read the configuration in force, and the configuration; None where none was pushed."""
    try:
        return True, target.configuration(without_ledger=True)
    except ConfigurationUnreadable:
        return False, None
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") not in ("AccessDenied", "AccessDeniedException"):
            raise
        return False, None


def configuration_in_force(target: Target, *, without_ledger: bool = False) -> Configuration | None:
    """The configuration in force, as `Target.configuration` gives it; None, with a warning, where it can't be read."""
    try:
        return target.configuration(without_ledger=without_ledger)
    except ConfigurationUnreadable as error:
        say(f"warning: {error.message}")
        return None


def lane_names(ledger: Ledger, *configurations: Configuration | None) -> tuple[str, ...]:
    """Every lane that may hold objects.

    The ledger alone doesn't know them all: an object of a paused table wakes no lane.
    """
    configured = {name for configuration in configurations if configuration for name in configuration.lane_names()}
    return tuple(sorted({lane.lane for lane in ledger.lanes.all()} | configured))


def output_of(target: Target, name: str) -> str:
    """An output of the stack. Raises CommandFailed where the deployed template doesn't have it."""
    if name not in target.outputs:
        raise CommandFailed(f"The stack has no output {name}", next_step="Deploy the template of this release")
    return str(target.outputs[name])


FUNCTION_OUTPUT = "SuperviseFunction"


def supervise_now(target: Target) -> bool:
    """Invoke the function that starts what waits, without waiting for it. Returns False, and says why, if it can't.

    Nothing is lost then: the ledger has woken the lane, and the schedule finds it within minutes.
    """
    name = target.outputs.get(FUNCTION_OUTPUT)
    if name is None:
        say(f"The stack has no output {FUNCTION_OUTPUT}: the schedule starts what waits, within minutes")
        return False
    try:
        target.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code")
        if code not in ("AccessDeniedException", "ResourceNotFoundException"):
            raise
        if debugging.get():
            traceback.print_exception(error)
        why = "is gone" if code == "ResourceNotFoundException" else "may not be invoked by you"
        say(f"The function {name} {why}: the schedule starts what waits, within minutes")
        return False
    return True
