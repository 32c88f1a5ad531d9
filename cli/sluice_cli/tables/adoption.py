"""`sluice table adopt`: takes over the rows of a Hudi table that another tool writes."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import typer

from sluice.config.rules.partition_fields import partition_field
from sluice.config.table import TableConfig
from sluice.errors import CommandFailed, NotAdoptable, UsageError
from sluice.hudi.foreign_table import FOLDERS, READABLE_VERSIONS, ForeignTable, check_adoptable, foreign_table
from sluice.hudi.java_properties import parse_properties
from sluice.hudi.table_properties import PROPERTIES_FILE
from sluice.services.requests import ADOPTION, FAILED
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.stack import Target
from sluice_cli.account.service import describe_error, service_entries
from sluice_cli.terminal.interaction import ask
from sluice_cli.terminal.known_names import configured_table
from sluice_cli.terminal.options import DryRun, Json, Stack, TableName, TimeSpan, Yes, option, seconds
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.services import request_services, wait_for_services
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted


def adopt(
    table: TableName,
    source: Annotated[str, option("--from URI", "The other table: s3://bucket/path")],
    wait_s: Annotated[
        float, option("--wait DURATION", "How long to wait for the commit: 90s, 5m.", parser=seconds)
    ] = TimeSpan(0),
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Take over the rows of a Hudi table that another tool writes, such as Hudi Streamer or Flink.

    The lane's run reads the other table, of version 6 or 8, and adds the rows whose keys TABLE doesn't have, in one
    commit. They lose to any change of the source. The other table isn't changed. Repeat the command to add what was
    written there since.

    Example:

      sluice table adopt crm.user --from s3://lake/crm/user --wait 10m
    """
    target = chosen_target(stack)
    ledger = target.ledger
    config, state = configured_table(target, table)
    if state.last_instant is None:
        raise CommandFailed(f"{table} has no commit yet", next_step=f"Adopt after its first commit: {Step('wait')}")
    derived = next((written for written in config.partition_by if partition_field(written).transform), None)
    if config.history or config.append_only or config.columns.any or derived:
        word = "history" if config.history else "append_only" if config.append_only else derived or "columns"
        raise NotAdoptable(
            f"The rule of {table} has `{word}`, which adopted rows would not follow",
            next_step="Adopt into a table whose rule has no `history`, `append_only`, `columns` and transforms",
        )
    other = _read(target, source, config)
    document = {"table": table, "lane": config.lane, "from": source, **other.to_dict(), "request": None}
    if not as_json:
        _show(source, other)
    elif dry_run:
        print_json(document)
    if dry_run:
        return
    if not yes:
        ask(f"Add the rows of {source} that {table} doesn't have?")
    requests = request_services(target, config, (ADOPTION,), arguments={"source": source.rstrip("/")})
    ended = wait_for_services(ledger, requests, wait_s) if wait_s else requests
    (entry,) = service_entries([], ended)
    if as_json:
        print_json({**document, "request": entry})
    elif entry["state"] == FAILED:
        raise CommandFailed(f"Nothing was adopted: {describe_error(entry['error'])}")
    elif entry["open"]:
        say(f"Requested; {Step('services list', table)} shows when it is done")
    else:
        more = entry["report"]["more"]
        keys = counted(more.get("known", 0), "key") + " known already"
        print_line(f"{table}: {counted(entry['report']['rows'], 'row')} adopted of {more.get('read', 0):,}, {keys}")
        if more.get("below_purge_floor"):
            left = counted(more["below_purge_floor"], "row")
            say(f"{left} left out: the table purges deleted rows, and no longer knows whether these were among them")
    if wait_s and (entry["open"] or entry["state"] == FAILED):
        raise typer.Exit(1)


def _read(target: Target, source: str, config: TableConfig) -> ForeignTable:
    """The other table, checked. Raises UsageError, NoSuchBucket, NotAdoptable."""
    place = urlsplit(source)
    bucket, prefix = place.netloc, place.path.strip("/")
    if place.scheme not in ("s3", "s3a") or not bucket or not prefix:
        raise UsageError(f"--from {source} is not a path in S3", next_step="Name the table's folder: s3://bucket/path")
    if bucket == target.silver:
        raise NotAdoptable(
            "The other table lies in the silver bucket, where a run may only use its own tables",
            next_step="Copy it into another bucket (`aws s3 sync`) while nothing writes it, and adopt the copy",
        )
    files = SilverBucket(target.client("s3"), bucket)
    data = files.read_elsewhere(f"{prefix}/{PROPERTIES_FILE}")
    if data is None:
        raise UsageError(f"{source} has no {PROPERTIES_FILE}", next_step="Name the folder that holds `.hoodie`")
    properties = parse_properties(data.decode("utf-8", "replace"))
    check_adoptable(properties, config)
    return foreign_table(properties, [name for folder in FOLDERS for name in files.names(f"{prefix}/{folder}")])


def _show(source: str, other: ForeignTable) -> None:
    ordering = f"ordered by {other.ordering}" if other.ordering else "without an ordering column"
    places = f"partitioned by {', '.join(other.partition_by)}" if other.partition_by else "not partitioned"
    kind = "merge-on-read" if other.merge_on_read else "copy-on-write"
    print_line(f"{source}: version {other.version}, {kind}, key {', '.join(other.record_key)}, {ordering}, {places}")
    if other.version == READABLE_VERSIONS[-1]:
        print_line(
            f"The run refuses version {other.version} where its Hudi is older than 1.1, as in `EmrRelease` emr-7.14.0"
        )
    if other.pending:
        print_line(
            f"{counted(len(other.pending), 'instant')} unfinished: its writer may still run. What it commits later is "
            "added when you adopt again"
        )
