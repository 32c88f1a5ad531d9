"""`sluice audit`: compares bronze, the ledger, manifests and outcomes, and the timelines of all tables."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import typer

from sluice.config.document import Configuration
from sluice.ledger.audit import (
    ABANDONED_CLAIM,
    ACTIVE,
    ARCHIVED,
    CONTRADICTIONS,
    MISSING,
    NO_CHANGE,
    REBUILT,
    TOO_YOUNG,
    UNKNOWN,
    UNKNOWN_OBJECT,
    UNLISTED,
    Contradiction,
    ObjectVerdict,
)
from sluice.ledger.keys import PENDING
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.audit.facts import AuditFacts, Judged, Tick
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.objects import ListedVersion, SkippedDocument, pages_of_bronze
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.settings import Settings
from sluice_aws.stack import Target
from sluice_cli.account.object import judged_now, key_and_version
from sluice_cli.ingest.backfill import ListedObjects
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.interaction import counting
from sluice_cli.terminal.known_names import check_prefix
from sluice_cli.terminal.options import Json, Stack, option
from sluice_cli.terminal.output import described_documents, key_in_line, print_json, print_line, say_skipped
from sluice_cli.terminal.stack import chosen_target, readable_configuration, supervise_now
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import counted

SHOWN = 10  # contradictions of each kind, for people
GRACE_PARAMETER = "ReconcileGraceSeconds"
_STATES = {TOO_YOUNG: f"too new to be in the ledger ({TOO_YOUNG})", UNKNOWN: f"not in the ledger ({UNKNOWN})"}
_PLACES = {
    ACTIVE: "in active commits",
    ARCHIVED: "in archived commits",
    NO_CHANGE: "without a change",
    REBUILT: "before a rebuild",
    MISSING: "in commits that are gone",
}
_COLUMNS = ("key", "version", "state", "table", "batch", "instant", "place", "reason")


def audit(
    prefix: Annotated[str, option("--prefix PREFIX", "Only objects whose keys have this prefix.")] = "",
    objects: Annotated[
        bool, option("--objects", "Also list every object version: where it is committed, or why not.")
    ] = False,
    repair: Annotated[
        bool,
        option(
            "--repair", "Admit objects that the ledger doesn't know, end abandoned claims, and list pending objects."
        ),
    ] = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Account for every object version: bronze against the ledger, the ledger against batches and commits.

    An object is committed in one batch, whose outcome names a commit on its table's timeline, or the ledger says why
    not. Commits that left the active timeline count as archived. --repair admits objects that no notice announced, as
    reconcile does, ends claims of batches that are not open, and lists pending objects again; every other contradiction
    is left to you and listed with its next step. The audit reads one listing of bronze, all manifests and outcomes, and
    the commits of all active timelines, while the stack works.

    The exit code is 1 if there is a contradiction that was not repaired.

    Examples:

      sluice audit
      sluice audit --prefix topics/crm.public.user/ --objects
      sluice audit --json | jq '.contradictions[].code'
    """
    target = chosen_target(stack)
    with counting(as_json) as tick:
        report = Auditing(target).run(prefix, tick, repair=repair, keep_objects=objects)
    if not report.states and not report.contradictions:
        check_prefix(target, prefix)
    say_skipped(report.skipped)
    if as_json:
        print_json(_document(report, with_objects=objects))
    else:
        _print(report)
    if report.contradictions:
        raise typer.Exit(1)


@dataclass
class AuditReport:
    """The result of an audit. `states` and `places` count object versions; `contradictions` are not repaired.

    `objects` are versions in their JSON form, if they are wanted.
    """

    states: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    parts: int = 0
    contradictions: list[Contradiction] = field(default_factory=list)
    repaired: list[tuple[ObjectId, str]] = field(default_factory=list)
    objects: list[dict[str, str | None]] = field(default_factory=list)
    skipped: Sequence[SkippedDocument] = ()


