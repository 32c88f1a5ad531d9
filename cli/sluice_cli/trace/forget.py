"""`sluice forget`: removes one row from everything that Sluice stores, and says what still holds it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.batch.row_errors import BASE64, JSON_TEXT, MAX_CONTENT_BYTES, RowError, from_lines, to_lines
from sluice.changes.forgotten import hashed_text, key_hash
from sluice.config.table import TableConfig
from sluice.errors import CommandFailed, SluiceError
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import STRING, Column, plain_column
from sluice.schema.table_row import row_for_table
from sluice.services.requests import DONE, FAILED, FORGETTING
from sluice.silver_keys import REPLACED, rows_key
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory, SchemaStore
from sluice_aws.stack import Target
from sluice_cli.account.service import describe_error, service_entries
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.interaction import ask
from sluice_cli.terminal.known_names import check_key, configured_table
from sluice_cli.terminal.options import DryRun, Json, Stack, TableName, TimeSpan, Yes, argument, at_least, option
from sluice_cli.terminal.output import print_json, print_line, say, stderr_console
from sluice_cli.terminal.services import request_services, wait_for_services
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted

if TYPE_CHECKING:
    from sluice_cli.trace.row_search import Searched

OBJECTS = 10_000
FORGOTTEN = "forgotten"
DRY_RUN = "dry_run"  # the state of a receipt in --json


def forget(
    table: TableName,
    key: Annotated[
        list[str],
        argument(
            "KEY...",
            "A value for every column of the record key, in order, as the table stores it. Put `--` before values "
            "that begin with a dash.",
        ),
    ],
    wait_s: Annotated[
        float, option("--wait DURATION", "How long to wait for the lane's run: 90s, 5m.", parser=at_least(1))
    ] = TimeSpan(900),
    max_objects: Annotated[int, option("--max-objects N", "Search at most N objects of bronze.", min=1)] = OBJECTS,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Remove one row from every file of a table, its history and quarantine, and print a receipt.

    The lane's run removes the row, and every older file of the table, so nobody can read the table as of a moment
    before. A hash of the key stays, which keeps older changes of the row out, also in a replay. Bronze is yours: the
    receipt lists the objects that hold the row. Repeating the command is harmless.

    Examples:

      sluice forget crm.user 7 --dry-run
      sluice forget crm.user 7 --yes --json > receipt.json
    """
    target = chosen_target(stack)
    config, _ = configured_table(target, table)
    if config.append_only:
        raise CommandFailed(f"{table} has no record key", next_step="Remove its objects, and rebuild the table")
    check_key(table, config.record_key, key)
    history = target.schema_history
    stored = history.columns(table)
    key = (
        [hashed_text(text, stored.columns.get(name, "")) for name, text in zip(config.record_key, key, strict=True)]
        if stored
        else key
    )
    searched = _search(target, table, key, max_objects)
    quarantined = list(_quarantined_rows(target, config, key, history))
    document: dict[str, Any] = {
        "table": table,
        "key_hash": key_hash(table, key),
        "state": DRY_RUN,
        "found": None,
        "removed": None,
        "quarantined_rows": sum(len(rows) for _, _, rows in quarantined),
        "still_held_by": {
            "bronze": _in_bronze(searched),
            "unread": [{"key": item.key, "version": item.version, "code": item.code} for item in searched.quarantined],
            "replaced": list(target.silver_files.folders(f"{REPLACED}{table}/")),
            "objects_not_searched": searched.left_out,
        },
    }
    if dry_run:
        document["found"] = _in_table(target, table, key)
    else:
        in_no_object = not quarantined and not document["still_held_by"]["bronze"]
        there = _in_table(target, table, key) if in_no_object else None
        if there is not None and not any(there.values()):
            if searched.complete and not searched.quarantined and not searched.unkeyed:
                raise CommandFailed(
                    f"No object of {table} has this key, nor have its files: nothing was removed",
                    next_step=f"Check the key: {Step('row', table, *key)} says how it is compared",
                )
            say(f"{table} has no such row, nor have its history and quarantine: its older files may")
        if not yes:
            ask(f"Remove this row of {table}? The table can't be read as of any moment before then")
        _remove(target, config, document, wait_s)
        if document["state"] == DONE:
            for name, rows, held in quarantined:
                _put_without(target.objects, target.silver, name, rows, held)
    if as_json:
        print_json(document)
    else:
        _print(document)
    if document["state"] not in (DRY_RUN, DONE):
        raise typer.Exit(1)


