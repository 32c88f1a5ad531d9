"""Who this driver is: the lane, the run, and the job run and attempt that EMR Serverless gave it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Mapping, Optional

from sluice.errors import SluiceError

# EMR Serverless documents no way for a driver to learn its job run's id. Two are in use: the environment
# variable that its Spark images set, and Spark's application id, which is the job run's id there (its event
# logs are named by it). The second needs a Spark context; the first lets the lane be held before one exists.
_ENVIRONMENT_NAMES = ("SERVERLESS_EMR_JOB_ID", "EMR_SERVERLESS_JOB_RUN_ID")
_JOB_RUN_ID = re.compile(r"[0-9a-z]{1,64}\Z")  # the pattern of JobRun.jobRunId in the service model


class UnknownJobRun(SluiceError):
    """The driver can't tell which job run it is, so it can't hold a lane."""

    code = "unknown_job_run"
    next_step = "Start the driver by StartJobRun, or give --job-run-id"


@dataclass(frozen=True)
class RunIdentity:
    """One attempt of one job run of one run of a lane."""

    lane: str
    run: str
    job_run_id: str
    attempt: int = 1


def job_run_id_from(given: Optional[str], environment: Mapping[str, str]) -> Optional[str]:
    """The job run's id as far as it is known before Spark starts: the argument, else the environment."""
    for candidate in (given, *(environment.get(name) for name in _ENVIRONMENT_NAMES)):
        if candidate:
            return _checked(candidate)
    return None


def job_run_id_of_application(application_id: str) -> str:
    """The job run's id from Spark's application id. Raises UnknownJobRun for one of another cluster manager."""
    return _checked(application_id)


def _checked(candidate: str) -> str:
    if not _JOB_RUN_ID.match(candidate):
        raise UnknownJobRun(f"{candidate[:100]!r} is not the id of an EMR Serverless job run", given=candidate[:100])
    return candidate
