"""The timeline after a run's own commit, compared with the one before it."""

from types import SimpleNamespace

import pytest
from support.workbench import table

from sluice.errors import TableWentBack
from sluice.hudi.timeline import Timeline
from sluice_spark.hudi.came_back import LATE_WRITER_MS, rolled_back_lately, strangers
from sluice_spark.hudi.facts import CommitResult, TableFacts
from sluice_spark.merge.commit import looked_at_again

OWN, EARLIER, LATE = "20240501101500009", "20240501101500001", "20240501101500005"
AT_MS = 1_714_558_500_003  # the instant of the roll-back


def facts(*names: str) -> TableFacts:
    return TableFacts(None, None, 0, timeline=Timeline.of(names))


def test_a_table_that_loses_its_commits_during_a_write_is_an_error():
    part = SimpleNamespace(config=table("user"))
    result = CommitResult(OWN, facts=facts(f"{OWN}.commit"))
    with pytest.raises(TableWentBack, match=EARLIER):
        looked_at_again(part, result, facts(f"{EARLIER}.commit"))


@pytest.mark.parametrize(
    ("merge_on_read", "late", "others"),
    [(False, "commit", [LATE]), (True, "deltacommit", [LATE]), (True, "commit", []), (False, "rollback", [])],
    ids=["commit", "delta commit", "compaction in the same write", "roll-back"],
)
def test_only_another_writers_commit_is_a_stranger(merge_on_read, late, others):
    kind = "deltacommit" if merge_on_read else "commit"
    before = facts(f"{EARLIER}.{kind}")
    after = facts(f"{EARLIER}.{kind}", f"{LATE}.{late}", f"{OWN}.{kind}")
    assert strangers(before, after, OWN, merge_on_read=merge_on_read) == others


def test_a_table_is_looked_at_before_each_commit_for_an_hour_after_a_roll_back():
    table_facts = facts(f"{EARLIER}.commit", "20240501101500003.rollback")
    assert rolled_back_lately(table_facts, AT_MS + LATE_WRITER_MS)
    assert not rolled_back_lately(table_facts, AT_MS + LATE_WRITER_MS + 1)
    assert not rolled_back_lately(facts(f"{EARLIER}.commit"), AT_MS)
