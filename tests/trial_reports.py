"""What a trial job reports, for tests of who reads it."""

from dataclasses import replace

from sluice.engine.report import PASSED, Engine, EngineReport, Step, TableTrial, TrialReport, new_trial_id

NOW = 1_700_000_000_000
TRIAL = new_trial_id(NOW, "0a1b2c3d4e")
LINKS = EngineReport(
    "b", "hudi.jar", "1.0.2-amzn-3", Engine("3.5.8-amzn-0", "3.4.2-amzn-2", "2.12.18", "17"), NOW, 4_000
)
VERSIONS = {
    "spark": "3.5.8-amzn-0",
    "hadoop": "3.4.2-amzn-2",
    "scala": "2.12.18",
    "java": "17",
    "python": "3.9.20",
    "hudi": "1.0.2-amzn-3",
}
GOOD = TrialReport(
    TRIAL,
    PASSED,
    NOW,
    NOW,
    job_run_id="00f1",
    versions=VERSIONS,
    links=LINKS,
    tables=(
        TableTrial("cow", (Step("first load", 2.0), Step("read", 0.5)), 3),
        TableTrial("mor", (Step("compaction", 1.5),), 3),
    ),
)
MISSING = replace(LINKS, missing=("org.x.Y.z(int): void is not there",))