class Auditing:
    """The audit of one stack."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._objects = target.objects
        self._woken: set[str] = set()
        self._ledger = target.ledger
        self._facts = AuditFacts(self._ledger, self._objects, target.silver, TimelineReader(target.silver_files))

    def run(self, prefix: str, tick: Tick, *, repair: bool, keep_objects: bool) -> AuditReport:
        """Read and compare everything."""
        grace_s = int(self._target.parameters.get(GRACE_PARAMETER) or Settings.reconcile_grace_s)
        report = AuditReport()
        self._facts.read_batches(tick)
        for page in pages_of_bronze(self._objects, self._target.bronze, prefix, configuration=self._configuration):
            self._audit(page, report, old=epoch_ms() - grace_s * 1000, repair=repair, keep_objects=keep_objects)
            tick("Versions in bronze", sum(report.states.values()))
        report.contradictions += self._facts.of_parts(tick)
        report.parts = len(self._facts.parts)
        report.skipped = self._facts.skipped
        if self._woken:
            supervise_now(self._target)
        return report

    def _audit(
        self, page: Mapping[ObjectId, ListedVersion], report: AuditReport, *, old: int, repair: bool, keep_objects: bool
    ) -> None:
        """Audit one page of the listing. Versions younger than `old` (epoch ms) may be unknown."""
        verdicts = self._facts.verdicts(page.keys(), lambda identity: page[identity].modified_at > old)
        repaired = self._repair(page, verdicts) if repair else {}
        report.repaired += repaired.items()
        for identity, (verdict, record) in verdicts.items():
            place = None if verdict.part is None else self._facts.place(verdict.part)
            report.states[verdict.state] += 1
            report.places.update([place] if place else [])
            if verdict.code is not None and identity not in repaired:
                report.contradictions.append(Contradiction.of_object(verdict.code, identity, record))
            if keep_objects:
                shown = judged_now(record, self._configuration) if record is not None else None
                report.objects.append(_described(identity, verdict, shown, place))

    def _repair(
        self, page: Mapping[ObjectId, ListedVersion], verdicts: Mapping[ObjectId, Judged]
    ) -> dict[ObjectId, str]:
        """Admit unknown objects, and end abandoned claims; gives the state of each object that was repaired."""
        unknown = [page[identity] for identity, (verdict, _) in verdicts.items() if verdict.code == UNKNOWN_OBJECT]
        admitted = self._listed.admit(list(dict.fromkeys(unknown))).done if unknown else {}
        repaired = {identity: admission.written.state for identity, admission in admitted.items()}
        for identity, (verdict, record) in verdicts.items():
            if verdict.code == UNLISTED and record is not None and self._ledger.objects.list_again(record):
                repaired[identity] = PENDING
                self._wake(record.lane or "")
            if verdict.code == ABANDONED_CLAIM and record is not None:
                end = self._facts.end_of(record)
                if self._ledger.recovery.end_claim(record, end, epoch_ms()):
                    repaired[identity] = PENDING if end is None else end.state
                    self._wake(record.lane or "")
        return repaired

    def _wake(self, lane: str) -> None:
        self._ledger.lanes.wake(lane)
        self._woken.add(lane)

    @cached_property
    def _configuration(self) -> Configuration | None:
        return readable_configuration(self._target)[1]

    @cached_property
    def _listed(self) -> ListedObjects:
        return ListedObjects(self._target)


def _print_objects(versions: Sequence[Mapping[str, str | None]]) -> None:
    """Print one line for each version: a table in a terminal, and without headings in a pipe."""
    rows = [[value or "-" for value in version.values()] for version in versions]
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(map(visible, row)))
    elif rows:
        print_table(_COLUMNS, rows, shorten=(1, 4), paths=(0,), apart=(7,), minor=(5, 6, 1, 4))
        print()


def _print(report: AuditReport) -> None:
    _print_objects(report.objects)
    states = ", ".join(f"{count:,} {_STATES.get(state, state)}" for state, count in sorted(report.states.items()))
    print_line(f"{counted(sum(report.states.values()), 'object version')}{': ' if states else ''}{states}")
    if report.places:
        print_line("committed: " + ", ".join(f"{n:,} {_PLACES[place]}" for place, n in sorted(report.places.items())))
    print_line(f"{counted(report.parts, 'outcome')} of batches compared with the timelines of their tables")
    for identity, state in report.repaired[:SHOWN]:
        print_line(f"repaired: {key_in_line(identity.key)} is {state}", whole=key_in_line(identity.key))
    if len(report.repaired) > SHOWN:
        print_line(f"repaired: and {len(report.repaired) - SHOWN:,} more (--json lists all)")
    by_code: dict[str, list[Contradiction]] = {}
    for item in report.contradictions:
        by_code.setdefault(item.code, []).append(item)
    for code, all_found in sorted(by_code.items()):
        print_line(f"{CONTRADICTIONS[code][0]}: {len(all_found):,} ({code})")
        for item in all_found[:SHOWN]:
            print_line(f"  {_line(item)}", whole=key_in_line(item.object.key) if item.object else "")
        if len(all_found) > SHOWN:
            print_line(f"  and {len(all_found) - SHOWN:,} more (--json lists all)")
        print_line(f"  next step: {visible(_next_step(code, all_found))}")
    if not report.contradictions:
        print_line("no contradiction")


def _next_step(code: str, contradictions: Sequence[Contradiction]) -> str:
    """The next step, with the name of the table or of the key where it is one."""
    if len({item.table for item in contradictions}) > 1:
        return CONTRADICTIONS[code][1]
    return (contradictions[0] if len(contradictions) == 1 else replace(contradictions[0], object=None)).next_step


def _line(item: Contradiction) -> str:
    parts: tuple[str | None, ...]
    if item.object is not None:
        parts = (key_in_line(item.object.key), item.object.version, item.table, item.batch)
    else:
        parts = (item.table, item.batch, item.instant, counted(item.objects, "object") if item.objects else None)
    return "  ".join(visible(value) for value in parts if value)


def _document(report: AuditReport, *, with_objects: bool) -> dict[str, Any]:
    return {
        "clean": not report.contradictions,
        "objects": dict(sorted(report.states.items())),
        "committed": dict(sorted(report.places.items())),
        "parts": report.parts,
        "contradictions": [
            {
                "code": item.code,
                "found": item.meaning,
                "next_step": item.next_step,
                **{name: getattr(item, name) for name in ("table", "batch", "instant", "objects")},
                **{name: getattr(item.object, name, None) for name in ("key", "version")},
            }
            for item in report.contradictions
        ],
        "repaired": [{**key_and_version(identity), "state": state} for identity, state in report.repaired],
        "skipped_documents": described_documents(report.skipped),
        **({"object_versions": report.objects} if with_objects else {}),
    }


def _described(
    identity: ObjectId, verdict: ObjectVerdict, record: ObjectRecord | None, place: str | None
) -> dict[str, str | None]:
    """The JSON form of one object version; `place` is where its commit is."""
    table, batch, reason = None, None, None
    if record is not None:
        table, batch, reason = record.table, record.batch, record.code or record.rule or record.reason
    instant = None if verdict.part is None else verdict.part.instant
    values = (identity.key, identity.version, verdict.state, table, batch, instant, place, verdict.code or reason)
    return dict(zip(_COLUMNS, values, strict=True))
