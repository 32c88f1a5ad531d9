"""The public interface for reading silver tables: snapshot, as of a moment, changes, differences."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from sluice.errors import NoTarget
from sluice_aws.failures import failure_of
from sluice_aws.stack import NAME_A_DEPLOYED_ONE, STACK_VARIABLE, find_target
from sluice_read.diff import RowDifference, differences, refuse_wrong_order
from sluice_read.errors import AwsCallFailed
from sluice_read.moments import NOW, Moment, Span, instant_at, moment_of, span_of
from sluice_read.past_states import open_as_of
from sluice_read.place import SilverPlace, tables_in
from sluice_read.reading import BATCH_ROWS, Shown, open_table
from sluice_read.sql import rows_reader, run_query


class CommitTime(NamedTuple):
    """When a commit began: its instant of 17 digits, and the same as a time in UTC (ISO 8601)."""

    instant: str
    time: str


def aws_call_failed(error: BotoCoreError | ClientError) -> AwsCallFailed:
    """Describe an error of botocore, with the next step that the command names."""
    failure = failure_of(error)
    return AwsCallFailed(failure.sentence, next_step=failure.next_step, cause=type(error).__name__)


@contextmanager
def _aws_errors_typed() -> Iterator[None]:
    """Raise botocore's errors as AwsCallFailed."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise aws_call_failed(error) from error


