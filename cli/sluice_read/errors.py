"""Errors of reading silver tables."""

from __future__ import annotations

from sluice.errors import CommandFailed, UsageError


class AwsCallFailed(CommandFailed):
    """AWS refused a call, or nothing answered; facts: `cause`, the name of botocore's error, which is `__cause__`."""

    code = "aws_call_failed"


class NotComparable(CommandFailed):
    """The two moments belong to different tables; facts: `tables`."""

    code = "not_comparable"
    next_step = "Name the same table twice"


class InvalidMoment(UsageError):
    """A moment that is not valid, or moments that contradict each other; facts: `given`."""

    code = "invalid_moment"


class UnknownTable(UsageError):
    """No table with a commit has this name; facts: `table`, `tables`."""

    code = "unknown_table"


class UnknownColumn(UsageError):
    """A column that the table lacks, or that is hidden; facts: `table`, `column`, `columns`."""

    code = "unknown_column"


class Unreadable(CommandFailed):
    """hudi-rs could not read the table; facts: `table`."""

    code = "unreadable_table"


class InvalidQuery(UsageError):
    """The statement is not a single SELECT that DuckDB can run over these tables."""

    code = "invalid_query"


class InvalidCondition(UsageError):
    """A condition on rows that is not `column:operator:value`, or a value of another type; facts: `given`."""

    code = "invalid_condition"


class InvalidCursor(UsageError):
    """A cursor that no page of rows gave."""

    code = "invalid_cursor"
    next_step = "Pass `next` of a page as it is, or leave `cursor` out to begin again"


class InvalidParameters(UsageError):
    """A request to `sluice serve` with a parameter that doesn't exist, is missing, or has a value of another form."""

    code = "invalid_request"
    next_step = "/openapi.json lists the parameters"


class UnknownPath(UsageError):
    """A path that `sluice serve` doesn't have."""

    code = "unknown_path"
    next_step = "/openapi.json lists the paths"


class ReadOnly(UsageError):
    """A request to `sluice serve` with another method than GET."""

    code = "read_only"
    next_step = "Ask with GET: the server only reads"


class NoRow(CommandFailed):
    """No row has this key; facts: `table`, `key`."""

    code = "no_row"


class TookTooLong(CommandFailed):
    """A request that reached the server's time limit; facts: `table`, `seconds`."""

    code = "took_too_long"
    next_step = "Name fewer columns, ask for changes by `since`, or start the server with a higher --seconds"


class PageTooLarge(CommandFailed):
    """A page whose rows don't fit in the server's memory for one request; facts: `table`."""

    code = "page_too_large"
    next_step = "Lower `limit`, or name the columns that you need"


class NoToken(UsageError):
    """A request to `sluice serve` without the bearer token that the server was started with."""

    code = "no_token"
    next_step = "Send the header `Authorization: Bearer TOKEN`; whoever started the server has the token"


class ServerBusy(CommandFailed):
    """As many tables are read as the server reads at once."""

    code = "server_busy"
    retriable = True
    next_step = "Ask again later, or start the server with a higher --at-once"


class Unexpected(CommandFailed):
    """An error that `sluice serve` has no code for: a defect, or a machine without memory or disk."""

    code = "unexpected"
    next_step = "The server's log on stderr has the error; `sluice doctor` checks the stack's parts"


class NotRetained(CommandFailed):
    """A moment before the earliest that can be read; facts: `table`, `asked`, `earliest` (instants).

    Where a history table lacks states of the moment, the fact `rows` says of how many rows.
    """

    code = "not_retained"


class UnsettledMoment(CommandFailed):
    """A moment at which a write was present that was rolled back later.

    Facts: `table`, `asked`, `rolled_back`, `earliest` (instants).
    """

    code = "unsettled_moment"


class NoCommit(CommandFailed):
    """A table that was created and has no commit yet; facts: `table`."""

    code = "no_commit"


class Damaged(CommandFailed):
    """A file of the timeline that Hudi did not write in this form; facts: `table`, `file`."""

    code = "damaged_timeline"
    next_step = "Run `sluice doctor`; Hudi itself writes this file"


class FilesMissing(CommandFailed):
    """Files that a commit wrote are gone, so that a read would lack rows; facts: `table`, `instant`, `files`."""

    code = "files_missing"
