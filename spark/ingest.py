"""The entry point of a job: spark-submit ingest.py --lane main --run run-main-…, or --trial trial-… (see --help)."""

from __future__ import annotations

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

# File of the release -> what is expected of it. The builder of a release writes it here, since it also names the
# release by this file's hash.
CHECKSUMS: dict[str, str] = {}
CODE, PACKAGES = "sluice.zip", Path("environment")  # `spark.archives` unpacks the packages there


class ReleaseAltered(Exception):
    """The job's code or its packages aren't those of its release."""


def verify(checksums: dict[str, str]) -> None:
    """Compare the job's code and packages with `checksums`, before anything of them runs. Raises ReleaseAltered.

    Without checksums the sources run as they are.
    """
    if not checksums:
        return
    code = getattr(getattr(find_spec("sluice"), "loader", None), "archive", None)
    if code is None or hashlib.sha256(Path(code).read_bytes()).hexdigest() != checksums[CODE]:
        raise ReleaseAltered(f"{CODE} of this job ({code}) is not the one of its release. Run `make deploy` again")
    origin = getattr(find_spec("boto3"), "origin", None) or "no boto3"
    expected = [checksum for name, checksum in checksums.items() if name.startswith("environment-")]
    if Path(origin).resolve().parent.parent != PACKAGES.resolve() or tree_checksum(PACKAGES) not in expected:
        raise ReleaseAltered(
            f"The packages of this job ({origin}) are not those of its release. Run `make deploy` again"
        )


def tree_checksum(folder: Path) -> str:
    """One SHA-256 over the names and contents of all files of a folder, byte code too: Python runs it unchecked."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).as_posix()):
        if path.is_file():
            total.update(path.relative_to(folder).as_posix().encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def main() -> int:
    """Verify the release, then run one lane or one trial once; the process's exit status.

    Spark starts while the driver is imported, finds its lane and holds it; a refused driver stops it again.
    """
    verify(CHECKSUMS)
    if "--trial" in sys.argv[1:]:
        from sluice_spark.trial.trial import parse as parse_trial
        from sluice_spark.trial.trial import try_engine

        return try_engine(parse_trial(sys.argv[1:]), os.environ, sys.stdout)
    from sluice_spark.engine.session import SparkProcess

    spark = SparkProcess()
    spark.session()
    from sluice_spark.run.driver import drive, parse

    return drive(parse(sys.argv[1:]), os.environ, sys.stdout, spark)


if __name__ == "__main__":
    sys.exit(main())
