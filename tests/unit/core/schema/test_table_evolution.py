"""The effect of a writer schema on a table, column by column, and the changes a stored type allows."""

import pytest
from support.builders import avro_record, flattened

from sluice.config.delete_when import DeleteWhen
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import FREEZE, TableConfig
from sluice.errors import Incompatible, SchemaFrozen
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import RowSchema, decimal_column, plain_column
from sluice.schema.evolution import evolve, evolve_table, refused, rewritten_columns, widen
from sluice.schema.table_row import row_for_table


def row(**columns):
    def column(name, kind):
        is_plain = isinstance(kind, str)
        return plain_column(name, kind, True, kind) if is_plain else decimal_column(name, *kind, True, "decimal")

    return RowSchema(tuple(column(*item) for item in columns.items()))


def verdict(stored, **columns):
    return evolve(stored, row(**columns), record_key=("id",), partition_by=("place",))


@pytest.mark.parametrize(
    "stored, written, becomes, change",
    [
        ("int", "int", "int", "same"),
        ("int", "bigint", "bigint", "promoted"),
        ("bigint", "int", "bigint", "narrower"),
        ("float", "double", "double", "promoted"),
        ("double", "float", "double", "narrower"),
        ("array<int>", "array<bigint>", "array<bigint>", "rewritten"),
        ("array<array<float>>", "array<array<double>>", "array<array<double>>", "rewritten"),  # Hudi casts no items
        ("decimal(18,4)", "decimal(9,2)", "decimal(18,4)", "narrower"),
        ("decimal(17,4)", "decimal(18,4)", "decimal(18,4)", "promoted"),  # as many bytes, the same scale
        ("decimal(18,4)", "decimal(19,4)", "decimal(19,4)", "rewritten"),  # a longer fixed field
        # another scale: Hudi 1.0 would keep the bytes
        ("decimal(17,4)", "decimal(18,5)", "decimal(18,5)", "rewritten"),
        ("decimal(18,4)", "decimal(9,6)", "decimal(20,6)", "rewritten"),
        ("array<decimal(10,2)>", "array<decimal(10,4)>", "array<decimal(12,4)>", "rewritten"),
    ],
)
def test_a_stored_type_becomes_what_holds_both(stored, written, becomes, change):
    wider = widen("c", stored, written)
    assert (wider.type, wider.change) == (becomes, change)


@pytest.mark.parametrize(
    "stored, written",
    [
        ("int", "string"),
        ("string", "int"),
        ("bigint", "double"),
        ("int", "decimal(10,0)"),
        ("decimal(38,0)", "decimal(38,18)"),
        ("date", "timestamp"),
        ("timestamp", "bigint"),
        ("string", "array<string>"),
        ("array<int>", "array<string>"),
        ("boolean", "int"),
        ("binary", "string"),
    ],
)
def test_a_verdict_names_the_column_the_old_and_the_new_type_and_what_to_do(stored, written):
    with pytest.raises(Incompatible) as raised:
        widen("c", stored, written)
    assert raised.value.facts["column"] == "c"
    described = str(raised.value)
    assert "Column c" in described and "Change it back" in described and "retry" in described
    assert all(part in described for part in raised.value.facts["types"])


def test_a_type_that_the_rule_declares_is_corrected_in_the_rule_or_by_a_rebuild():
    table = TableConfig("shop.rental", "shop", "rental", "x", ("id",), json_types={"day": "date"}, lane="big")
    with pytest.raises(Incompatible) as raised:
        evolve_table({"id": "int", "day": "bigint"}, row(id="int", day="date"), table)
    assert raised.value.facts["types"] == ["bigint", "date"]
    described = str(raised.value)
    assert "Column day is date and the table has bigint. The rule's `types` declares it as date" in described
    assert "`sluice pause big`, `sluice rebuild table shop.rental`, push again, `sluice resume big`" in described
    assert "at the source" not in described
    with pytest.raises(Incompatible, match="at the source"):
        evolve_table({"id": "int", "day": "bigint", "n": "int"}, row(id="int", n="string"), table)


