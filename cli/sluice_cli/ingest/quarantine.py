"""`sluice quarantine list|show|retry|discard`: objects and rows that could not be merged."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any

import typer

from sluice.errors import UsageError
from sluice.ledger.keys import PARKED
from sluice.ledger.records import Decision, ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.clock import epoch_ms
from sluice_aws.stack import Target
from sluice_cli.account.object import SHORT_ID, is_proposed, judged_now, rule_steps, waits_for_rule, ways_out
from sluice_cli.ingest.entry import describe, describe_decision, described
from sluice_cli.ingest.newer_versions import NewerVersions, discard_advice, missing_changes, newer_versions
from sluice_cli.ingest.quarantine_entries import print_entry, print_groups, print_left, print_lines
from sluice_cli.ingest.set_aside import COUNTED_AT_MOST, SHORTEST_ID, Decided, Quarantine, Selection
from sluice_cli.terminal.interaction import ask
from sluice_cli.terminal.known_names import check_table, check_topic
from sluice_cli.terminal.options import Json, Stack, Yes, argument, option
from sluice_cli.terminal.output import print_json, print_line, say, say_next_step
from sluice_cli.terminal.run import AWS_ERRORS
from sluice_cli.terminal.stack import chosen_target, readable_configuration, supervise_now
from sluice_cli.terminal.tables import print_columns
from sluice_cli.terminal.words import counted, human_age

LISTED, ROWS_SHOWN = 200, 20

app = typer.Typer(no_args_is_help=True)

Names = Annotated[
    list[str] | None,
    argument("ID...", f"Ids as `list` shows them (the first {SHORTEST_ID} characters are enough), or keys of objects."),
]
OfTable = Annotated[str | None, option("--table TABLE", "Only entries of this table: database.table.")]
OfCode = Annotated[str | None, option("--code CODE", "Only entries with this code.")]
OfTopic = Annotated[str | None, option("--topic TOPIC", "Only entries of this topic.")]
All = Annotated[bool, option("--all", "Everything in quarantine, without parked objects.")]
Note = Annotated[str | None, option("--note TEXT", "Kept with the decision.")]


@app.command("list")
def list_entries(
    table: OfTable = None,
    topic: OfTopic = None,
    code: OfCode = None,
    limit: Annotated[int, option("--limit N", "Maximum number of entries.", min=1)] = LISTED,
    parked: Annotated[
        bool, option("--parked", "Parked objects instead: no rule takes their topic, or their source's log restarted.")
    ] = False,
    decided: Annotated[
        bool, option("--decided", "Past decisions: what was retried or discarded, by which command and by whom.")
    ] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """List the entries in quarantine with id, reason and key.

    An object in quarantine was not merged at all. An entry of kind `rows` was merged without those rows.
    Parked objects wait for a rule or for a higher `generation`: --parked lists them, and --code log_restarted
    lists those whose source's log restarted. A terminal shows them by table (or topic) and code, with the reason once.
    An entry says so where a newer version of its key was merged, or has the bytes of a merged version: it can be
    discarded.

    Examples:

      sluice quarantine list
      sluice quarantine list --code schema_frozen --json | jq -r '.entries[].key'
    """
    target = chosen_target(stack)
    quarantine = Quarantine(target)
    if decided:
        if topic is not None:
            raise UsageError("Decisions are not kept by topic", next_step="Use --table or --code")
        _list_decided(target, Selection(table=table, code=code), limit, as_json)
        return
    choice = Selection(table=table, topic=topic, code=code, parked=parked)
    entries = quarantine.entries(choice)
    shown = list(islice(entries, limit))
    if not shown:
        _check_names(target, choice, quarantine.everything())
    shown = quarantine.explained(_judged_now(shown, target))
    more = next(entries, None) is not None
    newer = _newer(shown, target)
    if as_json:
        print_json({"entries": [_described(record, newer) for record in shown], "more": more})
        return
    print_entries = print_groups if sys.stdout.isatty() else print_lines
    print_entries(shown, newer, epoch_ms())
    if not shown:
        chosen = " for this choice" if table or topic or code else ""
        say(f"Nothing is {'parked' if parked else 'in quarantine'}{chosen}")
    if more:
        say(f"Only the first {limit:,} are shown; --limit shows more")
    if shown and not parked:
        say_next_step(ways_out())
    waiting = [is_proposed(record) for record in shown if waits_for_rule(record)]
    for step in rule_steps(sum(waiting), waiting.count(False)):
        say_next_step(step)


@app.command("show")
def show(
    name: Annotated[
        str,
        argument(
            "ID", f"An id as `list` shows it (the first {SHORTEST_ID} characters are enough), or an object's key."
        ),
    ],
    rows: Annotated[int, option("--rows N", "Maximum number of its rows.", min=0)] = ROWS_SHOWN,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show one entry: reason, object, rows with their bytes, and earlier decisions.

    Example:

      sluice quarantine show 3f2a9c --json | jq '.rows_shown[].content'
    """
    target = chosen_target(stack)
    quarantine, ledger = Quarantine(target), target.ledger
    chosen = quarantine.explained(_judged_now(quarantine.chosen(Selection(names=(name,))), target))
    newer = _newer(chosen, target)
    shown_entries = [
        (record, quarantine.rows(record)[:rows], ledger.quarantine.decisions_about(record.id)) for record in chosen
    ]
    if as_json:
        document = [
            {
                **_described(record, newer),
                "rows_shown": [vars(row) for row in shown_rows],
                "decisions": [describe_decision(item) for item in decisions],
            }
            for record, shown_rows, decisions in shown_entries
        ]
        print_json(document[0] if len(document) == 1 else document)
        return
    for number, (record, rows_left, decisions) in enumerate(shown_entries):
        if number:
            print()
        print_entry(record, newer.get(record.id), rows_left, decisions)


