"""PostgreSQL's infinite timestamps in text, as `time.precision.mode=isostring` writes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.schema.columns import STRING, ZONED_TIMESTAMP, plain_column
from sluice.schema.meaning import stored_json
from sluice_formats.arrow_columns import raw_array

MOMENT = plain_column("at", ZONED_TIMESTAMP, True, "string io.debezium.time.IsoTimestamp")
RAW = plain_column("at", STRING, True, "string io.debezium.time.IsoTimestamp")


@pytest.mark.parametrize(
    ("text", "infinity"),
    [
        ("+294247-01-10T04:00:25.2Z", "infinity"),
        ("+294247-01-10T04:00:25.200Z", "infinity"),
        ("+294247-01-10T04:00:54.775807Z", "infinity"),
        ("-290308-12-21T19:59:27.6Z", "-infinity"),
        ("-290308-12-21T19:59:05.224192Z", "-infinity"),
        ("+292278994-08-16T23:00:00Z", "infinity"),
        ("-292269055-12-02T23:00:00Z", "-infinity"),
        ("infinity", None),
    ],
)
def test_the_instants_that_stand_for_an_infinity_are_none(text: str, infinity: str | None) -> None:
    assert raw_array([text, None], MOMENT, MOMENT).to_pylist() == [infinity or text, None]
    assert stored_json(infinity or text, MOMENT) is None, "sluice row"
    assert raw_array([text], RAW, RAW).to_pylist() == [text], "with `raw`"


def test_row_has_null_where_the_table_has_no_place_for_a_moment() -> None:
    assert stored_json("+294276-12-31T23:59:59.999999Z", MOMENT) is None


@pytest.mark.parametrize(
    "text", ["+294247-01-10T04:00:25.199999Z", "-290308-12-21T19:59:27.600001Z", "9999-12-31T00:00:00Z"]
)
def test_the_instants_beside_them_stay(text: str) -> None:
    assert raw_array([text], MOMENT, MOMENT) == pa.array([text])
