"""The objects that complete full dumps, through whole runs: claimed once their dumps are whole, never before."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from driving.lane import LANE, SimulatedLane, configuration

from sluice.config.rules.snapshot import FOLDER, GENERATION, MARKER, OBJECT, SnapshotRule
from sluice.config.rules.table_rule import TableRule
from sluice.ledger import keys as items
from sluice.ledger.records import AdmittedObject
from sluice.objects import ObjectId

TABLE, SECOND, DAY = "shop.prices", 1_764_000_000_000, 86_400_000
_numbers = itertools.count(1)


class World:
    """A lane with one table of full dumps."""

    def __init__(self, client: Any, dumps: str, most_deleted: int = 50, marker: str = MARKER, **lane: Any) -> None:
        snapshot = SnapshotRule(dumps, marker, most_deleted)
        settings: Any = {"topic": "prices", "freshness_s": 0, "key_pattern": "drop/.*"}
        self.rule = TableRule(TABLE, record_key=("id",), snapshot=snapshot, **settings)
        self.lane = SimulatedLane(client, configuration(rules=[self.rule], linger_s=2, **lane))

    def put(self, key: str, at: int, *, admit: bool = True) -> ObjectId:
        """An object in bronze; without `admit` its notification is late."""
        number = next(_numbers)
        id = ObjectId("bronze", f"drop/{key}", f"v{number}")
        self.lane.bronze[id] = at
        if admit:
            self.admit(id)
        return id

    def admit(self, id: ObjectId, state: str = items.PENDING, cohort: str | None = None) -> None:
        lane = self.lane
        facts = {"table": TABLE, "lane": LANE, "topic": "prices", "modified_at": lane.bronze[id], "cohort": cohort}
        facts |= {
            "size": 9,
            "format": "marker" if id.key.endswith("_SUCCESS") else "csv",
            "via": "s3",
            "code": "corrupt",
        }
        lane.ledger.objects.admit(AdmittedObject(id, state, lane.clock.now_ms(), **facts))
        lane.ledger.lanes.wake(LANE)

    def run(self) -> None:
        self.lane.run()

    @property
    def replacing(self) -> list[tuple[str, str]]:
        """The objects that brought a truncate, in the order of their batches, and from where on."""
        batches = sorted(self.lane.documents.some_of(LANE, 99), key=lambda batch: (batch.created_at, batch.run))
        return [(item.key, item.replaces) for batch in batches for item in batch.objects if item.replaces is not None]


def place(at: int) -> str:
    return f"t{at // 1000:011d}"


def test_a_marker_is_claimed_with_the_last_files_of_its_folder(client: Any) -> None:
    world = World(client, FOLDER)
    first = world.put("1/a.csv", SECOND)
    world.run()
    assert world.lane.state_of(first) == "committed" and not world.replacing
    world.put("1/b.csv", SECOND + 5_000)
    ends = world.put("1/_SUCCESS", SECOND + 9_000)
    world.put("2/a.csv", SECOND + DAY)  # of another dump
    world.run()
    assert world.replacing == [("drop/1/_SUCCESS", place(SECOND))]
    assert world.lane.state_of(ends) == "committed"
    assert set(world.lane.tables.times_committed().values()) == {1}


def test_a_marker_waits_for_a_file_whose_notification_is_late(client: Any) -> None:
    world = World(client, FOLDER)
    late = world.put("1/a.csv", SECOND, admit=False)
    ends = world.put("1/_SUCCESS", SECOND + 9_000)
    world.run()
    state = world.lane.ledger.tables.get(TABLE)
    assert world.lane.state_of(ends) == "pending" and not world.replacing
    assert "waits for 1 of its objects, such as drop/1/a.csv" in (state.last_error or "")
    assert world.lane.ledger.lanes.get(LANE).due_at == state.backoff_until
    world.admit(late)
    world.lane.live_on(3)
    assert world.replacing == [("drop/1/_SUCCESS", place(SECOND))]
    assert world.lane.state_of(ends) == "committed" and world.lane.ledger.tables.get(TABLE).last_error is None


def test_a_file_that_was_discarded_is_not_waited_for(client: Any) -> None:
    world = World(client, FOLDER)
    world.admit(world.put("1/a.csv", SECOND, admit=False), items.IGNORED)
    world.put("1/_SUCCESS", SECOND + 9_000)
    world.run()
    assert world.replacing == [("drop/1/_SUCCESS", place(SECOND))]


@pytest.mark.parametrize("trouble", ["quarantined", "empty"])
def test_a_marker_is_refused_that_can_not_become_complete(client: Any, trouble: str) -> None:
    world = World(client, FOLDER)
    if trouble == "quarantined":
        world.admit(world.put("1/a.csv", SECOND, admit=False), items.QUARANTINED)
    good = world.put("2/a.csv", SECOND + DAY)
    ends = world.put("1/_SUCCESS", SECOND + 9_000)
    world.run()
    record = world.lane.record(ends)
    assert (record.state, record.code) == ("quarantined", "dump_incomplete")
    assert ("drop/1/a.csv is quarantined" if trouble == "quarantined" else "has no files") in (record.reason or "")
    assert world.lane.state_of(good) == "committed" and not world.replacing


def test_an_empty_folder_replaces_from_its_marker_on_where_that_is_allowed(client: Any) -> None:
    world = World(client, FOLDER, most_deleted=100)
    world.put("1/_SUCCESS", SECOND + 9_000)
    world.run()
    assert world.replacing == [("drop/1/_SUCCESS", place(SECOND + 9_000))]


def test_an_object_that_is_a_whole_dump_replaces_from_its_own_place_on(client: Any) -> None:
    world = World(client, OBJECT)
    world.put("1.csv", SECOND)
    world.put("2.csv", SECOND + DAY)
    world.run()
    assert [at.split(".")[0] for _, at in world.replacing] == [place(SECOND), place(SECOND + DAY)]


@pytest.mark.parametrize("state", [items.QUARANTINED, items.PARKED])
def test_a_generation_ends_with_its_marker_unless_an_object_is_set_aside(client: Any, state: str) -> None:
    world = World(client, GENERATION)
    world.put("x/a.csv", SECOND)
    world.put("_SUCCESS", SECOND + 9_000)
    world.run()
    assert world.replacing == [("drop/_SUCCESS", "")]
    world.admit(world.put("x/b.csv", SECOND, admit=False), state)
    again = world.put("_SUCCESS", SECOND + 19_000)
    world.run()
    assert world.lane.state_of(again) == "quarantined" and len(world.replacing) == 1


@pytest.mark.parametrize("by_marker", [True, False])
def test_a_dump_of_two_generations_deletes_none_of_its_own_rows(client: Any, by_marker: bool) -> None:
    world = World(client, FOLDER, marker=MARKER if by_marker else "")
    world.put("1/a.csv", SECOND)
    world.run()
    raised = replace(world.rule, generation=1)
    world.lane.file.content = configuration(rules=[raised], linger_s=2)
    if by_marker:
        world.put("1/b.csv", SECOND + 5_000)
    ends = world.put("1/_SUCCESS" if by_marker else "2/a.csv", SECOND + DAY)
    world.run()
    assert world.lane.state_of(ends) == ("quarantined" if by_marker else "committed") and not world.replacing
    assert "drop/1/a.csv was merged under an earlier" in world.lane.events("dump_refused")[0]["error"]
    again = [world.put(f"1/{name}", SECOND + 2 * DAY) for name in ("a.csv", "b.csv", "_SUCCESS") if by_marker]
    world.lane.bronze = {id: at for id, at in world.lane.bronze.items() if at >= SECOND + DAY and id != ends}
    world.run()
    assert world.lane.states(again) == ({"committed": 3} if by_marker else {})
    assert bool(world.replacing) is by_marker


def test_a_folder_without_markers_is_complete_once_a_later_one_begins(client: Any) -> None:
    world = World(client, FOLDER, marker="")
    world.put("1/a.csv", SECOND)
    late = world.put("1/b.csv", SECOND + 5_000, admit=False)
    world.run()
    assert not world.replacing
    first = world.put("2/a.csv", SECOND + DAY)
    world.run()
    assert world.lane.state_of(first) == "pending"  # until the day before is there
    world.admit(late)
    world.lane.live_on(3)
    assert world.replacing == [("drop/2/a.csv", place(SECOND))]
    world.put("2/b.csv", SECOND + DAY + 1_000)  # not the first of its day any more
    world.run()
    assert len(world.replacing) == 1


def test_a_folder_with_a_quarantined_file_deletes_nothing_and_stops_no_later_one(client: Any) -> None:
    world = World(client, FOLDER, marker="")
    world.admit(world.put("1/a.csv", SECOND, admit=False), items.QUARANTINED)
    first = world.put("2/a.csv", SECOND + DAY)
    world.run()
    assert world.lane.state_of(first) == "committed" and not world.replacing
    assert "drop/1/a.csv is quarantined" in world.lane.events("dump_refused")[0]["error"]
    world.put("3/a.csv", SECOND + 2 * DAY)
    world.run()
    assert world.replacing == [("drop/3/a.csv", place(SECOND + DAY))]


def test_a_marker_waits_for_no_object_that_the_budget_leaves_behind_it(client: Any) -> None:
    world = World(client, FOLDER, batch_objects=1)
    ends = world.put("1/_SUCCESS", SECOND + 9_000)
    world.lane.clock.advance(1_000)
    files = [world.put(f"1/{name}.csv", SECOND) for name in "ab"]
    world.lane.live_on(3)
    assert world.lane.states([ends, *files]) == {"committed": 3}
    assert world.replacing == [("drop/1/_SUCCESS", place(SECOND))]


def test_a_marker_that_is_merged_alone_does_not_wait(client: Any) -> None:
    world = World(client, FOLDER)
    world.put("1/a.csv", SECOND, admit=False)
    ends = world.put("1/_SUCCESS", SECOND + 9_000, admit=False)
    world.admit(ends, cohort="1-1-0")
    world.run()
    record = world.lane.record(ends)
    assert (record.state, record.code) == ("quarantined", "dump_incomplete")
