"""The rules proposed for a topic, their evidence, and the choices left to the operator."""

from dataclasses import replace
from itertools import product

import pytest

from sluice.config.delete_when import DeleteWhen
from sluice.config.rules.columns import ColumnRules
from sluice.config.rules.expectations import Expectations
from sluice.config.table import TableConfig
from sluice.onboarding import fit
from sluice.onboarding.discovery import SMALL_BYTES, propose
from sluice.onboarding.keys import AMBIGUOUS, CERTAIN, LIKELY, Choice
from sluice.onboarding.samples import SampledRow, TopicSample, sampled_row
from sluice.schema.avro import read_writer_schema
from sluice.schema.columns import RowSchema
from sluice_cli.config.rule_text import add_rules, rules_text, whole_text, with_rules
from sluice_cli.config.source import read_tables
from sluice_cli.main import run

META = [{"name": "__op", "type": ["null", "string"]}, {"name": "__lsn", "type": ["null", "long"]}]


def schema(*columns, meta=META):
    fields = [*({"name": name, "type": kind} for name, kind in columns), *meta]
    return read_writer_schema({"type": "record", "name": "V", "fields": fields})


SALES = schema(
    ("salesid", "int"), ("listid", "int"), ("dateid", "int"), ("price", "double"), ("note", ["null", "string"])
)


def sales(count, op="r", **values):
    return [
        {"salesid": n, "listid": n % 7, "dateid": n % 3, "price": n / 2, "note": None, "__op": op, "__lsn": 5, **values}
        for n in range(1, count + 1)
    ]


def sample(records, writer=SALES, topic="tickit.ecomm.sale", **more):
    rows = tuple(row for row in (sampled_row(record, writer) for record in records) if row is not None)
    return replace(TopicSample(topic, 3, 1000, 3, ("avro",), writer, rows=rows), **more)


def test_a_unique_column_named_as_its_table_is_the_likely_key():
    proposal = propose(sample(sales(40)))
    expected = (("ecomm.sale",), ("salesid",), LIKELY, ())
    assert (proposal.table.value, proposal.record_key.value, proposal.record_key.confidence, proposal.open) == expected
    assert "unique and never null in 40 rows" in proposal.record_key.evidence


def test_the_kafka_keys_fields_are_certain_and_go_before_every_name():
    record_key = propose(sample(sales(40), key_fields=("listid", "dateid"), key_file="x.keys.avro")).record_key
    assert (record_key.value, record_key.confidence) == (("listid", "dateid"), CERTAIN)
    assert "x.keys.avro" in record_key.evidence[0]


def test_a_kafka_key_that_rows_lack_is_not_taken_without_asking():
    rows = [{**row, "note": None if row["salesid"] == 3 else "x"} for row in sales(12)]
    assert propose(sample(rows, key_fields=("note",))).record_key.confidence == AMBIGUOUS


def test_updates_of_a_row_and_repeated_deliveries_do_not_make_its_key_less_unique():
    records = sales(20) + sales(20) + sales(5, op="u", price=9.0)
    assert propose(sample(records)).record_key.confidence == LIKELY


def test_the_only_column_present_in_deletions_is_the_key():
    writer = schema(("a", "int"), ("b", "int"), ("c", "string"))
    rows = [{"a": n, "b": n + 100, "c": f"t{n}", "__op": "r", "__lsn": 1} for n in range(1, 30)]
    gone = [{"a": 0, "b": n + 100, "c": "", "__op": "d", "__lsn": 2} for n in range(1, 4)]
    assert propose(sample(rows, writer)).record_key.confidence == AMBIGUOUS
    record_key = propose(sample(rows + gone, writer)).record_key
    assert (record_key.value, record_key.confidence) == (("b",), LIKELY)