def _search(target: Target, table: str, key: Sequence[str], most: int) -> Searched:
    """The changes of the row in all objects: nothing is taken from the table, which shows only those that won."""
    from sluice_cli.trace.row_life import RowLife
    from sluice_cli.trace.row_search import Bounds, RowSearch

    with stderr_console().status("Reading bronze") as status:
        search = RowSearch(target, tick=lambda read: status.update(f"{counted(read, 'object')} read"))
        return search.search(table, key, Bounds(most), lambda config, instants: RowLife(reason="not read"))


def _in_table(target: Target, table: str, key: Sequence[str]) -> dict[str, int] | None:
    """How many rows and changes the table and its history table have of a key; None where one can't be read."""
    from sluice_cli.trace.row_life import stored_changes

    try:
        with stderr_console().status(f"Looking for the row in {visible(table)}"):
            rows, changes = stored_changes(target, table, key)
    except SluiceError as error:
        say(f"Whether the table has the row can't be said: {error.message}")
        return None
    return {"rows": rows, "history_rows": changes}


def _in_bronze(searched: Searched) -> list[dict[str, str]]:
    """The object versions with a change of the row, and those with a record of it in quarantine."""
    held = {(change.key, change.version) for batch in searched.batches for change in batch.changes or ()}
    held |= {(change.key, change.version) for change in searched.waiting}
    listed = [{"key": name, "version": version} for name, version in sorted(held)]
    keys = {name for name, _ in held}
    return listed + [{"key": name, "version": ""} for name in sorted({name for name, _ in searched.set_aside} - keys)]


def _quarantined_rows(
    target: Target, config: TableConfig, key: Sequence[str], history: SchemaHistory
) -> Iterator[tuple[str, list[RowError], frozenset[int]]]:
    """The documents of quarantined rows that hold the row: key, rows, and the numbers of the records that do."""
    store = SchemaStore(target.objects, target.silver)

    @cache
    def columns_of(own: str | None) -> list[tuple[Column, ...]]:
        """The columns of one schema; of all that came for the table where the record's own is unknown."""
        names = [own] if own else [schema.fingerprint for schema in history.schemas(config.table)]
        return [_columns(store, name, config) for name in names] or [()]

    for batch in target.past_batches().newest(table=config.table):
        outcome = batch.outcomes.get(config.table)
        for entry in outcome.quarantined_rows if outcome is not None else ():
            name = rows_key(batch.manifest.batch, config.table, entry.object)
            document = target.objects.get(target.silver, name)
            rows = [] if document is None else list(from_lines(document.data.decode("utf-8")))
            schema = next(
                (item.schema for item in batch.manifest.tables[config.table].objects if item.id.hash == entry.object),
                None,
            )
            held = frozenset(
                row.record for row in rows if any(holds_key(row, config, key, of) for of in columns_of(schema))
            )
            if held:
                yield name, rows, held


def _columns(store: SchemaStore, name: str, config: TableConfig) -> tuple[Column, ...]:
    """The columns that a writer gave a table, by which a quarantined record's values are understood."""
    try:
        schema = store.load(name)
        return () if schema is None else row_for_table(read_writer_schema(schema, config.form), config).columns
    except (SluiceError, ValueError):  # values are then compared as they stand
        return ()


def holds_key(row: RowError, config: TableConfig, key: Sequence[str], columns: Sequence[Column] = ()) -> bool:
    """Whether a quarantined record may be of this key. `columns` are its writer's, under the table's names.

    A record that was cut, or that can't be decoded, counts where it contains the texts of the key.
    """
    if row.encoding == BASE64:
        return all(text.encode("utf-8") in base64.b64decode(row.content) for text in key)
    if row.content_bytes > MAX_CONTENT_BYTES:
        return _is_within(row.content, key)
    from sluice_cli.trace.row_changes import has_key  # loads Arrow

    try:
        record = json.loads(row.content)
    except ValueError:
        return _is_within(row.content, key)
    if not columns:
        columns = [
            replace(plain_column(to, STRING, True, ""), field=name) for name, to in config.columns.rename.items()
        ]
    return any(has_key(values, columns, config.record_key, key) for values in _mappings(record))