class Silver:
    """The silver tables of one stack.

    Tables are named `database.table`. Of a merge-on-read table the plain name and `_rt` are the merged state, and `_ro`
    its base files alone. A moment is an instant (17 digits, as `commits` gives them), a time with its zone, or a
    `datetime` with its zone, and not in the future. Readers give Arrow batches, file after file, and can be read once.
    Rows come in no order, with the columns of the newest commit. Rows that the source deleted are left out unless
    `with_deleted`; `lineage` adds the `_sluice_*` and `_hoodie_*` columns. Every method raises AwsCallFailed where AWS
    refuses or doesn't answer.
    """

    def __init__(self, place: SilverPlace) -> None:
        self._place = place

    @classmethod
    @_aws_errors_typed()
    def of_stack(cls, name: str, region: str | None = None) -> Silver:
        """The tables of a deployed stack, with boto3's own credentials. Raises NoTarget, NoRegion.

        `region` None: AWS_REGION, or the region of the AWS profile.
        """
        if not name or not name.strip():  # else SLUICE_STACK or a local stack would be read
            raise NoTarget(
                "The name of the stack is empty",
                next_step="Is a variable unset? Name a stack; `Silver.local()` is the one in this folder",
            )
        return cls(find_target(name, {**os.environ, **({"AWS_REGION": region} if region else {})}, Path.cwd()))

    @classmethod
    def local(cls, folder: Path | str = ".") -> Silver:
        """The tables of the local stack that runs in a folder or above it. Raises NoTarget."""
        environment = {name: value for name, value in os.environ.items() if name != STACK_VARIABLE}
        try:
            return cls(find_target(None, environment, Path(folder).resolve()))
        except NoTarget as error:
            error.next_step = error.next_step.replace(
                NAME_A_DEPLOYED_ONE, "read a deployed one: `Silver.of_stack(NAME)`"
            )
            raise

    @_aws_errors_typed()
    def tables(self) -> tuple[str, ...]:
        """List every `database.table`, sorted."""
        return tables_in(self._place)

    @_aws_errors_typed()
    def schema(self, table: str, *, with_deleted: bool = False, lineage: bool = False) -> pa.Schema:
        """The schema of a table's readers. Raises UnknownTable, Unreadable, NoCommit."""
        return rows_reader(open_table(self._place, table), Shown(with_deleted=with_deleted, lineage=lineage)).schema

    @_aws_errors_typed()
    def commits(self, table: str) -> tuple[CommitTime, ...]:
        """List the commits of the active timeline, oldest first.

        Raises UnknownTable, NoCommit.
        """
        timeline = open_table(self._place, table).listing.timeline
        return tuple(CommitTime(instant.time, moment_of(instant.time)) for instant in timeline.commits)

    @_aws_errors_typed()
    def earliest(self, table: str) -> str:
        """The earliest instant as of which a table can be read. Raises UnknownTable, NoCommit."""
        return open_table(self._place, table).listing.earliest

    @_aws_errors_typed()
    def snapshot(
        self, table: str, *, columns: Sequence[str] | None = None, with_deleted: bool = False, lineage: bool = False
    ) -> pa.RecordBatchReader:
        """Read the rows as of the newest commit. Raises UnknownTable, UnknownColumn, Unreadable, NoCommit."""
        return self._reader(table, NOW, columns, with_deleted, lineage)

    @_aws_errors_typed()
    def as_of(
        self,
        table: str,
        moment: Moment,
        *,
        columns: Sequence[str] | None = None,
        with_deleted: bool = False,
        lineage: bool = False,
    ) -> pa.RecordBatchReader:
        """Read the rows as they were at a moment.

        Raises NotRetained before the earliest readable moment (`facts["earliest"]`), UnsettledMoment, InvalidMoment,
        and what `snapshot` does.
        """
        return self._reader(table, Span(as_of=instant_at(moment)), columns, with_deleted, lineage)

    @_aws_errors_typed()
    def changes(
        self,
        table: str,
        *,
        since: Moment | None = None,
        until: Moment | None = None,
        columns: Sequence[str] | None = None,
        lineage: bool = False,
    ) -> pa.RecordBatchReader:
        """Read each row whose last change is after `since` (None: any) and not after `until` (None: the newest commit).

        A row comes once, as that change left it; deleted rows come too, with `__deleted` true. To follow a table, take
        the newest of `commits` first, pass it as `until`, and as `since` of the next call. Raises what `as_of` does.
        """
        return self._reader(table, replace(span_of(since=since, until=until), changes=True), columns, True, lineage)

    @contextmanager
    def query(
        self,
        sql: str,
        *,
        as_of: Moment | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        with_deleted: bool = False,
        lineage: bool = False,
    ) -> Iterator[pa.RecordBatchReader]:
        """Run one SELECT in DuckDB's SQL, as `sluice query` does; the rows are readable inside the `with`.

        Only the columns that the statement names are read. Every table is read as of the same moment, or with the
        changes of the same span, as by `as_of` and `changes`; before its files begin, from its history table. Raises
        InvalidQuery, and what `as_of` does.
        """
        span = span_of(as_of=as_of, since=since, until=until)
        with ExitStack() as opened:
            with _aws_errors_typed():  # and not what the caller does with the rows
                query = run_query(self._place, sql, with_deleted=with_deleted, lineage=lineage, span=span)
                _, relation = opened.enter_context(query)
            yield relation.to_arrow_reader(BATCH_ROWS)

    @_aws_errors_typed()
    def differences(
        self, table: str, before: Moment, after: Moment | None = None
    ) -> AbstractContextManager[Iterator[RowDifference]]:
        """Find the rows that differ between two moments, readable inside the `with`. `after` None: the newest commit.

        A moment before the table's files begin is read from its history table. Raises what `as_of` does.
        """
        first, second = instant_at(before), None if after is None else instant_at(after)
        refuse_wrong_order(first, second)
        return differences(
            open_as_of(self._place, table, span=Span(as_of=first)),
            open_as_of(self._place, table, span=NOW if second is None else Span(as_of=second)),
        )

    def _reader(
        self, table: str, span: Span, columns: Sequence[str] | None, with_deleted: bool, lineage: bool
    ) -> pa.RecordBatchReader:
        return rows_reader(open_table(self._place, table, span=span), _shown(columns, with_deleted, lineage))


def _shown(columns: Sequence[str] | None, with_deleted: bool, lineage: bool) -> Shown:
    names = (columns,) if isinstance(columns, str) else columns  # a single one, and not its letters
    return Shown(
        with_deleted=with_deleted, lineage=lineage, columns=None if names is None else tuple(dict.fromkeys(names))
    )
