"""Changes as other captures than Debezium write them: known by their columns, asked for, and read by `delete_when`."""

from __future__ import annotations

import io
from dataclasses import replace
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from support import shapes
from support.bad_input import plain_parquet
from support.captures import play, rules
from support.heavy_objects import parquet as parquet_of
from support.shapes import config, item, lines, picked, rows_in

from sluice.batch.row_errors import RowError
from sluice.changes.capture_marks import mark_text
from sluice.config.delete_when import DeleteWhen
from sluice.errors import Incompatible
from sluice_formats.errors import DeletionsUnmarked

# The operation's column, its words for an insert, the row before an update, the row after it and a deletion; and what
# the rule needs.
FEEDS = {
    "goldengate": ("op_type", "I", None, "U", "D", "column: op_type, values: [D]"),
    "qlik": ("header__change_oper", "I", "B", "U", "D", "column: header__change_oper, values: [D]"),
    "qlik, another prefix": ("h_change_oper", "I", "B", "U", "D", "column: h_change_oper, values: [D]"),
    "delta": (
        *("_change_type", "insert", "update_preimage", "update_postimage", "delete"),
        "column: _change_type, values: [delete]",
    ),
    "iceberg": ("_change_type", "INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "_change_type, values: [DELETE]"),
    "flink": ("row_kind", "+I", "-U", "+U", "-D", 'column: row_kind, values: ["-D"]'),
    "sql server": ("__$operation", 2, 3, 4, 1, "column: ___operation, values: [1]"),
    "hvr": ("hvr_op", 1, 4, 2, 0, "column: hvr_op, values: [0]"),
    "ticdc": ("ticdc-meta$operation", "I", None, "U", "D", "column: ticdc_meta_operation, values: [D]"),
    "estuary": ("_meta/op", "c", None, "u", "d", "column: _meta_op, values: [d]"),
    "peerdb": ("_peerdb_record_type", 0, None, 1, 2, "column: _peerdb_record_type, values: [2]"),
    "dms": ("Op", "I", None, "U", "D", "column: Op, values: [D]"),
    "sap": ("__operation_type", "I", "B", "A", "D", "column: __operation_type, values: [D]"),
    "sap odp": ("ODQ_CHANGEMODE", "C", None, "U", "D", "column: ODQ_CHANGEMODE, values: [D]"),
    "sap slt": ("/1DH/OPERATION", "I", None, "U", "D", "column: _1DH_OPERATION, values: [D]"),
    "infosphere": ("DM_OPERATION_TYPE", "I", "B", "A", "D", "column: DM_OPERATION_TYPE, values: [D]"),
    "maxscale": ("event_type", "insert", "update_before", "update_after", "delete", "event_type, values: [delete]"),
    "confluent": ("_EventType", "created", None, "updated", "deleted", "column: _EventType, values: [deleted]"),
    "change tracking": ("SYS_CHANGE_OPERATION", "I", None, "U", "D", "column: SYS_CHANGE_OPERATION, values: [D]"),
    "streamsets": ("sdc.operation.type", 1, None, 3, 2, "column: sdc_operation_type, values: [2]"),
    "datastream": (
        *("_metadata_change_type", "INSERT", "UPDATE-DELETE", "UPDATE-INSERT", "DELETE"),
        "column: _metadata_change_type, values: [DELETE]",
    ),
    "sap extractor": ("0RECORDMODE", "N", "X", "A", "D", "column: _0RECORDMODE, values: [D]"),
    "envers": ("REVTYPE", 0, None, 1, 2, "column: REVTYPE, values: [2]"),
    "fabric": ("__rowMarker__", 0, None, 4, 2, "column: __rowMarker__, values: [2]"),
    "paimon, numbers": ("_VALUE_KIND", 0, 1, 2, 3, "column: _VALUE_KIND, values: [3]"),
    "dynamics": ("DML_Action", "INSERT", "BEFORE_UPDATE", "AFTER_UPDATE", "DELETE", "DML_Action, values: [DELETE]"),
    "dms, bytes": ("Op", b"I", None, b"U", b"D", "column: Op, values: [D]"),
}
FLAGS = {
    "airbyte": ("_ab_cdc_deleted_at", "2026-11-27T09:00:00Z", None, "column: _ab_cdc_deleted_at, is: not null"),
    "singer": ("_sdc_deleted_at", "2026-11-27T09:00:00Z", None, "column: _sdc_deleted_at, is: not null"),
    "fivetran": ("_fivetran_deleted", True, False, "column: _fivetran_deleted, values: [true]"),
    "hudi": ("_hoodie_is_deleted", True, False, "column: hoodie_is_deleted, values: [true]"),
    "datastream": ("_metadata_deleted", True, False, "column: _metadata_deleted, values: [true]"),
    "openflow": ("_snowflake_deleted", True, False, "column: _snowflake_deleted, values: [true]"),
    "hevo": ("__hevo__marked_deleted", True, False, "column: __hevo__marked_deleted, values: [true]"),
    "rivery": ("__river_deleted", True, False, "column: __river_deleted, values: [true]"),
    "keboola": ("KBC__DELETED", 1, 0, "column: KBC__DELETED, values: [1]"),
    "sling": ("_sling_deleted_at", "2026-11-27T09:00:00Z", None, "column: _sling_deleted_at, is: not null"),
}


def avro(*rows: dict[str, Any]) -> bytes:
    """Avro of nullable columns; a name that Avro doesn't allow stays, as some writers leave it."""
    kinds = {str: "string", int: "long", bool: "boolean", bytes: "bytes"}
    types: dict[str, str] = {}
    for row in rows:
        types.update({name: kinds[type(value)] for name, value in row.items() if value is not None})
    fields = [{"name": name, "type": ["null", kind]} for name, kind in types.items()]
    body = io.BytesIO()
    fastavro.writer(body, {"type": "record", "name": "V", "fields": fields}, rows, codec="null")
    return body.getvalue()


def csv(*rows: dict[str, Any]) -> bytes:
    def text(value: Any) -> str:
        return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    return "".join(f"{','.join(map(text, row))}\n" for row in (rows[0], *(row.values() for row in rows))).encode()


def read(format: str, rule: DeleteWhen, *rows: dict[str, Any], bad: list[RowError] | None = None) -> list[Any]:
    """The rows of an object in a format, by a table that `seq` orders."""
    types = {"seq": "long", "id": "long"} if format == "csv" else {}
    table = config("id", delete_when=rule, position="seq", json_types=types)
    write = {"json": lines, "csv": csv, "parquet": plain_parquet, "avro": avro}[format]
    decoded = shapes.read(write(*rows), replace(item(format), offset=None, kafka_partition=None), table)
    assert bad is not None or not decoded.rows, decoded.rows
    (bad if bad is not None else []).extend(decoded.rows)
    return rows_in(decoded)


def deletions(format: str, rule: DeleteWhen, *rows: dict[str, Any]) -> list[bool]:
    """Which rows of an object are deletions."""
    return [row["__deleted"] for row in read(format, rule, *rows)]


def formats_of(column: str, value: Any) -> list[str]:
    """The formats that can hold such a column: no text has bytes, and fastavro writes no such names."""
    text = [] if isinstance(value, bytes) else ["json", "csv"]
    return ["parquet", *text, *(["avro"] if column.isidentifier() else [])]


def cases(captures: dict[str, tuple[Any, ...]]) -> list[Any]:
    return [
        pytest.param(format, *values, id=f"{name}-{format}")
        for name, values in captures.items()
        for format in formats_of(values[0], values[1])
    ]


@pytest.mark.parametrize(("format", "column", "insert", "before", "after", "delete", "setting"), cases(FEEDS))
def test_operations_of_a_capture_are_asked_for_and_then_read(
    format: str, column: str, insert: Any, before: Any, after: Any, delete: Any, setting: str
):
    images = [] if before is None else [{"id": 1, column: before, "v": "stale", "seq": 2}]
    rows = [
        {"id": 1, column: insert, "v": "a", "seq": 1},
        {"id": 1, column: after, "v": "b", "seq": 2},
        *images,  # after the row that it precedes: no writer promises the order within a file
        {"id": 2, column: delete, "v": "c", "seq": 3},
    ]
    for written in (rows, rows[:1]):
        with pytest.raises(DeletionsUnmarked) as refused:
            read(format, DeleteWhen(), *written)
        assert setting in refused.value.message
    stored_column = setting.split("column: ")[-1].split(",")[0]
    value = setting.split("[")[1].rstrip("]").strip('"')
    merged = read(format, DeleteWhen(column=stored_column, values=(value,)), *rows)
    newest = max((row for row in merged if row["id"] == 1), key=lambda row: row["_sluice_position"])
    assert (newest["v"], newest["__deleted"]) == ("b", False), "a before-image wins over nothing at its place"
    assert [row["__deleted"] for row in merged if row["id"] == 2] == [True]
    assert [row["__deleted"] for row in merged if row["v"] == "stale"] == [True] * len(images)
    assert not any(row["__deleted"] for row in read(format, DeleteWhen(on=False), *rows))


def test_a_before_image_comes_between_its_update_and_earlier_changes():
    rule = DeleteWhen(column="_change_type", values=("delete",))
    before = {"id": 1, "_change_type": "update_preimage", "v": "a", "seq": 5}
    after = {"id": 1, "_change_type": "update_postimage", "v": "b", "seq": 5}
    earlier, later = {**after, "seq": 4}, {**after, "seq": 6}
    alone = [read("parquet", rule, row)[0]["_sluice_position"] for row in (earlier, before, after, later)]
    last_in_file = read("json", rule, *[later] * 3, before)[-1]["_sluice_position"]
    assert alone == sorted(set(alone)) and alone[0] < last_in_file < alone[2]


def test_an_update_of_the_key_deletes_the_row_of_the_former_key():
    rule = DeleteWhen(column="header__change_oper", values=("D",))
    images = ({"header__change_oper": word, "id": id, "v": "a", "seq": 5} for word, id in (("B", 1), ("U", 7)))
    assert picked(read("csv", rule, *images), "id", "__deleted") == [(1, True), (7, False)]


SNOWFLAKE = ("METADATA$ACTION", "METADATA$ISUPDATE", "DELETE", ("INSERT", True), ("DELETE", True), ("DELETE", False))
SAP_ODP = ("ODQ_CHANGEMODE", "ODQ_ENTITYCNTR", "D", ("U", 1), ("U", -1), ("D", -1))


@pytest.mark.parametrize("capture", [SNOWFLAKE, SAP_ODP])
def test_a_half_of_an_update_that_another_column_tells_is_a_before_image(capture: tuple[Any, ...]):
    column, beside, deletion, after, before, deleted = capture
    rule = DeleteWhen(column=column.replace("$", "_"), values=(deletion,))
    marks = ((1, after, "b"), (1, before, "a"), (2, deleted, "c"))
    rows = [{"id": id, column: mark, beside: told, "v": v, "seq": 5} for id, (mark, told), v in marks]
    for format in ("parquet", "json", "csv"):
        merged = read(format, rule, *rows)
        assert merged[0]["_sluice_position"] > merged[1]["_sluice_position"]
        assert [row["__deleted"] for row in merged] == [False, True, True]


@pytest.mark.parametrize("unit", [Decimal(1), Decimal("1.000")])
def test_a_count_of_saps_odp_may_be_a_decimal(unit: Decimal):
    rule = DeleteWhen(column="ODQ_CHANGEMODE", values=("D",))
    rows = [{"id": 1, "ODQ_CHANGEMODE": "U", "ODQ_ENTITYCNTR": unit * sign, "seq": 5} for sign in (1, -1)]
    assert [row["__deleted"] for row in read("parquet", rule, *rows)] == [False, True]


@pytest.mark.parametrize(("format", "column", "deleted", "alive", "setting"), cases(FLAGS))
def test_flags_of_a_capture_are_asked_for_and_then_read(
    format: str, column: str, deleted: Any, alive: Any, setting: str
):
    rows = [{"id": 1, column: alive, "v": "a", "seq": 1}, {"id": 2, column: deleted, "v": "b", "seq": 2}]
    with pytest.raises(DeletionsUnmarked) as refused:
        read(format, DeleteWhen(), *rows)
    assert setting in refused.value.message
    marks = {"is_null": False} if "is: " in setting else {"values": (mark_text(deleted),)}
    rule = DeleteWhen(column=setting.split("column: ")[1].split(",")[0], **marks)
    assert deletions(format, rule, *rows) == [False, True]


@pytest.mark.parametrize("format", ["parquet", "json", "csv", "avro"])
def test_null_marks_a_deletion_where_the_rule_says_so(format: str):
    rows = [{"id": 1, "valid_from": "2026-01-01", "seq": 1}, {"id": 2, "valid_from": None, "seq": 2}]
    assert deletions(format, DeleteWhen(column="valid_from", is_null=True), *rows) == [False, True]
    alive = deletions(format, DeleteWhen(column="valid_from", is_null=False), *rows, {**rows[0], "valid_from": ""})
    assert alive == [True, False, False], "empty text is no value"


@pytest.mark.parametrize("format", ["parquet", "json", "csv", "avro"])
def test_an_object_without_the_column_whose_null_deletes_is_refused(format: str):
    with pytest.raises(Incompatible, match="every row would be a deletion"):
        read(format, DeleteWhen(column="valid_from", is_null=True), {"id": 1, "seq": 1})
    assert deletions(format, DeleteWhen(column="deleted_at", is_null=False), {"id": 1, "seq": 1}) == [False]


def test_deletions_under_another_word_than_the_rules_refuse_the_object():
    rows = [{"id": 1, "op_type": "U", "seq": 1}, {"id": 2, "op_type": "D", "seq": 2}]
    for values in (("d",), ("DELETE",), ("T",)):
        with pytest.raises(DeletionsUnmarked, match="holds D, which"):
            read("json", DeleteWhen(column="op_type", values=values), *rows)
    assert read("json", DeleteWhen(column="op_type", values=("D", "T")), *rows)[1]["__deleted"]


# SQL Server's and Oracle's CHAR(n) are filled up with spaces; AWS DMS has MySQL's BIT(1) as a byte:
# https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Source.MySQL.html
@pytest.mark.parametrize(("update", "word"), [("U ", "D "), ("UPDATE    ", "DELETE    ")])
def test_operations_in_a_text_of_fixed_length_are_operations(update: str, word: str) -> None:
    rows = [{"id": 1, "op_type": update, "seq": 1}, {"id": 2, "op_type": word, "seq": 2}]
    for rule in (DeleteWhen(), DeleteWhen(column="op_type", values=(word.strip(),))):
        with pytest.raises(DeletionsUnmarked):
            read("csv", rule, *rows)
    assert deletions("csv", DeleteWhen(column="op_type", values=(word,)), *rows) == [False, True]


@pytest.mark.parametrize("value", ["1", "true"])
def test_a_byte_for_true_under_another_word_refuses_the_object(value: str) -> None:
    rows = [{"id": 1, "gone": b"\0", "seq": 1}, {"id": 2, "gone": b"\1", "seq": 2}]
    with pytest.raises(DeletionsUnmarked):
        read("parquet", DeleteWhen(column="gone", values=(value,)), *rows)
    assert read("parquet", DeleteWhen(column="gone", values=("\1",)), *rows)[1]["__deleted"]


@pytest.mark.parametrize(
    ("value", "held"), [("true", "t"), ("true", 1), ("true", "yes"), ("1", True), ("false", 0), ("Y", "1")]
)
@pytest.mark.parametrize("format", ["json", "parquet"])
def test_deletions_under_another_word_for_a_boolean_refuse_the_object(format: str, value: str, held: Any):
    rule = DeleteWhen(column="gone", values=(value,))
    with pytest.raises(DeletionsUnmarked, match="gone holds (t|1|yes|true|0), which"):
        read(format, rule, {"id": 1, "gone": None, "seq": 1}, {"id": 2, "gone": held, "seq": 2})


@pytest.mark.parametrize(
    ("word", "held"), [("DELETE", "delete"), ("DELETE", "D"), ("D", "delete"), (True, "True"), (True, 1)]
)
def test_deletions_at_a_path_under_another_word_are_set_aside(word: Any, held: Any):
    change = {"row": "payload.new", "order": "seq"}
    rule = {"topic": "s.t", "table": "d.t", "record_key": "id", "change": change}
    made = [{"payload": {"op": op, "new": {"id": 1}}, "seq": seq} for seq, op in enumerate((0, held))]
    marks = {"delete_when": {"column": "payload.op", "values": [word]}}
    played = play({"topics/s.t/1.json": lines(*made)}, rules({**rule, **marks}))
    assert (played.rows, played.refused) == ([{"id": 1}], ["unusable_schema"])
    assert f"holds {mark_text(held)} at `payload.op`, a deletion" in played.reasons[0]


@pytest.mark.parametrize("owner", ["database", "schema"])
def test_changes_whose_row_lies_in_a_field_are_refused_whatever_the_rule_marks(owner: str):
    change = {"id": 0, owner: "shop", "table": "t", "type": "INSERT", "seq": 1, "data": [{"id": "1", "name": "a"}]}
    for rule in (DeleteWhen(), DeleteWhen(column="type", values=("DELETE",))):
        with pytest.raises(DeletionsUnmarked, match="lies in `data`"):
            read("json", rule, change)
    assert len(read("json", DeleteWhen(on=False), change)) == 1


@pytest.mark.parametrize(
    "shown",
    [
        *("opcode I U D", "dbz_op c u d", "cdc_op_code D", "operation INS UPD DEL", "op PUT REMOVE", "REC_IND U I D"),
        *("eventName INSERT MODIFY REMOVE", "eventName REMOVE", "audit_action I D", "kind update delete"),
    ],
)
@pytest.mark.parametrize("format", ["json", "csv", "parquet", "avro"])
def test_operations_in_a_column_of_no_known_name_are_asked_for(format: str, shown: str):
    column, *words = shown.split()
    rows = [{"id": at, column: word, "seq": at, "note": None} for at, word in enumerate(words)]
    with pytest.raises(DeletionsUnmarked, match=f"holds operations.*column: {column}, values: .{words[-1]}"):
        read(format, DeleteWhen(), *rows)
    deleted = deletions(format, DeleteWhen(column=column, values=(words[-1],)), *rows)
    assert deleted == [False] * (len(rows) - 1) + [True]
    with pytest.raises(DeletionsUnmarked, match="doesn't name"):
        read(format, DeleteWhen(column=column, values=(words[-1].swapcase(),)), *rows)


@pytest.mark.parametrize("column", ["operation", "kind", "event", "grade", "change_direction", "privilege"])
def test_data_in_columns_with_such_names_is_data(column: str):
    values = {"event": "login delete", "grade": "a d c", "change_direction": "u d", "privilege": "select delete update"}
    for words in values.get(column, "A B,insert reversal,D 3").split(","):
        rows = [{"id": number, column: word, "seq": number} for number, word in enumerate(words.split())]
        assert len(read("json", DeleteWhen(), *rows)) == len(rows)


def test_a_deletion_that_has_the_key_alone_says_what_it_lacks():
    bad: list[RowError] = []
    rows = [{"Op": "U", "id": 1, "seq": 7}, {"Op": "D", "id": 2, "seq": None}]
    assert picked(read("parquet", DeleteWhen(column="Op", values=("D",)), *rows, bad=bad), "id") == [(1,)]
    assert bad[0].code == "unordered_change" and "deletion has no value of the position column seq" in bad[0].reason


@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal128(19, 0), pa.decimal128(38, 0)])
def test_a_position_may_be_a_number_of_more_digits_than_a_long(kind: Any):
    numbers = pa.array([300, 5, 299], pa.int64()).cast(kind)
    body = parquet_of(pa.table({"id": [1, 1, 1], "name": ["new", "old", "mid"], "at": numbers}))
    rule = {"topic": "s.cust", "table": "d.cust", "record_key": "id", "position": "at"}
    assert [row["name"] for row in play({"topics/s.cust/x.parquet": body}, rules(rule)).rows] == ["new"]


