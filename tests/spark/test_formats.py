"""JSON and Parquet objects become rows as Avro ones do: schemas from the records, evolution and refusals alike."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.bad_input import plain_parquet
from support.builders import change, flattened
from support.workbench import Workbench, table, told

from sluice.admission.routing import classify
from sluice.changes.hidden_columns import ROW
from sluice.config.csv_form import CsvForm
from sluice.config.delete_when import DeleteWhen
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice_spark.merge import driver_limits

KEY = "topics/src.public.t/partition=0/src.public.t+0+{:010d}.{}"


def json_lines(*records: dict[str, Any], packed: bool = False) -> bytes:
    body = "".join(json.dumps(record) + "\n" for record in records).encode()
    return gzip.compress(body) if packed else body


def connect(**types: str) -> dict[str, Any]:
    fields = [{"type": kind, "optional": name != "id", "field": name} for name, kind in types.items()]
    meta = {"__deleted": "string", "__op": "string", "__lsn": "int64", "__source_ts_ms": "int64"}
    return {
        "type": "struct",
        "optional": False,
        "name": "src.public.t.Value",
        "fields": fields + [{"type": kind, "optional": True, "field": name} for name, kind in meta.items()],
    }


def parquet(rows: list[dict[str, Any]], fields: list[tuple[str, pa.DataType]], codec: str) -> bytes:
    meta = [("__deleted", pa.string()), ("__op", pa.string()), ("__lsn", pa.int64()), ("__source_ts_ms", pa.int64())]
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=pa.schema(fields + meta)), body, compression=codec)
    return body.getvalue()


def put(bench: Workbench, body: bytes, offset: int, extension: str) -> Any:
    return bench.put_bytes(
        body, key=KEY.format(offset, extension), offset=offset, format=classify(f"t+0+1.{extension}", 1).format or ""
    )


def test_one_table_takes_avro_json_and_parquet_and_the_latest_change_wins(bench: Workbench) -> None:
    config = table("mixed")
    avro = bench.put(
        [change("c", 10, id=1, name="avro", n=1)],
        flattened({"id": "long", "name": ["null", "string"], "n": ["null", "long"]}),
        offset=0,
    )
    untyped = [change("u", 20, id=1, name="json", n=None), change("c", 21, id=2, name="json", n=2**53 + 1)]
    plain = put(bench, json_lines(*untyped, packed=True), 10, "json.gz")
    schema = connect(id="int64", name="string", added="double")
    payloads = [change("c", 30, id=3, name="wrapped", added=1.5), change("d", 31, id=2, name=None, added=None)]
    wrapped = put(bench, json_lines(*({"schema": schema, "payload": payload} for payload in payloads)), 20, "json")
    rows = [change("u", 15, id=1, name="late", n=5), change("c", 40, id=4, name="parquet", n=6)]
    fields = [("id", pa.int64()), ("name", pa.string()), ("n", pa.int64())]
    late = put(bench, parquet(rows, fields, "zstd"), 30, "zstd.parquet")
    outcome = bench.merge(config, [avro, plain, wrapped, late])
    assert (outcome.state, outcome.counts["read"], outcome.quarantined) == ("committed", 7, ())
    assert bench.rows(config, "id", "name", "n", "added", "__deleted") == [
        (1, "json", None, None, False),
        (2, None, None, None, True),
        (3, "wrapped", None, 1.5, False),
        (4, "parquet", 6, None, False),
    ]
    assert bench.merge(config, [avro, plain, wrapped, late]).no_change


def test_types_of_schemaless_json_evolve_and_a_refusal_costs_its_object_only(bench: Workbench) -> None:
    config = table("evolving", json_types={"price": "decimal(9,2)"})
    first = put(bench, json_lines(change("c", 1, id=1, n=1.5, k=1, price="1.10", gone=None)), 0, "json")
    assert bench.merge(config, [first]).state == "committed"
    whole = put(bench, json_lines(change("c", 2, id=2, n=2, k=2, price=3, more={"a": 1})), 10, "json")
    more = put(bench, json_lines(change("c", 3, id=3, n="three", price=None)), 20, "json")
    cut = json_lines(change("c", 4, id=4, n=None, price="9.99"))[:-4] + b"\n"
    broken = put(bench, cut + json_lines(change("c", 5, id=5, n=None, price="0.01")), 30, "json")
    odd = put(bench, json_lines(change("c", 6, id=6, n=6, k=6.5, price=None)), 40, "json")
    outcome = bench.merge(config, [whole, more, broken, odd])
    assert [(error.object, error.code) for error in outcome.quarantined] == [
        (hash, "incompatible_schema") for hash in sorted((more.id.hash, odd.id.hash))
    ]
    assert bench.rows(config, "id", "n", "k", "price", "more") == [
        (1, 1.5, 1, Decimal("1.10"), None),
        (2, 2.0, 2, Decimal("3.00"), '{"a":1}'),
        (5, None, None, Decimal("0.01"), None),
    ]
    assert "gone" not in bench.spark.read.format("hudi").load(bench.path(config)).columns
    assert outcome.counts["quarantined_rows"] == 1


@pytest.mark.whole
def test_a_truncate_that_is_alone_in_an_object_without_schema_empties_the_table(bench: Workbench) -> None:
    config = table("emptied", json_types={"at": "zoned_timestamp"})

    def event(op: str, lsn: int, **after: Any) -> dict[str, Any]:
        source = {"connector": "postgresql", "ts_ms": 1_700_000_000_000, "lsn": lsn}
        return {"before": None, "after": after or None, "source": source, "op": op}

    loaded = [
        event("c", 10, id=1, at="2026-02-03T04:05:06.000007-01:30"),
        event("c", 11, id=2, at="-0043-02-03T00:00:00+05:00"),
    ]
    first, truncate, again = (
        put(bench, json_lines(*events), 10 * at, "json")
        for at, events in enumerate((loaded, [event("t", 20)], [event("c", 30, id=2, at=None)]))
    )
    assert bench.merge(config, [first]).counts["winning"] == 2
    stored = bench.spark.read.format("hudi").load(bench.path(config)).selectExpr("id", "cast(at as string) at")
    moments = [row["at"] for row in stored.orderBy("id").collect()]
    assert moments == ["2026-02-03 05:35:06.000007", "-0043-02-02 19:00:00"]
    outcome = bench.merge(config, [truncate])
    assert (outcome.quarantined, outcome.counts["truncates"]) == ((), 1)
    assert bench.rows(config, "id", "__deleted") == [(1, True), (2, True)]
    bench.merge(config, [again, first])
    assert bench.rows(config, "id", "__deleted") == [(1, True), (2, False)]
    new = table("emptied_at_once", json_types={"at": "zoned_timestamp"})
    assert bench.merge(new, [truncate, first, again]).quarantined == ()
    assert bench.rows(new, "id", "__deleted") == [(2, False)]


@pytest.mark.whole
def test_rows_of_a_query_are_ordered_by_their_column_and_appended_rows_stay_single(bench: Workbench) -> None:
    query = table("queried", position="last_update")

    def rows(value: str, at: str, other: int) -> bytes:
        return json_lines({"id": 1, "v": value, "last_update": at}, {"id": other, "v": "x", "last_update": at})

    new = put(bench, rows("new", "2026-11-21T02:00:00.5Z", 2), 0, "json")
    old = put(bench, rows("old", "2026-11-21T02:00:00.25Z", 3), 10, "json")
    assert bench.merge(query, [new]).counts["read"] == 2
    assert bench.merge(query, [old]).counts["losing"] == 1
    assert bench.rows(query, "id", "v") == [(1, "new"), (2, "x"), (3, "x")]
    log = table("log", record_key=(ROW,), append_only=True)
    first = put(bench, json_lines({"a": 1}, {"a": 1}), 20, "json")
    assert bench.merge(log, [first]).counts["read"] == 2
    longer = put(bench, json_lines({"a": 1}, {"a": 1}, {"a": 2}), 20, "json")  # the same key, written once more
    assert bench.merge(log, [first, longer]).counts["winning"] == 1
    assert bench.merge(log, [longer, first]).no_change
    assert bench.rows_by_both(log, "a") == [(1,), (1,), (2,)]


def dms_parquet(*rows: dict[str, Any]) -> bytes:
    """Parquet as AWS DMS writes it: its types are the source's, also where all values are null."""
    types = {name: pa.int64() if name == "id" else pa.string() for name in rows[0]}
    body = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=pa.schema(list(types.items()))), body, store_schema=False)
    return body.getvalue()


