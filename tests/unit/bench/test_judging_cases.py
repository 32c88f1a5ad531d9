"""The matrix that is judged, and the subset that continuous integration runs."""

import itertools
import json

from judging.cases import AXES, OTHERS, Case, matrix, pairwise
from judging.fixture_sets import ORDERS, PLANS, find_set


def test_the_whole_matrix_has_every_combination():
    cases = sum(len(plan.orders) * (2 if plan.phased else 1) * 2 for plan in PLANS.values())
    assert len({case.id for case in matrix()}) == cases


def test_every_set_and_every_order_runs_in_continuous_integration():
    cases = (*pairwise(), *OTHERS)
    assert {case.set_name for case in cases} == set(PLANS)
    assert {case.order for case in cases} == set(ORDERS)
    assert set(cases) <= set(matrix())


def test_every_pair_of_values_occurs_in_the_pairwise_subset():
    chosen = [(case.set_name, case.order, case.pace, case.table_type) for case in pairwise()]
    for first, second in itertools.combinations(range(len(AXES)), 2):
        assert {(case[first], case[second]) for case in chosen} == set(itertools.product(AXES[first], AXES[second]))


def test_a_case_renames_the_topic_only_in_the_folder_and_the_file_name():
    case = Case("moma_keys", "shuffled", "one_go", "cow", run="a1")
    key = "topics/momac283.public.artists/tombstone/momac283.public.artists+0+0000000541.keys.avro"
    renamed = "judged_moma_keys_shuffled_one_go_cow_a1.momac283.public.artists"
    assert case.key(key) == f"topics/{renamed}/tombstone/{renamed}+0+0000000541.keys.avro"
    assert case.table("momac283.public.artists") == "judged_moma_keys_shuffled_one_go_cow_a1.artists"


def test_two_cases_share_no_topic_and_no_table():
    pairs = [(rule["topic"], rule["table"]) for case in matrix() for rule in case.rules(PLANS[case.set_name].topics)]
    assert len({topic for topic, _ in pairs}) == len({table for _, table in pairs}) == len(pairs)


def test_phase_by_phase_puts_what_one_go_puts():
    fixtures = find_set("tickit_small", {})
    for order in ("in_order", "shuffled", "reversed", "at_least_once"):
        whole = Case("tickit_small", order, "one_go", "cow").steps(fixtures)
        phased = Case("tickit_small", order, "phased", "cow").steps(fixtures)
        assert len(whole) == 1 and [phase.name for phase, _ in phased] == ["snapshot", "changes", "final"]
        assert sorted(item.key for item in whole[0][1]) == sorted(item.key for _, items in phased for item in items)


def test_a_set_of_overwritten_keys_is_put_version_by_version(tmp_path):
    folder = tmp_path / "moma_overwrite"
    folder.mkdir()
    key = "topics/t/t+0+0.avro"
    (folder / "manifest.json").write_text(json.dumps({"phases": [{"phase": "final", "new_objects": [key]}]}))
    versions = [{"seq": number, "key": key, "file": name} for number, name in ((2, "b"), (1, "a"))]
    (folder / "versions.json").write_text(json.dumps(versions))
    fixtures = find_set("moma_overwrite", {"SLUICE_FIXTURES": str(tmp_path)})
    expected = [folder / "bronze_versions" / name for name in ("a", "b")]
    assert [item.file for item in fixtures.delivery("in_order")] == expected


def test_a_case_renames_an_object_whose_folder_is_not_its_topic():
    case = Case("outbox_json_lenses", "shuffled", "one_go", "cow", run="a1")
    renamed = case.key("cdc-events-local/customer_id=ANTON/order_id=10365/demo.datalake.cdc_events(0_40).json")
    assert (
        renamed == "cdc-events-local/customer_id=ANTON/order_id=10365/"
        "judged_outbox_json_lenses_shuffled_one_go_cow_a1.demo.datalake.cdc_events(0_40).json"
    )
