"""Any bytes give rows or a refusal with a next step. No other error leaves a read task."""

from __future__ import annotations

import gzip
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.bad_input import good_avro, good_change, parquet
from support.shapes import CREATE, CREATE_SCHEMA, config, item, lines, wrapped

from sluice.config.limits import MIB, Limits
from sluice.errors import SluiceError
from sluice.schema.avro import read_writer_schema
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.decode import decode, read_or_refused
from sluice_formats.json.records import json_schemas
from sluice_formats.parquet_footer import read_footer
from sluice_spark.merge.plan import plan_read

TABLE = config(limits=Limits(decoded_bytes=8 * MIB, block_bytes=4 * MIB))
FLAT = {"id": 1, "v": "x", "__op": "c", "__deleted": "false", "__source_ts_ms": 5}
PLACES: list[dict[str, Any]] = [
    {"lsn": 5},
    {"file": "b.000001", "pos": 4, "row": 0, "server_id": 1},
    {"commit_lsn": "00000027:00000758:0005", "change_lsn": None, "event_serial_no": 1},
    {"commit_scn": "15", "scn": "12", "rs_id": "0x1.1.1", "ssn": 0},
    {"ord": 1, "source_ts_ms": 5},
]
BODIES = [
    ("json", lines(CREATE, CREATE)),
    ("json", lines(*wrapped(CREATE_SCHEMA, CREATE, CREATE))),
    ("json", gzip.compress(lines(CREATE), mtime=0)),
    ("avro", good_avro(good_change(), good_change(id=2))),
    ("avro", good_avro(good_change(), good_change(id=2), codec="deflate")),
    ("parquet", parquet(good_change(), good_change(id=2))),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
UNHURRIED = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def rows_or_refusal(format: str, body: bytes) -> int | str:
    """How many records were merged or set aside, or the code of the refusal."""
    at = item(format)
    try:
        if format == "json":
            schemas, guessed = read_or_refused(lambda: json_schemas(body, {}, TABLE.limits))
        else:
            schemas, guessed = (
                [
                    parse_header(Head(body, True), TABLE.limits).schema
                    if format == "avro"
                    else read_footer(body, True).schema
                ],
                False,
            )
        inferred = {at.id.hash: json.dumps(schemas[0])} if guessed else {}
        planned = plan_read(
            TABLE, batch="b", writers=[read_writer_schema(schema) for schema in schemas], stored=None, inferred=inferred
        )
        if planned.refused:
            return next(iter(planned.refused.values())).code
        decoded = decode(body, at, planned.plan)
    except SluiceError as error:
        assert error.next_step and not error.retriable
        return error.code
    return sum(batch.num_rows for batch in decoded.batches) + len(decoded.rows)


@UNHURRIED
@given(
    st.sampled_from(BODIES),
    st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=4), st.booleans()),
        min_size=1,
        max_size=4,
    ),
)
def test_damage_of_any_kind_gives_rows_or_a_refusal(
    body: tuple[str, bytes], damage: list[tuple[float, bytes, bool]]
) -> None:
    format, data = body
    assert rows_or_refusal(format, data) in (1, 2)
    for where, put, inserted in damage:
        at = int(where * len(data))
        data = data[:at] + put + data[at if inserted else at + len(put) :]
    assert rows_or_refusal(format, data) is not None


@UNHURRIED
@given(st.sampled_from(PLACES), st.data())
def test_a_record_with_any_value_in_any_place_costs_itself_at_most(place: dict[str, Any], data: st.DataObject) -> None:
    good = {**FLAT, **{f"__{name}": value for name, value in place.items()}}
    name = data.draw(st.sampled_from([name for name in good if name not in ("id", "v")]))
    bad = {**good, name: data.draw(VALUES)}
    assert rows_or_refusal("json", lines(good, bad)) in (2, "damaged_json")