def dms_csv(*rows: dict[str, Any]) -> bytes:
    """CSV as AWS DMS writes it with AddColumnName, its null as CsvNullValue says by default."""
    body = io.StringIO()
    writer = csv.DictWriter(body, list(rows[0]))
    writer.writeheader()
    writer.writerows({name: "NULL" if value is None else value for name, value in row.items()} for row in rows)
    return body.getvalue().encode()


@pytest.mark.parametrize("format", ["json", pytest.param("csv", marks=pytest.mark.whole)])
def test_a_few_changes_of_scanned_formats_are_merged_without_a_job_as_by_spark(
    bench: Workbench, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_rows(offset: int, *rows: dict[str, Any]) -> Any:
        marked = [{"seq": offset + place, **row} for place, row in enumerate(rows)]
        return put(bench, json_lines(*marked) if format == "json" else dms_csv(*marked), offset, format)

    form = {"csv": CsvForm(null_text="NULL"), "json_types": {"id": "long", "seq": "long"}}
    driver, tasks = (table(name, position="seq", **form) for name in "dt")
    first = [put_rows(0, *({"id": id, "name": "a", "n": id} for id in range(5)))]
    for config in (driver, tasks):
        bench.merge(config, first)
    bench.services.tables.leave_to_spark(tasks)
    changes = [put_rows(10, {"id": 1, "name": "b", "n": 7}, {"id": 7, "name": None, "n": 8}), put_rows(5, {"id": 4})]
    changes.append(put(bench, b'{"id": 3' if format == "json" else b'id\n"3', 30, format))
    if format == "csv":
        changes.pop(1)  # a header without the other columns
    here, jobs = bench.jobs_of(lambda: bench.merge(driver, changes))
    assert (jobs, bench.left_to_spark()) == (0, None)
    there = bench.merge(tasks, changes)
    assert told(here) == told(there) and here.quarantined == there.quarantined
    assert bench.rows(driver, "id", "name", "n") == bench.rows(tasks, "id", "name", "n")

    later = [put_rows(40, {"id": 2, "name": "too large for the driver", "n": 9})]
    monkeypatch.setattr(driver_limits, "TEXT_BYTES_IN_DRIVER", 20)
    assert bench.merge(driver, later).counts["winning"] == 1 and bench.left_to_spark() is None
    assert "left_to_tasks" in bench.events.names()


@pytest.mark.parametrize("format", [pytest.param("parquet", marks=pytest.mark.whole), "csv"])
def test_full_load_and_changes_of_aws_dms_give_the_rows_of_the_source(bench: Workbench, format: str) -> None:
    def put_dms(name: str, *rows: dict[str, Any]) -> Any:
        body = dms_parquet(*rows) if format == "parquet" else dms_csv(*rows)
        return bench.put_file(body, f"topics/public/film/{name}.{format}", offset=0, format=format)

    load = put_dms("LOAD00000001", *({"id": id, "title": "a", "note": None, "transact_seq": ""} for id in (1, 2, 3)))
    first, second, third = (f"202305210615240{number:020d}" for number in (1, 2, 3))
    changes = put_dms(
        "20230521-061524000",
        {"Op": "U", "id": 1, "title": "b", "note": "x", "transact_seq": first},
        {"Op": "D", "id": 1, "title": "b", "note": "x", "transact_seq": second},
        {"Op": "D", "id": 2, "title": "a", "note": None, "transact_seq": first},
        {"Op": "I", "id": 4, "title": 'n, "quoted"', "note": "two\nlines", "transact_seq": first},
        {"Op": "U", "id": 3, "title": "c", "note": None, "transact_seq": third},
    )
    earlier = put_dms("20230521-061500000", {"Op": "U", "id": 3, "title": "old", "note": None, "transact_seq": first})
    form = {"json_types": {"id": "long"}, "csv": CsvForm(null_text="NULL")}
    unmarked = table(f"film_{format}", position="transact_seq", **form)
    refused = bench.merge(unmarked, [changes])
    assert (refused.state, [error.code for error in refused.quarantined]) == ("quarantined", ["deletions_unmarked"])
    assert "delete_when: {column: Op, values: [D]}" in refused.quarantined[0].reason
    marked = replace(unmarked, delete_when=DeleteWhen(column="Op", values=("D",)))
    assert bench.merge(marked, [changes]).counts["deleted"] == 2
    assert bench.merge(marked, [earlier]).counts["losing"] == 1, "of two files of changes the sequence decides"
    assert bench.merge(marked, [load]).counts["losing"] == 3, "a full load that comes late brings no deleted row back"
    assert bench.merge(marked, [load, changes, earlier]).no_change
    assert bench.rows(marked, "id", "title", "note", "__deleted") == [
        (1, None, None, True),
        (2, None, None, True),
        (3, "c", None, False),
        (4, 'n, "quoted"', "two\nlines", False),
    ]


@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.whole), "mor"])
def test_loaded_rows_that_carry_the_time_of_their_load_lose_to_every_change(bench: Workbench, kind: str) -> None:
    def put_dms(name: str, *rows: tuple[str | None, int, str, str]) -> Any:
        """Rows of an operation, an id, a value, and a time within an hour; a load has no operations."""
        made = [{"Op": op, "id": id, "v": value, "ts": f"2026-11-21 10:{at}.000000"} for op, id, value, at in rows]
        made = [{name: value for name, value in row.items() if value is not None} for row in made]
        return bench.put_file(dms_parquet(*made), f"topics/public/film/{name}.parquet", offset=0, format="parquet")

    load = put_dms("LOAD00000001", *((None, id, f"loaded{id}", f"05:0{id}") for id in (1, 2, 3, 4)))
    changes = put_dms(
        "20261121-100700000",
        ("U", 1, "changed1", "04:30"),
        ("D", 2, "loaded2", "04:40"),
        ("U", 3, "changed3", "06:00"),
        ("I", 5, "new5", "04:50"),
    )
    values = ("changed1", None, "changed3", "loaded4", "new5")
    right = [(id, value, value is None) for id, value in enumerate(values, 1)]
    settings = {"position": "ts", "delete_when": DeleteWhen(column="Op", values=("D",)), "table_type": kind}
    orders = {"together": [[load, changes]], "after": [[load], [changes]], "late": [[changes], [load]]}
    for name, batches in orders.items():
        config = table(f"{name}_{kind}", history=name == "together", **settings)
        for objects in batches:
            bench.merge(config, objects)
        assert bench.rows(config, "id", "v", "__deleted") == right, name
        if name == "together":
            states = sorted(bench.rows(config.history_table, "id", "_sluice_position", "v"))
            assert len(states) == 8 and [v for id, _, v in states if id == 1] == ["loaded1", "changed1"]
    again = put_dms("LOAD00000001", (None, 1, "again1", "08:00"))
    assert bench.merge(config, [again]).counts["losing"] == 1
    raised = replace(config, generation=1)
    bench.merge(raised, [again])
    assert bench.rows(raised, "id", "v", "__deleted")[0] == (1, "again1", False)


