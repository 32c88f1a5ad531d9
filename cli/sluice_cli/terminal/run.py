"""Runs one command. Every expected failure becomes one line on stderr and an exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, NoCredentialsError

from sluice.errors import FAILED, CommandFailed, SluiceError
from sluice_cli.terminal.output import command_line, say


def run_command(command: Callable[..., Any], arguments: Sequence[str] | None = None) -> int:
    """Run `command` (the Typer app or its Click group) and return the exit code.

    `arguments` default to those of the process. Unexpected errors are bugs and keep their traceback.
    """
    command_line.set(shlex.join(["sluice", *(sys.argv[1:] if arguments is None else arguments)]))
    try:
        command(args=None if arguments is None else list(arguments), prog_name="sluice")
    except SystemExit as ended:  # Typer ends so, also after an invalid command line
        return ended.code if isinstance(ended.code, int) else FAILED
    except SluiceError as error:
        say(f"error: {error}")
        return error.exit_code if isinstance(error, CommandFailed) else FAILED
    except EndpointConnectionError as error:
        say(
            f"error: nothing answers at {error.kwargs.get('endpoint_url')}. "
            "If the local stack has stopped, start it with `sluice local up`"
        )
        return FAILED
    except NoCredentialsError:
        say("error: no AWS credentials were found. Configure them as for the AWS CLI (AWS_PROFILE, `aws sso login`)")
        return FAILED
    except (ClientError, BotoCoreError) as error:
        say(f"error: AWS refused: {error}. `sluice doctor` checks the stack's parts")
        return FAILED
    return 0
