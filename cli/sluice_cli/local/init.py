"""`sluice init`: writes the folder of a project, from which a stack is configured and deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluice.errors import UsageError
from sluice_cli.config.rule_text import EXAMPLE_RULE
from sluice_cli.errors import plain_reason
from sluice_cli.terminal.output import say
from sluice_deploy.release import source_root

# The files of a project by their source.
FILES = {
    "tables.schema.json": "docs/tables.schema.json",
    "template.yaml": "template.yaml",
    "statemachines/table_services.asl.json": "statemachines/table_services.asl.json",
    "samconfig.toml": "samconfig.toml",
    "Makefile": "deploy/deploy.mk",
}
_IGNORED = ".aws-sam/\n.sluice/\n"
_TABLES = f"""\
# yaml-language-server: $schema=tables.schema.json
# Maps topics to Hudi tables. `sluice config check` names every mistake with its line, `sluice config push` puts the
# file in force with the next batch, and `sluice config schema` prints the schema of all keys.
# `sluice config discover` proposes rules for objects that wait: with `--write --file tables.yaml` it adds them here.

defaults:               # for rules that don't set these keys themselves
  table_type: cow       # cow: copy on write, fast to read. mor: merge on read, fast to write
  freshness: 60s        # how old a table may get; 0 commits at once

tables:                 # the first rule that takes a topic counts
{EXAMPLE_RULE}"""
_HELP = """
.DEFAULT_GOAL := help
.PHONY: help
help:  ## list the targets
\t@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\\t/' | expand -t 20
"""


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A new or an empty folder, or one without files of these names.")
    ],
) -> None:
    """Write a project into a folder: tables.yaml, and what SAM deploys: template, samconfig.toml, Makefile.

    Nothing is overwritten: if a file is there already, nothing is written at all. The functions and the Spark job
    are not part of a project. `make deploy` packs those of the installed version.

    Example:

      sluice init lakehouse && cd lakehouse && make deploy
    """
    root = source_root()
    contents = {name: (root / source).read_text(encoding="utf-8") for name, source in FILES.items()}
    contents["tables.yaml"] = _TABLES
    contents["Makefile"] += _HELP
    contents[".gitignore"] = _IGNORED
    there = [name for name in contents if (folder / name).exists()]
    if there:
        raise UsageError(
            f"{folder} has {', '.join(there)} already, and nothing was written", next_step="Name another folder"
        )
    try:
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8", newline="\n")
            print(path, flush=True)
    except OSError as error:
        raise UsageError(
            f"{error.filename or folder} can't be written: {plain_reason(error)}", next_step="Name another folder"
        ) from error
    say(
        "Next: edit tables.yaml, then try it there with `sluice local up --config tables.yaml`, or run `make deploy`, "
        "which needs make and aws-sam-cli. `make help` lists the targets"
    )
