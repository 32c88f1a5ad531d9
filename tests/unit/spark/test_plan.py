"""What a batch is read as, and what the table becomes."""

from dataclasses import replace

from pyspark.sql.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)
from support.builders import avro_record

from sluice.batch.manifest import ManifestObject
from sluice.changes.hidden_columns import HIDDEN, NAMES
from sluice.config.table import TableConfig
from sluice.schema.avro import WriterSchema, read_writer_schema
from sluice_spark.merge.plan import PlannedRead, changed_columns, plan_read
from sluice_spark.merge.read import balanced, task_count

CONFIG = TableConfig(table="db.t", database="db", name="t", topic="x", record_key=("id",), partition_by=("place",))


def writer(**columns):
    return read_writer_schema(avro_record({name: ["null", kind] for name, kind in columns.items()}, name="V"))


def stored(**columns) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_a_new_table_has_the_columns_of_all_writers_and_the_hidden_ones_last() -> None:
    writers = [writer(id="int", place="string"), writer(note="string", id="int")]
    planned = plan_read(CONFIG, batch="b", writers=writers, stored=None)
    assert tuple(planned.target.names) == ("id", "place", "note", *(column.name for column in HIDDEN))
    assert all(field.nullable for field in planned.target.fields)


def test_a_table_keeps_its_order_what_was_dropped_stays_and_new_columns_come_last() -> None:
    table = stored(id=IntegerType(), gone=StringType(), place=StringType(), _sluice_position=StringType())
    planned = plan_read(CONFIG, batch="b", writers=[writer(place="string", new="double", id="int")], stored=table)
    assert planned.target == StructType([*table.fields, StructField("new", DoubleType())])
    assert planned.widened == ()


def test_a_wider_type_is_named_and_a_narrower_one_changes_nothing() -> None:
    table = stored(id=IntegerType(), n=IntegerType(), f=DoubleType())
    planned = plan_read(CONFIG, batch="b", writers=[writer(id="int", n="long", f="float")], stored=table)
    assert (planned.widened, planned.target) == (("n",), stored(id=IntegerType(), n=LongType(), f=DoubleType()))


def test_new_and_wider_columns_are_named_for_the_outcome_and_hidden_ones_are_not() -> None:
    before = stored(id=IntegerType(), place=StringType())
    after = stored(id=LongType(), place=StringType(), email=StringType(), **{sorted(NAMES)[0]: StringType()})
    assert changed_columns(before, after) == (
        {"column": "id", "change": "promoted", "from": "int", "to": "bigint"},
        {"column": "email", "change": "added", "from": None, "to": "string"},
    )
    assert changed_columns(None, after) == () == changed_columns(after, after)


def test_a_schema_that_does_not_fit_is_refused_and_the_rest_goes_on() -> None:
    table = stored(id=IntegerType(), n=IntegerType())
    wrong, right = writer(id="int", n="string"), writer(id="int", n="int", extra="string")
    planned = plan_read(CONFIG, batch="b", writers=[wrong, right], stored=table)
    assert list(planned.refused) == [wrong.fingerprint]
    assert [column.name for column in planned.plan.columns] == ["id", "n", "extra"]


def test_names_that_differ_in_case_only_are_refused() -> None:
    clash = writer(id="int", Place="string")
    planned = plan_read(CONFIG, batch="b", writers=[clash], stored=stored(id=IntegerType(), place=StringType()))
    assert list(planned.refused) == [clash.fingerprint]


def test_the_key_may_grow_from_int_to_long_and_change_no_further() -> None:
    planned = plan_read(CONFIG, batch="b", writers=[writer(id="long")], stored=stored(id=IntegerType()))
    assert (planned.widened, dict(planned.refused)) == (("id",), {})
    text = writer(id="string")
    planned = plan_read(CONFIG, batch="b", writers=[text], stored=stored(id=IntegerType()))
    assert list(planned.refused) == [text.fingerprint]


def decimal(precision: int, scale: int) -> dict:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def test_a_decimal_that_hudi_cannot_widen_in_place_rewrites_the_table() -> None:
    table = stored(id=IntegerType(), d=DecimalType(18, 4))
    planned = plan_read(CONFIG, batch="b", writers=[writer(id="int", d=decimal(24, 6))], stored=table)
    assert (planned.widened, planned.rewritten, planned.target["d"].dataType) == (("d",), ("d",), DecimalType(24, 6))


