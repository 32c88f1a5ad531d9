"""What a command says when it can't do its work: one line, the next step, an exit code."""

from __future__ import annotations

from sluice.errors import SluiceError

FAILED = 1  # the command was understood and could not be done, or what it checks is not so
USAGE = 2  # the command line itself is wrong


class CommandFailed(SluiceError):
    """The command could not be done; `exit_code` is what the process ends with."""

    code = "command_failed"
    exit_code = FAILED


class UsageError(CommandFailed):
    """The command line, a file named on it or a statement in it is wrong."""

    code = "usage"
    exit_code = USAGE


class NoTarget(CommandFailed):
    """There is no stack to work on, or what was named is not one."""

    code = "no_target"
