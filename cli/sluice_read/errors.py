"""Errors of reading silver tables."""

from __future__ import annotations

from sluice.errors import CommandFailed, UsageError


class NotComparable(CommandFailed):
    """The two moments are of different tables; facts: `tables`."""

    code = "not_comparable"


class InvalidMoment(UsageError):
    """A moment that can't be understood, or moments that don't go together; facts: `given`."""

    code = "invalid_moment"


class UnknownTable(UsageError):
    """The name is no table that has a commit; facts: `table`, `tables`."""

    code = "unknown_table"


class UnknownColumn(UsageError):
    """A column that the table doesn't have, or that is hidden; facts: `table`, `column`, `columns`."""

    code = "unknown_column"


class Unreadable(CommandFailed):
    """hudi-rs could not read the table; facts: `table`."""

    code = "unreadable_table"


class InvalidQuery(UsageError):
    """The statement isn't one SELECT that DuckDB can run over these tables."""

    code = "invalid_query"


class NotRetained(CommandFailed):
    """A moment before the first at which the table can be read; facts: `table`, `asked`, `earliest` (instants)."""

    code = "not_retained"


class UnsettledMoment(CommandFailed):
    """A moment at which a write was there that was rolled back later; facts: `table`, `asked`, `rolled_back`, `earliest` (instants)."""

    code = "unsettled_moment"


class NoCommit(CommandFailed):
    """A table that was created and holds nothing yet; facts: `table`."""

    code = "no_commit"


class Damaged(CommandFailed):
    """A file of the timeline that is not what Hudi writes; facts: `table`, `file`."""

    code = "damaged_timeline"
