"""Installs packages into the environment that runs it, and names only what takes long: a line for each.

    python tools/install.py --constraint constraints.txt --editable ".[local]"
    python tools/install.py --environment .venv

By uv where there is one, in seconds; by pip otherwise. A line is never redrawn: a terminal gets what a log gets.
The second form makes the environment. Both may be interrupted and run again.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Sequence

INTERRUPTED = 130  # as shells report SIGINT
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


def install(arguments: Sequence[str]) -> int:
    """Run the installer; returns its exit status. An interruption ends the installer, too."""
    last: deque[str] = deque(maxlen=KEPT_LINES)
    with subprocess.Popen(
        command(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as installer:
        assert installer.stdout is not None
        try:
            for line in installer.stdout:
                last.append(line)
                said = shown(line)
                if said:
                    print(said, flush=True)
        except KeyboardInterrupt:
            installer.terminate()
            installer.wait()
            raise
    if installer.returncode:
        sys.stderr.writelines(last)
    return installer.returncode


def make_environment(folder: str) -> int:
    """Make a virtual environment with pip, or complete one; returns the exit status of its maker."""
    with subprocess.Popen([sys.executable, "-m", "venv", folder], stderr=subprocess.PIPE, text=True) as maker:
        try:
            _, said = maker.communicate()
        except KeyboardInterrupt:
            maker.terminate()
            maker.wait()
            raise
    if maker.returncode:
        sys.stderr.write(said)
    return maker.returncode


def main(arguments: Sequence[str]) -> int:
    """Do what the arguments say; returns the exit status."""
    try:
        return make_environment(arguments[1]) if arguments[:1] == ["--environment"] else install(arguments)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing but the exit is left
        print("Interrupted; run the same again, it goes on from there", file=sys.stderr, flush=True)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
