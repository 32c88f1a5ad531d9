"""Writes many small all-or-nothing groups in few transactions.

A refused group is left out and the others are written. A refused guard stops everything.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice_aws.ledger.table import LedgerTable, Refusal, TransactionRefused, Values

ACTIONS_LIMIT = 100  # actions of one TransactWriteItems

Group = Sequence[Values]


class GuardRefused(Exception):
    """The condition that guards every group failed. Groups that were not written before stay unwritten."""


def write_groups(table: LedgerTable, groups: Sequence[Group], *, guard: Values | None = None) -> dict[int, Refusal]:
    """Write every group whose conditions hold, several to a transaction, and without a guard in parallel.

    A group is the actions that belong to one object, and is idempotent by its own condition. Groups share a
    transaction only to save calls. Returns the refusals by the group's position. `guard` is a check that is part of
    every transaction, so these are written one after the other: transactions that check one item conflict. Raises
    GuardRefused when it fails. Raises LedgerBusy: groups that were written stay written, and a repetition refuses them
    harmlessly.
    """
    guards = [] if guard is None else [guard]
    chunks = _chunks(groups, ACTIONS_LIMIT - len(guards))
    if guard is None:
        answers = table.map(lambda chunk: _write_chunk(table, chunk, guards), chunks)
    else:
        answers = [_write_chunk(table, chunk, guards) for chunk in chunks]
    return {position: refusal for answer in answers for position, refusal in answer.items()}


def _chunks(groups: Sequence[Group], limit: int) -> list[list[tuple[int, Group]]]:
    chunks: list[list[tuple[int, Group]]] = []
    room = 0
    for position, group in enumerate(groups):
        if not chunks or room < len(group):
            chunks.append([])
            room = limit
        chunks[-1].append((position, group))
        room -= len(group)
    return chunks


def _write_chunk(table: LedgerTable, chunk: list[tuple[int, Group]], guards: list[Values]) -> dict[int, Refusal]:
    refused: dict[int, Refusal] = {}
    left = list(chunk)
    while left:
        owners = [position for position, group in left for _ in group]
        try:
            table.transact([*guards, *(action for _, group in left for action in group)])
            return refused
        except TransactionRefused as answer:
            if any(index < len(guards) for index in answer.refusals):
                raise GuardRefused from answer
            for index, refusal in answer.refusals.items():
                refused[owners[index - len(guards)]] = refusal
            left = [(position, group) for position, group in left if position not in refused]
    return refused
