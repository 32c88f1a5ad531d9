"""The errors of the core: small, typed, carrying facts, and saying whether a retry helps."""

from __future__ import annotations

from typing import Any, ClassVar


class SluiceError(Exception):
    """What went wrong, the facts it is about, and the next step.

    `code` is stable and goes to logs, ledger items and metrics; `retriable` says whether the same
    call can succeed later without anybody changing anything. `facts` are the fields a log event
    carries. Pickles, because Spark tasks raise it across processes.
    """

    code: ClassVar[str] = "error"
    retriable: ClassVar[bool] = False
    next_step: str = ""  # of the class where the error itself says none

    def __init__(self, message: str, *, next_step: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, Any] = facts
        if next_step is not None:
            self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message}. {self.next_step}" if self.next_step else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.next_step, self.facts)


def _rebuild(cls: type, message: str, next_step: str, facts: dict[str, Any]) -> SluiceError:
    """Restore an error from its parts: keyword-only facts are out of reach of the default pickling."""
    error: SluiceError = cls.__new__(cls)
    SluiceError.__init__(error, message, next_step=next_step, **facts)
    return error


class UnidentifiedObject(SluiceError):
    """An object was named with neither a version nor an ETag, or with an impossible bucket or key."""

    code = "unidentified_object"


class InvalidConfiguration(SluiceError):
    """A configuration that can't be used; facts: `mistakes`, each with where it is."""

    code = "invalid_configuration"
    next_step = "Correct it and run `sluice config check`; the configuration in use has not changed"


class ChangeRefused(SluiceError):
    """A table's key, partition columns or type differ from those its data was written with."""

    code = "change_refused"
    next_step = "Put the old value back. A table's key, partition columns and type change by writing it anew: `sluice pause LANE`, `sluice rebuild table TABLE`, push again, `sluice resume LANE`"


class TwoTopics(SluiceError):
    """Objects wait for a table that another topic feeds; facts: `table`, `topic` (theirs), `fed_by`."""

    code = "two_topics"
    next_step = "Give their topic a table of its own in tables.yaml and push it: they move there with the next pass of reconcile"


class NotConfigured(SluiceError):
    """No rule of the configuration in force makes the table; facts: `table`."""

    code = "table_not_configured"
    next_step = "`sluice config show` lists the rules, `sluice status` the tables"


class UnsupportedType(SluiceError):
    """A column whose type can't be stored; facts: `column`, `source_type`."""

    code = "unsupported_type"
    next_step = "Change how the connector writes this column, or leave the column out at the source"


class UnusableSchema(SluiceError):
    """A writer schema that isn't a record of columns, or whose column names collide."""

    code = "unusable_schema"
    next_step = "Rename or remove at the source what the message names"


class Incompatible(SluiceError):
    """Schemas of one table without a common type for a column; facts: `column`, `types`."""

    code = "incompatible_schema"
    next_step = "Give the column a type that holds both, or give the topic a table of another name"


class Unordered(SluiceError):
    """A change whose place in the source's log is missing or out of range; facts: `field`, `value`."""

    code = "unordered_change"
    next_step = "Let the connector write the source's log position with every change"


class ExpansionLimit(SluiceError):
    """An object that is larger, decoded, than its table's limits allow; facts: `limit`, `unit`."""

    code = "expansion_limit"
    next_step = "If such an object is expected, raise the table's limits, then `sluice quarantine retry`"


class ObjectTooLarge(SluiceError):
    """An object that is larger, as stored, than its table's limit object_bytes; facts: `bytes`, `limit`."""

    code = "object_too_large"
    next_step = (
        "Let the writer write smaller objects, or raise the table's limit object_bytes, then `sluice quarantine retry`"
    )


class EmptyObject(SluiceError):
    """An object without a byte, which no format allows."""

    code = "empty_object"
    next_step = "Upload the object again"


class SchemaTooComplex(SluiceError):
    """A writer schema that is deeper, wider or more entangled than its table's limits; facts: `limit`, `what`."""

    code = "schema_too_complex"
    next_step = "Simplify the schema at the source, or raise the table's schema limits, then `sluice quarantine retry`"


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


class UnreadableManifest(SluiceError):
    """A manifest or outcome that this release can't read; facts: `found`."""

    code = "unreadable_manifest"
    next_step = "Run the release that wrote it, or a newer one"


class NoStatement(SluiceError):
    """An engine can't read the table; facts: `table`, `engine`."""

    code = "no_statement"
    next_step = "Redshift reads copy-on-write tables only: read this one with Athena, Trino, Spark or `sluice read`"


class UnexpectedPartition(SluiceError):
    """A partition's folder isn't named by the table's partition columns; facts: `table`, `partition`."""

    code = "unexpected_partition"
    next_step = "Was something else written into the table's folder? A table's partition columns can't change in place"


class NameTaken(SluiceError):
    """The catalog has something else under a name that a table should get; facts: `table`, `database`, `name`, `found`."""

    code = "catalog_name_taken"
    next_step = "Give the table another name in the catalog (`catalog:` in tables.yaml), or remove what is there"


class PartitionKeysDiffer(SluiceError):
    """The catalog's table is partitioned otherwise than the table; facts: `table`, `name`, `found`, `wished`."""

    code = "catalog_partition_keys_differ"
    next_step = "Glue can't change them: drop the table in the catalog (its data stays), and sync again"


class UnusableCommitSchema(SluiceError):
    """A commit tells a schema that the catalog can't; facts: `table`."""

    code = "unusable_commit_schema"
    next_step = "Was the table written by something else? Sluice's own commits tell the schema of every column"


class Overlap(SluiceError):
    """An object whose Kafka offsets overlap another's under a different key; facts: `offsets`, `other`."""

    code = "overlap"
    next_step = "Look at both objects: `sluice quarantine discard` if its records are the other's again, else give the table `coordinates`"


class UnreadableReport(SluiceError):
    """A trial's report that this release can't read; facts: `found`."""

    code = "unreadable_report"
    next_step = "Use the command of the release that is deployed"


class UnreadableCommit(SluiceError):
    """A commit's file that can't be read; facts: `instant`."""

    code = "unreadable_commit"
    next_step = "Look at the table's .hoodie folder: the file was changed, or an unknown release of Hudi wrote it"


class UnusableRequest(SluiceError):
    """A name that can't be written into the request; facts: `field`, `value`."""

    code = "unusable_request"
    next_step = "Correct the stack's parameter and deploy again"


class UnreadableHistory(SluiceError):
    """A document of the schema history that this release can't read; facts: `found`."""

    code = "unreadable_schema_history"
    next_step = "Use the release that wrote it, or a newer one"
