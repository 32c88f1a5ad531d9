"""Commits files that Sluice writes itself: Hudi's own client begins the instant and completes it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Callable

from pyspark.sql.types import StructType

from sluice.config.table import MOR
from sluice.hudi import options as hudi_options
from sluice.hudi import own_metadata, write_choices
from sluice.hudi.timeline import COMMIT, DELTA_COMMIT, FOLDER, INFLIGHT, Instant
from sluice_spark.hudi.facts import BaseFile, CommitResult, LogFile, TableFacts
from sluice_spark.hudi.own_write import own_write, refuse_others
from sluice_spark.hudi.table import HudiTable


@dataclass(frozen=True)
class NewFiles:
    """What a writer of a table's files needs: the instant and the rows' schema (Avro, with Hudi's own columns).

    `inflight` is the file of the begun instant, below the table's folder: it stays with the completed one, and a
    roll-back removes it.
    """

    instant: str
    avro_schema: str
    inflight: str


def marker(path: str, instant: str, kind: str) -> str:
    """The path of Hudi's marker for a file, both below the table's folder.

    `kind` is CREATE, MERGE of a base file that is rewritten, or APPEND of a log.
    """
    return f".hoodie/.temp/{instant}/{path}.marker.{kind}"


def partition_metadata(partition: str, instant: str) -> tuple[str, bytes]:
    """Path below the table's folder and content of the file by which Hudi's readers know a folder for a partition."""
    content = f"#partition metadata\ncommitTime={instant}\npartitionDepth={partition.count('/') + 1}\n"
    return f"{partition}/.hoodie_partition_metadata", content.encode()


def commit_own_files(
    hudi: HudiTable,
    write: Callable[[NewFiles], Sequence[BaseFile | LogFile]],
    *,
    schema: StructType | None,
    batch: str,
    run: str,
    attempt: str,
    facts: TableFacts,
    check_held: Callable[[], None],
    in_driver: bool = False,
) -> CommitResult:
    """Begin a write, have `write` make its base files and logs, and commit them.

    It is a bulk insert into an empty table, else an upsert; without `schema` the table keeps its own. Of a file,
    `write` puts Hudi's marker first: Hudi deletes marked files that the commit doesn't name, those of a task that ran
    twice, and all of them in a roll-back. The commit of files that are written `in_driver` starts no Spark job.
    `check_held` raises LaneLost, and is called right before the commit. After another exception the commit may still be
    there (`resolve-before-write`). Raises WriteUndone, CommitNotNewest.
    """
    jvm, config = hudi.jvm, hudi.config
    operation = hudi_options.BULK_INSERT if facts.empty else hudi_options.UPSERT
    avro = jvm.avro_schema(facts.meta_client) if schema is None else jvm.avro_schema_of(schema, config.name)
    # Rows are merged here only where the index stays as it is: asking for a table's size would list it once more.
    record_index = hudi.finds_by_record_index(facts) if facts.empty else facts.record_index
    options = hudi_options.write_options(
        config, operation=operation, parallelism=hudi.cores, record_index=record_index, rows=facts.rows
    )
    metadata = {
        **own_metadata.commit_metadata(
            batch=batch, table=config.table, run=run, attempt=attempt, rows_before=facts.rows
        ),
        **facts.copied_metadata,
    }
    # A table without a compaction service is compacted behind the commit, by the same client's Spark jobs.
    by_itself = config.table_type == MOR and not write_choices.served(config)
    in_driver = in_driver and not record_index and not by_itself
    with closing(jvm.write_client(hudi.path, config.name, options, avro, in_driver=in_driver)) as client:
        instant = jvm.begin_write(client, facts.meta_client, operation, partitioned=bool(config.partition_by))
        begun = Instant(instant, DELTA_COMMIT if config.table_type == MOR else COMMIT, INFLIGHT)
        with own_write(hudi, instant):
            refuse_others(hudi, hudi.meta_client(), facts, instant, check_held)
            files = write(NewFiles(instant, jvm.with_meta_columns(avro), f"{FOLDER}{begun.file}"))
            check_held()  # large files take their time
            jvm.commit_files(client, facts.meta_client, instant, files, own_metadata.stored_metadata(metadata))
    return hudi.committed(batch, facts.newest)
