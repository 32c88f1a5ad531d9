"""Adopts the rows of a Hudi table that another tool writes: they become the oldest changes of a table of Sluice.

The other table is read, and stays as it is. Each of its rows counts as a change with a position lower than any of the
source's, so it is stored only where no change of its key was merged, and any change that comes later wins over it.
Adopting again adds what was written there since, and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from sluice.changes import hidden_columns as hidden
from sluice.changes.position import ADOPTED
from sluice.config.table import TableConfig
from sluice.hudi import options as hudi_options
from sluice.hudi.foreign_table import adopted_columns, check_adoptable, stated_moments
from sluice.hudi.table_properties import PROPERTIES_FILE
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import Column, RowSchema
from sluice.schema.evolution import INCOMPATIBLE
from sluice.schema.meaning import MEANINGS
from sluice.schema.table_row import row_for_table
from sluice.services.requests import ServiceReport, SliceDone
from sluice_aws.s3.schemas import SchemaStore
from sluice_formats.arrow_columns import arrow_type
from sluice_spark.hudi.own_write import refuse_other_writers
from sluice_spark.hudi.table import read_table
from sluice_spark.merge.by_spark.columns import quoted, table_columns
from sluice_spark.merge.by_spark.commit import with_lineage
from sluice_spark.merge.by_spark.decide import MergeTarget, decide_rows
from sluice_spark.merge.by_spark.latest import is_forgotten
from sluice_spark.merge.by_spark.working_columns import INEXACT
from sluice_spark.merge.context import MergeServices
from sluice_spark.merge.plan import column_types, data_type
from sluice_spark.merge.rows import stored_values
from sluice_spark.services.work import ServiceSlice

_COMMIT = "_hoodie_commit_time"
# Flink's `changelog.enabled` keeps deleted rows, and Hudi's reader for Spark shows them among the others.
_OPERATION = "_hoodie_operation"
_DELETE, _BEFORE_UPDATE = "D", "-U"
RUN = "adoption"
_NO_TIME = r"^-?infinity$|^[+-]\d{5,}-"  # in text: an infinity, as an engine or as Java's last year writes it


def adopt(given: ServiceSlice) -> SliceDone:
    """Add the rows of the table at the URI `source`, an argument of the request, that this table lacks, in one commit.

    A crash leaves an instant that the next slice rolls back. Raises NotAdoptable before anything is written.
    """
    hudi, facts, services, source = given.hudi, given.facts, given.services, given.arguments["source"]
    assert facts.schema is not None  # the table has a commit
    newest = hudi.jvm.newest_table_version()
    check_adoptable(hudi.jvm.stored_properties(f"{source}/{PROPERTIES_FILE}"), hudi.config, newest=newest)
    other = hudi.jvm.meta_client(source)
    rows = _live(read_table(hudi.jvm.spark, source))
    own = column_types(facts.schema)
    moments = {**_source_columns(services, hudi.config), **stated_moments(hudi.jvm.avro_schema(other), own)}
    columns = adopted_columns(column_types(rows.schema), own, hudi.config, moments)
    target = StructType([StructField(field.name, field.dataType) for field in facts.schema.fields])
    size = hudi.jvm.size_bytes(other)
    changes = _as_changes(rows, target, raw={name: moments[name] for name in columns.raw})
    if facts.forgotten:
        changes = changes.where(
            ~is_forgotten(facts.forgotten, table=hudi.config.table, record_key=hudi.config.record_key)
        )
    with ExitStack() as frames:
        decided = decide_rows(
            changes,
            target=MergeTarget(hudi=hudi, facts=facts, schema=target, few_keys=False, unordered=False, frames=frames),
        )
        counts = decided.counts
        services.log.event(
            "adopted",
            table=hudi.config.table,
            absent_columns=list(columns.absent),
            left_columns=list(columns.left),
            **counts,
        )
        purged = counts.get("below_purge_floor", 0)
        more = {
            "read": counts["read"],
            "duplicates": counts["overtaken"],
            "known": counts["losing"] - purged,
            **({"below_purge_floor": purged} if purged else {}),
            "columns_absent": len(columns.absent),
            "columns_left": len(columns.left),
        }
        if decided.changes_nothing:
            return SliceDone(ServiceReport(more=more))
        batch = f"{RUN}-{facts.newest}"
        adopted = with_lineage(decided.rows, words=hudi.config.lineage, batch=batch)
        given.check_held()
        committed = hudi.write(
            adopted,
            operation=hudi_options.UPSERT,
            batch=batch,
            run=RUN,
            facts=facts,
            size_bytes=size,
            before_commit=lambda: refuse_other_writers(hudi, facts, given.check_held),
        )
    return SliceDone(
        ServiceReport(
            files_after=committed.counts.get("files_written", 0),
            bytes_before=size,
            bytes_after=committed.counts.get("bytes_written", 0),
            rows=counts["winning"],
            instant=committed.instant,
            more=more,
        )
    )


def _source_columns(services: MergeServices, config: TableConfig) -> dict[str, Column]:
    """The columns of the newest schema that the table took, by name; empty where its objects carry none."""
    taken = [seen for seen in services.history.schemas(config.table) if seen.verdict != INCOMPATIBLE]
    schema = SchemaStore(services.objects, services.silver_bucket).load(taken[-1].fingerprint) if taken else None
    row = RowSchema(()) if schema is None else row_for_table(read_writer_schema(schema, config.form), config)
    return {column.name: column for column in row.columns}


def _live(rows: DataFrame) -> DataFrame:
    """The rows of another table without those that it keeps as deleted."""
    return rows.where(~F.col(_OPERATION).eqNullSafe(_DELETE)) if _OPERATION in rows.columns else rows


def _written(rows: DataFrame) -> SparkColumn:
    """The instant that wrote a row. The state before an update, which a changelog keeps, counts as the oldest."""
    instant = F.col(_COMMIT)
    return (
        F.when(F.col(_OPERATION) == _BEFORE_UPDATE, "0").otherwise(instant) if _OPERATION in rows.columns else instant
    )


def _stored(rows: DataFrame, raw: Mapping[str, Column]) -> DataFrame:
    """The rows with the values that are stored for the `raw` ones of some columns.

    Times in texts that no connector writes are those that Spark reads.
    """
    if not raw:
        return rows
    texts = {name: f"{name} as text" for name, column in raw.items() if MEANINGS[column.kind].is_parsed}
    rows = rows.select("*", *(quoted(name).alias(text) for name, text in texts.items()))
    types = {name: data_type(column.spark_type) for name, column in raw.items()}
    schema = StructType([StructField(item.name, types.get(item.name, item.dataType)) for item in rows.schema.fields])

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = dict(zip(batch.schema.names, batch.columns))
            for name, column in raw.items():
                columns[name] = stored_values(columns[name].cast(arrow_type(column)), column)[0]
            yield pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    made = rows.mapInArrow(task, schema)
    for name, text in texts.items():
        by_spark = F.when(~quoted(text).rlike(_NO_TIME), quoted(text)).cast(types[name])
        made = made.withColumn(name, F.coalesce(quoted(name), by_spark)).drop(text)
    return made


def _as_changes(rows: DataFrame, target: StructType, raw: Mapping[str, Column]) -> DataFrame:
    """The rows of another table as changes, in the columns of `target`; `raw` has those to convert."""
    rows = _stored(rows, raw)
    own = {
        **{name: F.lit(None) for name in hidden.NAMES},
        hidden.POSITION: F.concat(F.lit(ADOPTED), _written(rows)),
        hidden.DELETED: F.lit(False),
        hidden.OP: F.lit(hidden.SNAPSHOT_READ),
    }
    return rows.select(
        *table_columns(target, rows.columns, own),
        F.lit(None).cast(ArrayType(StringType())).alias(hidden.UNCHANGED),
        F.lit(0).alias(INEXACT),
    )
