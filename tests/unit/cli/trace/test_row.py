"""What `sluice row` takes for the value that the changes of a row gave it."""

from __future__ import annotations

import pytest

from sluice_cli.trace.row import _is_same


@pytest.mark.parametrize(
    ("value", "stored", "same"),
    [
        (1, 1.0, True),
        (0.1, 0.10000000149011612, True),  # a float, in a column of doubles by now
        (0.1, 0.1000000014, False),
        (1e300, 1e301, False),
        ("1.50", "1.5000", True),
        ("1", "1.00", True),
        ("1", "10", False),
        ("1.5", "000", False),
        ("NaN", "NaN", True),
        ("a", "a0", False),
        (None, 0, False),
        (None, None, True),
    ],
)
def test_a_value_is_the_same_as_a_wider_type_and_no_other(value: object, stored: object, same: bool) -> None:
    assert _is_same(value, stored) is same
