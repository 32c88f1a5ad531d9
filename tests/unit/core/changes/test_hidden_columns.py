"""Every table has the hidden columns from its first commit, or gets them with the next one."""

from sluice.changes import hidden_columns
from sluice.changes.hidden_columns import HIDDEN, colliding


def test_the_hidden_columns_are_these_and_in_this_order():
    assert [(column.name, column.spark_type, column.nullable) for column in HIDDEN] == [
        ("_sluice_position", "string", False),
        ("__deleted", "boolean", False),
        ("_sluice_op", "string", True),
        ("_sluice_source_ts_ms", "bigint", True),
        ("_sluice_object", "string", True),
        ("_sluice_offset", "bigint", True),
        ("_sluice_owed", "string", True),
        ("_sluice_partition", "int", True),
        ("_sluice_batch", "string", True),
    ]


def test_a_row_is_ordered_by_its_position():
    assert hidden_columns.ORDERING_FIELD == "_sluice_position"


def test_reserved_names_are_found_in_any_case():
    reserved = ("_SLUICE_position", "__Deleted", "_hoodie_commit_time", "_sluice_later")
    assert colliding(["id", *reserved, "deleted"]) == reserved
