"""Errors of the core, and SluiceError, from which every error of Sluice derives."""

from __future__ import annotations

from typing import Any, ClassVar


class SluiceError(Exception):
    """An error with a stable code, the facts for a log event, and the next step to take.

    `code` is written to logs, ledger items and metrics. `retriable` is True if the same call can succeed later
    without any change. In the next step of a class, RETRY stands for the command that retries objects of its code.
    It can be pickled, because Spark tasks raise it across processes.
    """

    code: ClassVar[str] = "error"
    retriable: ClassVar[bool] = False
    next_step: str = ""  # the default of the class

    def __init_subclass__(cls) -> None:
        cls.next_step = cls.next_step.replace("RETRY", f"`sluice quarantine retry --code {cls.code}`")

    def __init__(self, message: str, *, next_step: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, Any] = facts
        if next_step is not None:
            self.next_step = next_step

    def __str__(self) -> str:
        if not self.next_step:
            return self.message
        return f"{self.message}{'' if self.message.endswith(('.', '?', '!')) else '.'} {self.next_step}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.next_step, self.facts)


def _rebuild(cls: type[SluiceError], message: str, next_step: str, facts: dict[str, Any]) -> SluiceError:
    """Restore a pickled error: the default pickling does not pass keyword arguments."""
    error = cls.__new__(cls)
    SluiceError.__init__(error, message, next_step=next_step, **facts)
    return error


class UnidentifiedObject(SluiceError):
    """An object without a version and an ETag, or with an invalid bucket or key."""

    code = "unidentified_object"
    next_step = "Look at what sent the notice: those of S3 name the bucket, the key, and the version or the ETag"


class InvalidConfiguration(SluiceError):
    """An invalid configuration; facts: `mistakes`, each with its place."""

    code = "invalid_configuration"
    next_step = "Correct the file and run `sluice config check FILE`; the active configuration has not changed"


class ChangeRefused(SluiceError):
    """A table's key, partition columns, type, position or topic differ from its data's, or its generation fell."""

    code = "change_refused"
    next_step = (
        "Restore the old value. To change a table's key, partition columns, type, position, topic or name, rebuild it:"
        " `sluice pause LANE`, `sluice rebuild table TABLE`, push again, `sluice resume LANE`"
    )


class TableWentBack(SluiceError):
    """The table's last commit in the ledger is not on its timeline: it was deleted, or restored to an earlier state.

    Facts: `table`, `instant` (of that commit).
    """

    code = "table_went_back"
    next_step = (
        "To have all of its rows again, rebuild it: `sluice pause LANE && sluice rebuild table TABLE && sluice resume "
        "LANE`. To go on with the table as it is, run `sluice table accept TABLE`"
    )

    @classmethod
    def without_properties(cls, table: str, instant: str) -> TableWentBack:
        """The error of a table that lacks `hoodie.properties` alone. `instant` is its newest commit."""
        return cls(
            f"{table} has commits up to {instant}, and its file .hoodie/hoodie.properties is gone or empty",
            table=table,
            instant=instant,
            next_step="`sluice table accept TABLE` restores the file, from Hudi's backup of it or from the "
            "configuration, the ledger and the commits",
        )


class TwoTopics(SluiceError):
    """Another topic feeds the table of these objects, or its offsets don't compare with theirs.

    Facts: `table`, `topic` (of the objects), `fed_by`.
    """

    code = "two_topics"
    next_step = (
        "Give the objects' topic a table of its own in tables.yaml and push it: they move there with the next pass of "
        "reconcile"
    )


class NotConfigured(SluiceError):
    """No rule of the active configuration produces the table; facts: `table`."""

    code = "table_not_configured"
    next_step = "`sluice config show` lists the rules, `sluice status` the tables"


class UnsupportedType(SluiceError):
    """A column whose type can't be stored; facts: `column`, `source_type`."""

    code = "unsupported_type"
    next_step = "Change the type that the connector writes, or exclude the column at the source"


