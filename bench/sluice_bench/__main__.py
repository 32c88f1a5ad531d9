"""`python -m sluice_bench`: runs every benchmark of the document by its own module, then writes the document."""

import subprocess
import sys

RUNS = (
    ("sluice_bench.pipeline.latency", "lingering", "--changes", "30"),
    ("sluice_bench.pipeline.latency", "idle", "--changes", "30"),
    ("sluice_bench.pipeline.latency_served", "--changes", "30"),
    ("sluice_bench.pipeline.full_load",),
    ("sluice_bench.pipeline.one_batch",),
    ("sluice_bench.pipeline.admit",),
    ("sluice_bench.pipeline.small_objects",),
    ("sluice_bench.document", "--take"),
)


def main() -> int:
    """Run every benchmark, also after a failure. The status is 0 if all succeeded."""
    return max(subprocess.run([sys.executable, "-m", *command]).returncode for command in RUNS)


if __name__ == "__main__":
    sys.exit(main())