@app.command("retry")
def retry(
    names: Names = None,
    table: OfTable = None,
    code: OfCode = None,
    all: All = False,
    note: Note = None,
    yes: Annotated[bool, option("--yes", "Don't ask: a retry asks nothing without it, either.")] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Merge entries after their cause is fixed: the release, the configuration, the schema or a permission.

    The object is admitted as if it were new, and merged by the positions of its changes, so newer rows in
    the table stay. A retry for rows reads the whole object; rows that were merged before change nothing.
    What still cannot be merged returns to quarantine. Parked objects are not retried; the output says what
    makes them pending.

    Examples:

      sluice quarantine retry 3f2a9c
      sluice quarantine retry --code schema_frozen --table crm.user && sluice wait
    """
    target = chosen_target(stack)
    quarantine, ledger = Quarantine(target), target.ledger
    choice = Selection(tuple(names or ()), table, code, all)
    records = quarantine.chosen(choice)
    if not records:
        _check_names(target, choice, quarantine.everything())
    decided = quarantine.retry(records, note)
    lanes = {item.lane for item in decided if item.done and item.lane}
    for lane in sorted(lanes):
        ledger.lanes.wake(lane)
    if lanes:
        supervise_now(target)
    left = [item.record for item in decided if not item.done]
    outdated = _newer(left, target)
    if outdated:
        say(discard_advice([record for record in left if record.id in outdated]))
    _print(decided, "retried", as_json)


@app.command("discard")
def discard(
    names: Names = None,
    table: OfTable = None,
    topic: OfTopic = None,
    code: OfCode = None,
    all: All = False,
    parked: Annotated[bool, option("--parked", "Parked objects instead of entries in quarantine.")] = False,
    note: Note = None,
    yes: Yes = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Give entries up. The object stays in bronze, and the decision with its command and user is recorded.

    Parked objects are discarded only by name, with --parked or with --code log_restarted. Use the latter for objects of
    another source, before a higher `generation` makes the others pending.

    What is discarded is not merged. The command first says what it discards, and asks; a script needs --yes.

    Examples:

      sluice quarantine discard 3f2a9c --note 'written by a broken test'
      sluice quarantine discard --parked --topic crm.public.scratch
      sluice quarantine discard topics/crm.user/partition=0/crm.user+0+0000000010.avro
    """
    target = chosen_target(stack)
    quarantine = Quarantine(target)
    choice = Selection(tuple(names or ()), table, code, all, parked, topic)
    records = quarantine.chosen(choice, "--table, --topic, --code or --all, or --parked with one of them")
    if not records:
        _check_names(target, choice, quarantine.everything())
    elif not yes:
        newer = _newer(records, target) if sys.stdin.isatty() and len(records) <= LISTED else {}
        ask(f"Discard {described(records)}? {missing_changes(records, newer)}")
    decided = quarantine.discard(records, note)
    _print(decided, "discarded", as_json, parked=parked)


def _judged_now(records: list[ObjectRecord], target: Target) -> list[ObjectRecord]:
    """The records, parked ones with the reason that the configuration in force gives."""
    if not any(record.state == PARKED for record in records):
        return records
    _, configuration = readable_configuration(target)
    return [judged_now(record, configuration) for record in records]


def _newer(records: Iterable[ObjectRecord], target: Target) -> NewerVersions:
    def written_at(identity: ObjectId) -> int | None:
        try:
            return target.objects.modified_at(identity)
        except AWS_ERRORS:  # a look stops no list: whoever lists may not be allowed to read bronze
            return None

    return newer_versions(records, target.ledger, written_at)


def _described(record: ObjectRecord, newer: NewerVersions) -> dict[str, Any]:
    """An entry as plain JSON values, with the newer version of its key that was merged, null if none is known."""
    newer_version = newer.get(record.id)
    return {**describe(record), "newer_version": None if newer_version is None else newer_version.id.version}


def _check_names(target: Target, choice: Selection, entries: Iterable[ObjectRecord | Decision]) -> None:
    """Raises UsageError for a table or topic of an empty choice that neither the stack nor an entry has."""
    others = list(islice(entries, COUNTED_AT_MOST))
    check_table(target, choice.table, (item.table for item in others))
    check_topic(target, choice.topic, (item.topic for item in others if isinstance(item, ObjectRecord)))


def _list_decided(target: Target, choice: Selection, limit: int, as_json: bool) -> None:
    decided = (
        item
        for item in target.ledger.quarantine.decisions()
        if choice.table in (None, item.table) and choice.code in (None, item.code)
    )
    shown = list(islice(decided, limit))
    if not shown:
        _check_names(target, choice, target.ledger.quarantine.decisions())
    more = next(decided, None) is not None
    if as_json:
        print_json({"decisions": [describe_decision(item) for item in shown], "more": more})
        return
    now = epoch_ms()
    print_columns(
        shown,
        {
            "id": lambda item: item.id.hash[:SHORT_ID],
            "decision": "verb",
            "#rows": lambda item: item.rows or None,
            "table": "table",
            "code": "code",
            "age": lambda item: human_age(now - item.at),
            "by": "by",
            "command": "command",
            "key": lambda item: item.id.key,
            "note": "note",
        },
        shorten=["command", "note"],
        paths=["key"],
        minor=["command", "by", "rows", "age", "table"],
    )
    if not shown:
        say(f"Nothing was retried or discarded{' for this choice' if choice.table or choice.code else ''}")
    if more:
        say(f"Only the first {limit:,} are shown; --limit shows more")


def _print(decided: list[Decided], verb: str, as_json: bool, *, parked: bool = False) -> None:
    done = [item for item in decided if item.done]
    left = [item for item in decided if not item.done]
    if as_json:
        print_json(
            {
                verb: [describe(item.record) for item in done],
                "left": [{**describe(item.record), "because": item.reason} for item in left],
            }
        )
    else:
        none = "" if decided else f": none {'is parked' if parked else 'is in quarantine'} for this choice"
        print_line(f"{counted(len(done), 'entry', 'entries')} {verb}{none}")
        print_left(left)
    if left or not done:
        raise typer.Exit(1)
