"""Raw values take the form in which the table stores them."""

from __future__ import annotations

import pytest

from sluice.schema import columns as kinds
from sluice.schema.union import plain_column
from sluice_cli.trace.row_changes import stored_value


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        ("2008-10-29T18:59:59.99906Z", "2008-10-29T18:59:59.999060Z"),
        ("2008-10-29T18:59:59.999999999Z", "2008-10-29T18:59:59.999999Z"),
        ("2008-10-29T18:59:59Z", "2008-10-29T18:59:59.000000Z"),
        ("2008-10-29T01:30:00+02:00", "2008-10-28T23:30:00.000000Z"),
        ("2008-12-31T23:30:00.5-01:30", "2009-01-01T01:00:00.500000Z"),
        ("infinity", None),
    ],
    ids=["digits", "nanoseconds", "whole seconds", "east", "west", "infinity"],
)
def test_a_zoned_timestamp_has_the_tables_zone_and_digits(raw: str, stored: str | None) -> None:
    assert stored_value(raw, plain_column("at", kinds.ZONED_TIMESTAMP, True, "t")) == stored
