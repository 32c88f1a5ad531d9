"""Entries of the quarantine for people: lines for a pipe, groups for a terminal, and one entry with its rows."""

from __future__ import annotations

import base64
import codecs
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from sluice.batch.row_errors import JSON_TEXT, RowError
from sluice.ledger.records import Decision, ObjectRecord
from sluice_cli.account.object import SHORT_ID, shown_entry
from sluice_cli.ingest.entry import codes, kind, lines_of, reason_of
from sluice_cli.ingest.newer_versions import NewerVersions, discard_advice
from sluice_cli.ingest.set_aside import Decided
from sluice_cli.terminal.guard import escaping_console, visible
from sluice_cli.terminal.output import print_line, wrapped
from sluice_cli.terminal.tables import print_columns, print_table
from sluice_cli.terminal.words import counted, human_age
from sluice_read.moments import clock

_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # control characters that bytes have and text hardly does
_NO_CODE = "-"  # of parked objects that wait for a rule
_PROSE = frozenset({"reason", "advice"})  # the other values of an entry are copied, and stay whole


def print_lines(shown: Sequence[ObjectRecord], newer: NewerVersions, now: int) -> None:
    """Print a line for each entry, for a pipe: by table (else topic), code and key. `now` is in epoch ms."""
    print_columns(
        sorted(shown, key=lambda record: (*_group(record), record.id.key, record.id.version)),
        {
            "id": lambda record: record.id.hash[:SHORT_ID],
            "kind": kind,
            "rows": lambda record: record.quarantined_rows or None,
            "table": "table",
            "code": codes,
            "age": lambda record: human_age(now - int(record.listed_at) if record.listed_at else None),
            "key": lambda record: record.id.key,
            "reason": lambda record: "; ".join(_reasons(record, newer)) or None,
        },
    )


def _group(record: ObjectRecord) -> tuple[str, str]:
    return record.table or record.topic or "no table", ", ".join(codes(record)) or _NO_CODE


def print_groups(shown: Sequence[ObjectRecord], newer: NewerVersions, now: int) -> None:
    """Print the entries by table (else topic) and code, each reason once, keys in order. `now` is in epoch ms."""
    groups: dict[tuple[str, str], list[ObjectRecord]] = {}
    for record in shown:
        groups.setdefault(_group(record), []).append(record)
    console = escaping_console()
    for number, ((where, code), records) in enumerate(sorted(groups.items())):
        if number:
            console.print()
        about = [where] if code == _NO_CODE else [where, code]
        title = "  ".join([*about, counted(len(records), "entry", "entries")])
        for part in wrapped(visible(title), console.width):
            console.print(Text(part, style="bold"), soft_wrap=True, highlight=False)
        (reason, _), *others = Counter(reason_of(record) or "-" for record in records).most_common()
        more = f"; and {counted(len(others), 'other reason')}: {shown_entry()}" if others else ""
        print_line(visible(reason + more))
        has_rows = any(record.quarantined_rows for record in records)
        print_table(
            ("id", "kind", *(["rows"] if has_rows else []), "age", "key"),
            [
                (
                    record.id.hash[:SHORT_ID],
                    kind(record),
                    *([f"{record.quarantined_rows:,}"] if has_rows else []),
                    human_age(now - int(record.listed_at)) if record.listed_at else "-",
                    record.id.key,
                )
                for record in sorted(records, key=lambda record: (record.id.key, record.id.version))
            ],
            right=(2,) if has_rows else (),
            paths=(4 if has_rows else 3,),
        )
        outdated = [record for record in records if record.id in newer]
        if outdated:
            print_line(discard_advice(outdated))


def print_entry(
    record: ObjectRecord, newer: ObjectRecord | None, rows: Sequence[RowError], decisions: Sequence[Decision]
) -> None:
    """Print one entry with some of its rows and the decisions about it."""
    lines = lines_of(record)
    if newer is not None:
        lines += [("newer", newer.id.version), ("advice", discard_advice([record]))]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        print_line(f"{name:<{width}}  {visible(value)}", whole="" if name in _PROSE else visible(value))
    if rows or decisions:
        print()
    for row in rows:
        offset = "" if row.offset is None else f", offset {row.offset}"
        reason = reason_of(replace(record, reason=row.reason)) or "-"
        print_line(f"row {row.record}{offset}: {visible(row.code)}: {visible(reason)}")
        if row.content:
            content = row.content.encode("utf-8") if row.encoding == JSON_TEXT else base64.b64decode(row.content)
            text = _as_text(content)
            size = f" (of {row.content_bytes:,} bytes)" if text is None or row.content_bytes > len(content) else ""
            print(f"  {f'base64: {row.content}' if text is None else visible(text)}{size}")
    for item in decisions:
        note = f" ({visible(item.note)})" if item.note else ""
        command = visible(item.command)
        print_line(f"{item.verb} at {clock(item.at)} by {visible(item.by)}: {command}{note}", whole=command)


def _as_text(content: bytes) -> str | None:
    """The beginning of a record as the text that it is; None for other bytes."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(content)  # the last character may be cut
    except UnicodeDecodeError:
        return None
    return None if _NO_TEXT.search(text) else text


def print_left(left: Sequence[Decided]) -> None:
    """Print the entries that a decision left: a line for each in a pipe, by table and reason in a terminal.

    A retry judges by the rules in force, and says so: they may still be the old ones.
    """
    if not sys.stdout.isatty():
        for item in left:
            print(f"left\t{visible(item.record.id.key)}\t{visible(item.because)}")
        return
    groups = Counter((item.record.table or item.record.topic or "no table", item.because, item.judged) for item in left)
    for (where, because, judged), number in groups.items():
        by = ", judged by the rules in force" if judged else ""
        print_line(f"{counted(number, 'entry', 'entries')} of {visible(where)} left{by}: {visible(because)}")


def _reasons(record: ObjectRecord, newer: NewerVersions) -> Iterator[str]:
    reason = reason_of(record)
    if reason:
        yield reason
    if record.id in newer:
        yield discard_advice([record])
