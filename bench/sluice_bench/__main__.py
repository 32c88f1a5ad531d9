"""`python -m sluice_bench`: every benchmark of the document, each as its own module would run it, then the document."""

import subprocess
import sys

RUNS = (
    ("sluice_bench.latency", "lingering", "--changes", "30"),
    ("sluice_bench.latency", "idle", "--changes", "30"),
    ("sluice_bench.latency_served", "--changes", "30"),
    ("sluice_bench.full_load",),
    ("sluice_bench.admit",),
    ("sluice_bench.small_objects",),
    ("sluice_bench.document", "--take"),
)


def main() -> int:
    """Run every benchmark, also after one that failed; the status says whether all ended well."""
    return max(subprocess.run([sys.executable, "-m", *command]).returncode for command in RUNS)


if __name__ == "__main__":
    sys.exit(main())
