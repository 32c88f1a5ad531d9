"""Writes rules as YAML, and adds them to a tables.yaml without changing anything else in it.

A configuration is written as a tables.yaml that makes the same one. A proposed rule has the evidence of every choice as
comments. A rule with an open choice is commented out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sluice.config.delete_when import written_marks
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.ignore import Ignore
from sluice.config.rules.table_rule import TableRule
from sluice.config.setting import Setting, settings_of
from sluice.errors import UsageError
from sluice.onboarding.discovery import Proposal
from sluice.onboarding.keys import Choice
from sluice_cli.errors import NoPlaceForRules
from sluice_cli.terminal.guard import shell_text
from sluice_cli.terminal.words import counted

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LINE = 500  # characters of one comment
_FIRST = ("topic", "topic_regex", "table")
_SWITCHES = ("lineage", "catalog")  # settings whose texts are `on` and `off`
_SCHEMAS = ("tables.schema.json", "docs/tables.schema.json")  # by the file: that of a project, and of a clone
#: The rule of a new project's tables.yaml, which goes once other rules are added.
EXAMPLE_RULE = """\
  # An example: put your own rules in its place.
  - topic: example.public.user
    table: example.user # database.table
    record_key: id      # several columns: [id, country]
"""
_SCHEMA_LINE = "# yaml-language-server: $schema={schema}"
_NEW_FILE = """\
# Maps Kafka topics to Hudi tables. `sluice config check` names every mistake with its line,
# `sluice config push` puts the file in force with the next batch. `sluice config schema` prints the schema.
"""


def rules_text(proposals: Iterable[Proposal], indent: int = 2) -> str:
    """Return the rules of a `tables:` list, indented."""
    pad = " " * indent
    return "".join(f"{pad}{line}\n" if line else "\n" for proposal in proposals for line in (*_rule(proposal), ""))


def whole_text(proposals: Sequence[Proposal]) -> str:
    """Return a tables.yaml of these proposals. Its list is empty if no rule is decided."""
    empty = " []" if all(proposal.open for proposal in proposals) else ""
    return f"tables:{empty}\n{rules_text(proposals).rstrip()}\n"


def with_rules(text: str, rules: Callable[[int], str]) -> tuple[str, int, int]:
    """Add rules at the end of the list of a tables.yaml. Every other byte stays as it is, but for EXAMPLE_RULE.

    `rules` gives their text for an indentation. Returns the text, and the first and last added line, from 1 on.
    Raises NoPlaceForRules.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    listed = next((value for key, value in pairs if key.value == "tables"), None)
    if listed is not None and not node.flow_style and _is_empty(listed):
        return _with_first_rules(text, listed, rules)
    if not isinstance(listed, yaml.SequenceNode) or listed.flow_style:
        raise NoPlaceForRules("The file has no block list of rules to add to")
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    behind = [key.start_mark.line for key, _ in pairs if key.start_mark.line > listed.start_mark.line]
    at = min(behind, default=len(lines))
    while at > listed.start_mark.line + 1 and _between(lines[at - 1]):
        at -= 1
    before = "".join(lines[:at])
    alone = EXAMPLE_RULE in before and len(listed.value) == 1
    before = before.replace(EXAMPLE_RULE, "", 1) + ("" if alone else "\n")
    added = rules(listed.start_mark.column).rstrip("\n") + "\n"
    first = before.count("\n") + 1
    return before + added + "".join(lines[at:]), first, first + added.count("\n") - 1


def _is_empty(listed: yaml.Node) -> bool:
    """Whether `tables:` has no rule yet: it is an empty list in one line, or nothing."""
    return isinstance(listed, yaml.SequenceNode) and not listed.value or listed.tag == "tag:yaml.org,2002:null"


def _with_first_rules(text: str, listed: yaml.Node, rules: Callable[[int], str]) -> tuple[str, int, int]:
    """Put rules in place of an empty list. Every other byte stays as it is."""
    before, behind = text[: listed.start_mark.index].rstrip(), text[listed.end_mark.index :]
    rest, _, below = behind.partition("\n")
    added, head = rules(2).rstrip("\n") + "\n", f"{before}{rest}".rstrip() + "\n"
    first = head.count("\n") + 1
    return head + added + below, first, first + added.count("\n") - 1


def add_rules(file: Path, count: int, rules: Callable[[int], str]) -> str:
    """Add rules to a tables.yaml, or create one, and return a line that says where.

    The new text is read back before it is written. Raises NoPlaceForRules, ConfigurationMistakes of the new text, and
    UsageError where the file's folder is missing.
    """
    from sluice_cli.config.source import read_tables

    replaced = ""
    if file.exists():
        old = file.read_text(encoding="utf-8")
        text, first, last = with_rules(old, rules)
        if EXAMPLE_RULE in old and EXAMPLE_RULE not in text:
            replaced = " in place of the example"
    else:
        schema = next((name for name in _SCHEMAS if (file.parent / name).is_file()), None)
        checked_by = f"{_SCHEMA_LINE.format(schema=schema)}\n" if schema else ""
        text = f"{checked_by}{_NEW_FILE}tables:\n{rules(2).rstrip()}\n"
        first, last = 1, text.count("\n")
    read_tables(text)
    beside = file.with_name(f".{file.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(
            f"{file} can't be written: there is no folder {file.parent}",
            next_step="Make the folder, or name another file",
        ) from error
    if file.exists():
        beside.chmod(file.stat().st_mode)
    os.replace(beside, file)
    push = shell_text(["sluice", "config", "push", str(file)])
    return f"{counted(count, 'rule')} added to {file}, lines {first} to {last}{replaced}. Review them, then `{push}`"


