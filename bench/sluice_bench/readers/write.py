"""Writes the tables that readers are tried on, by one Hudi: python -m sluice_bench.readers.write BUNDLE FOLDER [NAME].

Merged by the job's own code, of objects in an emulated S3. What each must hold is computed here from the changes.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from sluice_bench.readers.read import in_order

ARROW, SPARK = "Arrow", "Spark"
NONE, ADDED, WIDENED = "", "added", "widened"
COLUMNS = ("id", "place", "name", "n", "price", "at", "day", "tags", "marks", "__deleted")
NEW_COLUMN = "added"


@dataclass(frozen=True)
class Tried:
    """A table to write: who merges it, and what happens to it.

    `evolution`: a column is added, in one of the partitions alone, or a type becomes wider as well. `ends` is the
    service that comes last.
    """

    table_type: str
    partitioned: bool
    way: str = ARROW
    evolution: str = NONE
    ends: str = ""
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """The table's name."""
        parts = (
            self.table_type,
            "parts" if self.partitioned else "whole",
            self.way.lower(),
            self.evolution,
            self.ends,
            *(value for _, value in self.settings),
        )
        return "_".join(filter(None, parts))


def tried() -> list[Tried]:
    """Every table."""
    tables = [
        Tried(table_type, partitioned, way, evolution)
        for table_type in ("cow", "mor")
        for partitioned in (False, True)
        for way, evolution in ((ARROW, NONE), (ARROW, ADDED), (ARROW, WIDENED), (SPARK, WIDENED))
    ]
    tables += [Tried("mor", partitioned, ARROW, WIDENED, "compaction") for partitioned in (False, True)]
    tables.append(Tried("mor", True, ARROW, ADDED, settings=(("index", "record"),)))
    tables.append(Tried("cow", True, ARROW, ADDED, settings=(("history", "log"),)))
    return tables


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _columns(*, wide: bool, added: bool) -> dict[str, Any]:
    types: dict[str, Any] = {
        "id": "int",
        "place": _optional("string"),
        "name": _optional("string"),
        "n": _optional("long" if wide else "int"),
        "price": _optional({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}),
        "at": _optional({"type": "long", "logicalType": "timestamp-micros"}),
        "day": _optional({"type": "int", "logicalType": "date"}),
        "tags": _optional({"type": "array", "items": _optional("string")}),
        "marks": _optional({"type": "array", "items": "int"}),
    }
    return {**types, **({NEW_COLUMN: _optional("string")} if added else {})}


def _row(op: str, lsn: int, id: int, place: str | None, n: int | None = None, **more: Any) -> dict[str, Any]:
    """A change; its other values follow from its position."""
    from support.builders import change

    values = {
        "name": f"name {lsn}",
        "n": lsn if n is None else n,
        "price": Decimal(lsn) / 4,
        "at": dt.datetime(2026, 11, 28, 1, 2, 3, lsn, dt.timezone.utc),
        "day": dt.date(1969, 12, 1) + dt.timedelta(days=lsn),
        "tags": ["ä", None, f"{lsn}"],
        "marks": [lsn, -lsn] if lsn % 2 else [],
    }
    if op == "d":
        return change(op, lsn, id=id, place=None, **dict.fromkeys(values), **more)
    return change(op, lsn, id=id, place=place, **{**values, "price": values["price"].quantize(Decimal("0.01"))}, **more)


def _batches(evolution: str) -> list[list[list[dict[str, Any]]]]:
    """Batches of objects of changes: loads, changes, deletions, a late change, moves; then the evolved ones."""
    batches = [
        [[_row("r", id, id, "A" if id < 4 else "B" if id < 7 else "ä b/c") for id in range(1, 9)]],
        [[_row("u", 21, 1, "A"), _row("u", 22, 4, "B"), _row("d", 23, 5, None), _row("u", 24, 2, "A")]],
        [[_row("u", 20, 2, "A"), _row("u", 31, 3, "B"), _row("u", 32, 7, "A")]],
    ]
    if evolution == NONE:
        return batches
    wide = 2**40 if evolution == WIDENED else 7
    new = {NEW_COLUMN: "new"}
    return [
        *batches,
        [[_row("u", 41, 1, "A", wide, **new), _row("c", 42, 9, "A", **new), _row("c", 43, 10, "D", wide, **new)]],
        [[_row("u", 51, 6, "B")], [_row("d", 52, 8, None, added=None), _row("u", 53, 10, "D", **new)]],
    ]


def expected(
    batches: Iterable[Iterable[Iterable[Mapping[str, Any]]]], columns: Sequence[str], *, every_change: bool = False
) -> list[list[Any]]:
    """The rows that the changes come to: the newest of each key by its position, or all of them."""
    newest: dict[int, Mapping[str, Any]] = {}
    for change in (change for batch in batches for changes in batch for change in changes):
        key = change["__lsn"] if every_change else change["id"]
        if key not in newest or newest[key]["__lsn"] < change["__lsn"]:
            newest[key] = change
    last_rows = [{**change, "__deleted": change["__op"] == "d"} for change in newest.values()]
    return in_order([[row.get(name) for name in columns] for row in last_rows])


