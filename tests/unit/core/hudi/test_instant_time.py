"""Instants of a table's timeline as moments."""

from sluice.hudi.timeline import instant_ms, instant_of_ms


def test_an_instant_and_its_moment_convert_into_each_other():
    expected = (1_767_323_045_678, "20260102030405678")
    assert (instant_ms("20260102030405678"), instant_of_ms(1_767_323_045_678)) == expected


def test_an_instant_of_seconds_is_taken_for_their_end():
    assert instant_ms("20260102030405") == 1_767_323_045_999
