"""`sluice backfill`: admits the objects of a bucket that were there before the stack, or that no notice announced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Annotated

import typer

from sluice.admission.routing import IGNORED, identities, route_of
from sluice.admission.verdict import judge_read, judge_unread
from sluice.config.rules.ignore import LEFT_OUT
from sluice.config.table import TableConfig
from sluice.errors import FAILED
from sluice.ledger.keys import DROPPED, PENDING
from sluice.ledger.records import ALREADY, ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.admission.admit import Admissions, open_admission
from sluice_aws.admission.reconcile import notice_of
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.objects import ListedVersion
from sluice_aws.stack import Target
from sluice_cli.account.steps import MERGED
from sluice_cli.ingest.workload import RATE, Rate, Throttle, Workload
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.interaction import ask, bars, counting
from sluice_cli.terminal.known_names import check_prefix
from sluice_cli.terminal.options import DryRun, Json, Stack, Yes, option
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.stack import chosen_target, supervise_now
from sluice_cli.terminal.words import counted

AT_ONCE = 100  # objects that are admitted before the rate is looked at
FAILED_SHOWN = 10


def backfill(
    prefix: Annotated[str, option("--prefix PREFIX", "Only objects whose keys have this prefix.")] = "",
    rate: Rate = RATE,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Bring in the objects of the bronze bucket that the ledger doesn't know: history, or what no notice announced.

    So are those that a table of a new rule with `also` lacks, those that `ignore` left out and leaves out no more, and
    those of a dropped table that a rule takes again.

    A listing is compared with the ledger, and an estimate of objects, bytes, time and cost comes first. Objects are
    admitted as if they were announced now: those that no rule takes are parked, so push the rules first. A table's rows
    follow from the positions of changes, so older objects may come after newer ones. Where it is interrupted, the
    same command goes on.

    Reconcile does the same on a schedule, a page at a time. The parameter BronzeBucketName gives the stack an existing
    bucket; `sluice ops adopt-bucket` lets it announce new objects.

    Examples:

      sluice backfill --dry-run
      sluice backfill --prefix topics/crm.user/ --rate 50 --yes && sluice wait
    """
    target = chosen_target(stack)
    run = Backfill(target, prefix)
    if run.after is not None:
        say(f"Goes on behind {visible(run.after[0])}, where it was interrupted")
    with counting(as_json) as tick:
        plan = run.plan(tick)
    if not plan.total and not plan.left:
        check_prefix(target, prefix)
    document = {"prefix": prefix, **plan.shown(target, rate, as_json=as_json), "admitted": {}, "failed": 0}
    if dry_run or not plan.total + sum(plan.left.values()):
        if as_json:
            print_json(document)
        elif not dry_run:
            run.forget()
            print_line("The ledger knows every object")
        return
    if not yes:
        ask(f"Admit {counted(plan.total + sum(plan.left.values()), 'object')}?")
    with bars(as_json) as advance:
        done, failed = run.admit(Throttle(rate), lambda number: advance("Objects admitted", number, plan.total))
    if as_json:
        print_json({**document, "admitted": dict(sorted(done.items())), "failed": len(failed)})
    else:
        states = ", ".join(f"{number:,} {state}" for state, number in sorted(done.items()))
        waits = f". {MERGED}" if done[PENDING] else ""
        print_line(f"Admitted: {states or 'nothing'}{waits}")
    for key, reason in failed[:FAILED_SHOWN]:
        say(f"failed: {visible(key)}: {visible(reason)}")
    if failed:
        say(f"{counted(len(failed), 'object')} could not be admitted: repeat the command")
        raise typer.Exit(FAILED)