def test_a_position_in_bytes_without_a_type_is_read_as_text():
    rule = DeleteWhen(column="Op", values=("D",))
    at = [b"2026-11-21 10:04:30", b"2026-11-21 10:04:31"]
    in_bytes = read("parquet", rule, *({"Op": b"U", "id": 1, "seq": value} for value in at))
    texts = read("parquet", rule, *({"Op": "U", "id": 1, "seq": value.decode()} for value in at))
    assert picked(in_bytes, "_sluice_position") == picked(texts, "_sluice_position")
    bad: list[RowError] = []
    read("parquet", rule, {"Op": b"U", "id": 1, "seq": b"\x00\x00\x2a"}, bad=bad)
    assert [row.code for row in bad] == ["unordered_change"]


KINESIS = {"record-type": "data", "operation": "update", "commit-timestamp": "2026-11-27T09:00:00.000000Z"}
WEBHOOK = {"type": "UPDATE", "schema": "s", "table": "cust", "commit_timestamp": "2026-11-27T09:00:00Z"}
SOURCE = {"connector": "postgresql", "db": "d", "schema": "s", "table": "cust", "lsn": 7}
BY_OP = {"delete_when": {"column": "Op", "values": ["D"]}}
BY_COMMIT = {
    "change": {"row": "record", "before": "old_record", "order": "commit_timestamp"},
    "delete_when": {"column": "type", "values": ["DELETE"]},
}


