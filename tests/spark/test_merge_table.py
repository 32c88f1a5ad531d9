"""A part of a batch, merged: what becomes rows, what is counted, what is refused."""

from __future__ import annotations

import dataclasses
import json

import pyarrow.parquet as pq
import pytest
from support.builders import avro_object, change, flattened
from support.workbench import COW, MOR, SCHEMA, Workbench, row, table

from sluice.batch.outcome import COMMITTED
from sluice.batch.row_errors import from_lines
from sluice.silver_keys import rows_key
from sluice_spark.errors import LaneLost

NULLABLE_STRING = ["null", "string"]


@MOR
@pytest.mark.parametrize("in_tasks", [False, True], ids=["Arrow", "Spark"])
def test_a_replay_changes_nothing_not_even_the_commit_time(bench: Workbench, table_type: str, in_tasks: bool) -> None:
    config = table(table_type=table_type, partition_by=("place",))
    if in_tasks:
        bench.in_tasks()
    objects = [
        bench.put([row("r", 10, 1), row("r", 10, 2)], SCHEMA),
        bench.put([row("u", 20, 1, "B"), row("d", 21, 2, None, None)], SCHEMA),
    ]
    for item in objects:
        bench.merge(config, [item])
    columns = ("_hoodie_commit_time", "_hoodie_file_name", "id", "place")
    before = bench.rows(config, *columns), bench.timeline(config)

    replay = bench.merge(config, [dataclasses.replace(item, first_batch="b-1") for item in objects])

    assert (replay.state, replay.no_change, replay.instant, replay.counts["losing"]) == (COMMITTED, True, None, 2)
    assert (replay.counts["objects_again"], replay.counts["read"], replay.counts["read_again"]) == (2, 4, 4)
    assert (bench.rows(config, *columns), bench.timeline(config)) == before


@pytest.mark.whole
@COW
def test_no_file_is_enlarged_by_a_bloom_filter(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type, partition_by=("place",))
    bench.apply(config, row("r", 10, 1), row("r", 10, 2, "B"))
    first = set(bench.local_path(config).rglob("*.parquet"))
    bench.apply(config, row("u", 20, 1), row("c", 21, 3, "C"))
    files = set(bench.local_path(config).rglob("*.parquet"))
    assert len(first) == 2 and first < files
    filters = [pq.read_metadata(file).metadata.get(b"org.apache.hudi.bloomfilter", b"") for file in files]
    assert max(len(filter) for filter in filters) < 100 and max(file.stat().st_size for file in files) < 20_000


def test_every_row_names_the_object_and_offset_it_came_from(bench: Workbench) -> None:
    config = table()
    item = bench.put([row("c", 1, 1), row("c", 2, 2)], SCHEMA, offset=70)
    bench.merge(config, [item])
    columns = ("id", "_sluice_offset", "_sluice_object", "_sluice_op", "_sluice_source_ts_ms", "_sluice_owed")
    assert bench.rows(config, *columns) == [
        (id, offset, item.id.lineage, "c", 1_700_000_000_000, None) for id, offset in ((1, 70), (2, 71))
    ]


LINEAGE = tuple(f"_sluice_{name}" for name in ("object", "partition", "offset", "batch", "op", "source_ts_ms"))


@pytest.mark.whole
@COW
def test_lineage_is_switched_per_table_also_where_there_is_data(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type)
    first, second, third = (
        bench.put([row("c", lsn, lsn), row("u", lsn + 10, 100)], SCHEMA, offset=lsn * 10) for lsn in (1, 2, 3)
    )
    chosen = (config.lineage, first), ((), second), (("offset", "batch"), third)
    parts = [bench.manifest(dataclasses.replace(config, lineage=lineage), [item]) for lineage, item in chosen]
    for manifest in parts:
        bench.merge_manifest(manifest, config)
    whole = lambda id, item, batch, offset: (id, item.id.lineage, 0, offset, batch, "c", 1_700_000_000_000)  # noqa: E731
    assert bench.rows(config, "id", *LINEAGE) == [
        whole(1, first, parts[0].batch, 10),
        (100, None, None, 31, parts[2].batch, None, None),
        (2, *[None] * 6),
        (3, None, None, 30, parts[2].batch, None, None),
    ]
    bench.merge(config, [dataclasses.replace(first, attempt=1)])
    rows = [(id, "n", False) for id in (1, 100, 2, 3)]
    assert bench.rows(config, "id", "name", "__deleted") == rows, "off or on, positions decide"


