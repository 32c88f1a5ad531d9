"""One topic in two tables, one of them masked, and two topics in one table: rows as two readers see them."""

from __future__ import annotations

from dataclasses import replace

from support.builders import change, flattened
from support.workbench import Workbench, table

from sluice.config.rules.columns import ColumnRules

TEXT = ["null", "string"]
SCHEMA = flattened({"id": "long", "card": TEXT, "__db": TEXT})


def read(bench: Workbench, config, *columns: str):
    columns = (*columns, "__deleted")
    by_spark = bench.rows(config, *columns)
    assert by_spark == bench.rows_by_hudi_rs(config, *columns)
    return sorted(row[:-1] for row in by_spark if not row[-1])


def test_one_topic_feeds_a_raw_and_a_masked_table_which_fail_apart(bench: Workbench) -> None:
    raw = table("raw", columns=ColumnRules(exclude=("__db",)))
    masked = table("masked", columns=ColumnRules(mask={"card": 4}, exclude=("__db",)), schema="freeze")
    objects = [
        bench.put([change("c", 1, id=1, card="4111222233334444"), change("c", 2, id=2, card="5")], SCHEMA),
        bench.put([change("u", 3, id=1, card="4999888877776666")], SCHEMA),
    ]
    wider = flattened({"id": "long", "card": TEXT, "__db": TEXT, "more": TEXT})
    late = bench.put([change("u", 4, id=2, card="6", more="m")], wider)
    for config, also_for in ((raw, ""), (masked, masked.table)):
        taken = [replace(item, also_for=also_for) for item in (*objects, late)]
        outcome = bench.merge(config, taken[:2])
        outcome = bench.merge(config, taken[2:], after=outcome)
        refused = {error.object: error.code for error in outcome.quarantined}
        assert refused == ({} if not also_for else {taken[2].id.hash: "schema_frozen"})
    assert read(bench, raw, "id", "card") == [(1, "4999888877776666"), (2, "6")]
    assert read(bench, masked, "id", "card") == [(1, "***6666"), (2, "***")]
    lineage = bench.rows(masked, "_sluice_object")
    assert {row[0] for row in lineage} == {item.id.lineage for item in objects}  # of bronze, whatever the table


def test_two_topics_feed_one_table_by_the_position_of_their_log(bench: Workbench) -> None:
    merged = table("t", merged=True, columns=ColumnRules(exclude=("__db",)))
    own = bench.put([change("c", 1, id=1, card="a"), change("u", 9, id=1, card="own")], SCHEMA)
    other = bench.put(
        [change("u", 5, id=1, card="late"), change("c", 6, id=2, card="b")], SCHEMA, topic="src.archive.t"
    )
    first = bench.merge(merged, [own])
    outcome = bench.merge(merged, [other], after=first)
    assert read(bench, merged, "id", "card") == [(1, "own"), (2, "b")]
    assert len(outcome.watch["marks"]) == 2 and not outcome.parked and not outcome.quarantined
    by_source = table("by_source", record_key=("__db", "id"), topic="src.public.t")
    sources = [
        bench.put([change("c", 7, id=1, card=db, __db=db)], SCHEMA, topic=topic)
        for db, topic in (("eu", "src.public.t"), ("us", "src.us.t"))
    ]
    assert not bench.merge(by_source, sources).quarantined
    assert read(bench, by_source, "__db", "card") == [("eu", "eu"), ("us", "us")]
