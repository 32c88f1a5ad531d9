"""Fields of the partition path in a rule: columns and transforms, their columns, and what is refused."""

import pytest

from sluice.config.rules.partition_fields import PartitionField, partition_field
from sluice.config.rules.table_rule import TableRule
from sluice.config.table import TableConfig
from sluice.config.values import PARTITION_FIELDS
from sluice.errors import InvalidConfiguration


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("place", PartitionField("place", "place")),
        ("day(at)", PartitionField("at_day", "at", "day")),
        ("hour( at )", PartitionField("at_hour", "at", "hour")),
        ("month(at)", PartitionField("at_month", "at", "month")),
        ("year(at)", PartitionField("at_year", "at", "year")),
        ("bucket(16)", PartitionField("key_bucket", None, "bucket", 16)),
    ],
)
def test_a_field_is_a_column_or_a_transform_with_a_column_of_its_own(written, field):
    assert partition_field(written) == field


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("week(at)", "is a column, year"),
        ("day(at, ms)", "is a column, year"),
        ("day()", "is a column, year"),
        ("bucket(0)", "is a column, year"),
        ("bucket(10001)", "at most 10,000 buckets"),
        ("bucket(id)", "is a column, year"),
        ("day(__deleted)", "keeps itself"),
        ("day(größe)", "not a column name"),
        (["day(at)", "at_day"], "names a column twice"),
        (["bucket(4)", "bucket(8)"], "names a column twice"),
    ],
)
def test_what_is_no_field_is_refused_by_what_it_must_be(written, why):
    with pytest.raises(ValueError, match=why.replace("(", r"\(")):
        PARTITION_FIELDS.parse(written)


def test_columns_of_fields_are_the_tables_and_transforms_are_stored_as_written():
    parsed = PARTITION_FIELDS.parse(["place", "day( at )", "bucket(4)"])
    config = TableConfig(table="a.b", database="a", name="b", topic="t", record_key=("id",), partition_by=parsed)
    assert config.partition_columns == ("place", "at_day", "key_bucket")
    assert config.to_dict()["partition_by"] == ["place", "day(at)", "bucket(4)"]
    assert TableConfig.from_dict(config.to_dict()) == config


def test_a_template_names_the_column_of_a_transform():
    rule = TableRule("{1}.orders", ("id",), topic="*.orders", partition_by=("day({1}_at)",))
    made = rule.apply("eu.orders")
    assert made is not None and made.partition_columns == ("eu_at_day",)
    with pytest.raises(InvalidConfiguration, match="a-b_at"):
        TableRule("a.orders", ("id",), topic="*.orders", partition_by=("day({1}_at)",)).apply("a-b.orders")
