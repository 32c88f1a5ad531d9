"""The matrix that is judged, and the subset that continuous integration runs."""
import itertools

import pytest

from judging.cases import AXES, Case, matrix, pairwise
from judging.fixture_sets import PLANS, SetMissing, find_set


def test_the_whole_matrix_has_every_combination():
    assert len({case.id for case in matrix()}) == 3 * 4 * 2 * 2


def test_every_pair_of_values_occurs_in_the_pairwise_subset():
    chosen = [(case.set_name, case.order, case.pace, case.table_type) for case in pairwise()]
    for first, second in itertools.combinations(range(len(AXES)), 2):
        assert {(case[first], case[second]) for case in chosen} == set(itertools.product(AXES[first], AXES[second]))


def test_the_pairwise_subset_is_no_larger_than_it_must_be():
    assert len(pairwise()) == 12


def test_a_case_renames_the_topic_in_the_folder_and_in_the_files_name_and_nothing_else():
    case = Case("moma_keys", "shuffled", "one_go", "cow", run="a1")
    key = "topics/momac283.public.artists/tombstone/momac283.public.artists+0+0000000541.keys.avro"
    renamed = "judged_moma_keys_shuffled_one_go_cow_a1.momac283.public.artists"
    assert case.key(key) == f"topics/{renamed}/tombstone/{renamed}+0+0000000541.keys.avro"
    assert case.table("momac283.public.artists") == "judged_moma_keys_shuffled_one_go_cow_a1.artists"


def test_two_cases_share_no_topic_and_no_table():
    named = [(rule["topic"], rule["table"]) for case in matrix() for rule in case.rules(PLANS[case.set_name].topics)]
    assert len({topic for topic, _ in named}) == len({table for _, table in named}) == len(named)


def test_phase_by_phase_puts_what_one_go_puts():
    fixtures = find_set("tickit_small", {})
    for order in ("in_order", "shuffled", "reversed", "at_least_once"):
        whole = Case("tickit_small", order, "one_go", "cow").steps(fixtures)
        phased = Case("tickit_small", order, "phased", "cow").steps(fixtures)
        assert len(whole) == 1 and [phase.name for phase, _ in phased] == ["snapshot", "changes"]
        assert sorted(whole[0][1]) == sorted(key for _, keys in phased for key in keys)


def test_at_least_once_puts_some_objects_twice():
    keys = find_set("tickit_small", {}).delivery("at_least_once")
    assert len(keys) > len(set(keys)) == len(find_set("tickit_small", {}).delivery("in_order"))


def test_a_set_that_is_not_there_says_what_to_set(tmp_path):
    with pytest.raises(SetMissing, match="SLUICE_FIXTURES"):
        find_set("moma_flat", {"SLUICE_FIXTURES": str(tmp_path)})
