"""Percentiles of few values."""

from sluice_bench.measure.percentiles import percentile


def test_a_percentile_is_a_measured_value_by_nearest_rank():
    values = [float(n) for n in range(20, 0, -1)]
    assert percentile(values, 0.5) == 10.0
    assert percentile(values, 0.95) == 19.0
    assert percentile(values, 1.0) == 20.0
