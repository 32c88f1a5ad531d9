"""Writes proposed rules as YAML: decided ones as rules, open ones commented out, each with its evidence; and adds rules to a tables.yaml."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from sluice.choices import Choice
from sluice.discovery import Proposal
from sluice_cli.config_source import read_tables
from sluice_cli.failures import CommandFailed
from sluice_cli.output import counted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LINE = 500  # characters of one comment
_NEW_FILE = """# Which Kafka topics become which Hudi tables. `sluice config check` says every mistake with its line,
# `sluice config push` puts it to use with the next batch.
"""


class NoPlaceForRules(CommandFailed):
    """A tables.yaml into which rules can't be added as text; facts: none."""

    code = "no_place_for_rules"
    next_step = "Write `tables:` as a list with one rule to a line's dash, or copy the rules from `sluice config discover` by hand"


def rules_text(proposals: Iterable[Proposal], indent: int = 2) -> str:
    """The rules of a `tables:` list, indented."""
    pad = " " * indent
    return "".join(f"{pad}{line}\n" if line else "\n" for proposal in proposals for line in (*_rule(proposal), ""))


def whole_text(proposals: Sequence[Proposal]) -> str:
    """A tables.yaml of these proposals; without any decided one its list is empty."""
    empty = " []" if all(proposal.open for proposal in proposals) else ""
    return f"tables:{empty}\n{rules_text(proposals).rstrip()}\n"


def with_rules(text: str, rules: Callable[[int], str]) -> tuple[str, int, int]:
    """The text of a tables.yaml with rules added at the end of its list, and the first and last line of what was added (1-based).

    `rules` gives their text for an indentation. Everything else stays as it is, to the byte. Raises NoPlaceForRules.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    listed = next((value for key, value in pairs if key.value == "tables"), None)
    if not isinstance(listed, yaml.SequenceNode) or listed.flow_style:
        raise NoPlaceForRules("The file has no list of rules to which others can be added")
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    behind = [key.start_mark.line for key, _ in pairs if key.start_mark.line > listed.start_mark.line]
    at = min(behind, default=len(lines))
    while at > listed.start_mark.line + 1 and _between(lines[at - 1]):
        at -= 1
    added = ["\n", *rules(listed.start_mark.column).rstrip("\n").splitlines(keepends=True)]
    added[-1] += "\n"
    return "".join([*lines[:at], *added, *lines[at:]]), at + 2, at + len(added)


def add_rules(file: Path, count: int, rules: Callable[[int], str]) -> str:
    """Add rules to a tables.yaml, or make one, and say where. What can't be read back as a whole is not written.

    Raises NoPlaceForRules, and ConfigurationMistakes of the new whole, before anything is changed.
    """
    if file.exists():
        text, first, last = with_rules(file.read_text(encoding="utf-8"), rules)
    else:
        text = f"{_NEW_FILE}tables:\n{rules(2).rstrip()}\n"
        first, last = 1, text.count("\n")
    read_tables(text)
    beside = file.with_name(f".{file.name}.new")
    beside.write_text(text, encoding="utf-8")
    if file.exists():
        beside.chmod(file.stat().st_mode)
    os.replace(beside, file)
    return f"{counted(count, 'rule')} added to {file}, lines {first} to {last}. Look at them, then `{shlex.join(['sluice', 'config', 'push', str(file)])}`"


def told(proposal: Proposal) -> dict[str, Any]:
    """A proposal as plain JSON values."""
    found = asdict(proposal)
    for name in ("table", "record_key", "partition_by"):
        choice = getattr(proposal, name)
        found[name] = {
            "value": list(choice.value),
            "confidence": choice.confidence,
            "evidence": list(choice.evidence),
            "alternatives": [list(other) for other in choice.alternatives],
        }
    return {**found, "notes": list(proposal.notes), "open": list(proposal.open)}


def _between(line: str) -> bool:
    """Blank lines and comments that stand at the margin belong to what follows."""
    return not line.strip() or line.startswith("#")


def _rule(proposal: Proposal) -> list[str]:
    source = ", ".join(part for part in (proposal.shape, proposal.source) if part) or "not understood"
    lines = [
        comment(
            f"{proposal.topic}: {counted(proposal.objects, 'object')}, {proposal.bytes:,} bytes wait; {counted(proposal.rows, 'row')} read; {source}"
        )
    ]
    for name, choice in (
        ("table", proposal.table),
        ("record_key", proposal.record_key),
        ("partition_by", proposal.partition_by),
    ):
        lines += _evidence(name, choice)
    lines += [comment(f"note: {note}") for note in proposal.notes]
    rule = [f"- topic: {scalar(proposal.topic)}"]
    rule.append(f"  table: {scalar('.'.join(proposal.table.value)) if proposal.table.value else '?'}")
    rule.append(f"  record_key: {columns_value(proposal.record_key.value)}")
    if proposal.partition_by.value:
        rule.append(f"  partition_by: {columns_value(proposal.partition_by.value)}")
    if not proposal.open:
        return lines + rule
    return [
        *lines,
        comment(f"OPEN: {', '.join(proposal.open)}; nothing decides this but you"),
        *(f"# {line}" for line in rule),
    ]


def _evidence(name: str, choice: Choice) -> list[str]:
    value = ", ".join(choice.value) or ("none" if choice.decided else "?")
    first, *more = choice.evidence or ("",)
    lines = [
        comment(
            f"{name} {value} ({choice.confidence}): {first if name == 'partition_by' else '; '.join(choice.evidence)}"
        )
    ]
    if name == "partition_by":
        return lines + [comment(f"  could be {candidate}") for candidate in more]
    others = "; ".join(", ".join(other) for other in choice.alternatives if other != choice.value)
    return lines + ([comment(f"  unique too: {others}")] if others else [])


def comment(text: str) -> str:
    """One comment line: names in objects may hold anything, also line ends and control characters."""
    return "# " + "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)[:_LINE]


def columns_value(columns: Sequence[str]) -> str:
    if not columns:
        return "?"
    return scalar(columns[0]) if len(columns) == 1 else "[" + ", ".join(map(scalar, columns)) + "]"


def scalar(text: str) -> str:
    """The text as YAML reads it back as text: a topic called 1e3 or a column called yes too."""
    return text if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text else json.dumps(text)
