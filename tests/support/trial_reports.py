"""The report of a trial that passed, for tests of its readers."""

from sluice.lane.trial import PASSED, TableTrial, TrialReport, TrialStep
from sluice.names import timed_id

NOW = 1_700_000_000_000
TRIAL = timed_id("trial", NOW, "0a1b2c3d4e")
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
    tables=(
        TableTrial("cow", (TrialStep("first load", 2.0), TrialStep("read", 0.5)), 3),
        TableTrial("mor", (TrialStep("compaction", 1.5),), 3),
    ),
)
