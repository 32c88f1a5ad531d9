"""The waterfall of a trace: lines of text for a terminal, and an SVG picture that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from sluice.names import shortened
from sluice_cli.terminal.colours import DARK, LIGHT
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.output import wrapped
from sluice_cli.terminal.words import counted, marked_up, round_number
from sluice_cli.trace.stages import ARRIVAL, BETWEEN, LEDGER, SPARK, WAITING, Stretch, Trace
from sluice_read.moments import clock

_BAR = "█"
_SHORT = "▏"  # shorter than a cell
_STYLES = {ARRIVAL: "cyan", WAITING: "bright_black", SPARK: "green", LEDGER: "blue"}
_NAME, _NUMBER = 13, 10  # columns of text
MIN_BAR, MAX_BAR = 1, 60
STEPS = 7  # of the axis, at most

_WIDTH, _ROW, _HEAD, _FOOT, _LEFT, _RIGHT = 900, 26, 74, 46, 128, 96  # pixels
_LINE, _CHARACTERS = 18, 116  # of the summary: pixels of a further line, and characters of each
_KINDS = ((ARRIVAL, "arrives"), (WAITING, "waits"), (LEDGER, "ledger"), (SPARK, "Spark"))
# Of what is drawn: its property, and the page's colour. Kinds of stretches differ in shape, too.
_COLOURS = {
    "ground": "fill card",
    "text": "fill text",
    "faint": "fill faint",
    "line": "stroke line",
    ARRIVAL: "fill arrival",
    WAITING: "fill wait",
    SPARK: "fill good",
    LEDGER: "stroke accent",
    "mark": "stroke good",
    "now": "fill good",
}


def _rules(colours: Mapping[str, str]) -> str:
    parts = ((name, *value.split()) for name, value in _COLOURS.items())
    return "".join(f".{name}{{{painted}:{colours[colour]}}}" for name, painted, colour in parts)


_STYLE = (
    'svg{font:13px ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;max-width:100%;height:auto}'
    f".{LEDGER}{{fill:none;stroke-width:2}}{_rules(LIGHT)}@media(prefers-color-scheme:dark){{{_rules(DARK)}}}"
)
BRIEF = 80  # characters of a reason that stands in the header and below


@dataclass(frozen=True)
class _Scale:
    """The scale of a line: `length` stands for `ms` from `origin` (epoch ms) on."""

    origin: int
    ms: int
    length: float

    def at(self, time: int) -> float:
        return self.length * min(max(time - self.origin, 0), self.ms) / self.ms


def text_lines(trace: Trace, width: int) -> list[Text]:
    """Draw the waterfall in at most `width` columns: per stretch its begin and length in seconds, and its bar."""
    lines = stretch_lines(trace.spans, width)
    if lines and trace.to_readable_ms is not None and trace.readable_at is not None:
        took = Text(f"{'readable':<{_NAME}}{_seconds(trace.to_readable_ms):>{_NUMBER}}", "bold green")
        lines += _noted(took, f"after its put, {clock(trace.readable_at)}", width, "bold green")
    return lines


def _noted(line: Text, note: str, width: int, style: str) -> list[Text]:
    """A line with its note: behind it, or on lines of its own where there is no room."""
    if line.cell_len + 2 + len(note) <= width:
        return [line.append(f"  {note}", style)]
    return [line, *(Text(part, style) for part in wrapped(f"{'':<{_NAME + 2}}{note}", width))]


def stretch_lines(spans: Sequence[Stretch], width: int, since: str = "after put") -> list[Text]:
    """A line for each stretch. `since` heads the column of the times from the first one's begin.

    Times between stages that are shorter than a cell have one line together, the last one.
    """
    scale = _scale(spans, min(max(width - _NAME - 2 * _NUMBER - 6, MIN_BAR), MAX_BAR))
    if scale is None:
        return []
    lines = [Text(f"{'':<{_NAME}}{since:>{_NUMBER}}{'took':>{_NUMBER}}", style="bright_black")]
    cell_ms = scale.ms / scale.length
    short = [span for span in spans if span.name == BETWEEN and span.ms < cell_ms]
    for span in (span for span in spans if span not in short):
        first = int(scale.at(span.began_at))
        cells = int(scale.at(span.ended_at)) - first
        bar = " " * first + (_BAR * cells if cells else _SHORT)
        note, before, below = f"  {visible(span.note)}" if span.note else "", "", ""
        if len(bar) + len(note) + _NAME + 2 * _NUMBER + 2 > width:
            # Where there is no room behind the bar: in front of it, or on a line of its own.
            before, bar = (f"{note[2:]:>{first - 1}} ", bar[first:]) if first >= len(note) else ("", bar)
            below, note = ("", "") if before else (note, "")
        lines.append(
            Text.assemble(
                (f"{visible(span.name):<{_NAME}}", "bold"),
                f"{_seconds(span.began_at - scale.origin):>{_NUMBER}}",
                f"{_seconds(span.ms):>{_NUMBER}}  ",
                (before, "bright_black"),
                (bar, _STYLES.get(span.kind, "")),
                (note, "bright_black"),
            )
        )
        if below:
            lines += [Text(line, "bright_black") for line in wrapped(f"{'':<{_NAME}}{below}", width)]
    if short:
        took = f"{'':>{_NUMBER}}{_seconds(sum(span.ms for span in short)):>{_NUMBER}}"
        line = Text.assemble((f"{BETWEEN:<{_NAME}}", "bold"), took)
        lines += _noted(line, f"{counted(len(short), 'gap')} between stages", width, "bright_black")
    return lines


def svg(trace: Trace) -> str:
    """Draw the waterfall as one SVG document without scripts or links, in the reader's light or dark colours."""
    scale = _scale(trace.spans, float(_WIDTH - _LEFT - _RIGHT))
    height = _HEAD + _ROW * len(trace.spans) + _FOOT
    title = shortened(visible(trace.id.key), 104)
    lines = [shortened(line.strip(), _CHARACTERS) for line in wrapped(summary(trace), _CHARACTERS)]
    lower = _LINE * (len(lines) - 1)
    whole = height + lower
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {whole}" width="{_WIDTH}" height="{whole}" '
        f'role="img" aria-label="{marked_up(summary(trace))}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="ground" width="{_WIDTH}" height="{whole}" rx="8"/>',
        f'<text class="text" x="20" y="30" font-weight="600">{marked_up(title)}</text>',
        *(
            f'<text class="faint" x="20" y="{52 + _LINE * number}">{marked_up(line)}</text>'
            for number, line in enumerate(lines)
        ),
        f'<g transform="translate(0 {lower})">',
    ]
    if scale is not None:
        parts += _grid(scale, height)
        parts += [part for number, span in enumerate(trace.spans) for part in _bar(span, _HEAD + _ROW * number, scale)]
        parts += _readable(trace, scale, height)
    x = _LEFT
    for kind, name in _KINDS:
        parts.append(
            f"{_shape(kind, x, height - 21, 20, 12)}</rect>"
            f'<text class="faint" x="{x + 28}" y="{height - 11}">{name}</text>'
        )
        x += 102
    return "".join([*parts, "</g></svg>\n"])