def test_an_unreadable_object_stops_no_other(bench: Workbench) -> None:
    config = table()
    good = bench.put([row("c", 1, 1)], SCHEMA)
    whole = avro_object(SCHEMA, [row("c", 2, 2)] * 500)
    cut = bench.put_bytes(whole[:-20], schema=good.schema)
    garbage = bench.put_bytes(b"Obj\x01garbage", schema=good.schema)
    gone = bench.put([row("c", 3, 3)], SCHEMA)
    bench.s3.delete_object(Bucket=gone.bucket, Key=gone.key, VersionId=gone.version)
    json_lines = bench.put_bytes(b"{}", format="json", schema=good.schema)

    outcome = bench.merge(config, [good, cut, garbage, gone, json_lines])

    assert (outcome.state, outcome.quarantined_rows) == (COMMITTED, ())
    assert (outcome.counts["winning"], outcome.counts["quarantined_objects"]) == (1, 4)
    assert {error.object: error.code for error in outcome.quarantined} == {
        cut.id.hash: "corrupt_object",
        garbage.id.hash: "corrupt_object",
        gone.id.hash: "lost_before_read",
        json_lines.id.hash: "unusable_schema",
    }
    assert bench.rows(config, "id") == [(1,)]


def test_a_row_that_cannot_be_merged_stops_no_other_and_is_kept_with_its_bytes(bench: Workbench) -> None:
    config = table()
    nullable = flattened({"id": ["null", "int"], "place": NULLABLE_STRING, "name": NULLABLE_STRING})
    keyless = bench.put(
        [row("c", 3, 3), {**row("c", 4, 4, name="kept"), "id": None}, row("c", 5, 5)], nullable, offset=700
    )
    unknown = bench.put([row("c", 6, 6), row("x", 7, 7)], SCHEMA)
    unordered = bench.put([{**row("c", 8, 8), "__lsn": None}, row("c", 9, 9)], SCHEMA)
    alone = bench.put([{**row("c", 10, 10), "id": None}], nullable)
    manifest = bench.manifest(config, [keyless, unknown, unordered, alone])

    outcome = bench.merge_manifest(manifest, config)

    assert (outcome.state, outcome.quarantined) == (COMMITTED, ())
    assert (outcome.counts["winning"], outcome.counts["quarantined_rows"]) == (4, 4)
    assert {aside.object: dict(aside.codes) for aside in outcome.quarantined_rows} == {
        keyless.id.hash: {"null_record_key": 1},
        unknown.id.hash: {"unsupported_operation": 1},
        unordered.id.hash: {"unordered_change": 1},
        alone.id.hash: {"null_record_key": 1},
    }
    assert bench.rows(config, "id") == [(3,), (5,), (6,), (9,)]
    set_aside = rows_key(manifest.batch, config.table, keyless.id.hash)
    (bad,) = from_lines(bench.services.objects.get(bench.silver, set_aside).data.decode())
    assert (bad.record, bad.offset, json.loads(bad.content)["name"]) == (1, 701, "kept") and bad.position is not None
    assert bench.resolve(manifest, config).quarantined_rows == outcome.quarantined_rows


@pytest.mark.whole
def test_a_retry_after_a_fix_merges_exactly_as_if_it_had_come_in_time(bench: Workbench) -> None:
    nullable = flattened({"id": ["null", "int"], "other": ["null", "int"], "name": NULLABLE_STRING})
    broken = bench.put(
        [change("c", 10, id=None, other=1, name="late"), change("c", 11, id=2, other=2, name="had it")], nullable
    )
    wrong, right = table(record_key=("id",)), table("u", record_key=("other",))
    assert bench.merge(wrong, [broken]).counts["quarantined_rows"] == 1
    newer = bench.put([change("u", 20, id=5, other=2, name="newer")], nullable)
    bench.merge(right, [newer])

    again = bench.merge(right, [dataclasses.replace(broken, attempt=1)])  # the key of the table was corrected

    assert (again.state, again.quarantined_rows) == (COMMITTED, ())
    assert (again.counts["winning"], again.counts["losing"]) == (1, 1)
    assert bench.rows(right, "other", "name") == [(1, "late"), (2, "newer")]


def test_nothing_is_committed_when_the_lane_is_lost(bench: Workbench) -> None:
    config = table()
    with pytest.raises(LaneLost):
        bench.apply(config, row("c", 1, 1), still_held=lambda: False)
    assert bench.timeline(config) == []


def test_columns_match_by_name_in_any_order_and_with_any_union_order(bench: Workbench) -> None:
    config = table()
    turned = {**SCHEMA, "fields": list(reversed(SCHEMA["fields"]))}
    other = flattened({"name": ["string", "null"], "place": NULLABLE_STRING, "id": "int"})
    bench.apply(config, row("c", 1, 1, "A", "x"))
    bench.merge(config, [bench.put([row("c", 2, 2, "B", "y")], turned), bench.put([row("c", 3, 3, "C", "z")], other)])
    assert bench.rows(config, "id", "place", "name") == [(1, "A", "x"), (2, "B", "y"), (3, "C", "z")]


def test_partition_values_of_any_text_keep_their_rows(bench: Workbench) -> None:
    config = table(partition_by=("place",))
    places = ["A", None, "", "/", "ä ö/=%", "a/b/c", "__HIVE_DEFAULT_PARTITION__", "..", "x" * 200]
    bench.apply(config, *(row("c", 1, n, place) for n, place in enumerate(places)))
    bench.apply(config, *(row("u", 2, n, place, "again") for n, place in enumerate(places)))
    assert bench.rows(config, "id", "place", "name") == sorted(
        ((n, place, "again") for n, place in enumerate(places)), key=str
    )