class ListedObjects:
    """Admits listed object versions of one stack, and wakes their lanes."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._admission = open_admission(
            target.objects, ledger=target.ledger, silver_bucket=target.silver, now=epoch_ms
        )
        self.configuration = target.configuration()
        self.versioned = target.objects.is_versioned(target.bronze)
        self.woken: set[str] = set()

    def admit(self, versions: Sequence[ListedVersion]) -> Admissions:
        """Admit objects and wake their lanes."""
        notices = [notice_of(version, self.versioned) for version in versions]
        admissions = self._admission.admit_all(notices, self.configuration)
        self.wake(admissions.lanes)
        return admissions

    def wake(self, lanes: Collection[str]) -> None:
        """Wake the lanes of objects that are pending."""
        for lane in sorted(lanes):
            self._target.ledger.lanes.wake(lane)
        if not self.woken.issuperset(lanes):  # the runs of these lanes begin now, not at the end
            supervise_now(self._target)
        self.woken.update(lanes)


class Backfill:
    """The backfill of one prefix, new or interrupted before. `after` is the place where it goes on."""

    def __init__(self, target: Target, prefix: str) -> None:
        self._target, self._prefix = target, prefix
        self._ledger = target.ledger
        self._listed = ListedObjects(target)
        stored = self._ledger.history.checkpoint(self._checkpoint) or {}
        self.after: tuple[str, str] | None = (stored["key"], stored["version"]) if stored.get("key") else None

    def plan(self, tick: Callable[[str, int], None]) -> Workload:
        """What the ledger doesn't know: by table, and by the reason why no run would merge it. Reads no object."""
        work = Workload()
        listed = 0
        for page, _ in self._pages():
            listed += len(page)
            for identity, version, _ in self._unknown(page):
                self._expect(work, identity, version.size)
            tick("Versions in bronze", listed)
        return work

    def admit(self, throttle: Throttle, advance: Callable[[int], None]) -> tuple[Counter[str], list[tuple[str, str]]]:
        """Admit what the ledger doesn't know, page by page. A page is behind the checkpoint once it is written.

        Returns the number of admitted objects by state, and the keys of those that failed, each with the reason.
        """
        done: Counter[str] = Counter()
        failed: list[tuple[str, str]] = []
        for page, marker in self._pages():
            unknown = self._unknown(page)
            for start in range(0, len(unknown), AT_ONCE):
                part = unknown[start : start + AT_ONCE]
                chunk = list(dict.fromkeys(version for _, version, _ in part))
                # Where this ends in between, the object is one that the ledger doesn't know.
                back = [self._take_back(record) for _, _, record in part if record is not None]
                done.update([PENDING] * sum(back))
                admissions = self._listed.admit(chunk)
                new = [one for one in admissions.done.values() if not one.admission.startswith(ALREADY)]
                done.update(one.written.state for one in new)
                failed += ((id.key, f"{cause.code}: {cause.reason}") for id, cause in admissions.failed.items())
                advance(done.total())
                throttle.after(len(chunk))
            if failed:
                break  # the repetition begins at this page
            self._put_checkpoint(marker)
        return done, failed

    def forget(self) -> None:
        """Forget where an interrupted backfill stood."""
        self._put_checkpoint(None)

    @property
    def _checkpoint(self) -> str:
        return f"backfill {self._prefix}"

    def _put_checkpoint(self, marker: tuple[str, str] | None) -> None:
        at = {"key": marker[0], "version": marker[1]} if marker else {}
        self._ledger.history.put_checkpoint(at, epoch_ms(), self._checkpoint)

    def _pages(self) -> Iterator[tuple[Sequence[ListedVersion], tuple[str, str] | None]]:
        marker = self.after
        while True:
            page = self._target.objects.version_page(self._target.bronze, marker, prefix=self._prefix)
            marker = page.next_marker
            yield page.versions, marker
            if marker is None:
                return

    def _unknown(self, page: Sequence[ListedVersion]) -> list[tuple[ObjectId, ListedVersion, ObjectRecord | None]]:
        """The objects without a record, by table, and with their records those that were ignored and are no more."""
        versions = {
            identity: version
            for version in page
            for identity in identities(version.id(self._listed.versioned), version.size, self._listed.configuration)
        }
        admitted = self._ledger.objects.get(versions) if versions else {}
        return [
            (identity, version, admitted.get(identity))
            for identity, version in versions.items()
            if identity not in admitted or self._is_taken_back(admitted[identity])
        ]

    def _is_taken_back(self, record: ObjectRecord) -> bool:
        rule = record.rule or ""
        if record.state != IGNORED or not rule.startswith((LEFT_OUT, DROPPED)):
            return False
        if rule.startswith(DROPPED):
            return self._taking(record) is not None
        return route_of(record.id.key, record.size, self._listed.configuration).kind != IGNORED

    def _taking(self, record: ObjectRecord) -> TableConfig | None:
        """The table that takes an object of a dropped one."""
        configuration = self._listed.configuration
        return configuration.table_for_topic(record.topic or "", record.id.also_for) if configuration else None

    def _take_back(self, record: ObjectRecord) -> bool:
        """Make an object of a dropped table pending, or forget that one was ignored; True for the former.

        One that is forgotten is admitted with those that the ledger doesn't know.
        """
        config = self._taking(record) if (record.rule or "").startswith(DROPPED) else None
        if config is None:
            self._ledger.objects.forget(record)
            return False
        moved = self._ledger.objects.unpark(record, config, epoch_ms())
        self._listed.wake({config.lane})
        return moved

    def _expect(self, work: Workload, identity: ObjectId, size: int) -> None:
        """Count an object by the verdict that its key and its size allow."""
        configuration = self._listed.configuration
        route = route_of(identity.key, size, configuration)
        config = (
            configuration.table_for_topic(route.topic, identity.also_for) if configuration and route.topic else None
        )
        verdict = judge_unread(route, size, config) or judge_read(route, configuration, identity.also_for)
        if verdict.state == PENDING and verdict.table is not None:
            work.add(verdict.table, size)
        else:
            work.left[f"{verdict.state}: {verdict.reason or verdict.rule}"] += 1
