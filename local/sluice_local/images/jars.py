"""Fetches the jars of the local stack from Maven Central, once per machine, and checks them by their SHA-256.

Spark 3.5 from PyPI carries Hadoop 3.3.4, whose S3A is written for AWS's SDK for Java v1. Its bundle of all services is
280 MB. S3A loads the eight modules below, and finds the rest (HTTP client, Jackson, Joda) among Spark's own jars.
"""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sluice_local.cache import cache_directory, only_one
from sluice_local.errors import JarsUnavailable

HUDI = "1.0.2"  # EMR's bundle is built from this version
REPOSITORY = "https://repo1.maven.org/maven2"
_SDK = "1.12.262"  # the version that Hadoop 3.3.4 was built with
_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 60

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Jar:
    """A jar by its Maven coordinate, its size in bytes and its SHA-256 in hexadecimal digits."""

    coordinate: str
    size: int
    sha256: str

    @property
    def file(self) -> str:
        """Its name in the cache."""
        group, name, version = self.coordinate.split(":")
        return f"{group}_{name}-{version}.jar"

    @property
    def path(self) -> str:
        """Its path in a Maven repository."""
        group, name, version = self.coordinate.split(":")
        return f"{group.replace('.', '/')}/{name}/{version}/{name}-{version}.jar"


def hudi_coordinate(version: str) -> str:
    """The Maven coordinate of the open-source Hudi bundle for this Spark."""
    return f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{version}"


BUNDLES: Mapping[str, Jar] = {
    version: Jar(hudi_coordinate(version), size, sha256)
    for version, size, sha256 in (
        ("0.15.0", 109001611, "aab6ecdb5c65fcd20406b980b31ccec294fae95693de947d5778f0b3fb4e302a"),
        (HUDI, 110844131, "2c2ab65a11e91265e4b7346f954448c46df52d66fb72f52dad83767b621deae8"),
        ("1.1.1", 80205727, "5470908f0d26897fb6e0768790e6c75e3d05d2fa013f7d81c8f90c74056d1604"),
        ("1.2.0", 80667825, "cc79fba00822f3a6c3a860df99375c2e3d4a034d037dbf4213a4966a706a7676"),
    )
}
HADOOP_AWS = Jar(
    "org.apache.hadoop:hadoop-aws:3.3.4", 962685, "53f9ae03c681a30a50aa17524bd9790ab596b28481858e54efd989a826ed3a4a"
)
FILE_SYSTEM = (
    HADOOP_AWS,
    Jar(
        "org.wildfly.openssl:wildfly-openssl:1.0.7.Final",
        424076,
        "9f7058778978ec2ad90c7224401a4b0013d93e0dd3fa0f72b25244ffa3507ca8",
    ),
    Jar(
        f"com.amazonaws:aws-java-sdk-core:{_SDK}",
        1045128,
        "06fed99f929c389e168278c1b111aaf1afb270d07202fbbce92e73d1e4279678",
    ),
    Jar(
        f"com.amazonaws:aws-java-sdk-s3:{_SDK}",
        1256738,
        "a0cb7580178bc0d4d3558295a5bb890008478da8a6b3241989c71238b0ed3be5",
    ),
    Jar(
        f"com.amazonaws:aws-java-sdk-kms:{_SDK}",
        656123,
        "c00f5ae7b334255f661d85512e7203af9523a04fb65d0c431c2eea2003ed8ae2",
    ),
    Jar(
        f"com.amazonaws:aws-java-sdk-sts:{_SDK}",
        150756,
        "659f48d8ebc02025c5042cc4b925f62610e81f334498f1b9e7a271ce20ecbcae",
    ),
    Jar(
        f"com.amazonaws:aws-java-sdk-dynamodb:{_SDK}",
        1997350,
        "7af4ba06d0d9b3c2ab435089caecd0567810d203aa285f7aa72861f1964d442e",
    ),
    Jar(
        f"com.amazonaws:jmespath-java:{_SDK}", 27590, "9001ea993a45d82a2d3086edcbda8a40b4e012d049a70fbf071fd329c0fbd777"
    ),
    Jar(
        "software.amazon.ion:ion-java:1.0.2", 565410, "0d127b205a1fce0abc2a3757a041748651bc66c15cf4c059bac5833b27d471a5"
    ),
    Jar(  # Jackson as in Spark 3.5
        "com.fasterxml.jackson.dataformat:jackson-dataformat-cbor:2.15.2",
        69683,
        "57ba89a43e631be2de67aeed846a659b15c6b82b7b254164f61bf3090ccc2ad1",
    ),
)


