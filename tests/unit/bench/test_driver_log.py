"""The stages of a batch, from the log of the driver that ran it."""

import json

from sluice_bench.measure.driver_log import batch_profile


def test_the_stages_are_those_of_the_batch_and_of_the_one_table_asked_for(tmp_path):
    log = tmp_path / "runs" / "r1" / "stdout"
    log.parent.mkdir(parents=True)
    lines = [
        {"event": "merged", "batch": "b-1", "table": "d.a", "seconds": {"read": 1.0}},
        {"event": "merged", "batch": "b-1", "table": "d.b", "seconds": {"read": 9.0}},
        {"event": "profile", "batch": "b-1", "seconds": {"merge": 2.5}},
        {"event": "profile", "batch": "b-2", "seconds": {"merge": 7.0}},
    ]
    log.write_text("Spark says something\n" + "".join(json.dumps(line) + "\n" for line in lines) + '{"event": "prof')
    assert batch_profile(tmp_path, "b-1", "d.a") == {"merge_read_s": 1.0, "driver_merge_s": 2.5}
    assert batch_profile(tmp_path, "b-3", "d.a") == {}
