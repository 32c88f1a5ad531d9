"""`sluice trace`: one object's path from its put to its rows being readable, and the time that each stage took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from sluice.errors import UsageError
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.account.object import traced as step_to
from sluice_cli.account.object import versions_of
from sluice_cli.account.steps import notice_missing
from sluice_cli.terminal.guard import escaping_console, visible
from sluice_cli.terminal.options import Json, Stack, argument, option
from sluice_cli.terminal.output import described_documents, print_json, print_line, say, say_skipped
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.words import counted
from sluice_cli.trace.stages import ReplayTrace, Stretch, Trace, described_id, state_of, trace_of
from sluice_cli.trace.tracking import Tracker
from sluice_cli.trace.waterfall import stretch_lines, summary, svg, text_lines
from sluice_read.moments import clock

PIPE_WIDTH = 120
OTHERS_SHOWN = 5
# Moments that are shown above.
_SHOWN_ABOVE = ("put", "noticed", "claimed", "readable", "replayed")


def trace(
    key: Annotated[
        str,
        argument(
            "KEY",
            "The object's key in the bronze bucket, s3://BUCKET/KEY, or a part of a key that no other key has, "
            "such as a file's name.",
        ),
    ],
    version: Annotated[str | None, option("--version ID", "The version to show. Default: the newest.")] = None,
    table: Annotated[
        str | None,
        option("--table TABLE", "The table to show, where the topic feeds several. Default: that of the first rule."),
    ] = None,
    picture: Annotated[Path | None, option("--svg FILE", "Also write the waterfall as an SVG picture.")] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show one object's path as a waterfall: put, notice, admit, claim, read, commit, readable.

    Rows are readable with the first batch that commits them, unless the table was rebuilt since. The last replay of
    the object is shown apart. The times come from S3, the ledger and the batch's outcome, on a local and a deployed
    stack alike. They are compared across the clocks of S3, the functions and the job, which may differ by a few
    milliseconds.

    Examples:

      sluice trace topics/crm.user/partition=0/crm.user+0+0000000000.avro
      sluice trace crm.public.user+0+0000000000.avro
      sluice trace KEY --svg waterfall.svg
      sluice trace KEY --json | jq .to_readable_ms
    """
    sources = Tracker(chosen_target(stack))
    picture_of = _traced(sources, key, version, table)
    if picture is not None:
        picture.write_text(svg(picture_of), encoding="utf-8")
        say(f"Written to {picture}")
    if as_json:
        print_json({**describe_trace(picture_of), "skipped_documents": described_documents(sources.skipped)})
    else:
        print_trace(picture_of)
    say_skipped(sources.skipped)


def _traced(sources: Tracker, key: str, version: str | None, table: str | None) -> Trace:
    whole, versions = sources.named(key)
    identity, record = _chosen(versions, whole, version, table)
    if version is None and len(versions) > 1:
        _say_others(versions, identity)
    return trace_of(sources.facts(identity, record))


def _say_others(versions: Mapping[ObjectId, ObjectRecord | None], traced: ObjectId) -> None:
    """Say which version is traced, and the command for each other one, and each table, newest first."""
    number, state = len({item.version for item in versions}), state_of(versions[traced])
    record = versions[traced]
    what = f"the newest of {number:,} versions" if number > 1 else f"for {record.table if record else 'no table yet'}"
    say(f"This is {what}, {state}. The others:")
    others = [(item, record) for item, record in reversed(list(versions.items())) if item != traced]
    for item, record in others[:OTHERS_SHOWN]:
        say(f"  {state_of(record)}: {step_to(visible(item.key), item)}")
    if len(others) > OTHERS_SHOWN:
        older = counted(len(others) - OTHERS_SHOWN, "older version")
        say(f"  {older}: {versions_of(visible(traced.key))}")


def _chosen(
    versions: Mapping[ObjectId, ObjectRecord | None], key: str, version: str | None, table: str | None
) -> tuple[ObjectId, ObjectRecord | None]:
    wanted = list(versions)[-1].version if version is None else version
    by_table = {id.also_for: (id, record) for id, record in versions.items() if id.version == wanted}
    if not by_table:
        raise UsageError(
            f"{key!r} has no version {version!r}",
            next_step=f"Name one that it has: {', '.join(item.version for item in versions)}",
        )
    first = by_table.get("", next(iter(by_table.values())))
    if table is None:
        return first
    tables = {also_for or (first[1].table if first[1] else None): one for also_for, one in by_table.items()}
    if table not in tables:
        raise UsageError(
            f"{key!r} is not in the ledger for {table}",
            next_step=f"Name one of its tables: {', '.join(sorted(filter(None, tables)))}",
        )
    return tables[table]


def print_trace(shown: Trace) -> None:
    """Print the header, the waterfall, and the moments that it doesn't show."""
    console = escaping_console(soft_wrap=True, highlight=False)
    width = console.width if console.is_terminal else PIPE_WIDTH
    print(visible(shown.id.key))
    header = summary(shown)
    print_line(header)
    if shown.batch:
        print_line(_batch(shown))
    print()
    for line in text_lines(shown, width):
        console.print(line)
    if not shown.spans:
        print_line(f"Only its put is known: its notice is still on the way. {notice_missing(unseen=False)}")
    replay = shown.replay
    if replay is not None:
        print_line(f"\nreplayed {clock(replay.at)}: {visible(replay.result)}")
        if replay.batch:
            print_line(_batch(replay))
        print()
        for line in stretch_lines(replay.spans, width, "since then"):
            console.print(line)
    for moment in shown.moments:
        note = visible(moment.note)
        if note and moment.name not in _SHOWN_ABOVE and f" · {note} · " not in header:
            print_line(f"{moment.name} {clock(moment.at)}: {note}")
    if shown.next_step is not None:
        print_line(shown.next_step)


def _batch(shown: Trace | ReplayTrace) -> str:
    run, instant = f", run {shown.run}" if shown.run else "", f", instant {shown.instant}" if shown.instant else ""
    return f"batch {shown.batch}{run}{instant}"


def describe_trace(trace: Trace) -> dict[str, Any]:
    """The JSON form of a trace. Times are epoch ms, durations ms."""
    names = ("state", "reason", "next_step", "table", "lane", "batch", "run", "instant")
    return {
        **described_id(trace.id),
        **{name: getattr(trace, name) for name in (*names, "put_at", "readable_at", "to_readable_ms")},
        "counts": dict(trace.counts),
        "moments": [asdict(moment) for moment in trace.moments],
        "spans": _described(trace.spans),
        "replay": None if trace.replay is None else {**vars(trace.replay), "spans": _described(trace.replay.spans)},
    }


def _described(spans: Iterable[Stretch]) -> list[dict[str, Any]]:
    return [{**asdict(span), "ms": span.ms} for span in spans]
