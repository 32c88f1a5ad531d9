"""A record that can't be merged is kept with its bytes."""

import json

from sluice.batch.row_errors import MAX_CONTENT_BYTES, from_lines, row_error, to_lines
from sluice.errors import SluiceError


class Bad(SluiceError):
    code = "bad"


def test_a_row_is_kept_with_its_bytes_whatever_they_are_and_within_bounds():
    value = {"id": 1, "raw": b"\x00\xff", "text": "caf\udce9", "ratio": float("nan"), "list": [None, {"deep": b"x"}]}
    row = row_error(3, Bad("No", record=3, column="x"), value, offset=9, position=None)
    assert json.loads(row.content) == {
        "id": 1,
        "raw": {"base64": "AP8="},
        "text": "caf\udce9",
        "ratio": "nan",
        "list": [None, {"deep": {"base64": "eA=="}}],
    }
    assert (row.record, row.code, row.reason) == (3, "bad", "No (column: x)")
    long = row_error(4, Bad("No"), {"v": "x" * 100_000}, offset=None, position=None)
    assert len(long.content) == MAX_CONTENT_BYTES and long.content_bytes > 100_000
    raw = row_error(5, Bad("No"), b"\xff" * 100_000, offset=None, position=None)
    assert raw.encoding == "base64" and len(raw.content) <= MAX_CONTENT_BYTES and raw.content_bytes == 100_000
    assert list(from_lines(to_lines([raw, row]))) == [row, raw]
