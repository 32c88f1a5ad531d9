"""The changes of one object, as `sluice verify` compares them with the table's rows."""

import pyarrow as pa
import pytest

from sluice.batch.manifest import ManifestObject
from sluice.config.table import TableConfig
from sluice_cli.trace.row_changes import keyed_changes

BODY = b'{"id": 1, "n": 1.5}\n'


@pytest.mark.parametrize(
    ("stored", "shown"),
    [
        (pa.decimal128(18, 4), "1.5000"),
        (pa.decimal128(24, 6), "1.500000"),
        (pa.decimal128(16, 2), "1.5000"),  # narrower: a merge would have refused the object
    ],
    ids=str,
)
def test_a_decimal_has_the_scale_that_its_column_has_now(stored, shown):
    item = ManifestObject("bronze", "topics/a/a+0+0.json", "v1", len(BODY), None, "json", "a", 0, 0, 0)
    config = TableConfig("a.b", "a", "b", "a", ("id",), json_types={"n": "decimal(18,4)"})
    types = {"id": pa.int64(), "n": stored}
    ((_, change),), _ = keyed_changes(BODY, item, config, wanted=lambda key: True, types=types)
    assert change.values["n"] == shown
