"""`sluice config discover`: proposes rules for the topics that have none, and adds them to a tables.yaml."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.config.document import Configuration
from sluice.config.values import PLACEHOLDER
from sluice.errors import FAILED, UsageError
from sluice.names import COLUMN, NAME, did_you_mean, not_a_column
from sluice.onboarding.discovery import Proposal, propose
from sluice.onboarding.samples import TopicSample
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects, pages_of_bronze
from sluice_cli.config.push import read_file
from sluice_cli.config.rule_text import add_rules, rules_text, whole_text
from sluice_cli.errors import UNNAMED
from sluice_cli.terminal.guard import shell_text, visible
from sluice_cli.terminal.options import Json, Stack, option
from sluice_cli.terminal.output import print_json, print_line, say, stderr_console
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted

NO_COLUMN = "none"
_AS_IN = "As in --key tickit.ecomm.sale=salesid"
RECENT_MS = 120_000  # objects that were just put; older ones without a record were never announced
RECENT_PAGES = 20  # of their listing: a larger bucket is not looked through whole
ADMISSION_PATIENCE_S = 10.0  # without a further admission
ADMISSION_POLL_S = 0.3

Chosen = dict[str, dict[str, tuple[str, ...]]]


def discover(
    write: Annotated[
        bool, option("--write", "Add the decided rules to the file. Rules with an open choice are left out.")
    ] = False,
    file: Annotated[Path, option("--file FILE", "The tables.yaml to add to, or to create.")] = Path("tables.yaml"),
    key: Annotated[list[str] | None, option("--key TOPIC=COLUMN[,COLUMN]", "Choose a topic's record key.")] = None,
    partition: Annotated[
        list[str] | None, option("--partition TOPIC=COLUMN|none", "Choose a topic's partition columns.")
    ] = None,
    position: Annotated[
        list[str] | None, option("--position TOPIC=COLUMN", "Choose the column that orders a topic's changes.")
    ] = None,
    table: Annotated[list[str] | None, option("--table TOPIC=DATABASE.TABLE", "Choose a topic's table.")] = None,
    database: Annotated[
        str | None, option("--database NAME", "The database of all tables. Without it, the topic names the database.")
    ] = None,
    objects: Annotated[
        int | None,
        option(
            "--objects N",
            "Objects to read of each topic, at most 1 MiB of each. By default 20, of small ones 100.",
            min=1,
            max=100,
        ),
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Propose rules for all topics whose objects wait for one, also for keys whose layout a rule has to name.

    Keys that name no topic are grouped by their layout (AWS DMS, Spark, dlt, Aiven, folders) and get a `key_pattern`. A
    few objects of each topic are read. Every choice comes with its evidence and its confidence: certain (the Kafka
    key's own fields), likely, or ambiguous. A rule with an ambiguous choice is commented out, and --write leaves it
    out. The exit code is 1 if a choice is open.

    Examples:

      sluice config discover
      sluice config discover --write --key shop.public.basket=basket_id,line
      sluice config push tables.yaml
    """
    # Arrow takes as long to load as all the rest.
    from sluice_cli.config.topics import sample_topics, waiting_topics, with_layouts

    chosen = _chosen(key, partition, position, table, database)
    before = read_file(file, may_be_empty=True) if file.exists() else None
    target = chosen_target(stack)
    ledger, bronze = target.ledger, target.objects
    console = stderr_console()
    with console.status("Looking for objects that were just put") as status:
        unseen = wait_for_admission(
            bronze, target.bronze, ledger, show=lambda left: status.update(f"{counted(left, 'object')} to be admitted")
        )
    if unseen:
        say(
            f"warning: {counted(unseen, 'object')} put just now {'is' if unseen == 1 else 'are'} not in the ledger "
            f"yet, so topics may be missing: discover again, or see {Step('doctor')}"
        )
    waiting = with_layouts(waiting_topics(ledger, before), bronze)
    if waiting.more:
        say("warning: not all waiting objects were read, so topics may be missing. Discover again after the push")
    for reason, keys in waiting.reasons.items():
        example = keys[0] if len(keys) == 1 else f"for example {keys[0]}"
        say(f"warning: no rule is proposed for {counted(len(keys), 'parked object')}, {example}: {reason}")
    if waiting.reasons:
        say(UNNAMED)
    _known_topics(chosen, waiting.topics)
    with console.status(f"Reading samples of {counted(len(waiting.topics), 'topic')}") as status:
        samples = sample_topics(bronze, waiting, per_topic=objects, said=lambda topic: status.update(f"Read {topic}"))
    ruled = [
        sample.topic for sample in samples if before is not None and before.match_topic(sample.topic).config is not None
    ]
    proposals = _proposals([sample for sample in samples if sample.topic not in ruled], before, chosen, database)
    if ruled:
        push = shell_text(["sluice", "config", "push", str(file)])
        say(f"{counted(len(ruled), 'topic')} with a rule in {file} already: `{push}` puts it in force")
    still_open = [proposal for proposal in proposals if proposal.open]
    decided = [proposal for proposal in proposals if not proposal.open]
    written = add_rules(file, len(decided), lambda indent: rules_text(decided, indent)) if write and decided else None
    if as_json:
        print_json(
            {
                "proposals": [describe(proposal) for proposal in proposals],
                "ruled": ruled,
                "unnamed": [
                    {"reason": reason, "objects": len(keys), "example": keys[0]}
                    for reason, keys in waiting.reasons.items()
                ],
                "written": written is not None,
                "file": str(file),
            }
        )
    elif write:
        print_line(written or f"Nothing to add to {file}")
    elif proposals:
        print(
            whole_text(proposals)
            if before is None
            else f"# rules to add to {file}; --write does it\n{rules_text(proposals)}",
            end="",
        )
    else:
        print_line(f"No {'other ' if ruled else ''}topic waits for a rule")
    for proposal in still_open:
        # The evidence against a choice that was made: it names no column of the topic.
        against = [
            proposal.choices[name].evidence[0] for name in proposal.open if name in chosen.get(proposal.topic, {})
        ]
        why = "".join(f" ({visible(text)})" for text in against)
        say(f"open: {proposal.topic}: {', '.join(proposal.open)}{why}. {_how(proposal)}")
    if still_open and write:
        shown = shell_text(["sluice", "config", "discover", "--file", str(file)])
        say(f"Rules with an open choice are not in {file}: `{shown}` prints them with their candidates")
    if still_open:
        raise typer.Exit(FAILED)


