"""Builders of the values that many tests need."""

from __future__ import annotations

from sluice.lane.job_request import JobEnvironment

JOB_ENVIRONMENT = JobEnvironment(
    application_id="00f1982r1uukb925", job_role_arn="arn:aws:iam::123456789012:role/sluice-job", region="us-east-1", release="abc123",
    ledger_table="ledger", bronze_bucket="bronze", silver_bucket="silver", artifact_bucket="artifacts",
    hudi_jars="file:///usr/lib/hudi/hudi-spark-bundle.jar", architecture="X86_64",
)  # fmt: skip
