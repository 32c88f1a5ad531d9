"""`sluice config discover`: proposes rules for the topics that wait for one, with the evidence for every choice.

Writes proposed rules as YAML: decided ones as rules, open ones commented out, each with its evidence; and adds rules to a tables.yaml.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from sluice.config.document import Configuration
from sluice.config.values import PLACEHOLDER
from sluice.errors import FAILED, UsageError
from sluice.names import COLUMN, NAME
from sluice.onboarding.discovery import Proposal, TopicSample, propose
from sluice.onboarding.keys import Choice
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.s3.objects import Objects
from sluice_cli.config.source import read_tables
from sluice_cli.config.topics import sample_topics, waiting_topics
from sluice_cli.errors import NoPlaceForRules
from sluice_cli.terminal.output import Json, Stack, chosen_target, counted, print_json, say, stderr_console

NO_COLUMN = "none"

Chosen = dict[str, dict[str, tuple[str, ...]]]


def discover(
    write: Annotated[
        bool,
        typer.Option("--write", help="Add the decided rules to the file. Open ones are refused until they are chosen."),
    ] = False,
    file: Annotated[
        Path, typer.Option("--file", metavar="FILE", help="The tables.yaml that is added to, or made.")
    ] = Path("tables.yaml"),
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="TOPIC=COLUMN[,COLUMN]", help="Choose a topic's record key.")
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option("--partition", metavar="TOPIC=COLUMN|none", help="Choose a topic's partition columns."),
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="TOPIC=DATABASE.TABLE", help="Choose a topic's table.")
    ] = None,
    database: Annotated[
        str | None,
        typer.Option(
            "--database", metavar="NAME", help="The database of tables whose topic doesn't name one, and of all others."
        ),
    ] = None,
    objects: Annotated[
        int,
        typer.Option(
            "--objects", metavar="N", min=1, max=100, help="Objects to read of each topic, 1 MiB of each at most."
        ),
    ] = 20,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Propose rules for all topics whose objects wait for one.

    A few objects of each topic are read. Every choice says what speaks for it and how sure it is: certain (the Kafka
    key's own fields), likely, or ambiguous. Ambiguous ones are commented out, and --write leaves them out, until you choose.
    Exit code 1 says that some are open.

    Examples:

      sluice config discover

      sluice config discover --write --key shop.public.basket=basket_id,line

      sluice config push tables.yaml
    """
    chosen = _chosen(key, partition, table, database)
    before = _configuration(file)
    target = chosen_target(stack)
    waiting = waiting_topics(DynamoDbLedger(target.client("dynamodb"), target.ledger_table))
    if waiting.more:
        say("warning: more objects wait than were looked at: topics may be missing here. Discover again after the push")
    if waiting.unnamed:
        say(
            f"warning: {counted(waiting.unnamed, 'parked object')} whose key tells no topic; `sluice status` shows examples. No rule takes these"
        )
    _known_topics(chosen, waiting.topics)
    console = stderr_console()
    with console.status(f"Reading samples of {counted(len(waiting.topics), 'topic')}") as status:
        samples = sample_topics(
            Objects(target.client("s3")), waiting, per_topic=objects, said=lambda topic: status.update(f"Read {topic}")
        )
    ruled = [
        sample.topic for sample in samples if before is not None and before.match_topic(sample.topic).config is not None
    ]
    proposals = _proposals([sample for sample in samples if sample.topic not in ruled], before, chosen, database)
    if ruled:
        say(
            f"{counted(len(ruled), 'topic')} already with a rule in {file}: `{shlex.join(['sluice', 'config', 'push', str(file)])}` puts it in force"
        )
    still_open = [proposal for proposal in proposals if proposal.open]
    decided = [proposal for proposal in proposals if not proposal.open]
    written = add_rules(file, len(decided), lambda indent: rules_text(decided, indent)) if write and decided else None
    if as_json:
        print_json(
            {
                "proposals": [describe(proposal) for proposal in proposals],
                "ruled": ruled,
                "written": written is not None,
                "file": str(file),
            }
        )
    elif write:
        print(written or f"Nothing to add to {file}")
    elif proposals:
        print(
            whole_text(proposals)
            if before is None
            else f"# rules to add to {file}; --write does it\n{rules_text(proposals)}",
            end="",
        )
    else:
        print("No topic waits for a rule")
    for proposal in still_open:
        say(f"open: {proposal.topic}: {', '.join(proposal.open)}. {_how(proposal)}")
    if still_open:
        raise typer.Exit(FAILED)


def _proposals(
    samples: Sequence[TopicSample], before: Configuration | None, chosen: Chosen, database: str | None
) -> list[Proposal]:
    taken = {rule.table for rule in before.rules if not PLACEHOLDER.search(rule.table)} if before is not None else set()
    found = []
    for sample in samples:
        proposal = propose(sample, database=database, chosen=chosen.get(sample.topic, {}), taken=frozenset(taken))
        taken.update(proposal.table.value)
        found.append(proposal)
    return found


def _how(proposal: Proposal) -> str:
    options = {
        "table": f"--table {proposal.topic}=DATABASE.TABLE",
        "record_key": f"--key {proposal.topic}=COLUMN",
        "partition_by": f"--partition {proposal.topic}=COLUMN or =none",
    }
    return f"Choose with {', '.join(options[name] for name in proposal.open)}"


def _configuration(file: Path) -> Configuration | None:
    """What the file says already; None where it isn't there. Raises ConfigurationMistakes and UsageError."""
    try:
        return read_tables(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} can't be read: {error}", next_step="Name a tables.yaml in UTF-8") from error


def _chosen(
    key: list[str] | None, partition: list[str] | None, table: list[str] | None, database: str | None
) -> Chosen:
    """The operator's choices by topic. Raises UsageError for what can't be one."""
    if database is not None and not NAME.fullmatch(database):
        raise UsageError(f"{database!r} is no database's name", next_step="Use lower-case letters, digits and _")
    found: Chosen = {}
    for name, written in (("record_key", key), ("partition_by", partition), ("table", table)):
        for entry in written or ():
            topic, equals, value = entry.partition("=")
            if not equals or not topic or not value:
                raise UsageError(f"{entry!r} is not TOPIC=VALUE", next_step="As in --key tickit.ecomm.sale=salesid")
            parts = (
                (value,)
                if name == "table"
                else ()
                if name == "partition_by" and value == NO_COLUMN
                else tuple(value.split(","))
            )
            wrong = [
                part
                for part in parts
                if not (
                    all(map(NAME.fullmatch, part.split("."))) and part.count(".") == 1
                    if name == "table"
                    else COLUMN.fullmatch(part)
                )
            ]
            if wrong:
                raise UsageError(
                    f"{wrong[0]!r} is no {'table (database.table)' if name == 'table' else 'column name'}",
                    next_step="As in --key tickit.ecomm.sale=salesid",
                )
            found.setdefault(topic, {})[name] = parts
    return found


def _known_topics(chosen: Chosen, topics: Mapping[str, object]) -> None:
    unknown = sorted(set(chosen) - set(topics))
    if unknown:
        raise UsageError(
            f"No object of topic {unknown[0]} waits for a rule",
            next_step="`sluice config discover` without choices shows the topics that do",
        )


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LINE = 500  # characters of one comment
_NEW_FILE = """# Which Kafka topics become which Hudi tables. `sluice config check` says every mistake with its line,
# `sluice config push` puts it to use with the next batch.
"""


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


def describe(proposal: Proposal) -> dict[str, Any]:
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