@pytest.mark.parametrize(
    ("write", "record", "rule"),
    [
        *(
            (write, lambda row: {**row, "at": "2026"}, {"position": "at"})
            for write in (lines, csv, plain_parquet, avro)
        ),
        (lines, lambda row: {**row, "Op": "U", "at": 7}, {"position": "at", **BY_OP}),
        (lines, lambda row: {"data": row, "metadata": {**KINESIS, "schema-name": "s", "table-name": "cust"}}, {}),
        (lines, lambda row: {**WEBHOOK, "record": row, "old_record": None}, BY_COMMIT),
        (lines, lambda row: {"op": "u", "before": None, "after": row, "source": SOURCE}, {}),
        (lines, lambda row: {"op": "r", "before": None, "after": row, "source": {**SOURCE, "lsn": None}}, {}),
    ],
)
def test_changes_at_one_place_are_ordered_by_their_objects_and_then_in_these(write: Any, record: Any, rule: Any):
    end = {lines: "json", csv: "csv", plain_parquet: "parquet", avro: "avro"}[write]
    earlier = [record({"id": id, "name": name}) for id, name in ((3, "x"), (1, "a"), (1, "b"), (2, "b"))]
    objects = {f"topics/s.cust/{number}.{end}": write(*rows) for number, rows in enumerate([earlier, earlier[:0:-1]])}
    objects[f"topics/s.cust/2.{end}"] = write(record({"id": 1, "name": "c"}))
    for order in (list(objects), list(objects)[::-1]):
        table = rules({"topic": "s.cust", "table": "d.cust", "record_key": "id", **rule})
        played = play({key: objects[key] for key in order}, table)
        names = {str(row["id"]): row["name"] for row in played.rows}
        assert (names, played.refused) == ({"1": "c", "2": "b", "3": "x"}, [])
