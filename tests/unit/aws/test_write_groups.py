"""Transactions that check one item come one after the other: on DynamoDB they would conflict."""

import pytest

from sluice_aws.ledger.groups import GuardRefused, write_groups
from sluice_aws.ledger.table import Refusal, TransactionRefused


class RecordingTable:
    """Transactions as they come, and whether they were handed to threads."""

    def __init__(self, *refused):
        self.transactions, self.in_threads, self._refused = [], False, list(refused)

    def map(self, function, arguments):
        self.in_threads = True
        return [function(argument) for argument in arguments]

    def transact(self, actions):
        self.transactions.append(list(actions))
        if self._refused:
            raise TransactionRefused(self._refused.pop(0))


GROUPS = [[{"Put": n}, {"Delete": n}] for n in range(120)]


def test_guarded_transactions_are_written_one_after_the_other():
    table = RecordingTable()
    assert write_groups(table, GROUPS, guard={"ConditionCheck": "lane"}) == {}
    assert not table.in_threads
    assert [actions[0] for actions in table.transactions] == [{"ConditionCheck": "lane"}] * 3
    assert max(map(len, table.transactions)) <= 100
    assert sum(len(actions) - 1 for actions in table.transactions) == 240


def test_nothing_follows_a_refused_guard():
    table = RecordingTable({0: Refusal(None)})
    with pytest.raises(GuardRefused):
        write_groups(table, GROUPS, guard={"ConditionCheck": "lane"})
    assert len(table.transactions) == 1


def test_without_a_guard_threads_share_the_transactions():
    table = RecordingTable()
    assert write_groups(table, GROUPS) == {}
    assert table.in_threads and len(table.transactions) == 3


def test_a_tally_sums_up_the_groups_that_its_transaction_writes():
    table = RecordingTable({2: Refusal(None)})
    refused = write_groups(table, GROUPS[:3], tally=lambda positions: [{"Update": list(positions)}])
    assert list(refused) == [1] and not table.in_threads
    assert [actions[-1] for actions in table.transactions] == [{"Update": [0, 1, 2]}, {"Update": [0, 2]}]


def test_a_transaction_has_room_for_a_tally_of_each_of_its_groups():
    table = RecordingTable()
    assert write_groups(table, GROUPS, tally=lambda positions: [{"Update": n} for n in positions]) == {}
    assert max(map(len, table.transactions)) <= 100 and sum(map(len, table.transactions)) == 360
