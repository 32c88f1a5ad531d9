"""`sluice verify`: whether a table's rows are what its bronze objects say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.changes.outdated import outdated_note
from sluice.names import shortened
from sluice_cli.account.steps import entries
from sluice_cli.account.table import written_again
from sluice_cli.terminal.guard import shell_text, visible
from sluice_cli.terminal.interaction import counting
from sluice_cli.terminal.known_names import known_table
from sluice_cli.terminal.options import Json, Stack, TableName, option
from sluice_cli.terminal.output import described_documents, key_in_line, print_json, print_line, say_skipped
from sluice_cli.terminal.rows import cell
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.words import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sluice.changes.row_history import Row
    from sluice_cli.trace.verification import Disagreement, Verified

SHOWN = 10
KEY_CHARACTERS = 80
_MEANS = {
    "lost": "the table lacks the row",
    "back": "the table has a row that is deleted, or that no object has",
    "other_position": "the table has another change of the row",
    "other_values": "the table has other values",
    "other_owed": "the table waits for other columns of it",
    "twice": "the table has it twice",
    "no_tombstone": "it was deleted, and the table lacks the hidden row that keeps older changes out",
    "no_history": "the history table lacks a change of it",
}


def verify(
    table: TableName,
    sample: Annotated[
        int | None, option("--sample N", "Compare about N keys, chosen by a hash. Default: all.", min=1)
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Prove a table by its content: merge its bronze objects again, without Spark, and compare every row.

    Each key's changes are folded by the definition that the merge follows, and compared with the table as hudi-rs reads
    it as of its last batch. All of the table's objects are read, with --sample too. The whole table takes one pass over
    them for every 100,000 rows. Rows whose objects are gone from bronze can't be proven. Rows and objects
    of the table that are in quarantine are not compared: their number stands below the verdict.

    A row that differs is listed with its key and the columns whose values differ. If `columns` or `expect` of the
    table's rule changed and its objects were replayed, differences are expected: the output says so.

    The exit code is 1 if a row differs, if a later change lost, or if an object or a document could not be read.

    Examples:

      sluice verify crm.user
      sluice verify crm.user --sample 1000 --json | jq '.disagreements'
    """
    # Arrow and the job's readers take as long to load as all the rest.
    from sluice_cli.trace.verification import Verification

    target = chosen_target(stack)
    with known_table(target, table), counting(as_json) as tick:
        verified = Verification(target, tick=tick).run(table, sample)
    say_skipped(verified.skipped)
    if as_json:
        print_json(document_of(verified))
    else:
        _print(verified)
    if not verified.proven:
        raise typer.Exit(1)


def document_of(verified: Verified) -> dict[str, Any]:
    """The JSON form of a result."""
    return {
        "table": verified.table,
        "instant": verified.instant,
        "proven": verified.proven,
        "one_key_in": verified.share,
        **{name: getattr(verified, name) for name in ("keys", "rows", "objects", "changes")},
        "disagreements": [
            {
                "key": list(row.key),
                "kind": row.kind,
                "found": _MEANS[row.kind],
                "columns": list(row.columns),
                "rule_changed": list(row.changed),
                "expected": described_row(row.expected, verified.concealed),
                "stored": described_row(row.stored, verified.concealed),
            }
            for row in verified.disagreements
        ],
        "outdated": [list(key) for key in verified.outdated],
        "owing": [{"key": list(key), "columns": list(names)} for key, names in verified.owing],
        "missing_floors": list(verified.floors),
        "unread": [{"key": key, "code": code} for key, code in verified.unread],
        "quarantined": {"objects": verified.quarantined.objects, "rows": verified.quarantined.rows},
        "skipped_documents": described_documents(verified.skipped),
    }


def _said(row: Disagreement) -> str:
    """Describes a wrong row, with the columns that differ."""
    names = [visible(name) for name in row.columns]
    if len(names) > SHOWN:
        names[SHOWN:] = [f"{len(names) - SHOWN:,} more"]
    *others, last = names or [""]
    listed = f"{', '.join(others)} and {last}" if others else last
    differ = f"{listed} {'differ' if others else 'differs'}" if names else ""
    return ": ".join(filter(None, (_MEANS[row.kind], differ)))


def _print_verdict(verified: Verified) -> None:
    table, number = visible(verified.table), len(verified.disagreements)
    changed = [row for row in verified.disagreements if row.changed]
    settings = " and ".join(f"`{name}`" for name in sorted({name for row in changed for name in row.changed}))
    share = "" if number == len(changed) == 1 else "all " if number == len(changed) else f"{len(changed):,} of them "
    why = f", {share}explained by the changed {settings} of the table's rule" if changed else ""
    print_line(f"{counted(number, 'row differs', 'rows differ')}{why}")
    print_line(written_again(table, traced=number != len(changed)))


def _print(verified: Verified) -> None:
    table = visible(verified.table)
    part = "" if verified.share == 1 else f", one key in {verified.share:,}"
    print_line(
        f"{table} as of {verified.instant}{part}: {counted(verified.keys, 'key')} compared, "
        f"{counted(verified.changes, 'change')} in {counted(verified.objects, 'object')}"
    )
    for row in verified.disagreements[:SHOWN]:
        key = shortened(shell_text(map(cell, row.key)), KEY_CHARACTERS)
        print_line(f"row {key}: {_said(row)}", whole=key)
    if len(verified.disagreements) > SHOWN:
        print_line(f"and {len(verified.disagreements) - SHOWN:,} more (--json lists all)")
    for key, code in verified.unread[:SHOWN]:
        print_line(f"unread: {key_in_line(key)}: {code}", whole=key_in_line(key))
    if len(verified.unread) > SHOWN:
        print_line(f"unread: and {len(verified.unread) - SHOWN:,} more (--json lists all)")
    for owing, names in verified.owing[:SHOWN]:
        key_shown = shortened(shell_text(map(cell, owing)), KEY_CHARACTERS)
        print_line(f"row {key_shown}: no object brought its {', '.join(map(visible, names))}")
    for floor in verified.floors:
        print_line(f"the table's properties lack {floor}, and older changes can come back: {written_again(table)}")
    for outdated in verified.outdated[:SHOWN]:
        print_line(f"row {shortened(shell_text(map(cell, outdated)), KEY_CHARACTERS)}: a later change of it lost")
    if verified.outdated or verified.lost:
        print_line(outdated_note(verified.table, len(verified.outdated) or verified.lost))
    if verified.disagreements:
        _print_verdict(verified)
    elif verified.proven:
        print_line("every row is what its objects say")
    elif not verified.read_all:
        print_line("not proven: not everything could be read")
    aside = verified.quarantined
    if aside.objects or aside.rows:
        print_line(f"in quarantine, and not in the table: {aside.described}: {entries('--table', table)}")


def described_row(row: Row | None, concealed: frozenset[str] = frozenset()) -> Mapping[str, object] | None:
    """The JSON form of a row, without the values of `concealed` columns (in lower case)."""
    if row is None:
        return None
    shown = {name: value for name, value in row.values.items() if name.lower() not in concealed}
    return {"position": row.position, "deleted": row.deleted, "values": shown}
