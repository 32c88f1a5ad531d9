"""Rows whose deletions stand in a column, as AWS DMS writes them: a rule names the column, or objects are refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.bad_input import plain_parquet
from support.builders import avro_object, avro_record, change, flattened
from support.captures import play, rules
from support.shapes import batch_plan, config, item, json_rows, lines, picked, read, rows_in

from sluice.batch.manifest import ManifestObject
from sluice.batch.row_errors import RowError
from sluice.changes.capture_marks import other_deletions
from sluice.config.delete_when import DeleteWhen
from sluice.config.table import TableConfig
from sluice.errors import Incompatible, Unordered
from sluice_formats.errors import DeletionsUnmarked

DMS = DeleteWhen(column="Op", values=("D",))
SEQUENCE = "20230521061524000000000000000000001"
DMS_FILE = ManifestObject(
    "bronze", "topics/public/film/20230521-061524000.parquet", "v", 1, None, "parquet", "public.film", None, None, 0
)


def table(**settings: Any) -> TableConfig:
    return config("id", **{"delete_when": DMS, "position": "transact_seq", **settings})


def rows_of(
    body: bytes, table: TableConfig, at: ManifestObject = DMS_FILE, bad: list[RowError] | None = None
) -> list[dict[str, Any]]:
    decoded = read(body, at, table)
    (bad if bad is not None else []).extend(decoded.rows)
    return rows_in(decoded)


def film(op: str | None, id: int, sequence: str | None = SEQUENCE, **values: Any) -> dict[str, Any]:
    return {"Op": op, "id": id, "title": "t", "transact_seq": sequence, **values}


def test_a_row_with_the_mark_is_a_deletion_and_the_others_are_rows():
    rows = rows_of(plain_parquet(film("I", 1), film("U", 2), film("D", 3)), table())
    assert picked(rows, "id", "__deleted", "_sluice_op") == [(1, False, None), (2, False, None), (3, True, "d")]
    assert [row["Op"] for row in rows] == ["I", "U", "D"], "the column itself is stored"


def test_the_change_sequence_orders_changes_after_every_row_of_the_full_load():
    loaded = rows_of(plain_parquet(film("I", 1, ""), film("I", 2, None), film(None, 3, None)), table())
    later = SEQUENCE[:-1] + "2"
    changed = rows_of(plain_parquet(film("U", 1), film("D", 1, later)), table())
    positions = [row["_sluice_position"] for row in (*loaded, *changed)]
    assert positions == sorted(positions) and positions[3].split(".")[1] == SEQUENCE


def test_a_full_load_without_the_column_has_no_deletion():
    body = plain_parquet({"id": 1, "title": "t", "transact_seq": ""})
    assert picked(rows_of(body, table()), "id", "__deleted") == [(1, False)]


def test_a_change_without_its_place_is_set_aside_not_taken_for_a_loaded_row():
    bad: list[RowError] = []
    assert rows_of(plain_parquet(film("U", 1, "")), table(), bad=bad) == []
    assert [row.code for row in bad] == ["unordered_change"]


def test_a_time_column_orders_changes_too():
    rows = plain_parquet(film("U", 1, changed_at="2023-05-21 06:15:24.000001"), film("U", 1, changed_at="2023-05-21"))
    late, early = rows_of(rows, table(position="changed_at"))
    assert late["_sluice_position"] > early["_sluice_position"]


def test_rows_of_a_full_load_are_older_than_every_change_whatever_time_they_carry():
    loaded_at = "2026-11-21 10:05:01.000000"
    load = replace(DMS_FILE, key="topics/public/film/LOAD0000000A.parquet")
    timed = table(position="changed_at")
    for op in ({"Op": "I"}, {}):
        body = plain_parquet(*({**op, "id": id, "title": "t", "changed_at": loaded_at} for id in (1, 2)))
        loaded = [row["_sluice_position"] for row in rows_of(body, timed, load)]
        change = rows_of(plain_parquet(film("U", 1, changed_at="2026-11-21 10:04:30")), timed)[0]["_sluice_position"]
        assert max(loaded) < change
    again = plain_parquet({"id": 1, "title": "t", "changed_at": "2026-11-22 00:00:00"})
    assert max(loaded) < rows_of(again, timed, load)[0]["_sluice_position"] < change, "the later load of two counts"
    raised = rows_of(again, table(position="changed_at", generation=1), load)[0]["_sluice_position"]
    assert change < raised, "a table that is loaded again gets a higher generation"


def test_a_change_in_a_file_of_another_name_or_under_another_rule_keeps_its_place():
    at = {"id": 1, "title": "t", "changed_at": "2026-11-21 10:05:01"}
    plain = [
        rows_of(plain_parquet(at), table(position="changed_at", delete_when=when), replace(DMS_FILE, key=key))
        for when, key in (
            (DMS, "t/LOADING.parquet"),
            (DMS, "t/LOAD1.parquet"),
            (DeleteWhen(), "t/LOAD00000001.parquet"),
        )
    ]
    deleted = rows_of(
        plain_parquet({"Op": "D", **at}), table(position="changed_at"), replace(DMS_FILE, key="t/LOAD00000001.parquet")
    )
    assert len({rows[0]["_sluice_position"] for rows in (*plain, deleted)}) == 1


def test_changes_that_nothing_orders_are_refused():
    with pytest.raises(Unordered, match="neither a position column nor the object's name"):
        rows_of(plain_parquet(film("D", 1)), table(position=None))
    assert rows_of(plain_parquet(film("D", 1)), table(position=None), item("parquet"))[0]["__deleted"]


def test_a_rules_word_of_fixed_length_is_known_in_another_case():
    assert other_deletions("state", ["gone  ", "here"], ["GONE  "]) == ("gone  ",)


@pytest.mark.parametrize("column", ["Op", "op", "OP", "_op"])
@pytest.mark.parametrize(
    "values", [["I", "U", "D"], ["I"], ["insert", "update", "delete"], ["c", "u", "d", "r"], ["D", None]]
)
def test_operations_that_no_rule_names_refuse_the_object(column: str, values: list[str | None]):
    body = plain_parquet(*({column: value, "id": number} for number, value in enumerate(values)))
    with pytest.raises(DeletionsUnmarked, match=f"column: {column}") as refused:
        rows_of(body, config("id"))
    assert "delete_when: off" in refused.value.next_step


@pytest.mark.parametrize("values", [["D", "E"], [None], ["Delete all"], ["", "D"]])
def test_a_column_of_other_words_is_data(values: list[str | None]):
    body = plain_parquet(*({"op": value, "id": number} for number, value in enumerate(values)))
    assert [row.get("op") for row in rows_of(body, config("id"))] == values


def test_operations_are_data_where_the_rule_says_so_or_keeps_every_row():
    body = plain_parquet({"op": "D", "id": 1})
    for settings in ({"delete_when": DeleteWhen(on=False)}, {"append_only": True}):
        assert [row["__deleted"] for row in rows_of(body, config("id", **settings))] == [False]


def test_a_rule_that_names_a_column_of_another_case_refuses_the_object():
    with pytest.raises(DeletionsUnmarked):
        rows_of(plain_parquet({"op": "D", "id": 1}), config("id", delete_when=DMS), item("parquet"))


def test_debeziums_own_operations_and_marks_need_no_rule():
    rows = [change(op=op, id=id) for id, op in enumerate("rcud")]
    read_rows = rows_of(avro_object(flattened({"id": "long"}), rows), config("id"), item("avro"))
    assert picked(read_rows, "_sluice_op", "__deleted") == [("r", False), ("c", False), ("u", False), ("d", True)]


@pytest.mark.parametrize("deleted", ["true", "True", "TRUE", "t", "1", True, 1])
@pytest.mark.parametrize("alive", ["false", "False", "f", "0", "", False, 0, None])
def test_debeziums_mark_is_read_as_other_writers_write_it(deleted: Any, alive: Any):
    rows = [{"id": 1, "__deleted": alive, "__lsn": 1}, {"id": 2, "__deleted": deleted, "__lsn": 2}]
    if type(deleted) is type(alive) or alive is None:
        assert [row["__deleted"] for row in json_rows(lines(*rows), config("id"))] == [False, True]
    if isinstance(deleted, str) and isinstance(alive, str):
        body, rule = csv(rows), {"topic": "s.t", "table": "d.t", "record_key": "id"}
        played = play({"topics/s.t/s.t+0+0.csv": body}, rules(rule))
        assert [row["id"] for row in played.rows] == ["1"]


@pytest.mark.parametrize("place", [{"__lsn": "9"}, {"__file": "b.000001", "__pos": "9", "__row": "0"}])
def test_places_in_a_log_that_another_writer_made_texts_are_compared_as_numbers(place: dict[str, str]):
    rows = [
        {"id": 1, "__op": "u", **written} for written in (place, {k: v.replace("9", "10") for k, v in place.items()})
    ]
    first, second = (row["_sluice_position"] for row in json_rows(lines(*rows), config("id")))
    assert first < second


def csv(rows: list[dict[str, Any]]) -> bytes:
    return "".join(f"{','.join(map(str, row))}\n" for row in (rows[0], *(row.values() for row in rows))).encode()


def test_operations_of_metadata_that_debezium_does_not_write_refuse_the_object():
    body = avro_object(flattened({"id": "long"}), [change(op="I", id=1), change(op="D", id=2)])
    with pytest.raises(DeletionsUnmarked, match="__op"):
        rows_of(body, config("id"), item("avro"))
    rows = rows_of(body, config("id", delete_when=DeleteWhen(column="__op", values=("D",))), item("avro"))
    assert picked(rows, "__deleted", "_sluice_op") == [(False, None), (True, "d")]


def test_a_soft_deletion_is_marked_by_true_or_a_number():
    for value, mark in ((True, "true"), (1, "1")):
        body = lines({"id": 1, "gone": value}, {"id": 2, "gone": type(value)(0)})
        rows = json_rows(body, config("id", delete_when=DeleteWhen(column="gone", values=(mark,))))
        assert [row["__deleted"] for row in rows] == [True, False]


def test_a_column_whose_values_have_no_plain_text_refuses_the_schema():
    planned = batch_plan(config("id", delete_when=DMS), avro_record({"id": "int", "Op": "double"}, name="V"))
    (error,) = planned.refused.values()
    assert isinstance(error, Incompatible) and "delete_when" in str(error)


def test_several_columns_order_the_changes_and_a_loaded_row_lacks_one_of_them():
    config = table(position="changed_at,transact_seq")
    loaded = rows_of(plain_parquet(film("I", 1, "", changed_at="2026-11-21 10:00:00")), config)
    body = plain_parquet(*(film("U", 1, SEQUENCE[:-1] + n, changed_at="2023-05-21 06:15:24") for n in "21"))
    second, first = rows_of(body, config)
    assert loaded[0]["_sluice_position"] < first["_sluice_position"] < second["_sluice_position"]