class _Block(dict[str, Any]):
    """A mapping with a line for each key."""


class _Switch(str):
    """A plain `on` or `off`."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)  # a list's items stand below its key


_Dumper.add_representer(
    _Block, lambda dumper, value: dumper.represent_mapping("tag:yaml.org,2002:map", value, flow_style=False)
)
_Dumper.add_representer(_Switch, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:bool", value))


def configuration_text(configuration: Configuration) -> str:
    """Return a configuration as a tables.yaml that makes the same one: what differs from the defaults, per rule."""
    lanes = {lane.name: _settings(lane, settings_of(LaneConfig)) for lane in configuration.lanes}
    shown = {name: written for name, written in lanes.items() if written or name != LaneConfig().name}
    rules = [_Block(_settings(rule, settings_of(TableRule))) for rule in configuration.rules]
    ordered = [_Block({**{key: rule[key] for key in _FIRST if key in rule}, **rule}) for rule in rules]
    ignored = _settings(configuration.ignore, settings_of(Ignore))
    tree = _Block(
        {**({"lanes": shown} if shown else {}), **({"ignore": ignored} if ignored else {}), "tables": ordered}
    )
    # Characters beyond ASCII are escaped, so that none of them controls a terminal.
    return str(yaml.dump(tree, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120))


def _settings(of: Any, settings: Iterable[Setting]) -> dict[str, Any]:
    """What the file would say of a rule, a lane or a group: what differs from the defaults."""
    values: dict[str, Any] = {}
    for setting in settings:
        value, place = getattr(of, setting.name), values
        if value is None or value == setting.default:
            continue
        for key in setting.path[:-1]:
            place = place.setdefault(key, {})
        place[setting.path[-1]] = _settings(value, setting.group) if setting.value is None else _value(setting, value)
    return {key: _Switch("off") if value == {"enabled": False} else value for key, value in values.items()}


def _value(setting: Setting, value: Any) -> Any:
    written = setting.value.write(value) if setting.value is not None else value
    if isinstance(written, (list, tuple)):
        return written[0] if len(written) == 1 else list(written)
    if isinstance(written, Mapping):
        return dict(written)
    if written == "0" and setting.name.endswith("_s"):
        return 0  # of seconds, which needs no unit
    return _Switch(written) if setting.key in _SWITCHES and isinstance(written, str) else written


def _between(line: str) -> bool:
    """Whether a line belongs to what follows the list: blank, or a comment at the margin."""
    return not line.strip() or line.startswith("#")


def _rule(proposal: Proposal) -> list[str]:
    source = ", ".join(part for part in (proposal.shape, proposal.source) if part) or "of unknown form"
    lines = [
        comment(
            f"{proposal.topic}: {counted(proposal.objects, 'object')} parked, {proposal.bytes:,} bytes; "
            f"{counted(proposal.rows, 'row')} read from {counted(proposal.read, 'object')}; {source}"
        )
    ]
    for name, choice in proposal.choices.items():
        lines += _evidence(name, choice)
    lines += [comment(f"note: {note}") for note in proposal.notes]
    marks = None if proposal.delete_when is None else written_marks(*proposal.delete_when).removeprefix("delete_when: ")
    csv = {"null_text": proposal.null_text, "delimiter": proposal.delimiter}
    written = ", ".join(f"{name}: {json.dumps(value)}" for name, value in csv.items() if value is not None)
    types = ", ".join(f"{scalar(name)}: {kind}" for name, kind in proposal.types.items())
    looks = f"{{{types}}} # as the sampled values look: uncomment what is right"
    rule = {
        "topic": scalar(proposal.topic),
        "table": scalar(".".join(proposal.table.value)) if proposal.table.value else "?",
        "record_key": columns_value(proposal.record_key.value),
        "partition_by": columns_value(proposal.partition_by.value) if proposal.partition_by.value else None,
        "delete_when": marks,
        "position": None if proposal.position is None else columns_value(proposal.position.value),
        "key_pattern": None if proposal.key_pattern is None else scalar(proposal.key_pattern),
        "path_columns": columns_value(proposal.path_columns) if proposal.path_columns else None,
        "format": None if proposal.format is None else scalar(proposal.format),
        "merged": "true" if proposal.merged else None,
        "csv": f"{{{written}}}" if written else None,
        "# types": looks if types else None,
    }
    if proposal.open:
        lines.append(comment(f"OPEN: {', '.join(proposal.open)}; choose, then uncomment the rule"))
    return lines + rule_lines(rule, is_open=bool(proposal.open))


def rule_lines(rule: Mapping[str, str | None], *, is_open: bool, below: Sequence[str] = ()) -> list[str]:
    """The lines of a rule by its keys, without those of None, then the lines `below`; an open rule as comments."""
    texts = [f"{key}: {value}" for key, value in rule.items() if value is not None]
    lines = [f"{'  ' if number else '- '}{text}" for number, text in enumerate((*texts, *below))]
    return [f"# {line}" for line in lines] if is_open else lines


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
    return lines + ([comment(f"  {'could be' if name == 'position' else 'also unique:'} {others}")] if others else [])


def comment(text: str) -> str:
    """Return one line of comment. Names in objects may hold anything, line ends and control characters too."""
    return "# " + "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)[:_LINE]


def columns_value(columns: Sequence[str]) -> str:
    if not columns:
        return "?"
    return scalar(columns[0]) if len(columns) == 1 else "[" + ", ".join(map(scalar, columns)) + "]"


def scalar(text: str) -> str:
    """Write text that YAML reads back as text, such as a topic called 1e3 or a column called yes."""
    return text if _PLAIN.fullmatch(text) and yaml.safe_load(text) == text else json.dumps(text)
