"""`sluice config plan` and `push`: shows what a tables.yaml would change, and puts it in force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.config.document import Configuration
from sluice.config.pinned_topic import pinned_topic
from sluice.errors import ChangeRefused, CommandFailed, DamagedObject
from sluice.ledger.keys import PARKED, QUARANTINED
from sluice.ledger.records import ObjectRecord
from sluice_aws.admission.reassign import Unparked, is_freed, renamed, reroute, unpark
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import HISTORY_PREFIX, PUSHES
from sluice_aws.stack import Target
from sluice_cli.account.steps import at_rest
from sluice_cli.config.plan import Fit, ObjectsWaiting, Plan, PlannedTable, known_topics, plan_push, with_misfits
from sluice_cli.config.plan_text import lines_of
from sluice_cli.config.review import (
    TableInUse,
    absent_secrets,
    begun_meanwhile,
    known_tables,
    raised_generations,
    review,
    with_open_batches,
)
from sluice_cli.config.yaml_lines import STDIN, ConfigurationMistakes, text_of_file, text_of_stdin
from sluice_cli.errors import PushedMeanwhile
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.interaction import ask
from sluice_cli.terminal.options import Json, Stack, Yes, argument, option
from sluice_cli.terminal.output import print_json, print_line, say
from sluice_cli.terminal.stack import chosen_target, configuration_in_force, lane_names, supervise_now
from sluice_cli.terminal.step import completed
from sluice_cli.terminal.words import counted

CHANGES, REFUSED = 3, 4  # exit codes of `plan`
COUNTED = 20_000  # parked and quarantined objects that are read at most, each
STEP_OF_ITS_OWN = "Do as each line says and push again, or restore the old value"
COUNTED_PENDING = 1_000  # pending objects of a table that are read at most

File = Annotated[Path, argument("FILE", "A tables.yaml; - for stdin.")]
WithWaiting = Annotated[
    bool,
    option(
        "--with-waiting",
        "If a generation rises, merge pending objects under the new one: they are all of the new log. "
        "Objects that a failed batch returned keep their generation.",
    ),
]


def plan(file: File, with_waiting: WithWaiting = False, as_json: Json = False, stack: Stack = None) -> None:
    """Show what a push of a tables.yaml would change, and change nothing.

    For each table: settings with their old and new value, what is refused in place, what waits and would become
    pending, and after ! what can be lost or stop.

    Exit codes: 0 nothing would change, 3 something would, 4 the push would be refused, 1 the file is invalid.

    Example:

      sluice config plan tables.yaml
    """
    configuration, of_file = read_with_warnings(file)
    planned, warnings, _ = _planned(chosen_target(stack), configuration, of_file, with_waiting)
    if as_json:
        print_json({**planned.to_dict(), "warnings": list(warnings)})
    else:
        _print(planned, refusals=True)
    if planned.refusals:
        raise typer.Exit(REFUSED)
    if planned.changes:
        raise typer.Exit(CHANGES)


def push(
    file: File, with_waiting: WithWaiting = False, yes: Yes = False, as_json: Json = False, stack: Stack = None
) -> None:
    """Put a tables.yaml in force, after showing its plan. The next batch uses it.

    The file is checked first, and an invalid one changes nothing. Changes that can't be made in place are
    refused: the key, partition columns, type, position or topic of a table that has data, and a higher
    generation while objects of the old log may be pending. Parked objects that now have a table become pending, and
    their lanes are woken.

    What can lose or stop something, which the plan marks with !, needs a yes: once on a terminal, else --yes.
    Any other change is made without a question.

    Example:

      sluice config push tables.yaml
    """
    configuration, of_file = read_with_warnings(file)
    target = chosen_target(stack)
    ledger = target.ledger
    planned, warnings, before = _planned(target, configuration, of_file, with_waiting)
    if not as_json:
        _print(planned, refusals=False)
    if planned.refusals:
        raise ChangeRefused(
            "Refused, nothing has changed:\n" + "\n".join(planned.refusals),
            next_step=_step_of_refused(planned, configuration, before),
            refusals=planned.refusals,
        )
    if planned.risks and not yes:
        if as_json:
            say("\n".join(planned.risks))
        ask(f"{counted(len(planned.risks), 'change')} can lose or stop something. Push?")
    changed = before is None or before.version != configuration.version
    if changed:
        _store(target, configuration)
    elif target.config_store.load_if_changed() is not None:
        raise PushedMeanwhile("Another push came between the plan and this one; nothing has changed")
    begun = begun_meanwhile(target, before, configuration) if changed else ()
    unparked = unpark(ledger, configuration, epoch_ms)
    lanes_known = lane_names(ledger, before, configuration)
    moved = 0
    while more := reroute(ledger, configuration, lanes_known, before=epoch_ms(), now=epoch_ms).objects:
        moved += more
    again = _end_backoffs(ledger, planned) if changed else ()
    lanes = _wake(target, unparked, lanes_known if changed else ())
    if as_json:
        print_json(
            {
                "version": configuration.version,
                "changed": changed,
                "unparked": unparked.objects,
                "ignored": unparked.ignored,
                "moved": moved,
                "backoff_ended": list(again),
                "woken": sorted(lanes),
                "warnings": list(warnings),
                "plan": planned.to_dict(),
            }
        )
    else:
        print_line(f"{'In force' if changed else 'Already in force'}: {summary(configuration)}")
        if unparked.objects:
            print_line(f"{counted(unparked.objects, 'parked object')} now pending")
        if unparked.ignored:
            print_line(f"{counted(unparked.ignored, 'parked object')} now ignored")
        if moved:
            print_line(f"{counted(moved, 'pending object')} moved to another table or lane")
        if again:
            print_line(f"Back-off ended: {', '.join(again)}")
        states = [ledger.lanes.get(lane) for lane in sorted(lanes)]
        if woken := [state.lane for state in states if not at_rest(state)]:
            print_line(f"Woken: {', '.join(woken)}")
        for state in filter(at_rest, states):
            print_line(at_rest(state))
    if begun:
        raise CommandFailed(
            "In force, but a batch began during the push, by the settings before it:\n" + "\n".join(begun),
            next_step="Push the former settings of these tables again, or rebuild the tables; their objects wait until "
            "then, and nothing is lost",
        )


def read_file(file: Path, *, may_be_empty: bool = False) -> Configuration:
    """Read a tables.yaml. Raises UsageError for an unreadable file and ConfigurationMistakes for an invalid one."""
    return _parsed(text_of_file(file), file, may_be_empty)[0]


def read_with_warnings(file: Path) -> tuple[Configuration, tuple[str, ...]]:
    """Read as `read_file` does, for `-` from stdin, and return also the warnings that the file alone gives."""
    return _parsed(text_of_stdin() if str(file) == STDIN else text_of_file(file), file, may_be_empty=False)


def _parsed(text: str, file: Path, may_be_empty: bool) -> tuple[Configuration, tuple[str, ...]]:
    from sluice_cli.config import source  # loads pydantic, which help needs none of

    try:
        return source.read_with_warnings(text, may_be_empty=may_be_empty)
    except ConfigurationMistakes as error:
        raise ConfigurationMistakes(list(error.mistakes), str(file)) from error


def fit_of_stack(target: Target, configuration: Configuration, before: Configuration | None) -> Fit:
    """Return where rules don't fit the columns of tables, or the objects that wait for new tables."""
    from sluice_cli.config.waiting import fit_of_waiting, misfits_of_tables  # loads Arrow

    of_tables = misfits_of_tables(target.schema_history, target.ledger, configuration, before)
    of_waiting = fit_of_waiting(target.objects, target.ledger, configuration, before)
    return Fit((*of_tables, *of_waiting.misfits), of_waiting.notes)


