"""`sluice row`: the biography of one row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.changes.row_history import Row
from sluice.config.table import IGNORE
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.stack import Target
from sluice_cli.terminal.output import (
    Json,
    Stack,
    chosen_target,
    counted,
    print_json,
    say,
    shortened,
    stderr_console,
    visible,
)
from sluice_read.moments import clock, point_in_time

if TYPE_CHECKING:
    from sluice_cli.trace.row_search import Chapter


OBJECTS = 1_000
CHECKED = 3
VALUE_CHARACTERS = 60


def row(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="database.table", show_default=False)],
    key: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY...",
            help="The value of every column of the record key, in its order; after `--` where one begins with a dash.",
            show_default=False,
        ),
    ],
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only batches claimed from then on: 15min, 2h or 7d ago, or a time with its zone.",
            show_default=False,
        ),
    ] = None,
    max_objects: Annotated[
        int,
        typer.Option(
            "--max-objects", metavar="N", min=1, help="Read at most so many objects, those of the newest batches."
        ),
    ] = OBJECTS,
    check: Annotated[
        int,
        typer.Option(
            "--check",
            metavar="N",
            min=0,
            help="Also read what the table held after each of the newest N commits, and compare. Each may read the whole table.",
        ),
    ] = CHECKED,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Tell the life of one row: every change of it, where it came from, which won and why, and what the table held after each commit.

    The object versions that the table was made of are read again and folded by the definition that the merge follows, so it takes as long as they are many. How many
    were read, and which are gone, is said at the end; with some left out the story begins in the middle. What the table held is read from the table itself, as of
    the commits, as long as `time_travel` keeps its files.

    Examples:

      sluice row crm.user 7

      sluice row crm.user 7 --since 2h --json | jq '.chapters[].row.values'

      sluice row shop.order_line 1001 3

      sluice row bank.account -- -5
    """
    # Arrow and the job's readers take as long to load as all the rest.
    from sluice_cli.trace.row_search import Bounds, RowSearch, biography, describe

    target = chosen_target(stack)
    begins = None if since is None else point_in_time(since, epoch_ms())
    objects = Objects(target.client("s3"))
    console = stderr_console()
    with console.status("Reading manifests") as status:
        search = RowSearch(
            ledger=Ledger(target.client("dynamodb"), target.ledger_table),
            objects=objects,
            silver=target.silver,
            configuration=ConfigStore(objects, target.artifacts).load(),
            tick=lambda read: status.update(f"{counted(read, 'object')} read"),
        )
        found = search.search(table, key, Bounds(max_objects, begins))
        chapters = biography(
            found.batches,
            columns=found.columns,
            ignore_deletes=found.config.delete_mode == IGNORE,
            from_the_start=found.from_the_start and begins is None,
        )
        held = _held(
            target,
            table,
            key,
            chapters,
            check,
            lambda instant: status.update(f"Reading {visible(table)} as of {instant}"),
        )
    document = {
        "table": table,
        "key": dict(zip(found.config.record_key, key, strict=True)),
        "chapters": [{**describe(chapter), "table": held.get(chapter.instant)} for chapter in chapters],
        "waiting": [
            {**asdict(change), "values": dict(change.values), "unchanged": sorted(change.unchanged)}
            for change in found.waiting
        ],
        "set_aside": [{"object": name, **asdict(error)} for name, error in found.set_aside],
        "quarantined_objects": [asdict(item) for item in found.quarantined],
        "gone": [asdict(item) for item in found.gone],
        "objects_read": found.objects,
        "records_read": found.records,
        "objects_left_out": found.left_out,
        "since": begins,
        "complete": found.complete and begins is None,
    }
    if as_json:
        print_json(document)
    else:
        _print(document, [chapter.row for chapter in chapters])
    if not chapters and not found.waiting:
        raise typer.Exit(1)


def _held(
    target: Target, table: str, key: list[str], chapters: Sequence[Chapter], newest: int, tick: Callable[[str], None]
) -> dict[str | None, Any]:
    """What the table held after the newest commits of the story, by instant, and whether that is what the story says."""
    wanted = [chapter for chapter in chapters if chapter.instant is not None][-newest:] if newest else []
    if not wanted:
        return {}
    from sluice_cli.trace.row_held import held_at  # hudi-rs

    described: dict[str | None, Any] = {}
    for chapter in wanted:
        tick(chapter.instant or "")
        found = held_at(target, table, key, chapter.instant or "")
        described[chapter.instant] = {**asdict(found), "agrees": found.agrees(chapter.row)}
    return described


