"""Writes many small all-or-nothing groups in few transactions.

A refused group is left out and the others are written. A refused guard stops everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable

from sluice_aws.ledger.table import LedgerTable, Refusal, TransactionRefused, Values

ACTIONS_LIMIT = 100  # actions of one TransactWriteItems

Group = Sequence[Values]
#: The actions that sum up groups, given by their positions: at most one per group, and without a condition.
Tally = Callable[[Sequence[int]], Sequence[Values]]


class GuardRefused(Exception):
    """The condition that guards every group failed. Groups that were not written before stay unwritten."""


def write_groups(
    table: LedgerTable, groups: Sequence[Group], *, guard: Values | None = None, tally: Tally | None = None
) -> dict[int, Refusal]:
    """Write every group whose conditions hold, several to a transaction, and in parallel unless they share an item.

    A group is the actions that belong to one object, and is idempotent by its own condition. Groups share a
    transaction only to save calls. Returns the refusals by the group's position. `guard` is a check that is part of
    every transaction, and `tally` gives further actions for the groups of each. With either of them transactions are
    written one after the other: those that check or write one item conflict. Raises GuardRefused when the guard fails.
    Raises LedgerBusy: groups that were written stay written, and a repetition refuses them harmlessly.
    """
    guards = [] if guard is None else [guard]
    chunks = _chunks(groups, ACTIONS_LIMIT - len(guards), 0 if tally is None else 1)
    if guard is None and tally is None:
        answers = table.map(lambda chunk: _write_chunk(table, chunk, guards, tally), chunks)
    else:
        answers = [_write_chunk(table, chunk, guards, tally) for chunk in chunks]
    return {position: refusal for answer in answers for position, refusal in answer.items()}


def _chunks(groups: Sequence[Group], limit: int, beside: int) -> list[list[tuple[int, Group]]]:
    """Groups by transaction, of at most `limit` actions, with room for `beside` more for each group."""
    chunks: list[list[tuple[int, Group]]] = []
    room = 0
    for position, group in enumerate(groups):
        if not chunks or room < len(group) + beside:
            chunks.append([])
            room = limit
        chunks[-1].append((position, group))
        room -= len(group) + beside
    return chunks


def _write_chunk(
    table: LedgerTable, chunk: list[tuple[int, Group]], guards: list[Values], tally: Tally | None
) -> dict[int, Refusal]:
    refused: dict[int, Refusal] = {}
    left = list(chunk)
    while left:
        owners = [position for position, group in left for _ in group]
        sums = [] if tally is None else tally([position for position, _ in left])
        try:
            table.transact([*guards, *(action for _, group in left for action in group), *sums])
            return refused
        except TransactionRefused as answer:
            if any(index < len(guards) for index in answer.refusals):
                raise GuardRefused from answer
            for index, refusal in answer.refusals.items():
                refused[owners[index - len(guards)]] = refusal
            left = [(position, group) for position, group in left if position not in refused]
    return refused