def write(table: Tried, bench: Any) -> dict[str, Any]:
    """Write a table; its columns, path and rows, and how the catalog declares it."""
    from support.builders import flattened
    from support.workbench import table as configured

    from sluice.services.requests import COMPACTION
    from sluice_spark.services.slice import SliceRates, serve_table

    settings: dict[str, Any] = dict(table.settings)
    if "history" in settings:
        settings["history"] = f"{table.name}_log"
    config = configured(
        table.name,
        topic="src.public.t",
        table_type=table.table_type,
        partition_by=("place",) if table.partitioned else (),
        **settings,
    )
    batches = _batches(table.evolution)
    if table.way == SPARK:
        bench.in_tasks()
    ways = []
    for batch in batches:
        objects = []
        for changes in batch:
            added = any(NEW_COLUMN in change for change in changes)
            schema = flattened(_columns(wide=added and table.evolution == WIDENED, added=added))
            objects.append(bench.put(changes, schema))
        bench.merge(config, objects)
        ways.append(bench.left_to_spark())
    if table.ends:
        serve_table(
            bench.spark,
            config=config,
            service=COMPACTION,
            services=bench.services,
            rates=SliceRates(cores=2),
            still_held=lambda: True,
            slice_s=20,
            raise_floor=lambda positions: None,
            watch={},
        )
    columns = [*COLUMNS, *([NEW_COLUMN] if table.evolution else [])]
    facts = {"ends": table.ends, "left_to_spark": sorted({way for way in ways if way}), "columns": columns}
    written = {table.name: {**facts, "rows": expected(batches, columns), **_declared(bench, config)}}
    if config.history:
        every = expected(batches, columns, every_change=True)
        written[f"{table.name}_log"] = {**facts, "rows": every, **_declared(bench, config.history_table)}
    return written


def _declared(bench: Any, config: Any) -> dict[str, Any]:
    """A table's path, how many logs it has, and the statements that declare it as Glue has it, by the names there."""
    from sluice.catalog.columns import columns_of_commit
    from sluice.catalog.tables import Wish, names_of, wished_table
    from sluice_spark.hudi.jvm import HudiJvm

    jvm = HudiJvm(bench.spark)
    meta_client = jvm.meta_client(bench.path(config))
    columns = columns_of_commit(config.table, jvm.avro_schema(meta_client))
    wish = Wish(config, names_of(config), bench.path(config), columns, "0")
    statements = {}
    for entry in wish.names.entries:
        made = wished_table(wish, f"{config.name}{entry.kind}", entry.kind, synced=None)
        statements[made["Name"]] = [_create(made), *_partitions(made, jvm.partitions(meta_client))]
    logs = [path for path in bench.local_path(config).rglob("*.log.*") if ".hoodie" not in path.parts]
    return {"path": bench.path(config), "logs": len(logs), "statements": statements}


def _create(made: Mapping[str, Any]) -> str:
    storage = made["StorageDescriptor"]
    columns = ", ".join(f"`{column['Name']}` {column['Type']}" for column in storage["Columns"])
    keys = ", ".join(f"`{column['Name']}` {column['Type']}" for column in made["PartitionKeys"])
    properties = ", ".join(f"'{name}'='{value}'" for name, value in storage["SerdeInfo"]["Parameters"].items())
    return (
        f"CREATE EXTERNAL TABLE {made['Name']} ({columns}) {f'PARTITIONED BY ({keys})' if keys else ''} "
        f"ROW FORMAT SERDE '{storage['SerdeInfo']['SerializationLibrary']}' WITH SERDEPROPERTIES ({properties}) "
        f"STORED AS INPUTFORMAT '{storage['InputFormat']}' OUTPUTFORMAT '{storage['OutputFormat']}' "
        f"LOCATION '{storage['Location']}'"
    )


def _partitions(made: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    from urllib.parse import unquote

    keys = [column["Name"] for column in made["PartitionKeys"]]
    return [
        f"ALTER TABLE {made['Name']} ADD PARTITION ({keys[0]}='{unquote(path.partition('=')[2])}') "
        f"LOCATION '{made['StorageDescriptor']['Location']}/{path}'"
        for path in (sorted(paths) if keys else ())
    ]


def main() -> None:
    """Write all tables, or those that are named anew, and `tables.json` beside them."""
    jar, folder, *only = sys.argv[1:]
    from moto.server import ThreadedMotoServer
    from pyspark.sql import SparkSession
    from support.workbench import Workbench

    from sluice_local.emr.spark_command import JVM_OPTIONS
    from sluice_local.images.java import find_java
    from sluice_spark.engine.session import required_settings, resolve_names_once, set_jvm_properties

    os.environ.update(JAVA_HOME=str(find_java(os.environ).home), PYSPARK_PYTHON=sys.executable)
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test", AWS_EC2_METADATA_DISABLED="true")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    settings = {
        **required_settings(1),
        "spark.jars": jar,
        "spark.driver.extraJavaOptions": " ".join(("-Duser.timezone=UTC", *JVM_OPTIONS)),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    resolve_names_once(spark)
    set_jvm_properties()
    written: dict[str, Any] = {}
    for table in tried():
        if not only or table.name in only:
            written.update(write(table, Workbench(spark, f"http://{host}:{port}", Path(folder))))
            print(table.name, written[table.name]["left_to_spark"], flush=True)
    tables = Path(folder) / "tables.json"
    earlier = json.loads(tables.read_text()) if only else {}
    tables.write_text(json.dumps({**earlier, **written}, indent=1))
    spark.stop()
    server.stop()


if __name__ == "__main__":
    main()
