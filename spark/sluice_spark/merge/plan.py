"""Plans the read of a part: the columns that its objects agree on, and the columns that the table will have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from sluice.changes import hidden_columns
from sluice.config.table import TableConfig
from sluice.errors import PUSH_AND_RETRY, Incompatible, SluiceError
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import RowSchema
from sluice.schema.evolution import (
    SAME,
    Evolution,
    compare,
    evolve_further,
    evolve_table,
    incompatible,
    refused,
    rewritten_columns,
)
from sluice.schema.table_row import known_types, row_with_types
from sluice.schema.union import merge_schemas
from sluice_formats.captures.wrapped import nested_rows
from sluice_formats.errors import DeletionsUnmarked
from sluice_formats.records import ReaderPlan

_NUMBERS = (IntegerType(), LongType(), FloatType(), DoubleType())
_TYPES: dict[str, DataType] = {
    kind.simpleString(): kind
    for kind in (BooleanType(), *_NUMBERS, StringType(), BinaryType(), DateType(), TimestampType())
}


@dataclass(frozen=True)
class PlannedRead:
    """The plan of the read, and `target`, the table's schema after this batch.

    `refused` has the reason by the fingerprint of each writer schema that doesn't fit, `verdicts` the meaning of every
    writer schema for the table as those before it make it. `widened` are the table's columns whose type changes,
    `rewritten` those of them whose change rewrites every file of the table. `without_table` has the fingerprints of
    messages alone where neither the table nor another object has a column: there is nothing to read.
    """

    plan: ReaderPlan
    target: StructType
    refused: Mapping[str, SluiceError]
    verdicts: Mapping[str, Evolution]
    widened: tuple[str, ...]
    rewritten: tuple[str, ...]
    without_table: frozenset[str] = frozenset()


def plan_read(
    config: TableConfig,
    *,
    batch: str,
    writers: Sequence[WriterSchema],
    stored: StructType | None,
    may_rewrite: bool = True,
    inferred: Mapping[str, str] | None = None,
    hash_key: bytes = b"",
) -> PlannedRead:
    """Agree on columns, one writer schema after the other; a schema that doesn't fit is refused, and the rest go on.

    `stored` is the table's schema, None before its first commit. `inferred` are the schemas (JSON) of objects whose
    records carry none, by the object's hash. Without `may_rewrite` a schema that needs the table rewritten is refused.
    `hash_key` is the key of the columns that the table hashes.
    """
    before = column_types(stored) if stored is not None else None
    agreed: RowSchema | None = None
    refusals: dict[str, SluiceError] = {}
    verdicts: dict[str, Evolution] = {}
    target: Mapping[str, str] = before or {}
    spark_types = {**known_types(writers, config), **(before or {})}
    without_table: set[str] = set()
    for writer in sorted(writers, key=lambda writer: not writer.row.columns):
        row = row_with_types(writer, config, spark_types)
        # An object of truncates alone has no columns: the table or the other objects have them.
        if not row.columns and (before is not None or agreed is not None):
            verdicts[writer.fingerprint] = Evolution(SAME, (), before or {})
            continue
        if writer.messages:
            verdicts[writer.fingerprint] = Evolution(SAME, (), {})
            without_table.add(writer.fingerprint)
            continue
        try:
            wrapped = nested_rows(writer, append_only=config.append_only, rule=config.delete_when)
            if wrapped is not None:
                raise wrapped
            if writer.of_changes and not row.columns:
                raise _truncates_alone(config)
            alone = evolve_table(before, row, config, untyped=writer.untyped, of_changes=writer.of_changes)
            merged = merge_schemas(agreed, row) if agreed is not None else row
            after = evolve_table(before, merged, config).target
            if not may_rewrite:
                _refuse_rewriting(before or {}, after, config)
            verdicts[writer.fingerprint] = alone if agreed is None else evolve_further(before, target, row)
            agreed, target = merged, after
        except (Incompatible, DeletionsUnmarked) as error:
            refusals[writer.fingerprint] = error
            verdicts[writer.fingerprint] = refused(error)
    without = _unknown_partition(config, agreed) if before is None and agreed is not None else None
    if without is not None:
        agreed, target = None, {}
        for writer in writers:
            refusals.setdefault(writer.fingerprint, without)
            verdicts[writer.fingerprint] = refused(refusals[writer.fingerprint])
    agreed = agreed if agreed is not None else RowSchema(())
    widened = tuple(name for name, kind in (before or {}).items() if target[name] != kind)
    names_source = not config.append_only and any(writer.meta.source_table for writer in writers)
    own = hidden_columns.HIDDEN if stored is None else ()
    if names_source and hidden_columns.SOURCE not in target:
        own = (*own, hidden_columns.SOURCE_COLUMN)
    unsent = tuple(name for name in config.null_is_unchanged if name in target)
    plan = ReaderPlan(
        replace(config, null_is_unchanged=unsent),
        batch,
        agreed.columns,
        inferred or {},
        hash_key,
        sources=names_source or hidden_columns.SOURCE in target,
    )
    if any(writer.meta.sent for writer in writers):
        brought = {*agreed.names, *hidden_columns.NAMES, hidden_columns.ROW}
        plan = replace(plan, lacking=tuple(name for name in target if name not in brought))
    rewritten = rewritten_columns(before or {}, target)
    return PlannedRead(plan, _schema(target, own), refusals, verdicts, widened, rewritten, frozenset(without_table))


def _truncates_alone(config: TableConfig) -> Incompatible:
    return Incompatible(
        f"The object holds truncates alone, and {config.table} has no columns yet",
        column=config.record_key[0] if config.record_key else "",
        types=["", "absent"],
        next_step=f"Once an object with rows is merged, `sluice quarantine retry --code {Incompatible.code}`: older "
        "changes lose to the truncate",
    )


def _unknown_partition(config: TableConfig, agreed: RowSchema) -> Incompatible | None:
    """Why no table can be made of a first batch: no object of it has a partition column. Later ones may lack it."""
    missing = [
        name
        for written, field in zip(config.partition_by, config.partition_fields)
        for name in (field.source or written,)
        if agreed.column(field.column) is None
    ]
    if not missing:
        return None
    return Incompatible(
        f"The partition column {missing[0]} is not a column of any object of the table's first batch",
        column=missing[0],
        types=["", "absent"],
        next_step="Correct the rule's partition_by and push it, then `sluice quarantine retry "
        "--code incompatible_schema`",
    )


def column_types(schema: StructType | None) -> dict[str, str]:
    """Spark's names of a schema's types, by column; empty for no schema."""
    return {field.name: field.dataType.simpleString() for field in schema.fields} if schema is not None else {}


def changed_columns(before: StructType | None, after: StructType) -> tuple[Mapping[str, str | None], ...]:
    """The columns that a commit adds to a table's schema or widens in it, as an outcome lists them."""
    if before is None:
        return ()
    changes = compare(column_types(before), column_types(after))
    return tuple(
        {"column": change.column, "change": change.change, "from": change.old, "to": change.to}
        for change in changes
        if change.column not in hidden_columns.NAMES
    )


def data_type(name: str) -> DataType:
    """The Spark type of this name (`bigint`, `decimal(12,2)`, `array<string>`)."""
    items = _ARRAY.fullmatch(name)
    if items:
        return ArrayType(data_type(items[1]))
    digits = _DECIMAL.fullmatch(name)
    return DecimalType(int(digits[1]), int(digits[2])) if digits else _TYPES[name]


_ARRAY = re.compile(r"array<(.*)>")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def _refuse_rewriting(before: Mapping[str, str], after: Mapping[str, str], config: TableConfig) -> None:
    for name in rewritten_columns(before, after):
        raise incompatible(
            name,
            before[name],
            after[name],
            "the whole table would have to be rewritten, and it is larger than its rewrite_limit of "
            f"{config.rewrite_limit_bytes:,} bytes",
            f"Raise the table's rewrite_limit, {PUSH_AND_RETRY}",
        )


def _schema(types: Mapping[str, str], hidden: Sequence[hidden_columns.HiddenColumn]) -> StructType:
    """Every column is nullable: readers and releases handle columns that aren't in different ways."""
    own = [StructField(column.name, _TYPES[column.spark_type]) for column in hidden]
    return StructType([StructField(name, data_type(kind)) for name, kind in types.items()] + own)
