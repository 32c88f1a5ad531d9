"""Writer schemas that change: what goes on by itself, and what is quarantined with the rest going on."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.builders import change, flattened
from support.workbench import COW, MOR, Workbench, table

from sluice.batch.outcome import COMMITTED
from sluice.config.table import TableConfig
from sluice.schema.avro import fingerprint
from sluice_spark.merge.by_arrow import attempt as merging


def decimal(precision: int, scale: int) -> list[Any]:
    return ["null", {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}]


MICROS = ["null", {"type": "long", "logicalType": "timestamp-micros"}]
OLD = flattened(
    {"id": "int", "n": ["null", "int"], "f": ["null", "float"], "d": decimal(17, 4), "gone": ["null", "string"]}
)
NEW = flattened(
    {"id": "int", "n": ["null", "long"], "f": ["null", "double"], "d": decimal(18, 4), "added": ["null", "string"]}
)


def old(lsn: int, id: int, n: int) -> dict[str, Any]:
    return change("u", lsn, id=id, n=n, f=0.5, d=Decimal("1.2500"), gone="here")


def new(lsn: int, id: int, n: int) -> dict[str, Any]:
    return change("u", lsn, id=id, n=n, f=0.1, d=Decimal("12345678901234.1234"), added="new")


@COW
def test_wider_types_and_new_and_dropped_columns_go_on_by_themselves(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type)
    bench.apply(config, old(1, 1, 1), old(1, 2, 2), old(1, 3, 3), schema=OLD)
    bench.apply(config, old(2, 2, 22), schema=OLD)
    bench.apply(config, new(3, 1, 2**40), schema=NEW)
    bench.merge(config, [bench.put([old(4, 3, 33)], OLD), bench.put([new(5, 4, 4)], NEW)])
    columns = ("id", "n", "f", "d", "gone", "added")
    assert bench.rows_by_hudi_rs(config, *columns) == bench.rows(config, *columns)
    assert bench.rows(config, *columns) == [
        (1, 2**40, 0.1, Decimal("12345678901234.1234"), None, "new"),
        (2, 22, 0.5, Decimal("1.2500"), "here", None),
        (3, 33, 0.5, Decimal("1.2500"), "here", None),
        (4, 4, 0.1, Decimal("12345678901234.1234"), None, "new"),
    ]
    if table_type == "mor":
        assert "compacted_before_wider_types" in bench.events.names()


@MOR
def test_new_columns_come_with_changes_that_arrow_merges(bench: Workbench, table_type: str) -> None:
    config = table(table_type=table_type)
    narrow = flattened({"id": "int", "n": ["null", "int"]})
    wide = flattened({"id": "int", "n": ["null", "int"], "at": MICROS, "more": ["null", "string"]})
    bench.apply(config, *(change("c", id, id=id, n=id) for id in range(1, 6)), schema=narrow)
    bench.apply(config, change("u", 11, id=1, n=10), schema=narrow)
    at = datetime(2026, 11, 28, tzinfo=timezone.utc)
    grown = bench.apply(
        config, change("u", 12, id=2, n=None, at=at, more="x"), change("u", 13, id=3, n=3, at=at), schema=wide
    )
    assert bench.left_to_spark() is None
    assert [(note["column"], note["change"]) for note in grown.columns] == [("at", "added"), ("more", "added")]
    bench.apply(config, change("u", 14, id=2, n=22), change("c", 15, id=6, n=6), schema=narrow)
    bench.apply(config, change("u", 16, id=4, n=4, more="y"), change("c", 17, id=7, n=7, at=at), schema=wide)
    assert bench.left_to_spark() is None
    columns = ("id", "n", "at", "more")
    expected = [
        (1, 10, None, None),
        (2, 22, None, None),
        (3, 3, at, None),
        (4, 4, None, "y"),
        (5, 5, None, None),
        (6, 6, None, None),
        (7, 7, at, None),
    ]
    assert bench.rows_by_hudi_rs(config, *columns) == expected
    plain = [(row[0], row[1], row[3]) for row in expected]
    assert bench.rows(config, "id", "n", "more") == bench.rows_by_old_bundle(config, "id", "n", "more") == plain
    bench.in_tasks().apply(config, change("u", 20, id=5, n=55, more="by Spark"), schema=wide)
    expected[4] = (5, 55, None, "by Spark")
    assert bench.rows_by_hudi_rs(config, *columns) == expected


@pytest.mark.whole
def test_a_first_list_of_timestamps_is_read_beside_older_logs(bench: Workbench) -> None:
    config = table(table_type="mor")
    without = flattened({"id": "int", "n": ["null", "int"]})
    moment = {"type": "long", "logicalType": "timestamp-micros"}
    having = flattened({"id": "int", "n": ["null", "int"], "seen": ["null", {"type": "array", "items": moment}]})
    bench.apply(config, *(change("r", 1, id=key, n=0) for key in (1, 2, 3)), schema=without)
    bench.apply(config, change("u", 2, id=2, n=1), schema=without)
    bench.apply(config, change("u", 3, id=3, n=2, seen=[10**15]), schema=having)
    assert bench.rows_by_sluice(config, "id", "n") == [(1, 0), (2, 1), (3, 2)]
    assert [len(seen or ()) for _, seen in bench.rows_by_sluice(config, "id", "seen")] == [0, 0, 1]


@pytest.mark.whole
def test_a_wider_key_and_columns_are_read_from_files_with_the_narrower_type(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table()
    kinds = {
        "id": "int",
        "n": ["null", "int"],
        "f": ["null", "float"],
        "text": ["null", "string"],
        "ints": ["null", {"type": "array", "items": "int"}],
    }
    wide = {**kinds, "id": "long", "n": ["null", "long"], "f": ["null", "double"]}
    unchanged = "__debezium_unavailable_value"

    def row(op: str, lsn: int, id: int, n: int, text: str) -> dict[str, Any]:
        return change(op, lsn, id=id, n=n, f=0.5, text=text, ints=[id % 3])

    with monkeypatch.context() as patch:  # each part of a first load is a file
        patch.setattr(merging, "part_count", lambda _, rows: 2)
        narrow = [row("u", 10, id, id, unchanged if id % 2 else f"of {id}") for id in range(6)]
        bench.merge(config, [bench.put([item], flattened(kinds)) for item in narrow])
    assert len(files_and_types(bench, config)) == 2
    bench.apply(config, row("u", 20, 0, 2**40, "new"), schema=flattened(wide))
    assert sorted(files_and_types(bench, config).values()) == ["int32", "int64"]

    again = [
        row("u", 30, 1, 2**42, unchanged),
        row("u", 30, 2, 2**42, unchanged),
        row("u", 5, 3, 0, "late"),
        row("u", 5, 4, 0, "older"),
        row("c", 30, 2**44, 0, "more"),
    ]
    bench.new_run()
    outcome = bench.apply(config, *again, schema=flattened(wide))
    assert [outcome.counts[name] for name in ("winning", "losing", "supplied", "owed")] == [3, 1, 1, 1]
    rows = [
        (0, 2**40, "new"),
        (1, 2**42, None),
        (2**44, 0, "more"),
        (2, 2**42, "of 2"),
        (3, 3, "late"),
        (4, 4, "of 4"),
        (5, 5, None),
    ]
    assert bench.rows_by_both(config, "id", "n", "text") == rows

    longer = {**wide, "ints": ["null", {"type": "array", "items": "long"}]}
    bench.apply(config, {**row("u", 40, 5, 2**45, "last"), "ints": [2**46]}, schema=flattened(longer))
    assert "table_rewritten" in bench.events.names()
    columns = ("id", "n", "f", "text", "ints")
    assert bench.rows_by_both(config, *columns) == [
        *((id, n, 0.5, text, [id % 3]) for id, n, text in rows[:-1]),
        (5, 2**45, 0.5, "last", [2**46]),
    ]


def files_and_types(bench: Workbench, config: TableConfig) -> dict[str, str]:
    """The newest file of each file group, and the type that its `id` has."""
    newest = {
        path.name.partition("_")[0]: path
        for path in sorted(bench.local_path(config).glob("*.parquet"), key=lambda path: path.stem.rpartition("_")[2])
    }
    return {name: str(pq.read_schema(path).field("id").type) for name, path in newest.items()}


def test_old_and_new_schemas_in_a_first_load_agree_on_the_wider(bench: Workbench) -> None:
    config = table()
    bench.merge(config, [bench.put([new(3, 1, 2**40)], NEW), bench.put([old(1, 2, 2)], OLD)])
    assert bench.rows(config, "id", "n", "gone", "added") == [(1, 2**40, None, "new"), (2, 2, "here", None)]


def test_an_incompatible_schema_sets_aside_only_its_own_objects(bench: Workbench) -> None:
    config = table()
    bench.apply(config, old(1, 1, 1), schema=OLD)
    text = flattened(
        {"id": "int", "n": ["null", "string"], "f": ["null", "float"], "d": decimal(18, 4), "gone": ["null", "string"]}
    )
    wrong = bench.put([{**old(2, 1, 2), "n": "two"}], text)
    keyless = bench.put([change("u", 2, n=5)], flattened({"n": ["null", "int"]}))
    outcome = bench.merge(config, [wrong, keyless, bench.put([old(3, 2, 3)], OLD)])
    assert (outcome.state, outcome.counts["winning"]) == (COMMITTED, 1)
    assert {error.object: error.code for error in outcome.quarantined} == {
        wrong.id.hash: "incompatible_schema",
        keyless.id.hash: "incompatible_schema",
    }
    assert "Column n is string and the table has int" in next(
        error.reason for error in outcome.quarantined if error.object == wrong.id.hash
    )
    assert bench.rows(config, "id", "n") == [(1, 1), (2, 3)]
    summary = {schema.fingerprint: schema.verdict for schema in bench.services.history.schemas(config.table)}
    assert summary == {wrong.schema: "incompatible", keyless.schema: "incompatible", fingerprint(OLD): "new_table"}
    stored = bench.services.history.columns(config.table)
    assert stored is not None and (stored.columns["n"], stored.columns["d"]) == ("int", "decimal(17,4)")


@pytest.mark.parametrize(
    ("table_type", "partition_by"), [pytest.param("cow", (), marks=pytest.mark.whole), ("mor", ("place",))]
)
@pytest.mark.whole
def test_a_decimal_of_another_scale_rewrites_the_table_in_the_same_commit(
    bench: Workbench, table_type: str, partition_by: tuple[str, ...]
) -> None:
    config = table(table_type=table_type, partition_by=partition_by)
    old, new = ({"id": "int", "place": ["null", "string"], "d": decimal(*digits)} for digits in ((18, 4), (24, 6)))
    new["more"] = ["null", "string"]
    bench.apply(
        config, *(change("c", 1, id=n, place="a", d=Decimal("1.2500")) for n in (1, 2, 3)), schema=flattened(old)
    )
    bench.apply(config, change("u", 2, id=2, place="a", d=Decimal("99999999999999.9999")), schema=flattened(old))
    wide = [
        change("u", 3, id=1, place="b", d=Decimal("123456789012345678.123456"), more="x"),
        change("c", 3, id=4, place=None, d=Decimal("0.000001"), more="y"),
    ]
    outcome = bench.apply(config, *wide, schema=flattened(new))
    assert (outcome.quarantined, outcome.counts["winning"]) == ((), 2) and "table_rewritten" in bench.events.names()
    late = [change("u", 4, id=3, place="a", d=Decimal("7.5000")), change("u", 1, id=1, place="a", d=Decimal("1.0000"))]
    bench.merge(
        config,
        [
            bench.put(late, flattened(old)),
            bench.put([change("d", 5, id=2, place=None, d=None, more=None)], flattened(new)),
        ],
    )
    columns = ("id", "place", "d", "more", "__deleted")
    assert bench.rows_by_both(config, *columns) == [
        (1, "b", Decimal("123456789012345678.123456"), "x", False),
        (2, None, None, None, True),
        (3, "a", Decimal("7.500000"), None, False),
        (4, None, Decimal("0.000001"), "y", False),
    ]


def test_a_table_over_its_rewrite_limit_is_not_written_anew(bench: Workbench) -> None:
    config = table(rewrite_limit_bytes=1_000)
    bench.apply(config, change("c", 1, id=1, d=Decimal("1.2500")), schema=flattened({"id": "int", "d": decimal(17, 4)}))
    finer = bench.put([change("c", 2, id=2, d=Decimal("1.25000"))], flattened({"id": "int", "d": decimal(18, 5)}))
    coarser = bench.put([change("c", 3, id=3, d=Decimal("7.5"))], flattened({"id": "int", "d": decimal(9, 1)}))
    outcome = bench.merge(config, [coarser, finer])
    assert [(error.object, error.code) for error in outcome.quarantined] == [(finer.id.hash, "incompatible_schema")]
    assert "rewrite_limit" in outcome.quarantined[0].reason
    assert bench.rows(config, "id", "d") == [(1, Decimal("1.2500")), (3, Decimal("7.5000"))]


def test_a_schema_that_admission_did_not_store_is_read_from_the_object(bench: Workbench) -> None:
    config = table()
    item = bench.put([old(1, 1, 1)], OLD)
    bench.s3.delete_object(Bucket=bench.silver, Key=f"_sluice/schemas/{item.schema}.avsc")
    bench.merge(config, [item])
    assert bench.rows(config, "id", "n") == [(1, 1)]
