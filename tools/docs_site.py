"""Hooks of MkDocs: the pages that lie outside docs/, the reference of commands, and links into the repository.

A link to a file that is no page becomes its name in the site. A link to nothing stays, and fails the strict build.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# Pages of the site by their file in the repository.
PAGES = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
COMMANDS = "cli.md"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside docs/, and the reference of commands."""
    from mkdocs.structure.files import File

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, COMMANDS, content=commands_page()))
    return files


def on_page_markdown(markdown: str, page: Any, **given: Any) -> str:
    """Rewrite the links of a page for the site."""
    uri = page.file.src_uri
    source = next((name for name, target in PAGES.items() if target == uri), f"docs/{uri}")
    return _LINK.sub(lambda match: rewritten(match, source, uri), markdown)


def rewritten(match: re.Match[str], source: str, page: str) -> str:
    """A link of the repository's file `source` as the site's page `page` has it."""
    image, text, target = match.groups()
    path, anchor, fragment = target.partition("#")
    if not path or "://" in path or path.startswith("mailto:"):
        return match[0]
    path_named = os.path.normpath(os.path.join(os.path.dirname(source), path)).replace(os.sep, "/")
    if (ROOT / path_named / "index.md").is_file():
        path_named += "/index.md"
    place = PAGES.get(path_named) or (path_named[len("docs/") :] if path_named.startswith("docs/") else None)
    if place is not None and not (ROOT / path_named).is_dir():
        relative = os.path.relpath(place, os.path.dirname(page) or ".").replace(os.sep, "/")
        return f"{image}[{text}]({relative}{anchor}{fragment})"
    return text if (ROOT / path_named).exists() else match[0]


def commands_page() -> str:
    """The reference of the `sluice` command: each verb's help, options and examples."""
    sys.path[:0] = [str(ROOT / folder) for folder in ("functions", "spark", "cli", "deploy", "local")]
    from sluice_cli.verbs import VERBS, built

    group: Any = built()
    lines = ["# Commands", "", _as_code(inspect.cleandoc(group.help)), "", inspect.cleandoc(group.epilog), ""]
    for panel in dict.fromkeys(verb.panel for verb in VERBS.values()):
        lines += [f"## {panel}", ""]
        for name in (name for name, verb in VERBS.items() if verb.panel == panel):
            lines += [line for path, command in _commands(f"sluice {name}", group.commands[name])
                      for line in _section(path, command)]  # fmt: skip
    return "\n".join(lines) + "\n"


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, sub in sorted(getattr(command, "commands", {}).items()):
        yield from _commands(f"{path} {name}", sub)


def _section(path: str, command: Any) -> Iterator[str]:
    yield from (f"### {path}", "", _as_code(inspect.cleandoc(command.help or "")), "")
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if rows:
        yield from ("| | |", "|---|---|", *rows, "")


def _as_code(text: str) -> str:
    """Help with its examples, which are indented by two, as code: one block, without Click's mark of each (`\\b`)."""
    lines = [line for line in text.splitlines() if line != "\b"]
    written = "\n".join(f"  {line}" if line.startswith("  ") else line for line in lines)
    return re.sub(r"^(    .*)\n\n(?=    )", r"\1\n", written, flags=re.MULTILINE)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.upper()}"
        name = ", ".join(sorted(parameter.opts, key=len)) + value
    return f"| `{name}` | {(parameter.help or '').replace('|', chr(92) + '|')} |"
