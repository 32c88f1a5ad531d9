"""Installs packages into the environment that runs it, and names only what takes long: a line for each.

    python tools/install.py --constraint constraints.txt --editable ".[local]"

By uv where there is one, in seconds; by pip otherwise. A line is never redrawn: a terminal gets what a log gets.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Sequence

LARGE = 10  # megabytes of a download that is named
KEPT_LINES = 60  # of the installer's, shown if it fails
_DOWNLOAD = re.compile(r"\s*Downloading (\S+) \((\d+)(?:\.\d+)? ?(?:MB|MiB|GB|GiB)\)")
_BUILD = re.compile(r"\s*Building (?:(?:wheel|editable) for )?(\w\S*)(?: \(pyproject\.toml\): started|$| @ )")
_INSTALL = re.compile(r"Installing collected packages: (.*)")


def shown(line: str) -> str | None:
    """The line to print for a line of pip or uv; None for most."""
    download = _DOWNLOAD.match(line)
    if download:
        return line.strip() if int(download[2]) >= LARGE or "G" in line.rsplit("(", 1)[1] else None
    build = _BUILD.match(line)
    if build:
        return f"Building {build[1]}"
    packages = _INSTALL.match(line)
    return f"Installing {packages[1].count(',') + 1} packages" if packages else None


def command(arguments: Sequence[str]) -> list[str]:
    """The installer's command, which writes plain lines."""
    uv = shutil.which("uv")
    if uv:
        return [uv, "pip", "install", "--no-progress", "--color", "never", "--python", sys.executable, *arguments]
    plain = ["--disable-pip-version-check", "--progress-bar", "off", "--no-color"]
    return [sys.executable, "-m", "pip", "install", *plain, *arguments]


def main(arguments: Sequence[str]) -> int:
    """Run the installer; returns its exit status."""
    last: deque[str] = deque(maxlen=KEPT_LINES)
    with subprocess.Popen(
        command(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as installer:
        assert installer.stdout is not None
        for line in installer.stdout:
            last.append(line)
            said = shown(line)
            if said:
                print(said, flush=True)
    if installer.returncode:
        sys.stderr.writelines(last)
    return installer.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
