"""The entry point of a trial of the engine: spark-submit trial.py --trial trial-… (see --help)."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Try the engine once; the process's exit status."""
    from sluice_spark.trial.trial import parse, try_engine

    return try_engine(parse(sys.argv[1:]), os.environ, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
