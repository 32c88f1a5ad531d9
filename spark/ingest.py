"""The entry point of a run: spark-submit ingest.py --lane main --run run-main-… (see --help)."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run one lane once; the process's exit status."""
    from sluice_spark.run.driver import drive, parse

    return drive(parse(sys.argv[1:]), os.environ, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