def _proposals(
    samples: Sequence[TopicSample], before: Configuration | None, chosen: Chosen, database: str | None
) -> list[Proposal]:
    taken = {rule.table for rule in before.rules if not PLACEHOLDER.search(rule.table)} if before is not None else set()
    proposals: list[Proposal] = []
    for sample in samples:
        proposal = propose(sample, database=database, chosen=chosen.get(sample.topic, {}), taken=frozenset(taken))
        taken.update(proposal.table.value)
        unsettled = {item.topic for item in proposals if item.open}
        proposals.append(replace(proposal, behind=tuple(topic for topic in proposal.nested if topic in unsettled)))
    return proposals


def _how(proposal: Proposal) -> str:
    options = {
        "table": f"--table {proposal.topic}=DATABASE.TABLE",
        "record_key": f"--key {proposal.topic}=COLUMN",
        "partition_by": f"--partition {proposal.topic}=COLUMN or =none",
        "position": f"--position {proposal.topic}=COLUMN",
    }
    first = (
        f"Its pattern also fits keys of {', '.join(proposal.behind)}: decide that rule first" if proposal.behind else ""
    )
    chosen = ", ".join(options[name] for name in proposal.open if name in options)
    part = proposal.read < proposal.objects and "record_key" in proposal.open
    read = f"{proposal.read:,} of {proposal.objects:,} objects were read"
    more = f"{read}: --objects N, at most 100, reads more" if part else ""
    return ". ".join(filter(None, (first, f"Choose with {chosen}" if chosen else "", more)))


