"""The readers whose rows are judged: Spark in a process of its own, and hudi-rs. They share no code."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from judging.cases import Case
from judging.spark_rows import REPLY
from sluice.config.table import COW
from sluice_local.emr.spark_command import JVM_OPTIONS
from sluice_read.values import rows_of


class ReaderFailed(RuntimeError):
    """The reader ended or answered something else: the end of its log."""


class Reader(Protocol):
    """Writes the live rows of tables."""

    name: str

    def reads(self, case: Case, *, at_end: bool) -> bool:
        """Whether it is judged on this case after a phase; `at_end` is the last one."""

    def write_rows(self, tables: Mapping[str, Path]) -> None:
        """Write the live rows of each `database.table` to its file, one JSON object per line.

        Raises when a table can't be read.
        """


class SparkReader(AbstractContextManager):
    """One JVM for many requests, since its start costs more than the reading. `hudi` is the bundle's version.

    `copies_of` are the sets whose copy-on-write tables it reads, None for all; it reads all merge-on-read tables.
    Unless `every_phase`, it reads after the last phase only.
    """

    def __init__(
        self,
        *,
        silver_bucket: str,
        s3: Mapping[str, str],
        jars: Sequence[Path],
        java_home: Path,
        hudi: str,
        copies_of: Iterable[str] | None = None,
        every_phase: bool = True,
    ) -> None:
        self._every_phase = every_phase
        self._copies_of = None if copies_of is None else frozenset(copies_of)
        self.name = f"spark-hudi-{hudi}"
        self._bucket = silver_bucket
        self._log = tempfile.NamedTemporaryFile("w+", prefix="judge-spark-", suffix=".log", delete=False)
        environment = {
            **os.environ,
            "JAVA_HOME": str(java_home),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--driver-memory 1g --driver-java-options '{' '.join(JVM_OPTIONS)}' pyspark-shell",
            "PYTHONPATH": "",
        }
        program = Path(__file__).with_name("spark_rows.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), json.dumps(read_session(jars, s3))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment,
            cwd=tempfile.gettempdir(),
        )
        self._ready = False

    def reads(self, case: Case, *, at_end: bool) -> bool:
        chosen = case.table_type != COW or self._copies_of is None or case.set_name in self._copies_of
        return chosen and (at_end or self._every_phase)

    def write_rows(self, tables: Mapping[str, Path]) -> None:
        if not self._ready:
            self._answer()
            self._ready = True
        request = {
            "tables": {
                f"s3a://{self._bucket}/{table.replace('.', '/', 1)}": str(path) for table, path in tables.items()
            }
        }
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as ended:
            raise ReaderFailed(f"{self.name} ended:\n{self._tail()}") from ended
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(REPLY):
                return line.removeprefix(REPLY)
        raise ReaderFailed(f"{self.name} ended:\n{self._tail()}")

    def _tail(self) -> str:
        self._process.wait()
        return Path(self._log.name).read_text(errors="replace")[-3000:]

    def __exit__(self, *exc) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()
        os.unlink(self._log.name)


def read_session(jars: Sequence[Path], s3: Mapping[str, str]) -> dict[str, str]:
    """Settings of a reading session on an S3 endpoint: `endpoint`, `access_key`, `secret_key`, `region`."""
    return {
        "spark.master": "local[2]",
        "spark.jars": ",".join(map(str, jars)),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        # Files of tables with lists don't name the calendar of dates before 1582: Spark refuses those without this.
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
        "spark.hadoop.fs.s3a.endpoint": s3["endpoint"],
        "spark.hadoop.fs.s3a.endpoint.region": s3["region"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": s3["access_key"],
        "spark.hadoop.fs.s3a.secret.key": s3["secret_key"],
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }


class RustReader:
    """hudi-rs, by the code that `sluice query` uses. `place` is the target whose silver bucket is read."""

    name = "hudi-rs"

    def __init__(self, place) -> None:
        self._place = place

    def reads(self, case: Case, *, at_end: bool) -> bool:
        return True

    def write_rows(self, tables: Mapping[str, Path]) -> None:
        from sluice_read.reading import read_table

        for table, path in tables.items():
            path.write_text("".join(row + "\n" for row in json_rows(read_table(self._place, table))), encoding="utf-8")


def json_rows(table: pa.Table) -> Iterator[str]:
    """The rows as `sluice query --json` prints them, years that Python's datetime doesn't have included."""
    for batch in table.to_batches():
        for row in rows_of(batch):
            yield json.dumps(dict(zip(table.column_names, row, strict=True)))
