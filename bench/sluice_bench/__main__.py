"""`python -m sluice_bench`: latency lingering and idle, then the full load against its peers, each as its own module would run it."""
import subprocess
import sys

RUNS = (("sluice_bench.latency", "lingering"), ("sluice_bench.latency", "idle", "--changes", "5"), ("sluice_bench.full_load",))


def main() -> int:
    """Run every benchmark, also after one that failed; the status says whether all ended well."""
    return max(subprocess.run([sys.executable, "-m", *command]).returncode for command in RUNS)


if __name__ == "__main__":
    sys.exit(main())