class UnusableSchema(SluiceError):
    """A writer schema that isn't a record of columns, or whose column names collide."""

    code = "unusable_schema"
    next_step = "Rename or remove at the source what the message names"


PUSH_AND_RETRY = "`sluice config push`, then `sluice quarantine retry --code incompatible_schema`"


class Incompatible(SluiceError):
    """Schemas of one table without a common type for a column; facts: `column`, `types`."""

    code = "incompatible_schema"
    next_step = (
        "Give the column a type that holds both (of CSV, and of JSON without a schema, in the rule's `types`), or keep "
        f"the new type in another column by the rule's `columns: {{rename: ...}}`: {PUSH_AND_RETRY}"
    )


class SchemaFrozen(Incompatible):
    """A new column, or a wider type, for a table with `schema: freeze`; facts: `column`, `types`."""

    code = "schema_frozen"
    next_step = (
        "To take it, set `schema: evolve` in the table's rule, push it, then RETRY. To go on without a new column, "
        "name it in `columns: {exclude: ...}`"
    )


class Unordered(SluiceError):
    """A change whose position in the source's log is missing or out of range; facts: `field`, `value`."""

    code = "unordered_change"
    next_step = "Configure the connector to write the source's log position with every change"


class KillsItsRun(SluiceError):
    """An object with which runs died again and again, in the end with nothing beside it; facts: `batch`."""

    code = "kills_its_run"
    next_step = (
        "Look at the driver's log of the dead runs: too little memory is the usual cause. Give the lane more, or lower"
        " the table's limits, then RETRY"
    )


class FailsItsMerge(SluiceError):
    """An object whose merge fails with nothing beside it, while other objects of its table are merged."""

    code = "fails_its_merge"
    next_step = "Look at the reason, which is the error's text. Once it is fixed: RETRY"


class GivenUp(SluiceError):
    """An object of a batch that an operator gave up (`sluice ops batch give-up`)."""

    code = "given_up"
    next_step = "Once the cause is fixed: RETRY"


class ExpansionLimit(SluiceError):
    """An object that is larger, decoded, than its table's limits allow; facts: `limit`, `unit`."""

    code = "expansion_limit"
    next_step = "If such an object is expected, raise the table's limits, then RETRY"

    @classmethod
    def beyond(cls, setting: str, message: str, limit: int, unit: str = "bytes", **facts: Any) -> ExpansionLimit:
        """The error of a table's limit, whose next step names it."""
        step = cls.next_step.replace("limits", f"limit {setting} and push it", 1)
        return cls(message, next_step=step, limit=limit, unit=unit, **facts)


class ObjectTooLarge(SluiceError):
    """An object that is larger, as stored, than its table's limit object_bytes; facts: `bytes`, `limit`."""

    code = "object_too_large"
    next_step = "Let the writer write smaller objects, or raise the table's limit object_bytes, then RETRY"


class DamagedObject(SluiceError):
    """Base of the errors of objects whose bytes no setting lets be read."""

    next_step = "Upload the object again, then `sluice quarantine discard` this version by its id"


class EmptyObject(DamagedObject):
    """An object without a byte, which no format allows."""

    code = "empty_object"


class SchemaTooComplex(SluiceError):
    """A writer schema that is longer, deeper, wider or more entangled than the limits; facts: `limit`, `what`."""

    code = "schema_too_complex"
    next_step = "Simplify the schema at the source"


FAILED = 1  # exit code: the command failed, or its check did
USAGE = 2  # exit code: the command line is wrong


class CommandFailed(SluiceError):
    """A command failed. `exit_code` is that of the process."""

    code = "command_failed"
    exit_code = FAILED


class UsageError(CommandFailed):
    """The command line, or a file or statement that it names, is wrong."""

    code = "usage"
    exit_code = USAGE


class NoTarget(CommandFailed):
    """No stack was found, or the named one is not a stack of Sluice."""

    code = "no_target"


class NoRegion(NoTarget):
    """Neither the environment nor the AWS profile names a Region."""

    code = "no_region"
    next_step = "Set AWS_REGION, or a region in the AWS profile"