def _is_within(content: str, key: Sequence[str]) -> bool:
    """Whether a part of a JSON text contains the texts of a key, escaped as `row_error` writes them."""
    return all(json.dumps(text)[1:-1] in content for text in key)


def _mappings(value: object) -> Iterator[Mapping[str, object]]:
    """A record and everything in it that has fields: an envelope has the row before and after."""
    if isinstance(value, Mapping):
        yield value
        for item in value.values():
            yield from _mappings(item)


def _put_without(objects: Objects, silver: str, name: str, rows: Sequence[RowError], held: frozenset[int]) -> None:
    """Write the rows again, some without content. Their numbers and codes stay, since counts are kept by them."""
    rows_left = [
        replace(row, reason=FORGOTTEN, encoding=JSON_TEXT, content="{}", content_bytes=2) if row.record in held else row
        for row in rows
    ]
    objects.put(silver, name, to_lines(rows_left).encode("ascii"), content_type="application/json")


def _remove(target: Target, config: TableConfig, document: dict[str, Any], wait_s: float) -> None:
    """Have the lane's run remove the row. The ledger gets the hash of the key, and no command line."""
    requests = request_services(
        target,
        config,
        (FORGETTING,),
        arguments={"key": document["key_hash"]},
        requested_by=Step("forget", config.table).command,
    )
    (entry,) = service_entries([], wait_for_services(target.ledger, requests, wait_s))
    document["state"], document["removed"] = entry["state"], entry["report"]
    if entry["state"] == FAILED:
        raise CommandFailed(f"The row was not removed: {describe_error(entry['error'])}")


def _print(document: Mapping[str, Any]) -> None:
    held, removed = document["still_held_by"], document["removed"]
    state = "dry run, nothing was removed" if document["state"] == DRY_RUN else document["state"]
    if removed is not None and not (removed["rows"] or any(removed["more"].values()) or document["quarantined_rows"]):
        state = "nothing to remove"
    print_line(f"{visible(document['table'])}, key hash {document['key_hash']}: {state}")
    places = document["found"]
    if places is not None:
        _print_place("table", "has the row" if places["rows"] else "no such row")
        if places["history_rows"]:
            _print_place("history", f"{counted(places['history_rows'], 'change')} of it")
    if removed is not None:
        more = removed["more"]
        _print_place(
            "removed",
            f"{counted(removed['rows'], 'row')} and {counted(more.get('history_rows', 0), 'change')} of its history, "
            f"{counted(more.get('older_files', 0), 'older file')}",
        )
        mark = (
            "older changes of the key stay out" if more.get("marked") else "the table had no such row: no mark is kept"
        )
        _print_place("kept", mark)
    _print_place("quarantine", f"{counted(document['quarantined_rows'], 'record')} of the row")
    for item in held["bronze"]:
        _print_place("bronze", f"{visible(item['key'])} {item['version']}".rstrip(), visible(item["key"]))
    for item in held["unread"]:
        _print_place("unread", f"{visible(item['key'])} {item['version']}, {item['code']}", visible(item["key"]))
    for name in held["replaced"]:
        _print_place("replaced", f"data from before a rebuild, {REPLACED}{document['table']}/{name}/")
    if held["bronze"]:
        say(f"Delete the objects in bronze: {Step('rebuild table')} would bring the row back from them")
    if held["objects_not_searched"]:
        say(f"{counted(held['objects_not_searched'], 'older object')} not searched: --max-objects searches more")
    if document["state"] not in (DRY_RUN, DONE):
        say("Not done yet: repeat the command for the receipt")


def _print_place(label: str, text: str, whole: str = "") -> None:
    """Print a line of the receipt, its text below that of the others."""
    print_line(f"{label + ':':<11} {text}", whole=whole)
