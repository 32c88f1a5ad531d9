"""Errors of the commands; each ends a command with its exit code."""

from __future__ import annotations

import os
from pathlib import Path

from sluice.errors import CommandFailed, UsageError

# What to do about objects whose names tell no topic or format.
UNNAMED = (
    "where such objects are changes, write a rule with `topic`, `table`, `record_key` and a `key_pattern` that fits "
    "their keys alone, and with `format` where the extension tells none (docs/producing.md, Any other layout). Others "
    "can stay parked, or be deleted"
)


def plain_reason(error: OSError | UnicodeDecodeError) -> str:
    """Why a file can't be read or written, in words."""
    if isinstance(error, UnicodeDecodeError):
        before = error.object[: error.start]
        column = len(before.rpartition(b"\n")[2].decode("utf-8", "replace")) + 1
        return f"it is not UTF-8 at line {before.count(10) + 1}, column {column}"
    return os.strerror(error.errno) if error.errno else str(error)


def no_tables_file(file: Path, error: OSError | UnicodeDecodeError) -> UsageError:
    """The error for a tables.yaml that can't be read."""
    return UsageError(
        f"{file} can't be read: {plain_reason(error)}",
        next_step="Name a file in UTF-8 that you may read; `sluice init FOLDER` writes a first one",
    )


class OutputLost(CommandFailed):
    """Stdout could not be written, on a full disk for example."""

    code = "output_lost"


class ReaderGone(Exception):
    """The program at the other end of a pipe has ended. The command ends as if by SIGPIPE, without a message."""


class CannotListen(CommandFailed):
    """Another program listens on the port, or it is not this machine's address; facts: `host`, `port`."""

    code = "cannot_listen"
    next_step = "Name another port with --port (0 takes a free one), or an address of this machine with --host"


class NoPlaceForRules(CommandFailed):
    """The form of tables.yaml allows no rules to be added as text; facts: none."""

    code = "no_place_for_rules"
    next_step = "Write `tables:` as a block list, one rule per dash, or copy the rules from `sluice config discover`"


class DemoFailed(CommandFailed):
    """A step of the demonstration did not succeed; facts: `command`, `exit_code`."""

    code = "demo_failed"


class NotificationOverlap(CommandFailed):
    """S3 lets one event of one key go to one queue, topic or function only; facts: `bucket`."""

    code = "notifications_overlap"
    next_step = "Use --via eventbridge, which works beside every other notification"


class NoTrial(CommandFailed):
    """The deployed stack can't try the engine."""

    code = "no_trial"
    next_step = "Deploy the template again"


class TrialNotOver(CommandFailed):
    """The job didn't end in time and was cancelled; facts: `job_run`, `state`."""

    code = "trial_not_over"
    retriable = True
    next_step = "Raise --timeout, or look at the job's log"


class NotAtRest(CommandFailed):
    """Runs didn't end or the application didn't stop in time; facts: `waiting_for`."""

    code = "not_at_rest"
    retriable = True


class BucketElsewhere(CommandFailed):
    """A bucket lies in another Region than the stack; facts: `bucket`, `region`."""

    code = "bucket_elsewhere"
    next_step = "Deploy the stack in the bucket's Region, or give it a bucket of its own Region"


class NotInCatalog(CommandFailed):
    """A table has no commit yet, or is kept out of the catalog; facts: `table`."""

    code = "not_in_catalog"
    next_step = "A table appears with its first commit: `sluice wait`"


class CannotRebuild(CommandFailed):
    """A rebuild is not possible now; facts: `table`, `obstacles`."""

    code = "cannot_rebuild"
    next_step = "Nothing was changed. Remove each obstacle as it says, then repeat the command"


class LedgerInUse(CommandFailed):
    """Lanes may start runs while the ledger is incomplete; facts: `lanes`."""

    code = "ledger_in_use"


class PushedMeanwhile(CommandFailed):
    """Another configuration was put in force between the plan of a push and its write."""

    code = "pushed_meanwhile"
    next_step = "`sluice config plan` shows what the push would change now; then push again"


class NotAllRecovered(CommandFailed):
    """Objects were changed by others while they were recovered; facts: `objects`."""

    code = "not_all_recovered"
    next_step = "Run the command again for the rest"


class UnknownSchema(UsageError):
    """No schema, or more than one, has this name; facts: `table`, `name`."""

    code = "unknown_schema"
    next_step = "`sluice table schema list` shows the tables, `sluice table schema history TABLE` their schemas"


class NotWritten(CommandFailed):
    """The file for the answer could not be written; facts: `file`."""

    code = "not_written"
    next_step = "Give a file in a folder that exists and is writable"

    @classmethod
    def refuse_other_than(cls, file: Path) -> None:
        """Raise where a path is a folder, a device or a pipe: a file that is moved there would take its place."""
        if file.exists() and not file.is_file():
            raise cls(f"{file} can't be written: it is no file", file=str(file))