@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.whole), "mor"])
def test_rows_before_an_update_never_win_and_end_the_row_of_a_former_key(bench: Workbench, kind: str) -> None:
    def put_feed(name: str, *rows: tuple[str, int, str, int]) -> Any:
        body = io.BytesIO()
        names = ("_change_type", "id", "v", "_commit_version")
        pq.write_table(pa.Table.from_pylist([dict(zip(names, row)) for row in rows]), body)
        return bench.put_file(body.getvalue(), f"topics/d.t/{name}.parquet", offset=0, format="parquet")

    rule = DeleteWhen(column="_change_type", values=("delete",))
    config = table(f"feed_{kind}", position="_commit_version", delete_when=rule, table_type=kind)
    first = put_feed("a", *(("insert", id, "a", 1) for id in range(6)))
    bench.merge(config, [first])
    after = put_feed("b", ("update_postimage", 1, "b", 2), ("update_postimage", 7, "moved", 2), ("delete", 3, "a", 2))
    before = put_feed("c", *[("update_preimage", 2, "a", 2)] * 3, ("update_preimage", 1, "a", 2))
    bench.merge(config, [after])
    bench.merge(config, [before])  # 2 became 7
    live = [row for row in bench.rows(config, "id", "v", "__deleted") if not row[2]]
    assert live == [(0, "a", False), (1, "b", False), (4, "a", False), (5, "a", False), (7, "moved", False)]
    whole = table(f"feed_at_once_{kind}", position="_commit_version", delete_when=rule, table_type=kind)
    bench.merge(whole, [before, after, first])
    assert [row for row in bench.rows(whole, "id", "v", "__deleted") if not row[2]] == live


