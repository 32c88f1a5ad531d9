"""Changes that lose though they are later, in every way of a merge; and what loses in the ordinary course of things."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import Workbench, params, table

from sluice.batch.kafka_watch import KafkaWatch
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import Outcome
from sluice.config.table import TableConfig

MB = 1024**2
TEXT = ["null", "string"]
SCHEMA = flattened({"id": "int", "name": TEXT})
BY_OFFSET = {**SCHEMA, "fields": [field for field in SCHEMA["fields"] if field["name"] != "__lsn"]}
# Small parts go through the driver by Arrow, those of tables with a history or in tasks through Spark.
EVERY = (("cow", "driver"), ("mor", "tasks"), ("mor", "driver"), ("cow", "tasks"), ("cow", "history"))
WAYS = pytest.mark.parametrize(("table_type", "way"), params(EVERY, short={("mor", "driver")}))


def row(op: str, lsn: int, at: int, id: int, name: str | None = "n") -> dict[str, Any]:
    return {**change(op, lsn, id=id, name=name), "__source_ts_ms": at}


class Story:
    """Batches of one table, each with what the one before it left to be known."""

    def __init__(self, bench: Workbench, table_type: str, way: str, **settings: Any) -> None:
        self.bench = bench.in_tasks() if way == "tasks" else bench
        self.config = table(table_type=table_type, history=way == "history", **settings)
        self.after: Outcome | None = None

    def put(
        self, changes: Sequence[Mapping[str, Any]], offset: int, schema: Mapping[str, Any] = SCHEMA, partition: int = 0
    ) -> ManifestObject:
        key = f"topics/t/partition={partition}/t+{partition}+{offset:010d}.avro"
        made = self.bench.put(changes, schema, offset=offset, key=key)
        return dataclasses.replace(made, kafka_partition=partition)

    def merge(self, *objects: ManifestObject, config: TableConfig | None = None) -> int:
        """Merge a batch; the number of later changes that it lost, which a note tells."""
        outcome = self.bench.merge(config or self.config, objects, after=self.after)
        assert not outcome.quarantined and not outcome.parked
        lost = outcome.counts.get("outdated", 0)
        told = [note for note in outcome.notes if "generation" in note]
        assert set(told) <= {fields.get("note") for name, fields in self.bench.events.seen if name == "noted"}
        assert len(told) == (lost > 0) and all(self.config.table in note for note in told)
        # A batch that commits nothing keeps the table's last instant.
        instant = outcome.instant or (self.after.instant if self.after is not None else None)
        self.after = dataclasses.replace(outcome, instant=instant)
        return lost

    @property
    def lost(self) -> int:
        assert self.after is not None
        return KafkaWatch.from_dict(self.after.watch).lost_under(self.config.generation)

    def names(self) -> dict[int, str]:
        rows = self.bench.rows(self.config, "id", "name", "__deleted")
        return {id: name for id, name, deleted in rows if not deleted}


@WAYS
def test_a_log_that_fell_a_little_is_noted_from_the_first_lost_change_on(
    bench: Workbench, table_type: str, way: str
) -> None:
    story = Story(bench, table_type, way)
    log = 3_000 * MB
    first = story.put([row("r", log, 1, id) for id in range(1, 21)], 0)
    assert story.merge(first) == 0
    assert story.merge(story.put([row("u", log + 400 * MB + id, 1_000, id, "after") for id in (1, 2, 3)], 20)) == 0
    # Restored to an earlier place: one of many changes loses.
    newer = [row("u", log + 112 * MB, 91_000, id) for id in range(5, 15)]
    fallen = story.put([row("u", log + 111 * MB, 91_000, 2, "restored"), *newer], 45)
    assert (story.merge(fallen), story.lost) == (1, 1)
    assert story.names()[2] == "after"
    # The snapshot that the connector reads there.
    again = story.put([row("r", log + 110 * MB, 90_000, id, "old") for id in range(1, 21)], 23)
    assert (story.merge(again), story.lost) == (3, 4)
    assert story.merge(story.put([row("u", log + 500 * MB, 95_000, 9)], 60)) == 0 and story.lost == 4
    raised = dataclasses.replace(story.config, generation=1)
    assert story.merge(story.put([row("u", log + 120 * MB, 96_000, 2, "new")], 61), config=raised) == 0
    story.config = raised
    assert story.lost == 0 and story.names()[2] == "new"


@pytest.mark.whole
@WAYS
def test_what_loses_in_the_ordinary_course_of_things_is_not_noted(bench: Workbench, table_type: str, way: str) -> None:
    story = Story(bench, table_type, way)
    late = story.put([row("u", 150, 3, 1, "late")], 5)
    sent = [row("u", 201, 10, 1, "a"), row("u", 202, 20, 1, "b"), row("u", 203, 30, 2, "c"), row("u", 204, 40, 2, "d")]
    first = story.put([row("r", 100, 1, id) for id in range(1, 9)], 0)
    streamed = story.put(sent, 10)
    assert story.merge(first, streamed) == 0
    # The connector sends again what it sent before a crash, and the batch ends in the middle of it.
    assert story.merge(story.put([sent[0], sent[2]], 14)) == 0
    assert story.merge(story.put(sent, 16)) == 0
    assert story.merge(late) == 0
    rewritten = story.put(sent[:3], 10), story.put([*sent, row("u", 205, 50, 3)], 10)  # by the sink
    assert story.merge(*rewritten) == 0
    assert story.merge(dataclasses.replace(streamed, attempt=1, first_batch="before")) == 0
    # Snapshots: where the log stands, at the place that was confirmed, and incremental ones without a place.
    assert story.merge(story.put([row("r", 300, 60, id, "s") for id in (1, 2)], 30)) == 0
    assert story.merge(story.put([row("r", 203, 70, id, "s") for id in (1, 2)], 40)) == 0
    no_place = [{**row("r", 0, 80, id, "i"), "__lsn": None} for id in (1, 2)]
    assert story.merge(story.put(no_place, 50)) == 0
    # A retry of an object of an earlier generation.
    raised = dataclasses.replace(story.config, generation=1)
    assert story.merge(story.put([row("u", 50, 90, 1, "next")], 60), config=raised) == 0
    assert story.merge(story.put([row("u", 400, 95, 1, "retried")], 61)) == 0
    assert story.names()[1] == "next"


@WAYS
def test_a_first_load_with_the_fall_in_it_is_noted_and_a_sound_one_not(
    bench: Workbench, table_type: str, way: str
) -> None:
    sound = Story(bench, table_type, way, name="sound")
    again = [row("u", 201, 10, 1), row("u", 202, 20, 1)]
    objects = [sound.put([row("r", 100, 1, 1), *again, *again], 0), sound.put([row("u", 210, 30, 1)], 5)]
    assert sound.merge(*objects) == 0
    story = Story(bench, table_type, way)
    before = story.put([row("u", 400, 10, id, "before") for id in (1, 2, 3)], 0)
    behind = story.put([row("u", 300, 20, 1, "behind"), row("u", 450, 30, 2, "on")], 3)
    assert story.merge(before, behind) == 1
    assert story.names() == {1: "before", 2: "on", 3: "before"}


@WAYS
def test_keys_in_other_partitions_and_topics_made_anew_are_noted_by_times(
    bench: Workbench, table_type: str, way: str
) -> None:
    story = Story(bench, table_type, way)

    def put(at: int | None, offset: int, ids: Sequence[int], partition: int = 0) -> ManifestObject:
        rows = [{**row("u", 0, 0, id, f"{partition}-{offset}"), "__source_ts_ms": at} for id in ids]
        return story.put(rows, offset, BY_OFFSET, partition)

    late, at_first = put(95, 100, [1]), put(10, 90, range(1, 10))
    assert story.merge(at_first, put(100, 110, [1, 2, 3])) == 0
    assert story.merge(late) == story.merge(put(10, 90, range(1, 10))) == 0
    # A partition more: keys come in another one, at lower offsets.
    assert (story.merge(put(200, 0, [1, 2], 1)), story.lost) == (2, 2)
    assert story.merge(put(200, 0, [1, 2], 1)) == 2  # again
    # The topic made anew: offsets from zero in the same partition.
    assert story.merge(put(300, 0, [3, 20])) == 1
    assert story.names()[3] == "0-110"


@pytest.mark.whole  # the test above has the same with times
@WAYS
def test_keys_in_other_partitions_and_topics_made_anew_are_noted_without_times(
    bench: Workbench, table_type: str, way: str
) -> None:
    story = Story(bench, table_type, way)
    fields = [{"name": "id", "type": "int"}, {"name": "name", "type": TEXT}]
    schema = {"type": "record", "name": "Row", "fields": fields}

    def put(offset: int, ids: Sequence[int], partition: int = 0, name: str = "n") -> ManifestObject:
        return story.put([{"id": id, "name": name} for id in ids], offset, schema, partition)

    late = put(5, [2, 3])
    first = [put(0, [1, 2, 3, 4, 5]), put(10, [1, 2])]
    assert story.merge(*first) == story.merge(late) == 0
    assert story.merge(put(0, [1, 2, 3, 4, 5])) == 0  # rewritten
    assert story.merge(put(0, [1, 2, 3, 4, 5, 8])) == 0  # and grown
    assert story.merge(put(0, [1, 9], 1, "moved")) == 1
    assert story.merge(put(0, [3, 1], name="anew")) == 2
    assert story.names()[1] == "n" and story.names()[9] == "moved"


def test_the_clock_of_the_connector_is_no_time_of_the_source(bench: Workbench) -> None:
    renamed = json.loads(json.dumps(SCHEMA).replace("__source_ts_ms", "__ts_ms"))
    story = Story(bench, "cow", "driver")

    def put(lsn: int, at: int, offset: int) -> ManifestObject:
        made = {**row("u", lsn, 0, 1), "__ts_ms": at}
        return story.put([{name: value for name, value in made.items() if name != "__source_ts_ms"}], offset, renamed)

    loaded = story.put([row("r", 100, 1, id) for id in range(2, 9)], 9)
    assert story.merge(put(201, 10, 0), put(202, 20, 1), loaded) == 0
    others = story.put([row("u", 300 + id, 1, id) for id in range(2, 9)], 40)
    assert story.merge(put(201, 30, 20), others) == 0
