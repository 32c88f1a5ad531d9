"""`sluice trace`: where the time of one object went, from its put to its rows being readable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sluice.identity import ObjectId
from sluice.ledger_records import ObjectRecord
from sluice_cli.failures import UsageError
from sluice_cli.object_trace import Trace, told, trace_of
from sluice_cli.output import Json, Stack, chosen_target, print_json, say
from sluice_cli.plain_text import visible
from sluice_cli.tracking import Tracker, tracker
from sluice_cli.waterfall import summary, svg, text_lines

PIPE_WIDTH = 120


def trace(
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY",
            help="The object's key in the bronze bucket, as `sluice history` prints it; s3://BUCKET/KEY and the end of a key, such as a file's name, do as well.",
            show_default=False,
        ),
    ],
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="ID", help="One version of it; the newest if left out.", show_default=False),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="FILE",
            help="Also write the waterfall as a picture, for a browser in light or dark colours.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show the way of one object as a waterfall: put, notice, admit, claim, read, commit, readable.

    The times come from S3, the ledger and the batch's documents beside the manifest, so they are there for a deployed stack as for a local one.
    S3's, the functions' and the job's clocks are compared: a few milliseconds may be theirs.

    Examples:

      sluice trace topics/crm.public.user/partition=0/crm.public.user+0+0000000000.avro

      sluice trace crm.public.user+0+0000000000.avro

      sluice trace KEY --svg waterfall.svg

      sluice trace KEY --json | jq .to_readable_ms
    """
    found = _traced(tracker(chosen_target(stack)), key, version)
    if picture is not None:
        _write(picture, svg(found))
    if as_json:
        print_json(told(found))
    else:
        _print(found)


def _traced(sources: Tracker, key: str, version: str | None) -> Trace:
    found = sources.named(key)
    versions = found.versions
    identity, record = _chosen(versions, found.key, version)
    if version is None and len(versions) > 1:
        say(
            f"The newest of {len(versions)} versions; the others: {', '.join(item.version for item in versions if item != identity)}"
        )
    return trace_of(sources.facts(identity, record))


def _chosen(
    versions: Mapping[ObjectId, ObjectRecord | None], key: str, version: str | None
) -> tuple[ObjectId, ObjectRecord | None]:
    if version is None:
        return list(versions.items())[-1]
    for identity, record in versions.items():
        if identity.version == version:
            return identity, record
    raise UsageError(
        f"{key!r} has no version {version!r}", next_step=f"Versions: {', '.join(item.version for item in versions)}"
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} can't be written: {error.strerror}", next_step="Name a file in a folder that exists"
        ) from error
    say(f"Written to {path}")


def _print(found: Trace) -> None:
    console = Console(soft_wrap=True, highlight=False)
    width = console.width if console.is_terminal else PIPE_WIDTH
    print(visible(found.id.key))
    print(summary(found))
    if found.batch:
        print(
            f"batch {found.batch}{f', run {found.run}' if found.run else ''}{f', instant {found.instant}' if found.instant else ''}"
        )
    print()
    for line in text_lines(found, width):
        console.print(line)
    if not found.spans:
        print(
            "Nothing but its put is known: its notice is still on the way. `sluice wait` waits for it, and `sluice doctor` looks at the way"
        )
    for moment in found.moments:
        if moment.note and moment.name not in ("put", "noticed", "claimed", "readable"):
            print(f"{moment.name}: {visible(moment.note)}")