def test_the_columns_present_in_deletions_form_the_key_together():
    writer = schema(("basket", "int"), ("line", "int"), ("what", "string"), ("price", "double"))
    bought = {"what": "x", "price": 1.0, "__op": "c", "__lsn": 1}
    rows = [{"basket": n // 4 + 1, "line": n % 4 + 1, **bought} for n in range(40)]
    gone = [{**row, "what": "", "price": 0.0, "__op": "d"} for row in rows[:6]]
    assert propose(sample(rows + gone, writer)).record_key.value == ("basket", "line")


@pytest.mark.parametrize("records", [sales(4), [{**row, "salesid": row["salesid"] // 2} for row in sales(40)], []])
def test_too_few_rows_repeated_keys_and_no_rows_are_left_to_the_operator(records):
    proposal = propose(sample(records))
    assert proposal.open == ("record_key",)
    assert proposal.record_key.evidence


def test_of_several_unique_columns_without_a_telling_name_none_is_guessed():
    writer = schema(("x", "int"), ("y", "int"))
    rows = [{"x": n, "y": -n, "__op": "r", "__lsn": 1} for n in range(20)]
    assert propose(sample(rows, writer)).open == ("record_key",)


def nullable(*columns):
    return schema(*((name, ["null", kind]) for name, kind in columns))


def test_a_schema_in_which_every_column_can_be_null_says_nothing_against_a_key():
    rows = [{"id": n, "what": "x", "__op": "r", "__lsn": 1} for n in range(20)]
    writer = nullable(("id", "long"), ("what", "string"))
    record_key = propose(sample(rows, writer, topic="shop.public.item")).record_key
    assert (record_key.value, record_key.confidence) == (("id",), LIKELY)


def test_a_column_named_as_the_key_goes_before_one_that_is_unique_by_chance():
    writer = nullable(("id", "long"), ("name", "string"))
    rows = [{"id": n // 2, "name": f"n{n}", "__op": "r", "__lsn": 1} for n in range(20)]
    record_key = propose(sample(rows, writer, topic="crm.public.person")).record_key
    assert (record_key.value, record_key.confidence, record_key.alternatives) == (("id",), AMBIGUOUS, (("name",),))
    assert any("10 of 20 rows repeat it" in reason for reason in record_key.evidence)
    rows = [{"id": n or None, "name": f"n{n}", "__op": "r", "__lsn": 1} for n in range(20)]
    record_key = propose(sample(rows, writer, topic="crm.public.person")).record_key
    assert record_key.value == ("id",) and "null in 1 of 20 rows" in record_key.evidence[1]


def order_lines(count, op="r"):
    columns = ("order_id", "product_id", "unit_price", "quantity", "__op", "__lsn")
    rows = [(10248 + n // 3, 11 + n % 3 * 7 + n // 9, 1400 + 10 * n, n + 1, op, 5) for n in range(count)]
    return [dict(zip(columns, row, strict=True)) for row in rows]


LINES = schema(("order_id", "long"), ("product_id", "long"), ("unit_price", "long"), ("quantity", "long"))


@pytest.mark.parametrize("topic", ["shop.public.order_details", "shop.public.order_lines", "shop.public.lines"])
@pytest.mark.parametrize("op", ["r", "c"])
def test_the_lines_of_orders_get_a_key_of_two_columns_and_never_a_measure(topic, op):
    record_key = propose(sample(order_lines(40, op), LINES, topic=topic)).record_key
    assert (record_key.value, record_key.confidence) == (("order_id", "product_id"), LIKELY)
    assert not any("created again" in reason for reason in record_key.evidence) and record_key.alternatives == ()
    few = propose(sample(order_lines(8, op), LINES, topic=topic)).record_key
    assert (few.value, few.confidence) == (("order_id", "product_id"), AMBIGUOUS)
    assert "8 rows are too few" in few.evidence
    (rule,) = read_tables(whole_text([propose(sample(order_lines(40, op), LINES, topic=topic))])).rules
    assert rule.record_key == ("order_id", "product_id")


def test_of_several_keys_of_two_columns_the_operator_chooses():
    writer = schema(("order_id", "long"), ("line_no", "int"), ("product_id", "long"), ("note", ["null", "string"]))
    rows = [{"order_id": n // 3, "line_no": n % 3, "product_id": 7 * n % 11, "note": None} for n in range(1, 31)]
    rows = [{**row, "__op": "r", "__lsn": 5} for row in rows]
    record_key = propose(sample(rows, writer, topic="s.public.order_lines")).record_key
    assert record_key.value == ("order_id", "line_no") and record_key.confidence == AMBIGUOUS
    assert ("order_id", "product_id") in record_key.alternatives


def test_three_columns_are_a_key_where_no_two_are_and_a_day_is_left_to_the_operator():
    three = schema(("store_id", "int"), ("product_id", "int"), ("batch_no", "int"), ("amount", "double"))
    expected = ("store_id", "product_id", "batch_no")
    combined = product(range(3), repeat=3)
    rows = [{**dict(zip(expected, of)), "amount": 1.5, "__op": "r", "__lsn": 5} for of in combined]
    assert propose(sample(rows, three, topic="s.public.stock")).record_key.value == expected
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    days = schema(("store_id", "int"), ("sales_date", day), ("total", "long"))
    rows = [{"store_id": n % 4, "sales_date": n // 4, "total": n, "__op": "r", "__lsn": 5} for n in range(24)]
    record_key = propose(sample(rows, days, topic="s.public.daily")).record_key
    assert (record_key.value, record_key.confidence) == (("store_id", "sales_date"), AMBIGUOUS)


def test_a_measure_that_is_unique_by_chance_is_offered_nowhere():
    rows = [{**row, "order_id": 1, "product_id": n % 2} for n, row in enumerate(order_lines(20))]
    lines = sample(rows, LINES, topic="s.public.order_details")
    assert "unit_price" not in rules_text([propose(lines)]).partition("partition_by")[0]
    rows = [{"price_id": n, "__op": "r", "__lsn": 5} for n in range(20)]
    assert "price_id" in rules_text([propose(sample(rows, schema(("price_id", "int"))))])
    table = TableConfig("s.o", "s", "o", "t", ("order_id",))
    (text,) = misfits(sample(order_lines(20), LINES), table)
    assert text.endswith("; order_id and product_id are unique together")


def test_a_chosen_table_that_another_topic_has_stays_open():
    taken, chosen = frozenset({"public.users"}), {"table": ("public.users",), "record_key": ("salesid",)}
    proposal = propose(sample(sales(40)), chosen=chosen, taken=taken)
    assert (proposal.open, proposal.table.evidence) == (("table",), ("public.users is another topic's table",))


def test_a_choice_on_the_command_line_decides_and_one_of_an_absent_column_does_not():
    assert propose(sample(sales(4)), chosen={"record_key": ("salesid", "listid")}).open == ()
    assert propose(sample(sales(40)), chosen={"record_key": ("salesno",)}).open == ("record_key",)


def test_partition_columns_are_named_and_only_a_large_table_must_be_decided():
    small = propose(sample(sales(60))).partition_by
    assert (small.value, small.alternatives) == ((), (("dateid",),))
    large = propose(sample(sales(60), bytes=SMALL_BYTES))
    assert large.open == ("partition_by",)
    assert propose(sample(sales(60), bytes=SMALL_BYTES), chosen={"partition_by": ()}).partition_by.decided


@pytest.mark.parametrize(
    ("topic", "taken", "table"),
    [
        ("orders", (), ()),
        ("A.Pub.My-Orders", (), ("pub.my_orders",)),
        ("x.public.9lives", (), ("public.t_9lives",)),
        ("x.public._prisma_migrations", (), ("public.prisma_migrations",)),
        ("s.db.t", ("db.t",), ()),
    ],
)
def test_a_topics_name_makes_the_tables_name_or_none(topic, taken, table):
    assert propose(sample(sales(40), topic=topic), taken=frozenset(taken)).table.value == table
    assert propose(sample(sales(40), topic="orders"), database="shop").table.value == ("shop.orders",)


def test_truncates_and_messages_are_no_rows():
    assert sampled_row({"__op": "t"}, SALES) is None
    values = dict.fromkeys(SALES.row.names) | {"salesid": 1}
    assert sampled_row({"salesid": 1, "__op": "d"}, SALES) == SampledRow(values, True, False, place=(None,))


def test_what_is_proposed_is_a_tables_yaml_that_is_read_back():
    odd = propose(sample(sales(40), topic="1.2"), database="shop")
    text = whole_text([propose(sample(sales(40))), odd, propose(sample([], topic="a.b.open"))])
    topics = ["tickit.ecomm.sale", *["1.2"] * (not odd.open)]
    assert [(rule.topic, rule.record_key) for rule in read_tables(text).rules] == [
        (topic, ("salesid",)) for topic in topics
    ]
    assert "# - topic: a.b.open" in text


def test_names_in_objects_cannot_end_a_comment():
    evil = propose(replace(sample([]), problems=("bad\n- topic: evil",)))
    assert not [line for line in whole_text([evil]).splitlines()[1:] if not line.strip().startswith("#")]
    hostile = propose(sample([], schema(("bad\n- topic: evil", "int"), ("bad\x85- topic: worse", "int"))))
    assert len(hostile.notes) == 2
    assert not [line for line in whole_text([hostile]).splitlines()[1:] if not line.strip().startswith("#")]


@pytest.mark.parametrize("rest", ["", "\n# what follows\nlanes:\n  main: {linger: 1m}\n"])
def test_rules_are_added_at_the_end_of_the_list_and_nothing_else_changes(rest):
    text = "tables:   # mine\n    - {topic: a.b, table: a.b, record_key: id}  # first\n" + rest
    whole, first, last = with_rules(text, lambda indent: rules_text([propose(sample(sales(40)))], indent))
    assert [rule.table for rule in read_tables(whole).rules] == ["a.b", "ecomm.sale"]
    lines = whole.splitlines(keepends=True)
    assert "".join(lines[: first - 2] + lines[last:]) == text
    assert lines[last - 1].strip() == "record_key: salesid"


def test_rules_replace_the_example_of_a_new_project_but_no_rule_of_its_own(tmp_path):
    file = tmp_path / "tables.yaml"
    assert run(["init", str(tmp_path)]) == 0
    new = file.read_text()
    said = add_rules(file, 1, lambda indent: rules_text([propose(sample(sales(40)))], indent))
    assert [rule.table for rule in read_tables(file.read_text()).rules] == ["ecomm.sale"]
    head = new[: new.index("  # An example")]
    assert file.read_text().startswith(head) and "An example" not in file.read_text()
    lines = file.read_text().splitlines()
    assert f"lines {head.count(chr(10)) + 1} to {len(lines)} in place of the example" in said
    changed = new.replace("record_key: id ", "record_key: uid")
    whole, _, last = with_rules(changed, lambda indent: "  - {topic: a.b, table: a.b, record_key: id}\n")
    assert [rule.table for rule in read_tables(whole).rules] == ["example.user", "a.b"]
    assert whole.splitlines()[last - 1] == "  - {topic: a.b, table: a.b, record_key: id}"


@pytest.mark.parametrize(
    "empty", ["tables: []", "tables:", "tables: # mine", "tables: []  # mine", "tables:\n  []", "tables: ~"]
)
@pytest.mark.parametrize("rest", ["", "\n", "\n# what follows\nlanes:\n  main: {linger: 1m}\n"])
def test_rules_are_added_to_an_empty_list(empty, rest):
    whole, first, last = with_rules(f"# head\n{empty}{rest}", lambda indent: "  - {topic: a.b, table: c.d}\n")
    mine = "  # mine" if "[]  #" in empty else " # mine" if "# mine" in empty else ""
    assert whole == f"# head\ntables:{mine}\n  - {{topic: a.b, table: c.d}}\n{rest.removeprefix(chr(10))}"
    assert first == last == 3


def dms(*rows):
    plain = schema(("Op", "string"), ("film_id", "int"), ("title", "string"), ("seq", "string"), meta=[])
    records = [{"Op": op, "film_id": id, "title": "t", "seq": seq} for op, id, seq in rows]
    return sample(records, plain, topic="public.film", offsets_named=False)


DMS = dms(*(("I", id, "") for id in range(20)), ("D", 3, "20230521061524000000000000000000001"))


@pytest.mark.parametrize("capture, marks", [("name", None), ("InternalId", ("type", ("Delete",)))])
def test_a_name_that_others_have_marks_deletions_only_beside_its_captures_column(capture, marks):
    rows = [{"id": str(id), "type": "Delete" if id else "BeginSnapshot", capture: "1"} for id in range(9)]
    assert propose(sample(rows, schema(*((name, "string") for name in rows[0]), meta=[]))).delete_when == marks


def test_a_column_of_operations_is_proposed_as_the_mark_of_deletions():
    proposal = propose(DMS)
    assert (proposal.delete_when, proposal.position.value) == (("Op", ("D",)), ("seq",))
    assert "Op holds operations: rows with D are deletions" in proposal.notes
    (rule,) = read_tables(whole_text([replace(proposal, record_key=Choice(("film_id",), LIKELY, ("x",)))])).rules
    assert (rule.delete_when.column, rule.delete_when.values, rule.position) == ("Op", ("D",), "seq")


def test_marks_of_other_captures_are_proposed_with_what_they_need():
    lsn = schema(("id", "int"), ("_ab_cdc_deleted_at", "string"), ("_ab_cdc_lsn", "long"), meta=[])
    rows = [{"id": id, "_ab_cdc_deleted_at": "2026-11-27" if id > 18 else None, "_ab_cdc_lsn": id} for id in range(20)]
    proposal = propose(sample(rows, lsn, topic="air.film", offsets_named=False), chosen={"record_key": ("id",)})
    assert (proposal.delete_when, proposal.position.value) == (("_ab_cdc_deleted_at", ()), ("_ab_cdc_lsn",))
    assert "_ab_cdc_deleted_at marks deletions: rows with any value are deletions" in proposal.notes
    assert not any("stay visible" in note for note in proposal.notes)
    (rule,) = read_tables(whole_text([proposal])).rules
    assert (rule.delete_when.column, rule.delete_when.is_null) == ("_ab_cdc_deleted_at", False)
    table = TableConfig("s.f", "s", "f", "t", ("id",), position="x")
    assert misfits(sample(rows, lsn, offsets_named=False), table)[-1] == (
        "the column _ab_cdc_deleted_at marks deletions: add `delete_when: {column: _ab_cdc_deleted_at, is: not null}`, "
        "or `delete_when: off` if it is data"
    )

    feed = schema(("id", "int"), ("v", "string"), ("_change_type", "string"), ("_commit_version", "long"), meta=[])
    rows = [
        {"id": id, "v": f"v{id % 5}", "_change_type": word, "_commit_version": version}
        for version, words in enumerate((("insert",), ("update_preimage", "update_postimage"), ("delete",)))
        for word in words
        for id in range(1, 13)
    ]
    proposal = propose(sample(rows, feed, topic="d.t", offsets_named=False))
    assert proposal.record_key.value == ("id",), "the row before an update is no row created again"
    assert proposal.delete_when == ("_change_type", ("delete",)) and proposal.position.value == ("_commit_version",)


NUMBERED = dms(("I", 1, "100"), ("I", 2, "101"), ("U", 1, "102"), ("D", 2, "103"))


def test_operations_that_nothing_orders_leave_the_position_open_with_its_candidates():
    proposal = propose(NUMBERED, chosen={"record_key": ("film_id",)})
    assert proposal.open == ("position",) and proposal.position.alternatives == (("seq",),)
    text = whole_text([proposal])
    assert "# position ? (ambiguous): nothing orders these rows" in text and "#   could be seq\n" in text
    assert "# OPEN: position; choose, then uncomment the rule\n" in text
    decided = propose(NUMBERED, chosen={"record_key": ("film_id",), "position": ("seq",)})
    assert not decided.open and read_tables(whole_text([decided])).rules[0].position == "seq"


def test_versions_of_a_row_in_one_object_are_warned_of_with_their_position():
    plain = schema(("id", "int"), ("ts", "long"), meta=[])
    rows = sample([{"id": id, "ts": ts} for id, ts in ((1, 10), (1, 11), (2, 10))], plain, offsets_named=False)
    table = TableConfig("s.f", "s", "f", "public.film", ("id",))
    (misfit,) = misfits(rows, table)
    assert misfit.endswith("3 rows of a snapshot; if they are versions of a row, `position: ts` orders them")
    assert misfits(rows, replace(table, position="ts")) == ()


def test_offsets_in_the_names_order_operations():
    assert propose(replace(NUMBERED, offsets_named=True)).position is None


def test_a_configuration_is_warned_of_operations_that_nothing_orders():
    marks = DeleteWhen(column="Op", values=("D",))
    table = TableConfig("s.f", "s", "f", "public.film", ("film_id",), delete_when=marks)
    (misfit,) = fit.misfits(NUMBERED, table)
    assert misfit.consequence == (
        "delete_when: nothing orders the changes; name the column that does in `position`, such as seq: "
        "its objects are quarantined as unordered_change"
    )
    assert misfits(NUMBERED, replace(table, position="seq")) == ()
    assert misfits(replace(NUMBERED, offsets_named=True), table) == ()


def misfits(waiting, table):
    return tuple(misfit.text for misfit in fit.misfits(waiting, table))


def test_a_configuration_is_warned_of_operations_that_it_does_not_name():
    table = TableConfig("shop.film", "shop", "film", "public.film", ("film_id",), position="seq")
    assert misfits(DMS, table) == (
        "the column Op holds operations: add `delete_when: {column: Op, values: [D]}`, or `delete_when: off` if it is "
        "data",
    )
    assert misfits(DMS, replace(table, delete_when=DeleteWhen(column="Op", values=("D",)))) == ()
    assert misfits(DMS, replace(table, delete_when=DeleteWhen(on=False))) == ()


def test_a_configuration_is_warned_of_a_key_that_is_not_unique():
    table = TableConfig("ecomm.sale", "ecomm", "sale", "x", ("dateid",))
    warnings = misfits(sample(sales(40)), table)
    assert warnings == ("record_key: dateid has 3 values in 40 rows of a snapshot; salesid is unique",)
    assert misfits(sample(sales(40)), replace(table, record_key=("salesid",))) == ()


def test_a_configuration_is_warned_of_a_key_with_nulls():
    table = TableConfig("ecomm.sale", "ecomm", "sale", "x", ("salesid", "note"))
    rows = [{**row, "note": "x" if row["salesid"] > 4 else None} for row in sales(40)]
    (misfit,) = fit.misfits(sample(rows), table)
    assert misfit.consequence == "record_key: note is null in 4 of 40 rows: rows without it are quarantined"
    assert misfit.setting == "record_key"
    assert fit.misfits(sample(sales(40, note="x")), table) == ()


def test_a_configuration_is_warned_of_a_key_of_few_values_in_plain_rows():
    writer = schema(("id", "int"), ("grp", "int"), meta=[])
    rows = sample([{"id": number, "grp": number % 4} for number in range(40)], writer)
    table = TableConfig("e.s", "e", "s", "x", ("grp",))
    assert [(misfit.text, misfit.setting) for misfit in fit.misfits(rows, table)] == [
        ("record_key: grp has 4 values in 40 rows, of which the last of each value stays; id is unique", None)
    ]
    assert fit.misfits(rows, replace(table, record_key=("id",))) == ()


CHOOSE = "choose a column of few values, or day(column)"


def test_a_configuration_is_warned_of_partitions_of_nearly_every_row():
    table = TableConfig("ecomm.sale", "ecomm", "sale", "x", ("salesid",), partition_by=("price",))
    assert misfits(sample(sales(4_800)), table) == (
        f"partition_by: price has 4,800 values in 4,800 rows: each becomes a folder, of about 1 row; {CHOOSE}",
    )
    few = [{**row, "price": float(row["salesid"] % 597)} for row in sales(3_954)]
    assert misfits(sample(few), table) == (
        f"partition_by: price has 597 values in 3,954 rows: each becomes a folder, of about 7 rows; {CHOOSE}",
    )
    assert misfits(sample(sales(100)), table) == (), "too few rows to tell"
    assert misfits(sample(sales(4_800)), replace(table, partition_by=("listid", "dateid"))) == ()
    assert misfits(sample(sales(4_800)), replace(table, partition_by=("dateid", "price"))) == (
        f"partition_by: dateid, price has 4,800 values in 4,800 rows: each becomes a folder, of about 1 row; {CHOOSE}",
    )


@pytest.mark.parametrize(
    ("name", "values", "likely"),
    [
        ("order_date", [10_000, None, 19_700], "date"),
        ("shippedDate", [19_700], "date"),
        ("updated_at", [1_795_228_941_924], "timestamp_millis"),
        ("updatedAt", [1_795_228_941_924], "timestamp_millis"),
        ("updated_at", [1_795_228_941_924_123, None], "timestamp_micros"),
        ("created", [1_795_228_941_924_123_456], "timestamp_nanos"),
        ("born", ["1980-01-31", "1999-12-01"], "date"),
        ("seen", ["2026-05-01T10:00:00Z", "2026-05-01T10:00:00.5+02:00"], "zoned_timestamp"),
        ("seen", ["2026-05-01 10:00:00", "2026-05-01T10:00:00.5"], "zoned_timestamp"),
        ("born", ["1980-01-31", "unknown"], None),
        ("price_date", [3, 19_700], None),
        ("updated_at", [True], None),
        ("updated_at", [1_795_228_941.5], None),
        ("updated_at", [1_795_228_941_924, 5], None),
        ("station", [19_700], None),
        ("amount", [1_795_228_941_924], None),
        ("order_date", [None], None),
    ],
)
def test_a_column_that_looks_like_a_date_is_named_with_its_type(name, values, likely):
    kind = "string" if any(isinstance(value, str) for value in values) else "long"
    writer = schema(("id", "int"), (name, ["null", kind]), meta=[])
    rows = [{"id": number, name: value} for number, value in enumerate(values)]
    untyped = propose(sample(rows, writer, inferred=True))
    assert untyped.types == ({name: likely} if likely else {})
    assert any(f"{name} looks like a date or time" in note for note in untyped.notes) == bool(likely)
    assert propose(sample(rows, writer)).types == {}, "its objects bring types"


def test_a_configuration_is_warned_of_a_timestamp_that_partitions():
    table = TableConfig("ecomm.sale", "ecomm", "sale", "x", ("salesid",), partition_by=("at",))
    at = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    rows = [{"salesid": number, "at": 1} for number in range(3)]
    stamped = sample(rows, schema(("salesid", "int"), ("at", at), meta=[]))
    said = f"partition_by: at is a timestamp: each instant becomes a folder; {CHOOSE}"
    assert misfits(stamped, table) == (said,)
    plain = sample(rows, schema(("salesid", "int"), ("at", "long"), meta=[]))
    assert misfits(plain, table) == ()
    assert misfits(plain, replace(table, json_types={"at": "timestamp_micros"})) == (said,)


def test_a_configuration_is_warned_of_expected_columns_that_it_misspells():
    table = TableConfig("e.s", "e", "s", "x", ("salesid",), columns=ColumnRules((), {"price": "amount"}))
    expected = Expectations(columns={"Amount": {"min": 0}, "prise": {"min": 0}, "price": {"max": 9}})
    assert misfits(sample(sales(3)), replace(table, expect=expected)) == (
        "expect: prise is not a column of the objects that wait",
        "expect: price is not a column of the objects that wait",
    )
    table = TableConfig("e.s", "e", "s", "x", ("salesid",), expect=Expectations(columns={"prise": {"min": 0}}))
    assert misfits(sample(sales(3)), table) == (
        "expect: prise is not a column of the objects that wait (did you mean price?)",
    )


def test_repetitions_and_other_snapshots_make_no_key_look_shared():
    table = TableConfig("ecomm.sale", "ecomm", "sale", "x", ("salesid",))
    again = [{**row, "price": 9.5, "__lsn": 9} for row in sales(20)]
    assert misfits(sample(sales(20) + sales(20) + again + sales(5, op="u", price=7.5)), table) == ()
    plain = schema(("id", "int"), ("name", "string"), meta=[])
    events = sample([{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], plain)
    table = replace(table, record_key=("id",))
    assert misfits(events, table) == (), "Kafka orders the rows of a stream"
    assert misfits(replace(events, offsets_named=False), table) == (
        "record_key: id has 1 value in 2 rows of a snapshot; name is unique",
    )


MISSPELT = {
    "mask": ("columns: {mask: {emaill: 3}}", "columns"),
    "hash": ("columns: {hash: emaill, key: s/k}", "columns"),
    "exclude": ("columns: {exclude: emaill}", "columns"),
    "rename": ("columns: {rename: {emaill: mail}}", "columns"),
    "record_key": ("record_key: emaill", "record_key"),
    "partition_by": ("partition_by: emaill", "partition_by"),
    "transform": ("partition_by: day(emaill)", "partition_by"),
    "position": ("position: emaill", "position"),
    "expect": ("expect: {columns: {emaill: {not_null: true}}}", "expect"),
    "delete_when": ("delete_when: {column: emaill, values: [D]}", "delete_when"),
    "clustering": ("services: {clustering: {by: emaill}}", "services.clustering.by"),
}


@pytest.mark.parametrize(("written", "setting"), MISSPELT.values(), ids=MISSPELT)
def test_a_configuration_is_warned_of_columns_that_no_object_and_no_table_has(written, setting):
    text = f"defaults: {{record_key: [id]}}\ntables: [{{topic: x, table: e.s, {written}}}]"
    table = read_tables(text).table_for_topic("x")
    waiting = sample([{"id": 1, "email": "a"}], schema(("id", "int"), ("email", "string"), meta=[]))
    lacks = f"{setting}: emaill is not a column of {{}} (did you mean email?)"
    (of_objects,) = [misfit for misfit in fit.misfits(waiting, table) if "emaill is not" in misfit.text]
    assert (of_objects.text, of_objects.setting) == (lacks.format("the objects that wait"), setting)
    stored = ("id", "email")
    of_a_table = [misfit.text for misfit in fit.unknown_in_table(stored, stored, table, before=None)]
    assert of_a_table == [lacks.format("the table")]
    assert fit.unknown_in_table(stored, stored, table, before=table) == () or setting == "expect"


def test_a_configuration_is_warned_of_a_position_that_the_log_has_in_its_place():
    table = TableConfig("e.s", "e", "s", "x", ("salesid",), position="at")
    assert misfits(sample(sales(3)), table) == (
        "position: at can't order changes of a log, which have a source position (leave it out)",
    )
    rows = schema(("salesid", "int"), ("at", "long"), meta=[])
    assert misfits(sample([{"salesid": 1, "at": 1}], rows), table) == ()


def test_a_column_of_operations_that_a_full_load_lacks_needs_no_yes():
    table = TableConfig("e.s", "e", "s", "x", ("salesid",))
    for column, setting in (("Op", None), ("gone", "delete_when")):
        marked = replace(table, delete_when=DeleteWhen(column=column, values=("D",)))
        (misfit,) = fit.misfits(sample(sales(3)), marked)
        assert misfit.setting == setting and misfit.text.startswith(f"delete_when: {column} is not a column")


def test_objects_of_truncates_alone_lack_no_column():
    truncates = replace(sample([]), writer=replace(SALES, row=RowSchema(())))
    assert misfits(truncates, TableConfig("e.s", "e", "s", "x", ("salesid",))) == ()


def test_updates_and_deletions_that_a_column_marks_do_not_count_against_the_key():
    writer = schema(("Op", ["null", "string"]), ("id", "int"), ("name", "string"), meta=[])
    loaded = [{"Op": None, "id": number, "name": f"n{number % 7}"} for number in range(1, 31)]
    words = (("I", 31, "new"), ("U", 1, "other"), ("U", 1, "another"), ("D", 2, "n2"))
    changes = [dict(zip(("Op", "id", "name"), change)) for change in words]
    proposal = propose(sample([*loaded, *changes], writer, topic="shop.customer"))
    assert (proposal.record_key.value, proposal.record_key.confidence, proposal.open) == (("id",), LIKELY, ())
    assert proposal.record_key.evidence[0] == "unique and never null in 31 rows"
    assert proposal.delete_when == ("Op", ("D",))
    assert propose(sample([*loaded, {"Op": "I", "id": 1, "name": "twice"}], writer)).open == ("record_key",)


PRICED = schema(("id", "int"), ("status", "string"), ("changed", "long"), meta=[])
SPLIT_ROWS = [{"id": id % 3, "status": "s", "changed": 100 + id} for id in range(6)]


def test_folders_that_split_kafka_partitions_leave_the_position_open():
    split = replace(sample(SPLIT_ROWS, PRICED, offsets_named=True), split_by=("status",))
    proposal = propose(split, chosen={"record_key": ("id",)})
    assert proposal.open == ("position",) and ("changed",) in proposal.position.alternatives
    assert "folders by status split Kafka partitions" in proposal.position.evidence[0]
    table = TableConfig("s.f", "s", "f", "public.film", ("id",))
    (misfit,) = fit.misfits(split, table)
    assert misfit.consequence.endswith(
        "name the column that does: objects of all folders but one are quarantined as overlap"
    )
    assert propose(split, chosen={"record_key": ("status", "id")}).position is None
    assert misfits(split, replace(table, record_key=("status", "id"))) == ()
    assert misfits(split, replace(table, position="changed")) == ()


def test_rows_that_carry_their_kafka_offset_are_ordered_by_it():
    plain = schema(("id", "int"), ("kafka_offset", "long"), meta=[])
    rows = [{"id": id % 3, "kafka_offset": 100 + id} for id in range(6)]
    split = replace(sample(rows, plain, offsets_named=True), split_by=("status",))
    assert propose(split, chosen={"record_key": ("id",)}).position.value == ("kafka_offset",)


def test_a_group_of_the_pattern_orders_operations():
    marks = DeleteWhen(column="Op", values=("D",))
    table = TableConfig("s.f", "s", "f", "public.film", ("film_id",), delete_when=marks)
    assert misfits(NUMBERED, replace(table, key_pattern="dms/(?P<order>[0-9]+)[.]csv")) == ()
