"""The local stack's replacement of `emr-serverless:startJobRun.sync`: starts a job run and waits for its end.

Deployed as inline code, so it imports only the runtime's own modules and boto3.
"""

from __future__ import annotations

import time
from typing import Any

import boto3

POLL_S = 0.5
ENDED = ("SUCCESS", "FAILED", "CANCELLED")


class JobRunEnded(Exception):
    """The job run failed. Its reason is the cause of the state machine's failed task."""


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Lambda entry: takes StartJobRun's parameters from Step Functions, and returns the successful job run."""
    emr = boto3.client("emr-serverless")
    started = emr.start_job_run(**request_of(event))
    while True:
        run = emr.get_job_run(applicationId=started["applicationId"], jobRunId=started["jobRunId"])["jobRun"]
        if run["state"] in ENDED:
            break
        time.sleep(POLL_S)
    if run["state"] != "SUCCESS":
        raise JobRunEnded(f"{run['jobRunId']} {run['state']}: {run.get('stateDetails', '')}")
    return {"JobRunId": run["jobRunId"], "State": run["state"]}


def request_of(parameters: dict[str, Any]) -> dict[str, Any]:
    """Rename Step Functions' parameters to the API's: members begin with a small letter, keys of tags stay."""
    return {
        name[0].lower() + name[1:]: value if name == "Tags" or not isinstance(value, dict) else request_of(value)
        for name, value in parameters.items()
    }