def summary(configuration: Configuration) -> str:
    """The numbers of rules and lanes, and the version."""
    lanes = configuration.lane_names()
    counts = f"{counted(len(configuration.rules), 'rule')}, {counted(len(lanes), 'lane')} ({', '.join(lanes)})"
    return f"{counts}, version {configuration.version[:12]}"


def _step_of_refused(plan: Plan, configuration: Configuration, before: Configuration | None) -> str:
    """The next step: a rebuild, with the names of one refused table, unless each refusal has a step of its own.

    A table that would also move, or get another topic, is rebuilt by the rule in force: the other may not exist yet.
    """
    refused = [table for table in plan.tables if table.refusals]
    rebuilt = [table for table in refused if not table.steps_named or any(change.rebuild for change in table.settings)]
    if refused and not rebuilt:
        return STEP_OF_ITS_OWN
    for table in rebuilt if len(rebuilt) == 1 else ():
        topic = next((change.old for change in table.settings if change.key == "topic"), table.topic)
        config = (before or configuration).own_or_first(topic, table.table)
        if config is not None and config.table == table.table:
            return completed(ChangeRefused.next_step, TABLE=table.table, LANE=config.lane)
    return ChangeRefused.next_step


def _planned(
    target: Target, configuration: Configuration, of_file: Iterable[str], with_waiting: bool
) -> tuple[Plan, tuple[str, ...], Configuration | None]:
    """Return the plan, the warnings, those of the file first, and the configuration in force, and say the warnings."""
    ledger = target.ledger
    before = configuration_in_force(target)
    if not configuration.rules and before is not None and len(before.rules) > 1:
        raise ChangeRefused(
            f"`tables` is empty, and {len(before.rules):,} rules are in force: a mistake would stop all tables",
            next_step="Take out all rules but one and push; then push `tables: []`",
            refusals=(),
        )
    claimed, first, states = with_open_batches(target, before)
    in_use = known_tables(ledger, before, states)
    reviewed = review(
        configuration,
        states,
        in_use,
        {lane.lane: lane for lane in ledger.lanes.all()},
        () if with_waiting else raised_generations(ledger, before, configuration),
        first,
        before,
    )
    parked = [renamed(record, configuration) for record in islice(ledger.objects.in_state(PARKED), COUNTED + 1)]
    topics = dict.fromkeys(
        (
            *(topic for state in states if (topic := pinned_topic(state.pinned)) is not None),
            *sorted(table.topic for table in in_use),
            *sorted({record.topic for record in parked if record.topic is not None}),
        )
    )
    made = plan_push(
        before,
        configuration,
        topics=topics,
        with_data={state.table: state.pinned for state in states if state.pinned and state.table not in first},
        claimed=claimed,
        review=reviewed,
        waiting=_freed(ledger, before, configuration, tuple(topics), parked, in_use),
    )
    made = replace(made, tables=_with_quarantined(ledger, made.tables))
    # A refused setting is looked at, too: the rebuild that makes its change would be in vain for a misspelt column.
    fit = fit_of_stack(target, configuration, before)
    made, unasked = with_misfits(made, fit)
    warnings = (
        *of_file,
        *(remark.text for remark in reviewed.warnings),
        *absent_secrets(target, before, configuration),
        *map(str, unasked),
    )
    say_remarks(warnings, made.notes)
    return made, warnings, before


