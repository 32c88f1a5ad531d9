"""A Glue catalog and a silver bucket on the emulator, hand-made commits, and a count of calls."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from emulation.aws import emulated_aws, emulated_session, observing
from sluice.config.catalog import CatalogRule
from sluice.config.table import COW, TableConfig
from sluice.schema.history import SchemaVerdict, SeenSchema
from sluice_aws.catalog.glue import GlueCatalog
from sluice_aws.catalog.sync import CatalogSync
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import CommentStore, SchemaHistory, SchemaStore
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader

SILVER = "lake"
SHARED = emulated_session("eu-central-1")
HIDDEN = [
    {"name": "_sluice_position", "type": "string"},
    {"name": "__deleted", "type": "boolean"},
    {"name": "_sluice_op", "type": ["null", "string"], "default": None},
]
ARTIST = [("artist_id", "int"), ("name", "string"), ("nationality", "string"), ("birth_year", "int")]
DEFAULT_RULE = CatalogRule()


class EmulatedCatalog:
    """What a test of the sync works with. `calls` are the operations that reached AWS, in order."""

    def __init__(self) -> None:
        self.glue, self.s3 = SHARED.client("glue"), SHARED.client("s3")
        self.calls: list[str] = []
        self.sent: list[tuple[str, dict[str, Any]]] = []
        self.s3.create_bucket(Bucket=SILVER, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
        self.sync = self.process()

    def process(self) -> CatalogSync:
        """A sync that remembers nothing, as in a new process."""
        return CatalogSync(
            catalog=GlueCatalog(self.glue),
            timelines=TimelineReader(SilverBucket(self.s3, SILVER)),
            comments=CommentStore(self.s3, SILVER),
            silver_bucket=SILVER,
        )

    def counted(self, model: Any, params: Mapping[str, Any]) -> None:
        self.calls.append(model.name)
        self.sent.append((model.name, dict(params)))

    def commit(
        self,
        config: TableConfig,
        number: int,
        columns: Sequence[tuple[str, Any]] = ARTIST,
        partitions: Iterable[str] = ("",),
        **more: Any,
    ) -> str:
        """Write a completed commit, and a file into each of its partitions; its instant."""
        return write_commit(self.s3, SILVER, config, number, columns, partitions, **more)

    def keep_schema(self, config: TableConfig, schema: Any) -> str:
        """Remember a writer schema that came for a table, as admission does; its fingerprint."""
        mark = SchemaStore(Objects(self.s3), SILVER).keep(schema)
        SchemaHistory(Objects(self.s3), SILVER).note(
            SeenSchema(config.table, mark, (), (SchemaVerdict(1, "", "new_table", ()),))
        )
        return mark

    def archive(self, config: TableConfig, instant: str) -> None:
        """Take a commit out of the active timeline."""
        root = config.table.replace(".", "/")
        listed = self.s3.list_objects_v2(Bucket=SILVER, Prefix=f"{root}/.hoodie/{instant}")["Contents"]
        for item in listed:
            self.s3.delete_object(Bucket=SILVER, Key=item["Key"])

    def table(self, database: str, name: str) -> dict[str, Any]:
        Table: dict[str, Any] = self.glue.get_table(DatabaseName=database, Name=name)["Table"]
        return Table

    def names(self, database: str) -> list[str]:
        return sorted(table["Name"] for table in self.glue.get_tables(DatabaseName=database)["TableList"])

    def partitions(self, database: str, name: str) -> dict[tuple[str, ...], str]:
        pages = self.glue.get_paginator("get_partitions").paginate(DatabaseName=database, TableName=name)
        return {
            tuple(one["Values"]): one["StorageDescriptor"]["Location"] for page in pages for one in page["Partitions"]
        }

    def counting(self) -> Counter[str]:
        """What was called since the last time this was asked."""
        counts = Counter(self.calls)
        self.calls.clear()
        self.sent.clear()
        return counts

    def edit(self, database: str, name: str, **changes: Any) -> None:
        """Change a table as a user would: `parameters`, `description`, `comments` by column, `columns` to add, `types`
        by column.
        """
        table = self.table(database, name)
        storage = table["StorageDescriptor"]
        comments, types = changes.get("comments", {}), changes.get("types", {})
        columns = [{**column, "Type": types.get(column["Name"], column["Type"])} for column in storage["Columns"]]
        for column in columns:
            if column["Name"] in comments:
                column["Comment"] = comments[column["Name"]]
        columns += changes.get("columns", [])
        names = ("Name", "TableType", "PartitionKeys", "ViewOriginalText", "ViewExpandedText", "Owner")
        made = {key: table[key] for key in names if key in table}
        made["Parameters"] = {**table["Parameters"], **changes.get("parameters", {})}
        made["StorageDescriptor"] = {**storage, "Columns": columns}
        if "description" in changes:
            made["Description"] = changes["description"]
        self.glue.update_table(DatabaseName=database, TableInput=made)


def write_commit(
    s3: Any,
    bucket: str,
    config: TableConfig,
    number: int,
    columns: Sequence[tuple[str, Any]] = ARTIST,
    partitions: Iterable[str] = ("",),
    *,
    operation: str = "UPSERT",
    replaced: Mapping[str, list[str]] | None = None,
    docs: Mapping[str, str] | None = None,
    action: str = "",
) -> str:
    """Write a completed commit, and a file into each of its partitions; its instant."""
    instant = f"202405011015{number:05d}"
    texts = {name: {"doc": text} for name, text in (docs or {}).items()}
    fields = [{"name": name, "type": ["null", kind], "default": None, **texts.get(name, {})} for name, kind in columns]
    schema = {"type": "record", "name": "row", "fields": fields + HIDDEN}
    listed = list(partitions)
    stats = {path: [{"fileId": "f", "path": f"{path}/f.parquet", "numWrites": 1}] for path in listed}
    body: dict[str, Any] = {"partitionToWriteStats": stats, "operationType": operation, "compacted": False}
    body["extraMetadata"] = {"schema": json.dumps(schema)}
    if replaced:
        body["partitionToReplaceFileIds"] = replaced
    root = config.table.replace(".", "/")
    kind = action or ("deltacommit" if config.table_type != COW else "replacecommit" if replaced else "commit")
    for suffix in ("", ".requested"):
        content = b"" if suffix else json.dumps(body).encode()
        s3.put_object(Bucket=bucket, Key=f"{root}/.hoodie/{instant}.{kind}{suffix}", Body=content)
    files = [f"{root}/{path}/f_{instant}.parquet".replace("//", "/") for path in listed]
    for key in files:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    return instant


def artists(
    table_type: str = COW,
    *,
    partition_by: tuple[str, ...] = ("nationality",),
    catalog: CatalogRule = DEFAULT_RULE,
    table: str = "moma.artists",
) -> TableConfig:
    """The table of the published demonstration."""
    database, _, name = table.partition(".")
    return TableConfig(
        table, database, name, f"moma.public.{name}", ("artist_id",), partition_by, table_type, catalog=catalog
    )


@contextmanager
def new_catalog() -> Iterator[EmulatedCatalog]:
    """An empty catalog."""
    with emulated_aws():
        made = EmulatedCatalog()
        with observing(made.counted):
            yield made