def test_if_a_table_may_not_be_rewritten_only_the_schema_that_needs_it_is_refused() -> None:
    table = stored(id=IntegerType(), d=DecimalType(18, 4))
    wide, narrow = writer(id="int", d=decimal(24, 6)), writer(id="int", d=decimal(9, 2))
    planned = plan_read(CONFIG, batch="b", writers=[wide, narrow], stored=table, may_rewrite=False)
    assert list(planned.refused) == [wide.fingerprint] and "rewrite_limit" in str(planned.refused[wide.fingerprint])
    assert (planned.rewritten, planned.target) == ((), table)


def test_columns_wanted_raw_are_read_as_the_connector_counts_them() -> None:
    at = {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}
    day = {"type": "int", "connect.name": "io.debezium.time.Date"}
    for raw, of_day in ((("at",), DateType()), (("*",), IntegerType())):
        config = replace(CONFIG, raw=raw, partition_by=())
        planned = plan_read(config, batch="b", writers=[writer(id="int", at=at, day=day)], stored=None)
        assert [field.dataType for field in planned.target.fields[:3]] == [IntegerType(), LongType(), of_day]


def test_a_new_table_needs_its_partition_column_in_some_object() -> None:
    without, with_it = writer(id="int"), writer(id="int", place="string")
    assert dict(plan_read(CONFIG, batch="b", writers=[without, with_it], stored=None).refused) == {}
    planned = plan_read(CONFIG, batch="b", writers=[without, writer(id="long")], stored=None)
    assert "The partition column place is not a column" in str(planned.refused[without.fingerprint])
    assert (len(planned.refused), planned.plan.columns) == (2, ())
    later = plan_read(CONFIG, batch="b", writers=[without], stored=stored(id=IntegerType(), place=StringType()))
    assert dict(later.refused) == {}


def test_each_writer_schema_of_a_batch_is_judged_after_those_before_it() -> None:
    table = stored(id=IntegerType(), n=IntegerType())
    more, wrong = writer(id="int", n="long", extra="string"), writer(id="int", n="string")
    as_before = writer(id="int", n="int")
    planned = plan_read(CONFIG, batch="b", writers=[more, wrong, as_before], stored=table)
    assert described(planned, more) == ("promoted", [("n", "promoted"), ("extra", "added")])
    assert described(planned, as_before) == ("narrower", [("n", "narrower"), ("extra", "dropped")])
    assert described(planned, wrong) == ("incompatible", [("n", "incompatible")])


def test_of_a_first_batch_only_the_first_writer_schema_makes_the_table() -> None:
    first, second, third = (
        writer(id="int", place="string", gender="string", d=decimal(18, 4)),
        writer(id="int", place="string", born="int", d=decimal(24, 6)),
        writer(id="long", place="string", born="int", d=decimal(24, 6)),
    )
    planned = plan_read(CONFIG, batch="b", writers=[first, second, third], stored=None)
    assert described(planned, first) == ("new_table", [])
    # No commit rewrites a table for a type that no file of it has yet.
    assert described(planned, second) == ("promoted", [("gender", "dropped"), ("d", "promoted"), ("born", "added")])
    assert described(planned, third) == ("promoted", [("id", "promoted"), ("gender", "dropped")])


def test_types_that_only_a_first_batch_can_join_have_a_verdict() -> None:
    keyed = replace(CONFIG, partition_by=())
    short, long = writer(id=decimal(9, 2)), writer(id=decimal(18, 2))
    planned = plan_read(keyed, batch="b", writers=[short, long], stored=None)
    assert (dict(planned.refused), planned.target["id"].dataType) == ({}, DecimalType(18, 2))
    assert described(planned, long) == ("promoted", [("id", "promoted")])


def described(planned: PlannedRead, judged: WriterSchema) -> tuple[str, list[tuple[str, str]]]:
    verdict = planned.verdicts[judged.fingerprint]
    return verdict.verdict, [(change.column, change.change) for change in verdict.changes]


def item(size: int, number: int = 0) -> ManifestObject:
    return ManifestObject("b", f"k{number}", "v", size, None, "avro", "x", 0, 0, 0)


def test_objects_are_shared_out_by_bytes() -> None:
    objects = [item(size, number) for number, size in enumerate((90, 10, 10, 10, 30, 30))]
    shares = balanced(objects, 2)
    assert sorted(sum(part.size for part in share) for share in shares) == [90, 90]
    assert {part.id for share in shares for part in share} == {part.id for part in objects}


def test_tasks_follow_bytes_and_numbers_within_bounds() -> None:
    assert task_count([item(1)], 2) == 1
    assert task_count([item(1, number) for number in range(60)], 2) == 3
    assert task_count([item(9 * 1024**2)], 2) == 1
    assert task_count([item(9 * 1024**2, number) for number in range(3)], 2) == 3
    assert task_count([item(64 * 1024**2, number) for number in range(99)], 2) == 8