def _freed(
    ledger: Ledger,
    before: Configuration | None,
    after: Configuration,
    topics: Sequence[str],
    parked: Sequence[Any],
    in_use: Iterable[TableInUse],
) -> dict[str, ObjectsWaiting]:
    """Return the parked and pending objects that a push frees, by table, up to a limit."""
    old, new = known_topics(before, topics) if before else {}, known_topics(after, topics)
    routed = ((item, after.table_for_topic(item.topic, item.id.also_for)) for item in parked if item.topic is not None)
    freed = Counter(config.table for item, config in routed if config is not None and is_freed(item, config))
    by_name = {
        table: ObjectsWaiting(parked=number, counted_all=len(parked) <= COUNTED) for table, number in freed.items()
    }
    for use in in_use:
        was, now = old.get(use.table), new.get(use.table)
        if use.busy and now is not None and not now.paused and (was is None or was.paused):
            waiting = ledger.pending.oldest_of(use.lane, {use.table: COUNTED_PENDING})
            number = sum(item.table == use.table for item in waiting)
            count = by_name.get(use.table, ObjectsWaiting())
            by_name[use.table] = replace(
                count, pending=count.pending + number, counted_all=count.counted_all and number < COUNTED_PENDING
            )
    return by_name


def _with_quarantined(ledger: Ledger, tables: Sequence[PlannedTable]) -> tuple[PlannedTable, ...]:
    """Add the quarantined objects and rows of tables whose settings change, but those that nothing lets be read."""
    if not any(table.retry for table in tables):
        return tuple(tables)
    from sluice_cli.terminal.known_names import known_errors  # loads readers, which `--help` needs none of

    damaged = {error.code for error in known_errors(DamagedObject) if error is not DamagedObject}
    listed = (ledger.objects.in_state(QUARANTINED), ledger.quarantine.objects_with_rows())
    read = [list(islice(records, COUNTED + 1)) for records in listed]
    all_read = max(map(len, read)) <= COUNTED
    by_table: dict[str | None, list[ObjectRecord]] = {}
    for record in chain.from_iterable(read):
        if record.code not in damaged:
            by_table.setdefault(record.table, []).append(record)

    def waiting(table: PlannedTable) -> ObjectsWaiting:
        records = by_table.get(table.table, [])
        whole = [record.code or "unknown" for record in records if record.state == QUARANTINED]
        holed = [record for record in records if record.state != QUARANTINED]
        return replace(
            table.waiting,
            quarantined=len(whole),
            quarantined_rows=sum(record.quarantined_rows for record in holed),
            with_quarantined_rows=len(holed),
            codes=tuple(sorted({*whole, *chain.from_iterable(record.row_codes for record in holed)})),
            counted_all=table.waiting.counted_all and all_read,
        )

    return tuple(replace(table, waiting=waiting(table)) if table.retry else table for table in tables)


