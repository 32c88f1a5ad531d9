"""Reads the written tables by every reader, and keeps what differs: python -m sluice_bench.readers.matrix

Writes each release's tables (in a process of its own), reads them by each Spark and Hudi, by hudi-rs and by
`sluice query`, and writes docs/evidence/readers.json and readers.md. Hudi 0.14.0 needs a PySpark of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice_bench.readers.document import RESULTS, write_document
from sluice_bench.readers.read import REPLY, TIMESTAMPS, WITHOUT, answered
from sluice_local.emr.spark_command import JVM_OPTIONS
from sluice_local.images.jars import BUNDLES, Jar, cached
from sluice_local.images.java import find_java

WRITERS = ("1.0.2", "1.1.1")
# Of Athena's default reader. There is none for Spark 3.5.
OLDEST = Jar(
    "org.apache.hudi:hudi-spark3.4-bundle_2.12:0.14.0",
    104998438,
    "f80922ef453fed3089d549d5a02d4c3c157f722a8fb3db099dbcc2c3a923c174",
)
QUERY, HUDI_RS = "`sluice query`", "hudi-rs"
TIMEOUT_S = 1_800


@dataclass(frozen=True)
class Reader:
    """A Spark with a Hudi bundle. `pyspark` is what pip installs for it, "" for that of this environment."""

    hudi: str
    pyspark: str = ""
    bundle: Jar | None = None

    @property
    def jar(self) -> str:
        """The path of its bundle."""
        return str(cached((self.bundle or BUNDLES[self.hudi],), f"Fetching Hudi {self.hudi}")[0])


READERS = (
    Reader("0.14.0", "pyspark==3.4.4", OLDEST),
    Reader("0.15.0"),
    Reader("1.0.2"),
    Reader("1.1.1"),
    Reader("1.2.0"),
)


def main() -> None:
    """Write what isn't written yet, and read all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, default=Path("/tmp/sluice-readers"), help="where tables and answers stay")
    parser.add_argument("--slot", default="", help="a program that waits until a JVM may run, before each of them")
    given = parser.parse_args()
    home, slot = given.home.resolve(), given.slot.split()
    home.mkdir(parents=True, exist_ok=True)
    written = {hudi: _written(home / f"written-{hudi}", hudi, slot) for hudi in WRITERS}
    answers_of = {f"Hudi {reader.hudi}": _by_spark(home, reader, written, slot) for reader in READERS}
    answers_of |= {HUDI_RS: _answers(written, _by_hudi_rs), QUERY: _answers(written, _by_sluice)}
    cells = [
        _cell(writer, table, reader, way, answer)
        for reader, by_writer in answers_of.items()
        for writer, answers in by_writer.items()
        for name, ways in answers.items()
        for way, answer in ways.items()
        for table in (written[writer][name],)
        if not way.startswith("input format_ro") or table["ends"]
    ]
    RESULTS.write_text("[\n" + ",\n".join(json.dumps(cell, ensure_ascii=False) for cell in cells) + "\n]\n")
    write_document()


def _written(folder: Path, hudi: str, slot: Sequence[str]) -> dict[str, Any]:
    if not (folder / "tables.json").exists():
        command = [*slot, sys.executable, "-m", "sluice_bench.readers.write", Reader(hudi).jar, str(folder)]
        subprocess.run(command, check=True, timeout=TIMEOUT_S)
    return dict(json.loads((folder / "tables.json").read_text()))


def _by_spark(
    home: Path, reader: Reader, written: Mapping[str, Mapping[str, Any]], slot: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """The answers of a Spark, by writer and table; those of an earlier call are kept in `home`."""
    earlier = home / f"read-{reader.hudi}.json"
    if not earlier.exists():
        request = {
            "session": _session(reader.jar),
            "tables": {
                f"{writer} {name}": table for writer, tables in written.items() for name, table in tables.items()
            },
        }
        done = subprocess.run(
            [*slot, str(_python(home, reader)), str(Path(__file__).with_name("read.py"))],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env={**os.environ, "JAVA_HOME": str(find_java(os.environ).home), "PYTHONPATH": ""},
            cwd=home,
        )
        answer = next((line for line in done.stdout.splitlines() if line.startswith(REPLY)), None)
        if answer is None:
            sys.exit(f"Spark with Hudi {reader.hudi} ended:\n{done.stderr[-3000:]}")
        earlier.write_text(answer.removeprefix(REPLY))
    answers: dict[str, dict[str, Any]] = {writer: {} for writer in written}
    for name, ways in json.loads(earlier.read_text())["answers"].items():
        writer, _, table = name.partition(" ")
        answers[writer][table] = ways
    return answers


def _python(home: Path, reader: Reader) -> Path:
    if not reader.pyspark:
        return Path(sys.executable)
    environment = home / reader.pyspark
    if not environment.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        subprocess.run([str(environment / "bin/pip"), "install", "--quiet", reader.pyspark], check=True)
    return environment / "bin/python"


def _session(bundle: str) -> dict[str, str]:
    return {
        "spark.master": "local[1]",
        "spark.jars": bundle,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(("-Duser.timezone=UTC", *JVM_OPTIONS)),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        # Without this Hudi's input format asks for lists in two levels, and finds three.
        "spark.hadoop.parquet.avro.write-old-list-structure": "false",
        # The input formats are to read, not Spark's own reader of Parquet.
        "spark.sql.hive.convertMetastoreParquet": "false",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:readers;create=true",
    }


def _answers(written: Mapping[str, Mapping[str, Any]], read: Any) -> dict[str, dict[str, Any]]:
    return {
        writer: {name: {"library": answered(lambda table=table: read(table))} for name, table in tables.items()}  # type: ignore[misc]
        for writer, tables in written.items()
    }


def _by_hudi_rs(table: Mapping[str, Any]) -> Any:
    import pyarrow as pa
    from hudi import HudiTableBuilder

    rows = pa.Table.from_batches(HudiTableBuilder.from_base_uri(table["path"].removeprefix("file://")).build().read())
    return [[row[column] for column in table["columns"]] for row in rows.to_pylist()]


def _by_sluice(table: Mapping[str, Any]) -> Any:
    from support.workbench import Silver

    from sluice_read.reading import Shown, open_table

    place, _, name = table["path"].rpartition("/")
    silver, _, database = place.rpartition("/")
    rows = open_table(Silver(silver), f"{database}.{name}").reader(
        Shown(with_deleted=True, columns=tuple(table["columns"]))
    )
    return [[row[column] for column in table["columns"]] for row in rows.read_all().to_pylist()]


def _cell(writer: str, table: Mapping[str, Any], reader: str, way: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a reading: equal, how it differs, or why the reader refused."""
    cell = {"writer": writer, "table": table["path"].rpartition("/")[2], "reader": reader, "way": way}
    if "refused" in answer:
        return {**cell, "result": "refused", "why": answer["refused"]}
    names, expected, rows = table["columns"], table["rows"], answer["rows"]
    if way.endswith(WITHOUT):
        places = [place for place, name in enumerate(names) if name not in TIMESTAMPS]
        names, expected = [names[place] for place in places], [[row[place] for place in places] for row in expected]
    if rows == expected:
        return {**cell, "result": "equal"}
    columns = sorted(
        {name for ours, theirs in zip(expected, rows) for name, one, other in zip(names, ours, theirs) if one != other}
    )
    return {**cell, "result": "differs", "why": f"{len(rows)} of {len(expected)} rows; {', '.join(columns)}"}


if __name__ == "__main__":
    main()