def test_a_type_that_the_rule_no_longer_declares_can_be_restored():
    table = TableConfig("shop.rental", "shop", "rental", "x", ("id",), lane="big")
    csv = avro_record({"id": "int", "day": ["null", "string"]}, name="sluice.csv.Row")
    for name, untyped in (("sluice.csv.Row", True), ("sluice.json.Value", True), ("crm.Value", False)):
        writer = read_writer_schema({**csv, "name": name})
        with pytest.raises(Incompatible) as raised:
            evolve_table({"id": "int", "day": "date"}, writer.row, table, untyped=writer.untyped)
        described = str(raised.value)
        assert "Column day is string and the table has date" in described
        assert ("Change it back to date at the source" in described) is not untyped
        restore = "the rule's `types` has no entry for day. Add one that makes it date, run `sluice config push`"
        assert (restore in described) is untyped
        assert ("Or leave it out and rebuild the table: `sluice pause big`, `sluice rebuild" in described) is untyped


def test_decimals_that_no_decimal_holds_say_how_many_digits_they_need():
    with pytest.raises(Incompatible, match="56 digits"):
        widen("c", "decimal(38,0)", "decimal(38,18)")


def test_a_first_schema_makes_the_table():
    judged = verdict(None, id="int", n="long")
    assert (judged.verdict, judged.changes, dict(judged.target)) == ("new_table", (), {"id": "int", "n": "bigint"})


def test_columns_are_grouped_by_what_changes_about_them():
    data = {"id": "int", "n": "int", "wide": "bigint", "gone": "string", "price": "decimal(18,4)"}
    stored = {**data, "_sluice_position": "string", "__deleted": "boolean"}
    judged = verdict(stored, id="int", n="long", wide="int", price=(24, 6), fresh="string")
    assert [(change.column, change.change, change.to) for change in judged.changes] == [
        ("n", "promoted", "bigint"),
        ("wide", "narrower", "bigint"),
        ("gone", "dropped", "string"),
        ("price", "rewritten", "decimal(24,6)"),
        ("fresh", "added", "string"),
    ]
    assert judged.verdict == "rewritten" and list(judged.target) == [*stored, "fresh"]
    assert rewritten_columns(stored, judged.target) == ("price",)


@pytest.mark.parametrize(
    "columns, expected",
    [
        ({"id": "int", "a": "string"}, "same"),
        ({"a": "string", "id": "int"}, "same"),
        ({"id": "int"}, "dropped"),
        ({"id": "int", "a": "string", "b": "string"}, "added"),
        ({"id": "int", "renamed": "string"}, "added"),
        ({"id": "long", "a": "string"}, "promoted"),
    ],
)
def test_the_verdict_is_the_strongest_of_the_columns(columns, expected):
    assert verdict({"id": "int", "a": "string"}, **columns).verdict == expected


def test_a_wrong_key_of_a_table_without_data_is_to_be_corrected_in_the_file():
    with pytest.raises(Incompatible, match="record key id is not a column") as raised:
        verdict(None, n="int")
    assert raised.value.next_step.startswith("Correct `record_key` in tables.yaml, run `sluice config push`, then ")


def test_a_renamed_column_is_one_added_and_one_dropped():
    judged = verdict({"id": "int", "a": "string"}, id="int", b="string")
    assert {change.column: change.change for change in judged.changes} == {"a": "dropped", "b": "added"}


@pytest.mark.parametrize(
    "stored, columns, described",
    [
        ({"id": "int"}, {"n": "int"}, "record key id is not a column"),
        ({"id": "int"}, {"id": "string"}, "Column id is string"),
        ({"id": "float"}, {"id": "double"}, "part of the table's key"),
        ({"id": "int", "place": "decimal(5,0)"}, {"id": "int", "place": (5, 2)}, "part of the table's key"),
        ({"id": "int", "a": "int"}, {"id": "int", "A": "int"}, "differ in case only"),
    ],
)
def test_what_a_table_cannot_take_is_refused_with_a_way_out(stored, columns, described):
    with pytest.raises(Incompatible, match=described) as raised:
        verdict(stored, **columns)
    assert "to another topic" in str(raised.value) or "`columns: {rename: {" in str(raised.value)
    assert "table of another name" not in str(raised.value)  # a push refuses to move the topic of a table with data
    (change,) = refused(raised.value).changes
    assert (change.change, change.column) == ("incompatible", raised.value.facts["column"])


def table_of(**settings):
    return TableConfig("db.t", "db", "t", "x", **{"record_key": ("id",), **settings})


def refused_by(table, columns, *, untyped=False, **stored):
    with pytest.raises(Incompatible) as raised:
        evolve_table(stored, row(**columns), table, untyped=untyped)
    return str(raised.value)