def jars_of(hudi_version: str) -> tuple[Jar, ...]:
    """The jars of a local stack with a Hudi version. Raises JarsUnavailable for one that is not pinned here."""
    if hudi_version not in BUNDLES:
        raise JarsUnavailable(
            f"Hudi {hudi_version} is not among the pinned versions, {', '.join(BUNDLES)}",
            log=[],
            next_step="Name one of them, or pin the version in sluice_local.images.jars",
        )
    return (*FILE_SYSTEM, BUNDLES[hudi_version])


def hudi_bundle(jars: Sequence[Path]) -> Path:
    """The Hudi bundle among the jars of `ensure_jars`, for the deployment's HudiJars parameter."""
    return next(jar for jar in jars if jar.name.startswith("org.apache.hudi_hudi-spark"))


def ensure_jars(
    hudi_version: str = HUDI,
    *,
    environment: Mapping[str, str] = os.environ,
    progress: Progress = lambda line: None,
    repository: str = REPOSITORY,
) -> list[Path]:
    """Paths of the Hudi bundle and of S3A's jars. What is not in the cache, or of another size, is fetched.

    Raises JarsUnavailable.
    """
    what = f"Fetching Hudi {hudi_version} and the S3 file system"
    return cached(jars_of(hudi_version), what, environment=environment, progress=progress, repository=repository)


def cached(
    wanted: Sequence[Jar],
    what: str,
    *,
    environment: Mapping[str, str] = os.environ,
    progress: Progress = lambda line: None,
    repository: str = REPOSITORY,
) -> list[Path]:
    """Paths of jars, as by `ensure_jars`; `what` begins the lines of the progress. Raises JarsUnavailable."""
    home = cache_directory(environment) / "jars"
    with only_one(home / "lock"):
        missing = [jar for jar in wanted if not _is_whole(home / jar.file, jar)]
        total, done = sum(jar.size for jar in missing), 0
        if missing:
            progress(f"{what} ({megabytes(total)}, once per machine)")

        def read(more: int) -> None:
            progress(f"{what}: {megabytes(done + more)} of {megabytes(total)} ({100 * (done + more) // total} %)")

        for jar in missing:
            _fetch(jar, home / jar.file, repository, read)
            done += jar.size
    return [home / jar.file for jar in wanted]


def megabytes(count: int) -> str:
    """118400000 -> "118 MB"."""
    return f"{count / 1e6:.0f} MB"


def _is_whole(file: Path, jar: Jar) -> bool:
    return file.is_file() and file.stat().st_size == jar.size


def _fetch(jar: Jar, file: Path, repository: str, read: Callable[[int], None]) -> None:
    """Download a jar, which gets its name once its checksum is right. `read` gets the bytes so far."""
    partial = file.with_suffix(".partial")
    digest, size, shown = hashlib.sha256(), 0, 0
    try:
        with (
            urllib.request.urlopen(f"{repository}/{jar.path}", timeout=_TIMEOUT_S) as answer,  # nosec B310
            partial.open("wb") as out,
        ):
            while size <= jar.size and (chunk := answer.read(_CHUNK_BYTES)):
                out.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                if size - shown >= 10 * _CHUNK_BYTES:
                    read(size)
                    shown = size
    except (OSError, urllib.error.URLError) as error:
        partial.unlink(missing_ok=True)
        raise JarsUnavailable(f"{jar.coordinate} couldn't be fetched: {error}", log=[str(error)]) from error
    if digest.hexdigest() != jar.sha256:
        partial.unlink()
        raise JarsUnavailable(
            f"{jar.coordinate} has the SHA-256 {digest.hexdigest()}, not {jar.sha256}: {size} bytes came",
            log=[],
            next_step="Something on the way to Maven Central changes downloads: use another network",
        )
    partial.replace(file)
