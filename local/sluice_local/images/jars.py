"""Fetches the jars of the local stack with Spark's resolver, once per machine."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sluice_local.cache import cache_directory, only_one
from sluice_local.errors import JarsUnavailable
from sluice_local.images.java import find_java, trust_options

HUDI = "1.0.2"  # EMR's bundle is built from this version
SPARK_LINE = "3.5_2.12"
HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.3.4"  # Spark 3.5 from PyPI carries Hadoop 3.3.4: its S3A must match
# Spark's own jars already hold these. With a second copy the class path's order would decide.
_IN_SPARK = ("org.slf4j:slf4j-api", "org.apache.hive:hive-storage-api")
_DOWNLOADING = re.compile(r"^downloading (\S+)")

Progress = Callable[[str], None]


def hudi_coordinate(version: str) -> str:
    """The Maven coordinate of the open-source Hudi bundle for this Spark."""
    line, scala = SPARK_LINE.split("_")
    return f"org.apache.hudi:hudi-spark{line}-bundle_{scala}:{version}"


def hudi_bundle(jars: Sequence[Path]) -> Path:
    """The Hudi bundle among the jars of `ensure_jars`, for the deployment's HudiJars parameter."""
    return next(jar for jar in jars if jar.name.startswith("org.apache.hudi_hudi-spark"))


def ensure_jars(
    hudi_version: str = HUDI,
    *,
    environment: Mapping[str, str] = os.environ,
    progress: Progress = lambda line: None,
) -> list[Path]:
    """Paths of the Hudi bundle and of S3A's jars, fetched if they aren't in the cache.

    Starts no JVM if they are. Raises JarsUnavailable with the resolver's last lines, and NoJava.
    """
    coordinates = [hudi_coordinate(hudi_version), HADOOP_AWS]
    home = cache_directory(environment) / "ivy"
    record = home / f"resolved-{hudi_version}.json"
    with only_one(home / "lock"):
        known = _recorded(record, home, coordinates)
        if known is None:
            progress(f"Fetching Hudi {hudi_version} and the S3 file system (400 MB, once per machine)")
            known = _resolve(coordinates, home, environment, progress)
            record.write_text(
                json.dumps(
                    {"coordinates": coordinates, "jars": {jar.name: jar.stat().st_size for jar in known}}, indent=2
                )
            )
    return known


def _recorded(record: Path, home: Path, coordinates: list[str]) -> list[Path] | None:
    if not record.exists():
        return None
    content = json.loads(record.read_text())
    jars = [home / "jars" / name for name in content["jars"]]
    whole = all(jar.exists() and jar.stat().st_size == content["jars"][jar.name] for jar in jars)
    return jars if whole and content["coordinates"] == coordinates else None


def _resolve(coordinates: list[str], home: Path, environment: Mapping[str, str], progress: Progress) -> list[Path]:
    """Run spark-submit with `--packages` on an empty program: the resolver runs before the program."""
    java = find_java(environment)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None
    spark = Path(spec.origin).parent
    with tempfile.TemporaryDirectory(prefix="sluice-jars-") as scratch:
        program = Path(scratch) / "nothing.py"
        program.write_text("")
        command = [
            str(java.binary),
            *trust_options(environment, home),
            "-cp",
            f"{spark}/jars/*",
            "org.apache.spark.deploy.SparkSubmit",
            "--master",
            "local[1]",
            "--conf",
            f"spark.jars.ivy={home}",
            "--packages",
            ",".join(coordinates),
            "--exclude-packages",
            ",".join(_IN_SPARK),
            str(program),
        ]
        lines: list[str] = []
        with subprocess.Popen(
            command,
            cwd=scratch,
            env={**environment, "PYSPARK_PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line.rstrip())
                found = _DOWNLOADING.match(line)
                if found:
                    progress(f"downloading {found.group(1).rsplit('/', 1)[-1]}")
    if process.returncode != 0:
        raise JarsUnavailable(f"{', '.join(coordinates)} couldn't be fetched: {_reason(lines)}", log=lines[-40:])
    wanted = {_file_name(line) for line in lines if line.startswith("\tfound ")}
    jars = sorted((jar for jar in (home / "jars").iterdir() if jar.name in wanted), key=lambda jar: jar.stat().st_size)
    for jar in jars:
        _share_with_cache(jar, home / "cache")
    return jars


def _file_name(line: str) -> str:
    """`found group#name;version in central` names the file group_name-version.jar."""
    group, name, version = re.split(r"[#;]", line.split()[1])
    return f"{group}_{name}-{version}.jar"


def _share_with_cache(jar: Path, ivy: Path) -> None:
    """Link the resolver's two copies of a jar: the SDK bundle alone is 280 MB."""
    group, _, rest = jar.name.partition("_")
    for twin in ivy.glob(f"{group}/*/jars/*.jar"):
        if rest == twin.name and twin.stat().st_size == jar.stat().st_size and not twin.samefile(jar):
            twin.unlink()
            os.link(jar, twin)


def _reason(lines: list[str]) -> str:
    telling = [line.strip() for line in lines if "PKIX" in line or "unresolved" in line or "Exception" in line]
    return telling[0] if telling else (lines[-1] if lines else "no output")