@pytest.mark.parametrize("untyped", [True, False])
def test_a_name_in_another_case_is_renamed_by_the_rule(untyped):
    described = refused_by(table_of(), {"id": "int", "Name": "string"}, untyped=untyped, id="int", name="string")
    assert "Put `columns: {rename: {Name: name}}` into the table's rule, `sluice config push`" in described
    assert "`types`" not in described


def test_a_renamed_key_is_renamed_back_by_the_rule():
    described = refused_by(table_of(), {"item_id": "int"}, id="int")
    assert "If the source renamed it, put `columns: {rename: {NEW: id}}` into the table's rule" in described


@pytest.mark.parametrize("stored", [{"id": "int"}, None])
def test_a_key_that_untyped_objects_leave_null_is_called_so(stored):
    with pytest.raises(Incompatible) as raised:
        evolve_table(stored, row(n="int"), table_of(), untyped=True)
    assert "The record key id is null or absent in all records of the object" in str(raised.value)
    assert "a value of it in every row" in str(raised.value)


def test_a_new_type_goes_to_another_column_by_the_sources_name():
    table = table_of(columns=ColumnRules(rename={"eml": "email"}))
    described = refused_by(table, {"id": "int", "email": "int"}, id="int", email="boolean")
    assert "put `columns: {rename: {eml: NAME}}` into the table's rule" in described


def test_a_column_that_the_rule_now_hashes_is_named_with_its_cause():
    table = table_of(columns=ColumnRules(mask={"n": 0}))
    described = refused_by(table, {"id": "int", "n": "string"}, id="int", n="int")
    assert "The rule's `columns` makes it text. Take it out there, run `sluice config push`" in described
    assert "keep it and rebuild the table" in described and "at the source" not in described


@pytest.mark.parametrize("settings", [{"record_key": ("at",)}, {"partition_by": ("at",)}, {"position": "at"}])
def test_a_new_type_of_a_fixed_column_is_not_renamed(settings):
    described = refused_by(table_of(**settings), {"id": "int", "at": "long"}, id="int", at="string")
    assert "rename" not in described and "to another topic" in described


def frozen(**settings):
    return table_of(schema=FREEZE, **settings)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ({"id": "long", "name": "string", "more": "string"}, "column more is new"),
        ({"id": "long", "name": "string", "n": "long"}, "column n is bigint and the table has int"),
    ],
    ids=["new column", "wider type"],
)
def test_a_frozen_table_takes_no_new_column_and_no_wider_type(written, why):
    before = {"id": "bigint", "name": "string", "n": "int"}
    with pytest.raises(SchemaFrozen, match=why) as refusal:
        evolve_table(before, row(**written), frozen())
    assert "schema: evolve" in refusal.value.next_step and refusal.value.code == "schema_frozen"
    assert refused(refusal.value).verdict == "incompatible"


SAME, LESS = {"id": "long", "name": "string", "n": "int"}, {"id": "int", "n": "int"}


@pytest.mark.parametrize("written", [SAME, LESS], ids=["the same", "narrower and fewer"])
def test_a_frozen_table_takes_what_does_not_change_it(written):
    before = {"id": "bigint", "name": "string", "n": "int"}
    assert evolve_table(before, row(**written), frozen()).target == before
    assert evolve_table(None, row(**written), frozen()).verdict == "new_table"


def test_a_frozen_table_goes_on_without_a_new_column_that_its_rule_excludes():
    config = frozen(columns=ColumnRules(exclude=("more",)))
    written = row_for_table(row(id="long", more="string"), config)
    assert evolve_table({"id": "bigint"}, written, config).verdict == "same"


def test_no_column_orders_changes_of_a_log_whose_deletions_lack_it():
    config = table_of(position="at")
    columns = row(id="long", at="long")
    assert evolve_table(None, columns, config).target["at"] == "bigint"
    with pytest.raises(Incompatible, match="deletions do not carry it") as new:
        evolve_table(None, columns, config, of_changes=True)
    assert new.value.next_step.startswith("Take `position` out")
    rows_alone = read_writer_schema(avro_record({"id": "int"}, name="V"))
    assert not rows_alone.of_changes and read_writer_schema(flattened({"id": "int"})).of_changes


def test_an_object_without_the_position_column_is_told_what_its_source_must_write():
    marks = DeleteWhen(column="Op", values=("D",))
    config = table_of(position="seq", delete_when=marks)
    with pytest.raises(Incompatible, match="seq is not a column of this schema") as lacked:
        evolve_table(None, row(id="long"), config)
    assert lacked.value.next_step.endswith("`sluice quarantine retry --code incompatible_schema`")
