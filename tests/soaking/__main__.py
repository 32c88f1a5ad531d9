"""Soaks a local stack of its own and writes docs/evidence/soak.json and docs/evidence/soak.md. Ends by itself.

python -m soaking [--minutes 20] [--seed N] [--every 30] [--into FOLDER]
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
from pathlib import Path

from faulting.proxy import fault_proxy
from judging.running_stack import local_stack

from soaking import report
from soaking.soak import Soak


def main() -> int:
    """Returns 0 if the soak is clean."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=None, help="of objects and faults; a new one by default")
    parser.add_argument("--every", type=float, default=30.0, metavar="S", help="seconds between two faults")
    parser.add_argument("--into", type=Path, default=report.DOCS, metavar="FOLDER", help="where the report goes")
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="sluice-soak-") as home, local_stack(Path(home) / "stack") as stack:
        assert stack.target.endpoint is not None
        with fault_proxy(stack.target.endpoint) as proxy:
            soak = Soak(stack, proxy, seed, lambda line: print(line, flush=True), alone=True)
            result = soak.run(given.minutes * 60, given.every)
    report.keep(result, given.into / report.KEPT.name, given.into / report.PAGE.name)
    print(json.dumps(result, indent=1))
    return 0 if result["clean"] else 1


if __name__ == "__main__":
    sys.exit(main())
