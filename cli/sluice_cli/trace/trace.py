"""`sluice trace`: where the time of one object went, from its put to its rows being readable.

A trace as a waterfall: as lines of text for a terminal, and as a picture that stands by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sluice.errors import UsageError
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.terminal.output import Json, Stack, chosen_target, marked_up, print_json, say, shortened, visible
from sluice_cli.trace.objects import ARRIVAL, LEDGER, SPARK, WAITING, Span, Trace, described_trace, trace_of
from sluice_cli.trace.tracking import Tracker, tracker

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
        print_json(described_trace(found))
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


_BAR = "█"
_SHORT = "▏"  # shorter than a cell
_STYLES = {ARRIVAL: "cyan", WAITING: "bright_black", SPARK: "green", LEDGER: "blue"}
_NAME, _NUMBER = 13, 10  # columns of text
MIN_BAR, MAX_BAR = 20, 60

_WIDTH, _ROW, _HEAD, _FOOT, _LEFT, _RIGHT = 900, 26, 74, 46, 128, 96  # pixels
_KINDS = ((ARRIVAL, "arrives"), (WAITING, "waits"), (LEDGER, "ledger"), (SPARK, "Spark"))
_STYLE = """
svg{font:13px ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
.ground{fill:#fff}.text{fill:#1b1f24}.faint{fill:#59636e}.line{stroke:#d1d9e0}
.arrival{fill:#1b7c83}.waiting{fill:#afb8c1}.spark{fill:#1a7f37}.ledger{fill:#0969da}.mark{stroke:#1a7f37}
@media(prefers-color-scheme:dark){.ground{fill:#0d1117}.text{fill:#e6edf3}.faint{fill:#9198a1}.line{stroke:#30363d}
.arrival{fill:#39c5cf}.waiting{fill:#484f58}.spark{fill:#3fb950}.ledger{fill:#4493f8}.mark{stroke:#3fb950}}
"""


@dataclass(frozen=True)
class _Scale:
    """Where a time lies on a line of some length."""

    origin: int
    ms: int
    length: float

    def at(self, time: int) -> float:
        return self.length * min(max(time - self.origin, 0), self.ms) / self.ms


def text_lines(trace: Trace, width: int) -> list[Text]:
    """The waterfall in at most `width` columns: a line for every stretch, its beginning and length in seconds, its bar, and a sum."""
    scale = _scale(trace, min(max(width - _NAME - 2 * _NUMBER - 6, MIN_BAR), MAX_BAR))
    if scale is None:
        return []
    lines = [_heading()]
    for span in trace.spans:
        first = int(scale.at(span.began_at))
        cells = int(scale.at(span.ended_at)) - first
        bar = " " * first + (_BAR * cells if cells else _SHORT)
        lines.append(
            Text.assemble(
                (f"{visible(span.name):<{_NAME}}", "bold"),
                f"{_seconds(span.began_at - scale.origin):>{_NUMBER}}",
                f"{_seconds(span.ms):>{_NUMBER}}  ",
                (bar, _STYLES.get(span.kind, "")),
            )
        )
        if span.note and len(bar) + len(span.note) + _NAME + 2 * _NUMBER + 4 <= width:
            lines[-1].append(f"  {visible(span.note)}", style="bright_black")
    if trace.to_readable_ms is not None:
        lines.append(
            Text(f"{'readable':<{_NAME}}{_seconds(trace.to_readable_ms):>{_NUMBER}}  after its put", style="bold green")
        )
    return lines


def svg(trace: Trace) -> str:
    """The waterfall as one SVG document: no script, nothing fetched, in the reader's light or dark colours."""
    scale = _scale(trace, float(_WIDTH - _LEFT - _RIGHT))
    height = _HEAD + _ROW * len(trace.spans) + _FOOT
    title = shortened(visible(trace.id.key), 104)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" aria-label="{marked_up(summary(trace))}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{height}" rx="8"/>',
        f'<text class="text" x="20" y="30" font-weight="600">{marked_up(title)}</text>',
        f'<text class="faint" x="20" y="52">{marked_up(summary(trace))}</text>',
    ]
    if scale is not None:
        parts += _grid(scale, height)
        parts += [part for number, span in enumerate(trace.spans) for part in _bar(span, _HEAD + _ROW * number, scale)]
        parts += _readable(trace, scale, height)
    x = _LEFT
    for kind, name in _KINDS:
        parts.append(
            f'<rect class="{kind}" x="{x}" y="{height - 20}" width="10" height="10" rx="2"/><text class="faint" x="{x + 16}" y="{height - 11}">{name}</text>'
        )
        x += 90
    return "".join([*parts, "</svg>\n"])


def summary(trace: Trace) -> str:
    """One line: what became of it, where, and how long it took."""
    began = (
        datetime.fromtimestamp(trace.put_at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        if trace.put_at is not None
        else None
    )
    described = [trace.table or "no table", trace.state]
    if trace.to_readable_ms is not None:
        described.append(f"readable {_seconds(trace.to_readable_ms)} after its put")
    if trace.reason:
        described.append(shortened(trace.reason, 80))
    return " · ".join([*map(visible, described), *([f"put {began}"] if began else [])])


def _heading() -> Text:
    return Text(f"{'':<{_NAME}}{'after put':>{_NUMBER}}{'took':>{_NUMBER}}", style="bright_black")


def _scale(trace: Trace, length: float) -> _Scale | None:
    if not trace.spans:
        return None
    origin = min(span.began_at for span in trace.spans)
    return _Scale(origin, max(1, max(span.ended_at for span in trace.spans) - origin), length)


def _seconds(ms: int) -> str:
    seconds = ms / 1000
    if abs(seconds) < 100:
        return f"{seconds:.3f} s"
    return f"{seconds:,.1f} s" if seconds < 3600 else f"{seconds / 3600:,.2f} h"


def _bar(span: Span, y: int, scale: _Scale) -> Iterator[str]:
    x = _LEFT + scale.at(span.began_at)
    length = max(2.0, scale.at(span.ended_at) - scale.at(span.began_at))
    tip = f"{span.name}: {_seconds(span.ms)}{f' ({span.note})' if span.note else ''}"
    yield f'<text class="text" x="20" y="{y + 17}">{marked_up(shortened(span.name, 16))}</text>'
    yield f'<rect class="{span.kind if span.kind in _STYLES else SPARK}" x="{x:.1f}" y="{y + 5}" width="{length:.1f}" height="16" rx="3"><title>{marked_up(tip)}</title></rect>'
    yield f'<text class="faint" x="{_WIDTH - 20}" y="{y + 17}" text-anchor="end">{_seconds(span.ms)}</text>'


def _grid(scale: _Scale, height: int) -> Iterator[str]:
    step = _step(scale.ms)
    for at in range(0, scale.ms + 1, step):
        x = _LEFT + scale.at(scale.origin + at)
        yield f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 4}" y2="{height - _FOOT}"/>'
        yield f'<text class="faint" x="{x:.1f}" y="{height - _FOOT + 16}" text-anchor="middle" font-size="11">{_tick(at, step)}</text>'


def _readable(trace: Trace, scale: _Scale, height: int) -> Sequence[str]:
    if trace.readable_at is None:
        return ()
    x = _LEFT + scale.at(trace.readable_at)
    return (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 4}" y2="{height - _FOOT}" stroke-width="2" stroke-dasharray="3 3"/>',
        f'<text class="spark" x="{x:.1f}" y="{_HEAD - 8}" text-anchor="middle" font-size="11">readable</text>',
    )


def _step(ms: int) -> int:
    """A round number of ms that makes at most seven steps."""
    size = 1
    while True:
        for factor in (1, 2, 5):
            if ms <= 7 * size * factor:
                return size * factor
        size *= 10


def _tick(ms: int, step: int) -> str:
    return f"{ms / 1000:.{0 if step >= 1000 else 1 if step >= 100 else 3}f} s"
