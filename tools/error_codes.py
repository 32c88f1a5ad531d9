"""Writes docs/errors.md, one row per error code: `make documents`. With --check, fails if the page is out of date."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from sluice.errors import CommandFailed, SluiceError

PAGE = Path(__file__).resolve().parents[1] / "docs" / "errors.md"
PACKAGES = {
    "sluice": "Core: objects, schemas, configuration",
    "sluice_formats": "Decoding: an object's bytes and records",
    "sluice_aws": "AWS adapters: ledger, S3, Glue, lanes",
    "sluice_spark": "Job: tables and runs",
    "sluice_read": "Reading silver tables",
    "sluice_deploy": "Building a release",
    "sluice_local": "Local stack",
    "sluice_cli": "Commands",
}
HEAD = """# Errors

Every error has a stable code. It appears in logs, in the ledger, in metrics and where verbs list what failed
(`sluice quarantine list`, with `--json` too). A verb that itself fails prints its message and next step to stderr, with
`--json` too. **Retry** says whether the same call can succeed later without a change. Error messages name the facts:
the object, the column, the limit. Where the next step depends on them too, it is in the message.

Objects and rows that can't be merged are quarantined under these codes: `sluice quarantine list` shows them, and
`sluice quarantine retry` merges them after a fix.
"""


def errors_of(package: str) -> Iterator[type[SluiceError]]:
    """The errors of `package` in the order of its `errors` module, without classes that only group others."""
    module = importlib.import_module(f"{package}.errors")
    for error in vars(module).values():
        if (
            inspect.isclass(error)
            and issubclass(error, SluiceError)
            and error.__module__ == module.__name__
            and "code" in vars(error)
            and error not in (SluiceError, CommandFailed)
        ):
            yield error


def page() -> str:
    """The text of docs/errors.md."""
    parts = [HEAD]
    for package, title in PACKAGES.items():
        rows = [
            f'| <span id="{error.code}">`{error.code}`</span> | '
            f"{_cell(inspect.getdoc(error) or '')} | {_cell(_next_step(error))} "
            f"| {'yes' if error.retriable else 'no'} |"
            for error in sorted(errors_of(package), key=lambda error: error.code)
        ]
        parts.append(
            f"\n## {title}\n\n`{package}.errors`\n\n| code | meaning | next step | retry |\n|---|---|---|---|\n"
            + "\n".join(rows)
            + "\n"
        )
    return "".join(parts)


def _next_step(error: type[SluiceError]) -> str:
    """The step of the class. An error of a command without one is raised with the step that its facts allow."""
    return error.next_step or ("in the message" if issubclass(error, CommandFailed) else "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or "-"


def main() -> None:
    """Write the page, or with --check say whether it is current."""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit(f"{PAGE.name} is out of date: run `make documents`")


if __name__ == "__main__":
    main()