class UnreadableManifest(SluiceError):
    """A manifest or outcome that this release cannot read; facts: `found`."""

    code = "unreadable_manifest"
    next_step = "Use the release that wrote it, or a newer one"


class NoStatement(SluiceError):
    """An engine cannot read the table; facts: `table`, `engine`."""

    code = "no_statement"
    next_step = "Redshift reads copy-on-write tables only: read this one with Athena, Trino, Spark or `sluice query`"


class UnexpectedPartition(SluiceError):
    """A partition's folder does not match the table's partition columns; facts: `table`, `partition`."""

    code = "unexpected_partition"
    next_step = "Remove what else was written into the table's folder; partition columns cannot change in place"


class NameTaken(SluiceError):
    """The catalog has another entry of a table's name; facts: `table`, `database`, `name`, `found`."""

    code = "catalog_name_taken"
    next_step = "Give the table another name in the catalog (`catalog:` in tables.yaml), or remove the other entry"


class PartitionKeysDiffer(SluiceError):
    """The catalog's table has other partition columns than the table; facts: `table`, `name`, `found`, `wished`."""

    code = "catalog_partition_keys_differ"
    next_step = (
        "Glue can't change them. Drop the table in the catalog (its data stays) and sync again: `sluice ops catalog "
        "sync` gives the command"
    )


class UnusableCommitSchema(SluiceError):
    """A commit's schema cannot be written to the catalog; facts: `table`."""

    code = "unusable_commit_schema"
    next_step = "Check if another program wrote the table: Sluice's own commits contain the schema of every column"


class Overlap(SluiceError):
    """An object whose Kafka offsets overlap those of an object under another key, or in another folder of a table whose
    changes only offsets order; facts: `offsets`, `other`."""

    code = "overlap"
    next_step = (
        "Compare both objects: if they hold the same records, run `sluice quarantine discard`; otherwise give the "
        "table `coordinates`"
    )


class OtherSourceTable(SluiceError):
    """An object with changes of another source table than those that its table holds; facts: `found`, `held`."""

    code = "other_source_table"
    next_step = (
        "Give the other table's changes a topic or `key_pattern` of their own. If both belong into this table, set "
        "`merged: true` in its rule, or name the source in its key; push it, then RETRY"
    )


class DumpIncomplete(SluiceError):
    """A full dump whose marker came though files of it can't be merged, or there are none. Nothing is deleted."""

    code = "dump_incomplete"
    next_step = (
        "Retry or discard the object that the message names, then RETRY. If an empty dump is right, set the rule's "
        "`snapshot.most_deleted` to 100 before that"
    )


class DumpLacksRows(SluiceError):
    """A full dump that lacks more of the table's rows than it may; facts: `deleted`, `left`. Nothing is deleted."""

    code = "dump_lacks_rows"
    next_step = "If the dump is right, raise `snapshot.most_deleted` of the rule, push it, then RETRY"


class UnreadableReport(SluiceError):
    """A trial's report that this release cannot read; facts: `found`."""

    code = "unreadable_report"
    next_step = "Use the command of the release that is deployed"


class UnreadableCommit(SluiceError):
    """A commit's file that can't be read; facts: `instant`."""

    code = "unreadable_commit"
    next_step = "Look at the table's .hoodie folder: the file was changed, or an unknown release of Hudi wrote it"


class UnusableRequest(SluiceError):
    """A value that cannot be written into a request; facts: `field`, `value`."""

    code = "unusable_request"
    next_step = "Correct the stack's parameter and deploy again"


class UnreadableHistory(SluiceError):
    """A document of the schema history that this release cannot read; facts: `found`."""

    code = "unreadable_schema_history"
    next_step = "Use the release that wrote it, or a newer one"


class NotAdoptable(SluiceError):
    """The rows of another tool's Hudi table can't become rows of this table. Nothing was written."""

    code = "not_adoptable"
    next_step = "Do as the message says: it names what of the table or of its rule has to change"
