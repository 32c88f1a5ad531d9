"""`sluice row`: the biography of one row."""

from __future__ import annotations

import json
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.changes.position import AMONG_TIES, BY_ARRIVAL, OFFSET_DIGITS, begins_dump
from sluice.changes.row_history import Row
from sluice.config.table import HARD, IGNORE, TableConfig
from sluice.names import shortened
from sluice_aws.clock import epoch_ms
from sluice_cli.account.steps import FORGOTTEN_IN_BRONZE, entries
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.known_names import known_table
from sluice_cli.terminal.options import Json, Stack, TableName, argument, option
from sluice_cli.terminal.output import (
    described_documents,
    key_in_line,
    print_json,
    print_line,
    say,
    say_skipped,
    stderr_console,
)
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import completed
from sluice_cli.terminal.words import counted, first_names
from sluice_read.moments import clock, point_in_time, span_of

if TYPE_CHECKING:
    from sluice_cli.trace.row_life import RowLife
    from sluice_cli.trace.row_story import Chapter


OBJECTS = 1_000
CHECKED = 3
VALUE_CHARACTERS = 60
_POSITION = re.compile(r"\b[0-9]{4}(?:\.[tw]?[0-9a-f]+)*\.[0-9]{20}\b")  # as `sluice.changes.position.encode` writes it


