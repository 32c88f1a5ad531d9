"""Percentiles of few values."""

import pytest

from sluice_bench.measure.percentiles import percentile, summary


def test_a_percentile_is_a_measured_value_by_nearest_rank():
    values = [float(n) for n in range(20, 0, -1)]
    assert percentile(values, 0.5) == 10.0
    assert percentile(values, 0.95) == 19.0
    assert percentile(values, 1.0) == 20.0


def test_one_value_is_every_percentile():
    assert summary([3.0]) == {"n": 1, "min": 3.0, "p50": 3.0, "p95": 3.0, "max": 3.0}


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 0.0), ([1.0], 1.1)])
def test_no_values_or_a_share_outside_its_range_is_an_error(values, share):
    with pytest.raises(ValueError):
        percentile(values, share)