@pytest.mark.parametrize(
    "format", [pytest.param("csv", marks=pytest.mark.whole), pytest.param("json", marks=pytest.mark.whole), "parquet"]
)
def test_exports_of_spark_are_found_by_their_pattern_and_give_its_rows(
    bench: Workbench, format: str, tmp_path: Path
) -> None:
    rows = [(1, 'say "hi"', None), (2, "two\nlines", "x, y"), (3, "", "C:\\")]
    frame = bench.spark.createDataFrame(rows, "id long, name string, note string").coalesce(1)
    getattr(frame.write.option("header", True), format)(str(tmp_path / "out"))
    pattern = r"(?P<topic>exports/[^/]+)/(?:.*/)?part-[^/]+"
    rule = TableRule(f"db.exported_{format}", ("id",), topic="exports.orders", key_pattern=pattern)
    rule = replace(rule, json_types={"id": "long"}, csv=CsvForm(escape="\\"))
    configuration = Configuration((rule,))
    put, ignored = [], set()
    for file in sorted((tmp_path / "out").iterdir()):
        key = f"exports/orders/dt=2026-11-21/{file.name}"
        route = classify(key, file.stat().st_size, configuration.match_key(key))
        if route.kind == "change_file":
            assert (route.topic, route.format) == ("exports.orders", format)
            put.append(bench.put_bytes(file.read_bytes(), key=key, format=format))
        ignored.add(route.rule)
    assert len(put) == 1 and ignored == {None, "hidden_file"}
    config = configuration.table_for_topic("exports.orders")
    assert config is not None and bench.merge(config, [replace(put[0], offset=None)]).counts["read"] == 3
    assert bench.rows(config, "id", "name", "note") == rows


def test_data_files_of_a_delta_table_are_refused_until_the_rule_speaks_of_deletions(bench: Workbench) -> None:
    bench.s3.put_object(Bucket=bench.bronze, Key="topics/d.t/_delta_log/0.json", Body=b"{}")
    body = plain_parquet({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    key = "topics/d.t/part-00000-c000.snappy.parquet"
    item = bench.put_file(body, key, offset=0, format="parquet")
    refused = bench.merge(table("lake"), [item])
    assert [error.code for error in refused.quarantined] == ["deletions_unmarked"] and refused.instant is None
    taken = table("lake", delete_when=DeleteWhen(on=False))
    assert bench.merge(taken, [replace(item, attempt=1)]).counts["winning"] == 2