def row(
    table: TableName,
    key: Annotated[
        list[str],
        argument(
            "KEY...",
            "A value for every column of the record key, in order. Put `--` before values that begin with a dash.",
        ),
    ],
    since: Annotated[
        str | None, option("--since TIME", "Only batches claimed since: 15m, 2h or 7d ago, or a time with its zone.")
    ] = None,
    max_objects: Annotated[
        int, option("--max-objects N", "Open at most N objects, those of the newest batches.", min=1)
    ] = OBJECTS,
    check: Annotated[
        int,
        option(
            "--check N",
            "Also open the objects that brought the row in its newest N commits, and compare them with the table.",
            min=0,
        ),
    ] = CHECKED,
    as_of: Annotated[
        str | None,
        option("--as-of MOMENT", "Only the row as it was: an instant, a time with its zone, or 15m, 2h or 7d ago."),
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show the life of one row: its changes, where each came from, which won and why, and the row after each commit.

    Changes that won are read from the table, as far back as `time_travel` keeps its files; with `history: true` all
    changes are read from the history table. Objects are opened for the rest: those of batches in which a change lost,
    those of older batches, and the ones that brought the newest versions (--check). The last lines say how many were
    opened and which are gone.

    --as-of reads the row from the table, or from the history table for moments before the table's files begin.

    Examples:

      sluice row crm.user 7
      sluice row crm.user 7 --as-of 2026-05-01T10:15:00Z
      sluice row crm.user 7 --since 2h --json | jq '.chapters[].row.values'
      sluice row shop.order_line 1001 3
      sluice row bank.account -- -5
    """
    # Arrow and the job's readers take as long to load as all the rest.
    from sluice_cli.trace.row_life import row_as_of, row_life, with_forgetting, with_history
    from sluice_cli.trace.row_search import Bounds, RowSearch
    from sluice_cli.trace.row_story import describe, describe_change, story

    target = chosen_target(stack)
    if as_of is not None:
        moment = span_of(as_of=as_of, since=since, now=epoch_ms()).as_of or ""
        past, note = row_as_of(target, table, key, moment)
        if as_json:
            print_json(past)
        else:
            say(note)
            print_line("no such row" if past["row"] is None else _pairs(past["row"]))
        if past["row"] is None:
            raise typer.Exit(1)
        return
    begins = None if since is None else point_in_time(since, epoch_ms())
    with known_table(target, table), stderr_console().status("Reading manifests") as status:

        def read_life(config: TableConfig, instants: list[str]) -> RowLife:
            life = row_life(
                target,
                table,
                key,
                instants,
                purged=config.delete_mode == HARD,
                tick=lambda instant: status.update(f"Reading {visible(table)} as of {instant}"),
            )
            return with_forgetting(with_history(life, target, table, key), target, table, key)

        searched = RowSearch(target, tick=lambda read: status.update(f"{counted(read, 'object')} read")).search(
            table, key, Bounds(max_objects, begins, check), read_life
        )
    chapters = story(
        searched.batches,
        columns=searched.columns,
        life=searched.life,
        ignore_deletes=searched.config.delete_mode == IGNORE,
        from_the_start=searched.from_the_start and begins is None,
        rebuilt_at=searched.rebuilt_at,
        topic=searched.config.topic,
    )
    checked = [chapter.instant for chapter in chapters if chapter.instant is not None][-check:] if check else []
    gone = searched.life.forgotten
    document = {
        "table": table,
        "key": _stored_key(searched.config.record_key, key, searched.life),
        "chapters": [
            {**describe(chapter), "table": _held(searched.life, chapter) if chapter.instant in checked else None}
            for chapter in chapters
        ],
        "forgotten": gone and {"at": gone.at, "instant": gone.instant, "until": gone.until},
        "waiting": [describe_change(change) for change in searched.waiting],
        "set_aside": [
            {"object": name, **asdict(error), "reason": completed(error.reason, TABLE=table)}
            for name, error in searched.set_aside
        ],
        "set_aside_with_unknown_key": searched.unkeyed,
        "quarantined_objects": [asdict(item) for item in searched.quarantined],
        "gone": [asdict(item) for item in searched.gone],
        "objects_read": searched.objects,
        "records_read": sum(searched.opened.values()),
        "objects_left_out": searched.left_out,
        "skipped_documents": described_documents(searched.skipped),
        "since": begins,
        "history": searched.life.history,
        "complete": searched.complete and begins is None,
    }
    if as_json:
        print_json(document)
    else:
        _print(document, [chapter.row for chapter in chapters])
    say_skipped(searched.skipped)
    if not chapters and not searched.waiting:
        raise typer.Exit(1)


def _stored_key(names: Sequence[str], key: Sequence[str], life: RowLife) -> dict[str, str]:
    """The key by column: as the table stores it where it shows the row, else as it was given (`01` for 1)."""
    from sluice_cli.trace.row_changes import key_text

    given = dict(zip(names, key, strict=True))
    stored = life.versions[-1].values if life.versions else {}
    return {name: text if stored.get(name) is None else key_text(stored[name]) for name, text in given.items()}


def _held(life: RowLife, chapter: Chapter) -> dict[str, Any]:
    """What the table holds of the row from a chapter's commit on. `agrees` says whether the chapter says the same."""
    instant, row = str(chapter.instant), chapter.row
    nothing = {"found": False, "position": None, "deleted": False, "row": None, "reason": None, "agrees": None}
    if not life.knows(instant):
        return {**nothing, "reason": life.reason or f"it shows the row from {life.known_from} on"}
    version = life.at(instant)
    if version is None:  # a deleted row may have been purged
        return {**nothing, "agrees": row is None or row.deleted}
    held = version.row
    place = {"found": True, "position": held.position, "deleted": held.deleted, "row": dict(version.values)}
    same = row is not None and (held.position, held.deleted) == (row.position, row.deleted)
    agrees = same and row is not None and (row.deleted or not _others(row, version.values))
    return {**nothing, **place, "agrees": agrees}


def _others(row: Row, stored: Mapping[str, Any]) -> list[str]:
    """The columns in which the table has another value than the row's changes gave it."""
    return [
        name
        for name, value in row.values.items()
        if name in stored and not _is_same(value, stored[name]) and not (name in row.owed and value is None)
    ]


def _is_same(value: Any, stored: Any) -> bool:
    """True if the table holds a value, or holds it as a wider type: a float as a double, `1.50` as `1.5000`."""
    if value == stored:
        return True
    if isinstance(value, float) and isinstance(stored, float):
        with suppress(OverflowError):  # no float
            return bool(struct.unpack("<f", struct.pack("<f", value))[0] == stored)
    if isinstance(value, str) and isinstance(stored, str) and _NUMBER.fullmatch(value):
        return re.fullmatch(re.escape(value) + ("0+" if "." in value else r"\.0+"), stored) is not None
    return False


_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


def _print(document: Mapping[str, Any], rows: list[Row | None]) -> None:
    print_line(f"{visible(document['table'])} {_pairs(document['key'])}")
    before: Row | None = None
    gone = document["forgotten"]
    for chapter, after in zip(document["chapters"], rows, strict=True):
        if gone is not None and gone["at"] is not None and gone["at"] < chapter["committed_at"]:
            _print_forgotten(gone)
            before, gone = None, None
        instant = f"instant {chapter['instant']}" if chapter["instant"] else "no commit: the table did not change"
        batch = f"batch {chapter['batch']}"
        print_line(f"\n{clock(chapter['committed_at'])}  {instant}  {batch}", whole=batch)
        if chapter["rebuilt_at"]:
            print_line(
                f"  rebuilt    at {clock(chapter['rebuilt_at'])}: the table was emptied, and its objects merged again"
            )
            before = None
        if chapter["truncated_at"]:
            floor = _positions_shown(chapter["truncated_at"])
            is_dump = begins_dump(chapter["truncated_at"])
            what, removed = ("full dump", "rows that it lacks") if is_dump else ("truncate", "older rows")
            print_line(f"  {what:10} at {floor}: {removed} are removed")
        for change in chapter["changes"]:
            print_line(f"  {change['verdict']:<10} {_change(change)}", whole=key_in_line(change["key"]))
            print_line(f"             {_positions_shown(change['why'])}")
        print_line(f"  = {_difference(before, after)}")
        if chapter["table"] is not None:
            print_line(f"    {_comparison(chapter['table'])}")
        before = after
    if gone is not None:
        _print_forgotten(gone)
    for change in document["waiting"]:
        print_line(f"\nwaits        {_change(change)}", whole=key_in_line(change["key"]))
    for item in document["set_aside"]:
        key = key_in_line(item["object"])
        record = f"record {item['record']} of {key}"
        print_line(f"\nquarantined  {record}: {item['code']}: {visible(item['reason'])}", whole=key)
    _say_sources(document)


def _print_forgotten(gone: Mapping[str, Any]) -> None:
    when = f"{clock(gone['at'])}  instant {gone['instant']}"
    print_line(f"\n{when if gone['instant'] else 'at a time that is not known, since its commit is archived'}")
    until = _positions_shown(gone["until"])
    print_line(f"  forgotten  changes until position {until} stay out of the table")
    print_line("  = nothing")


def _say_sources(document: Mapping[str, Any]) -> None:
    changes = sum(len(chapter["changes"]) for chapter in document["chapters"]) + len(document["waiting"])
    objects, records = counted(document["objects_read"], "object"), counted(document["records_read"], "record")
    rest = f", others read from {document['history']}" if document["history"] else ""
    say(f"\n{counted(changes, 'change')} of the row; opened {objects} with {records}{rest}")
    for name, state in (
        ("gone", "gone from bronze"),
        ("quarantined_objects", "in quarantine or unreadable, and not in the table"),
    ):
        keys = [key_in_line(item["key"]) for item in document[name]]
        if keys:
            say(f"{counted(len(keys), 'object')} {state}: {first_names(keys, 3)}")
    listed = entries("--table", document["table"])
    if document["set_aside_with_unknown_key"]:
        records = counted(document["set_aside_with_unknown_key"], "record")
        say(
            f"{records} of this table in quarantine have no known key, since they could not be decoded or only their "
            f"beginning is kept: {listed} lists them"
        )
    if document["set_aside"]:
        say(f"Records in quarantine are not in the table: {listed} says what to do")
    elif not changes:
        say("No record with this key was found. A key has its values in the order of `record_key`")
    if document["forgotten"] and document["objects_read"]:
        say(
            "The row was forgotten. Values from before then are not in silver: they are read from objects in bronze. "
            f"{FORGOTTEN_IN_BRONZE}"
        )
    if document["since"] is not None:
        say(f"Only batches claimed since {clock(document['since'])} were read")
    if document["objects_left_out"]:
        say(
            f"{counted(document['objects_left_out'], 'object')} of older batches not opened, "
            "so their changes are missing here. --max-objects opens more"
        )


def _change(change: Mapping[str, Any]) -> str:
    operations = {"c": "create", "u": "update", "d": "delete", "r": "snapshot"}
    operation = operations.get(change["op"] or "", change["op"] or ("delete" if change["deleted"] else "row"))
    position = _positions_shown(change["position"])
    return f"{operation:<8}  {key_in_line(change['key'])} offset {change['offset']}  position {position}"


def _positions_shown(text: str) -> str:
    """The positions in a text as they are shown: whole in a pipe, shortened in a terminal."""
    return _POSITION.sub(lambda match: short_position(match[0]), text) if sys.stdout.isatty() else text


def short_position(position: str) -> str:
    """The end of a position that tells changes of one log file apart: `…697175`, or `…697175.2` with a row's number.

    A generation other than 0 stays. The Kafka offset is left out, unless nothing else is there. Of an object's place,
    its time and the row's number in it stay.
    """
    generation, *parts = position.split(".")
    place = re.sub(AMONG_TIES, "", position[: -OFFSET_DIGITS - 1]).split(".")[1:] or parts
    if re.match(BY_ARRIVAL, position):
        place = [parts[-4].lstrip("t"), parts[-1].zfill(10)[-10:]]
    while len(place) > 1 and not place[-1].strip("0"):
        place.pop()
    least = 2 if len(place[-1]) == 10 else 1  # ten digits count rows within the place before them
    end = ".".join(part.lstrip("0") or "0" for part in place[-least:])
    return f"{'' if generation == '0000' else f'{generation}.'}…{end}"


def _difference(before: Row | None, after: Row | None) -> str:
    if after is None:
        return "nothing"
    if after.deleted:
        return "deleted: kept as a hidden row so that older changes lose"
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


def _comparison(held: Mapping[str, Any]) -> str:
    if held["agrees"] is None:
        return f"the table can't be read as of this commit: {visible(held['reason'])}"
    if held["agrees"]:
        return "confirmed by reading the table as of this commit"
    what = "no such row"
    if held["found"]:
        content = "a deleted row" if held["deleted"] else _pairs(held["row"])
        what = f"{content}, position {_positions_shown(held['position'])}"
    return f"MISMATCH: the table as of this commit has {what}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{visible(name)}={_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    return "NULL" if value is None else shortened(visible(json.dumps(value, ensure_ascii=False)), VALUE_CHARACTERS)