def _store(target: Target, configuration: Configuration) -> None:
    """Store the configuration, after its copy in the history and the count of pushes.

    In this order the configuration in force is always found by its version, and its loss is noticed. Raises
    PushedMeanwhile where the one that the plan compared with is no longer in force.
    """
    bucket = target.artifacts
    target.ledger.history.count(PUSHES)
    data = configuration.to_json().encode("utf-8")
    target.objects.put(bucket, f"{HISTORY_PREFIX}{configuration.version}.json", data, content_type="application/json")
    if not target.config_store.replace(data):
        raise PushedMeanwhile("Another push came between the plan and this one; nothing has changed")


def _end_backoffs(ledger: Ledger, plan: Plan) -> tuple[str, ...]:
    """End the back-off of failed tables whose settings change, and return them: the change may be what fixes them."""
    changed = {table.table for table in plan.tables if table.settings}
    now = epoch_ms()
    failed = [
        state.table for state in ledger.tables.all() if state.table in changed and (state.backoff_until or 0) > now
    ]
    for table in failed:
        ledger.tables.end_backoff(table)
    return tuple(sorted(failed))


def _wake(target: Target, unparked: Unparked, changed: tuple[str, ...]) -> frozenset[str]:
    """Wake the lanes of unparked objects, and the `changed` lanes with pending objects: they may be claimable now."""
    lanes = set(unparked.lanes) | {lane for lane in changed if target.ledger.pending.oldest(lane, 1)}
    for lane in sorted(lanes):
        target.ledger.lanes.wake(lane)
    if lanes:
        supervise_now(target)
    return frozenset(lanes)


def say_remarks(warnings: Iterable[str], notes: Iterable[str]) -> None:
    """Say warnings and notes about a configuration on stderr."""
    for warning in warnings:
        say(f"warning: {warning}")
    for note in notes:
        say(f"note: {note}")


def _print(plan: Plan, *, refusals: bool) -> None:
    for line in lines_of(plan, refusals=refusals):
        print_line(visible(line))
