"""The local stack's replacement of `aws-sdk:emrserverless:getJobRun`: the state of a job run.

Deployed as inline code, so it imports only boto3.
"""

from __future__ import annotations

from typing import Any

import boto3


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Lambda entry: takes GetJobRun's parameters as Step Functions names them, and answers as its task does."""
    emr = boto3.client("emr-serverless")
    run = emr.get_job_run(applicationId=event["ApplicationId"], jobRunId=event["JobRunId"])["jobRun"]
    return {"JobRun": {"State": run["state"]}}