def summary(trace: Trace) -> str:
    """One line: the table, the state, the time until it was readable, the reason of the state, and the put.

    A reason that a moment has in full is left out, unless it is brief and has no code.
    """
    began = None if trace.put_at is None else f"{clock(trace.put_at)}"
    described = [trace.table or "no table", trace.state]
    if trace.to_readable_ms is not None:
        described.append(f"readable {_seconds(trace.to_readable_ms)} after its put")
    if trace.replay is not None:
        described.append(f"replayed {clock(trace.replay.at)}")
    if trace.reason:
        repeated = any(moment.note == trace.reason for moment in trace.moments)
        left_out = repeated and (trace.code is not None or len(trace.reason) > BRIEF)
        why = (trace.code, None if left_out else trace.reason)
        described += filter(None, [": ".join(dict.fromkeys(filter(None, why)))])
    return " · ".join([*map(visible, described), *([f"put {began}"] if began else [])])


def _scale(spans: Sequence[Stretch], length: float) -> _Scale | None:
    if not spans:
        return None
    origin = min(span.began_at for span in spans)
    return _Scale(origin, max(1, max(span.ended_at for span in spans) - origin), length)


def _seconds(ms: int) -> str:
    seconds = ms / 1000
    if abs(seconds) < 100:
        return f"{seconds:.3f} s"
    return f"{seconds:,.1f} s" if seconds < 3600 else f"{seconds / 3600:,.2f} h"


def _bar(span: Stretch, y: int, scale: _Scale) -> Iterator[str]:
    x = _LEFT + scale.at(span.began_at)
    length = max(2.0, scale.at(span.ended_at) - scale.at(span.began_at))
    tip = f"{span.name}: {_seconds(span.ms)}{f' ({span.note})' if span.note else ''}"
    yield f'<text class="text" x="20" y="{y + 17}">{marked_up(shortened(span.name, 16))}</text>'
    kind = span.kind if span.kind in _STYLES else SPARK
    yield f"{_shape(kind, x, y + 5, length, 16)}<title>{marked_up(tip)}</title></rect>"
    yield f'<text class="faint" x="{_WIDTH - 20}" y="{y + 17}" text-anchor="end">{_seconds(span.ms)}</text>'


def _shape(kind: str, x: float, y: float, length: float, height: float) -> str:
    """The open tag of a stretch's bar: round ends, a thin line, an outline, or a full bar."""
    inset = {WAITING: height / 2 - 2, LEDGER: 1.0}.get(kind, 0.0)
    round_ends = {ARRIVAL: height / 2, WAITING: 2}.get(kind, 3)
    wide = max(2.0, length - 2) if kind == LEDGER else length
    left = x + 1 if kind == LEDGER else x
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{y + inset:.1f}" width="{wide:.1f}" height="{height - 2 * inset:.1f}" '
        f'rx="{round_ends:g}">'
    )


def _grid(scale: _Scale, height: int) -> Iterator[str]:
    step = round_number(scale.ms / STEPS)
    digits = 0 if step >= 1000 else 1 if step >= 100 else 3
    yield f'<text class="faint" x="20" y="{height - _FOOT + 16}" font-size="11">time</text>'
    for at in range(0, scale.ms + 1, step):
        x = _LEFT + scale.at(scale.origin + at)
        yield f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 4}" y2="{height - _FOOT}"/>'
        yield (
            f'<text class="faint" x="{x:.1f}" y="{height - _FOOT + 16}" text-anchor="middle" font-size="11">'
            f"{at / 1000:.{digits}f} s</text>"
        )


def _readable(trace: Trace, scale: _Scale, height: int) -> Sequence[str]:
    if trace.readable_at is None:
        return ()
    x = _LEFT + scale.at(trace.readable_at)
    return (
        f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEAD - 4}" y2="{height - _FOOT}" '
        'stroke-width="2" stroke-dasharray="3 3"/>',
        f'<text class="now" x="{x:.1f}" y="{_HEAD - 8}" text-anchor="middle" font-size="11">readable</text>',
    )
