"""The first minute on an account: `sluice doctor --job` says whether the engine fits, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judging.patience import patient
from judging.running_stack import RunningStack

from sluice.lane.trial import TRIALS_PREFIX


def keys(stack: RunningStack, prefix: str) -> list[str]:
    listed = stack.target.client("s3").list_objects_v2(Bucket=stack.target.silver, Prefix=prefix)
    return [entry["Key"] for entry in listed.get("Contents", ())]


def test_one_job_tries_both_table_types_and_leaves_only_its_report(stack: RunningStack) -> None:
    # 1: nothing may be configured here yet.
    summary = stack.describe("doctor", "--job", "--timeout", f"{patient(240):.0f}", accept=(0, 1))
    by_about: Mapping[str, Mapping[str, Any]] = {item["about"]: item for item in summary}
    tried = ("trial job", "engine", "job run id", "copy on write", "merge on read")
    assert {about: by_about[about]["result"] for about in tried} == dict.fromkeys(tried, "ok"), summary
    assert "scratch tables" not in by_about
    assert set(by_about["merge on read"]["facts"]["seconds"]) == {
        "first load",
        "upsert",
        "compaction",
        "cleaning",
        "archival",
        "read",
    }
    assert by_about["engine"]["facts"]["hudi"] == "1.0.2" and by_about["engine"]["facts"]["worker python"]
    trial = by_about["trial job"]["facts"]
    assert keys(stack, TRIALS_PREFIX) == [f"{TRIALS_PREFIX}{trial['trial']}.json"]
    run = stack.target.client("emr-serverless").get_job_run(
        applicationId=stack.target.outputs["ApplicationId"], jobRunId=trial["job_run"]
    )["jobRun"]
    tags = {"sluice:stack": stack.target.stack, "sluice:trial": trial["trial"]}
    assert (run["name"], run["tags"]) == (trial["trial"], tags)
