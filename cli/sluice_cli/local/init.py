"""`sluice init`: writes the folder of a project, from which a stack is configured and deployed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from sluice.errors import UsageError
from sluice_cli.config.rule_text import EXAMPLE_RULE
from sluice_cli.terminal.guard import shell_text
from sluice_cli.terminal.interaction import ask, path_given
from sluice_cli.terminal.options import Yes, argument
from sluice_cli.terminal.output import say, say_next_step
from sluice_cli.terminal.step import Step
from sluice_deploy.release import source_root

SCHEMA = "tables.schema.json"  # a folder with it is a project
# The files of a project by their source.
FILES = {
    SCHEMA: "docs/tables.schema.json",
    "template.yaml": "template.yaml",
    "statemachines/table_services.asl.json": "statemachines/table_services.asl.json",
    "samconfig.toml": "samconfig.toml",
    "Makefile": "deploy/deploy.mk",
}
OWN = ("samconfig.toml",)  # what the owner of a project edits, beside tables.yaml
_IGNORED = ".aws-sam/\n.sluice/\n"
_TABLES = f"""\
# yaml-language-server: $schema=tables.schema.json
# Maps topics to Hudi tables. `sluice config check` names every mistake with its line, `sluice config push` puts the
# file in force with the next batch, and `sluice config schema` prints the schema of all keys.
# `sluice config discover` proposes rules for objects that wait: with `--write --file tables.yaml` it adds them here.

defaults:               # for rules that don't set these keys themselves
  table_type: cow       # cow: copy on write, fast to read. mor: merge on read, fast to write
  freshness: 10m        # how old a table may get: 0 while you try things out, 60s costs four times as much as 10m

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
        Path,
        argument(
            "FOLDER",
            "A new or an empty folder, one without files of these names, or a project of another release.",
            parser=path_given,
        ),
    ],
    yes: Yes = False,
) -> None:
    """Write a project into a folder: tables.yaml, and what SAM deploys: template, samconfig.toml, Makefile.

    Nothing is overwritten: if a file is there already, nothing is written at all. The functions and the Spark job
    are not part of a project. `make deploy` packs those of the installed version.

    In a project, the files of another release are replaced by those of the installed one, after a question: template,
    state machines, Makefile and the schema of tables.yaml. tables.yaml and samconfig.toml stay as they are.

    Examples:

      sluice init lakehouse && cd lakehouse && make deploy
      sluice init .
    """
    root = source_root()
    contents = {name: (root / source).read_text(encoding="utf-8") for name, source in FILES.items()}
    contents["Makefile"] += _HELP
    renews = (folder / SCHEMA).exists()
    if renews:
        contents = _to_renew(folder, contents)
        if not contents:
            say(f"{folder} has the files of this release already")
            return
        question = (
            f"Replace {', '.join(contents)} in {folder} by those of this release? Your own changes to them are lost."
        )
        if not yes:
            ask(question)
    else:
        contents = {**contents, "tables.yaml": _TABLES, ".gitignore": _IGNORED}
        there = [name for name in contents if (folder / name).exists()]
        if there:
            raise UsageError(
                f"{folder} has {', '.join(there)} already, and nothing was written", next_step="Name another folder"
            )
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", newline="\n")
        print(path, flush=True)
    enter = "" if folder.resolve() == Path.cwd() else shell_text(["cd", str(folder)])
    if renews:
        say_next_step(f"`{enter} && make deploy`" if enter else "`make deploy`")
        return
    say_next_step(
        f"{f'`{enter}`, edit' if enter else 'Edit'} tables.yaml, then try it with "
        f"{Step('local up', '--config', 'tables.yaml')}, or run `make deploy`, which needs make and "
        "aws-sam-cli. `make help` lists the targets"
    )


def _to_renew(folder: Path, contents: Mapping[str, str]) -> dict[str, str]:
    """The files of a project that differ from those of this release, but for its owner's."""
    return {
        name: content
        for name, content in contents.items()
        if name not in OWN
        and not ((folder / name).is_file() and (folder / name).read_bytes() == content.encode("utf-8"))
    }
