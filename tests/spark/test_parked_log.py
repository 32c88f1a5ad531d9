"""A batch is checked before any of it is committed.

Objects of a log that started again are parked; records under two keys are refused.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.builders import change, flattened
from support.workbench import Workbench, table

from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import Outcome
from sluice.changes.hidden_columns import ROW
from sluice.changes.log_restart import LOG_RESTARTED

SCHEMA = flattened({"id": ["null", "long"], "name": ["null", "string"]})
HIGH, LOW = 40 * 1024**3, 30 * 1024**2
MINUTE = 60_000


def put(bench: Workbench, offset: int, *changes: dict[str, Any]) -> ManifestObject:
    """An object whose changes were made at its offset's minute."""
    return bench.put([{**values, "__source_ts_ms": offset * MINUTE} for values in changes], SCHEMA, offset=offset)


def test_objects_of_a_restarted_log_are_parked_until_the_generation_is_raised(bench: Workbench) -> None:
    config = table()
    old = [change("c", HIGH, id=1, name="old"), change("c", HIGH + 10, id=2, name="old")]
    first = bench.merge(config, [put(bench, 100, *old)])
    late = put(bench, 50, change("c", HIGH - 99, id=3, name="late"))
    new = [change("u", LOW + 5, id=1, name="new"), change("c", LOW + 6, id=None, name="no key")]
    restarted = put(bench, 200, change("t", LOW, id=None, name=None), *new)
    batch = bench.manifest(config, [late, restarted], after=first)
    outcome = bench.merge_manifest(batch, config)
    assert [(error.object, error.code) for error in outcome.parked] == [(restarted.id.hash, LOG_RESTARTED)]
    assert (outcome.parked_generation, outcome.counts["parked_objects"]) == (0, 1)
    assert outcome.quarantined == outcome.quarantined_rows == ()
    assert "raise the table's `generation`" in outcome.parked[0].reason and outcome.parked[0].reason in outcome.notes[0]
    assert bench.rows(config, "id", "name") == [(1, "old"), (2, "old"), (3, "late")]
    resolved = bench.resolve(batch, config)  # as a take-over finds it that knows of no outcome
    assert resolved is not None and (resolved.parked, resolved.parked_generation) == (outcome.parked, 0)
    again = put(bench, 300, change("u", HIGH + 2 * 1024**3, id=1, name="the new log has grown"))
    waits = bench.merge(config, [again], after=Outcome.from_json(outcome.to_json()))
    assert (waits.state, waits.no_change) == ("committed", True)
    assert [error.object for error in waits.parked] == [again.id.hash]
    raised = table(generation=1)
    freed = bench.merge(raised, [restarted, again], after=waits)
    assert (freed.parked, freed.counts["quarantined_rows"]) == ((), 1)
    assert bench.rows(raised, "id", "name", "__deleted") == [
        (1, "the new log has grown", False),
        (2, None, True),
        (3, None, True),
    ]


@pytest.mark.whole
def test_a_change_that_a_parked_object_overtakes_is_committed(bench: Workbench) -> None:
    config = table()
    first = bench.merge(config, [put(bench, 100, change("c", HIGH, id=1, name="old"))])
    overtaken = put(bench, 50, change("c", LOW - 99, id=3, name="kept"))
    restarted = put(bench, 200, change("u", LOW, id=3, name="of the new log"))

    outcome = bench.merge(config, [overtaken, restarted], after=first)

    assert [error.object for error in outcome.parked] == [restarted.id.hash]
    assert (outcome.counts["read"], outcome.counts["overtaken"], outcome.counts["winning"]) == (1, 0, 1)
    assert [stage.name for stage in outcome.stages].count("read") == 3  # once to see that Arrow can't load it
    assert bench.rows(config, "id", "name") == [(1, "old"), (3, "kept")]


@pytest.mark.whole
def test_records_under_two_keys_of_an_append_only_table_are_refused_by_offsets(bench: Workbench) -> None:
    log = table("log", record_key=(ROW,), append_only=True)

    def lines(offset: int, *values: int) -> ManifestObject:
        body = "".join(json.dumps({"a": value}) + "\n" for value in values).encode()
        key = f"topics/src.public.log/src.public.log+0+{offset:010d}.json"
        return bench.put_bytes(body, key=key, offset=offset, format="json")

    first = bench.merge(log, [lines(0, 1, 2, 3)])
    moved, sound = lines(1, 2, 3, 4), lines(4, 5)
    outcome = bench.merge(log, [moved, sound], after=first)
    assert [(error.object, error.code) for error in outcome.quarantined] == [(moved.id.hash, "overlap")]
    assert "Offsets 1 to 3 of Kafka partition 0 overlap 0 to 2" in outcome.quarantined[0].reason
    assert bench.rows(log, "a") == [(1,), (2,), (3,), (5,)]