def _chosen(
    key: list[str] | None,
    partition: list[str] | None,
    position: list[str] | None,
    table: list[str] | None,
    database: str | None,
) -> Chosen:
    """Return the operator's choices by topic. Raises UsageError for an invalid one."""
    if database is not None and not NAME.fullmatch(database):
        raise UsageError(
            f"{database!r} is not a database name",
            next_step="Use a lower-case letter, then lower-case letters, digits or _",
        )
    chosen: Chosen = {}
    given = {"record_key": key, "partition_by": partition, "position": position, "table": table}
    for name, written in given.items():
        for entry in written or ():
            topic, _, value = entry.partition("=")
            if not topic or not value:
                raise UsageError(f"{entry!r} is not TOPIC=VALUE", next_step=_AS_IN)
            parts = () if (name, value) == ("partition_by", NO_COLUMN) else tuple(value.split(","))
            if name == "table":
                parts = (value,)
                database, _, own = value.partition(".")
                wrong = None if NAME.fullmatch(database) and NAME.fullmatch(own) else value
            else:
                wrong = next((part for part in parts if not COLUMN.fullmatch(part)), None)
            if wrong is not None:
                what = f"{wrong!r} is not a table (database.table)" if name == "table" else not_a_column(wrong)
                raise UsageError(what, next_step=_AS_IN)
            twice = next((part for part in parts if parts.count(part) > 1), None)
            if twice is not None:
                raise UsageError(f"{entry!r} names {twice} twice", next_step=_AS_IN)
            if name in chosen.setdefault(topic, {}):
                several = "several columns are one choice, as in --key TOPIC=COLUMN,COLUMN"
                raise UsageError(
                    f"Topic {topic} has {', '.join(chosen[topic][name]) or NO_COLUMN} and {value} for the same option",
                    next_step=f"Give one{'' if name == 'table' else f': {several}'}",
                )
            chosen[topic][name] = parts
    return chosen


def _known_topics(chosen: Chosen, topics: Mapping[str, object]) -> None:
    unknown = sorted(set(chosen) - set(topics))
    if unknown:
        raise UsageError(
            f"No object of topic {unknown[0]} waits for a rule{did_you_mean(unknown[0], topics)}",
            next_step=f"{Step('config discover')} without choices shows the topics that do",
        )


def describe(proposal: Proposal) -> dict[str, Any]:
    """Return a proposal as plain JSON values."""
    described = asdict(proposal)
    for name, choice in proposal.choices.items():
        described[name] = {
            "value": list(choice.value),
            "confidence": choice.confidence,
            "evidence": list(choice.evidence),
            "alternatives": [list(other) for other in choice.alternatives],
        }
    return {**described, "notes": list(proposal.notes), "open": list(proposal.open)}


def wait_for_admission(
    objects: Objects,
    bronze: str,
    ledger: Ledger,
    *,
    show: Callable[[int], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Wait until the ledger knows every object that was put lately, and return how many it still doesn't know.

    `show` is told their number after each look. The wait ends when nothing was admitted for ADMISSION_PATIENCE_S.
    """
    since = epoch_ms() - RECENT_MS
    pages = islice(pages_of_bronze(objects, bronze), RECENT_PAGES)
    unseen = [identity for page in pages for identity, listed in page.items() if listed.modified_at >= since]
    progress_at = clock()
    while unseen:
        admitted = ledger.objects.get(unseen)
        left = [identity for identity in unseen if identity not in admitted]
        if len(left) < len(unseen):
            progress_at = clock()
        unseen = left
        if clock() - progress_at >= ADMISSION_PATIENCE_S:
            break
        if unseen:
            show(len(unseen))
            sleep(ADMISSION_POLL_S)
    return len(unseen)
