"""Many small all-or-nothing groups written in few transactions: a refused group is taken out, the others go on; a refused guard ends all."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from sluice_aws.ledger_table import LedgerTable, Refusal, TransactionRefused, Values

ACTIONS_LIMIT = 100  # of one TransactWriteItems

Group = Sequence[Values]


class GuardRefused(Exception):
    """The condition that was to hold for every group no longer does: what was not written by then stays unwritten."""


def write_groups(table: LedgerTable, groups: Sequence[Group], *, guard: Optional[Values] = None) -> Dict[int, Refusal]:
    """Write every group (the actions that belong to one object) whose conditions hold, packed and in parallel.

    Gives the refusals by the group's position. Groups share a transaction only to save calls: which
    of them are written together means nothing, and each is idempotent by its own condition.
    `guard` is a check that stands in every transaction; GuardRefused when it fails.
    Raises LedgerBusy; what was written until then stays and a repetition is refused harmlessly.
    """
    guards = [] if guard is None else [guard]
    refused: Dict[int, Refusal] = {}
    for answer in table.map(
        lambda chunk: _write_chunk(table, chunk, guards), _chunks(groups, ACTIONS_LIMIT - len(guards))
    ):
        refused.update(answer)
    return refused


def _chunks(groups: Sequence[Group], limit: int) -> List[List[Tuple[int, Group]]]:
    chunks: List[List[Tuple[int, Group]]] = []
    room = 0
    for position, group in enumerate(groups):
        if not chunks or room < len(group):
            chunks.append([])
            room = limit
        chunks[-1].append((position, group))
        room -= len(group)
    return chunks


def _write_chunk(table: LedgerTable, chunk: List[Tuple[int, Group]], guards: List[Values]) -> Dict[int, Refusal]:
    refused: Dict[int, Refusal] = {}
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