def _print(document: Mapping[str, Any], rows: list[Row | None]) -> None:
    print(f"{visible(document['table'])} {_pairs(document['key'])}")
    before: Row | None = None
    for chapter, after in zip(document["chapters"], rows, strict=True):
        instant = f"instant {chapter['instant']}" if chapter["instant"] else "no commit: nothing of the table changed"
        print(f"\n{clock(chapter['committed_at'])}  {instant}  batch {chapter['batch']}")
        if chapter["truncated_at"]:
            print(f"  truncate   at {chapter['truncated_at']}: what is older is gone")
        for change in chapter["changes"]:
            print(
                f"  {change['verdict']:<10} {_operation(change)}  {visible(change['key'])} offset {change['offset']}  position {change['position']}"
            )
            print(f"             {change['why']}")
        print(f"  = {_left(before, after)}")
        if chapter["table"] is not None:
            print(f"    {_table(chapter['table'])}")
        before = after
    for change in document["waiting"]:
        print(
            f"\nwaits        {_operation(change)}  {visible(change['key'])} offset {change['offset']}  position {change['position']}"
        )
    for item in document["set_aside"]:
        print(
            f"\nquarantined  record {item['record']} of {visible(item['object'])}: {item['code']}: {visible(item['reason'])}"
        )
    _say_sources(document)


def _say_sources(document: Mapping[str, Any]) -> None:
    changes = sum(len(chapter["changes"]) for chapter in document["chapters"]) + len(document["waiting"])
    say(
        f"\n{counted(changes, 'change')} of it in {counted(document['objects_read'], 'object')} with {counted(document['records_read'], 'record')}"
    )
    for name, what in (
        ("gone", "gone from bronze"),
        ("quarantined_objects", "in quarantine or unreadable, so not of the table"),
    ):
        found = document[name]
        if found:
            more = f" and {len(found) - 3:,} more" if len(found) > 3 else ""
            say(
                f"{counted(len(found), 'object')} {what}: {', '.join(visible(item['key']) for item in found[:3])}{more}"
            )
    if not changes:
        say(
            "No record with this key was found. A key's values are compared as text, in the order of `record_key`"
            + ("; `sluice history --table` lists the table's objects" if document["complete"] else "")
        )
    if document["since"] is not None:
        say(f"Only batches claimed from {clock(document['since'])} UTC on were read")
    if document["objects_left_out"]:
        say(
            f"{counted(document['objects_left_out'], 'object')} of older batches not read, so the story begins in the middle. --max-objects reads more"
        )


def _operation(change: Mapping[str, Any]) -> str:
    named = {"c": "create", "u": "update", "d": "delete", "r": "snapshot"}.get(
        change["op"] or "", change["op"] or ("delete" if change["deleted"] else "row")
    )
    return f"{named:<8}"


def _left(before: Row | None, after: Row | None) -> str:
    if after is None:
        return "nothing"
    if after.deleted:
        return "deleted: kept as a hidden row, so that older changes stay beaten"
    if before is None or before.deleted:
        return _pairs(after.values)
    differing = {
        name: value for name, value in after.values.items() if name not in before.values or before.values[name] != value
    }
    if not differing:
        return "as before"
    return "; ".join(
        f"{visible(name)}: {_value(before.values.get(name))} -> {_value(value)}" for name, value in differing.items()
    )


def _table(held: Mapping[str, Any]) -> str:
    if held["agrees"] is None:
        return f"the table can't be read as of then: {visible(held['reason'])}"
    if held["agrees"]:
        return "the table, read as of then, holds just this"
    what = (
        "nothing of it"
        if not held["found"]
        else f"{'a deleted row' if held['deleted'] else _pairs(held['row'])}, position {held['position']}"
    )
    return f"BUT the table, read as of then, holds {what}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{visible(name)}={_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    return "NULL" if value is None else shortened(visible(json.dumps(value, ensure_ascii=False)), VALUE_CHARACTERS)
