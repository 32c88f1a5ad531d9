"""Many small all-or-nothing groups written in few transactions: a refused group is taken out, the others go on."""
from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from sluice_aws.ledger_table import LedgerTable, Refusal, TransactionRefused, Values

ACTIONS_LIMIT = 100  # of one TransactWriteItems

Group = Sequence[Values]


def write_groups(table: LedgerTable, groups: Sequence[Group]) -> Dict[int, Refusal]:
    """Write every group (the actions that belong to one object) whose conditions hold, packed and in parallel.

    Gives the refusals by the group's position. Groups share a transaction only to save calls: which
    of them are written together means nothing, and each is idempotent by its own condition.
    Raises LedgerBusy; what was written until then stays and a repetition is refused harmlessly.
    """
    refused: Dict[int, Refusal] = {}
    for answer in table.map(lambda chunk: _write_chunk(table, chunk), _chunks(groups)):
        refused.update(answer)
    return refused


def _chunks(groups: Sequence[Group]) -> List[List[Tuple[int, Group]]]:
    chunks: List[List[Tuple[int, Group]]] = []
    room = 0
    for position, group in enumerate(groups):
        if not chunks or room < len(group):
            chunks.append([])
            room = ACTIONS_LIMIT
        chunks[-1].append((position, group))
        room -= len(group)
    return chunks


def _write_chunk(table: LedgerTable, chunk: List[Tuple[int, Group]]) -> Dict[int, Refusal]:
    refused: Dict[int, Refusal] = {}
    left = list(chunk)
    while left:
        owners = [position for position, group in left for _ in group]
        try:
            table.transact([action for _, group in left for action in group])
            return refused
        except TransactionRefused as answer:
            for index, refusal in answer.refusals.items():
                refused[owners[index]] = refusal
            left = [(position, group) for position, group in left if position not in refused]
    return refused
