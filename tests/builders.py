"""Builders of the values that many tests need."""

from __future__ import annotations

from collections.abc import Mapping

from sluice.batch.outcome import Outcome
from sluice.lane.job_request import JobEnvironment
from sluice.ledger.keys import table_key
from sluice_aws.ledger.ledger import DynamoDbLedger
from sluice_aws.ledger.settlement import table_fields, totals

JOB_ENVIRONMENT = JobEnvironment(
    application_id="00f1982r1uukb925", job_role_arn="arn:aws:iam::123456789012:role/sluice-job", region="us-east-1", release="abc123",
    ledger_table="ledger", bronze_bucket="bronze", silver_bucket="silver", artifact_bucket="artifacts",
    hudi_jars="file:///usr/lib/hudi/hudi-spark-bundle.jar", architecture="X86_64",
)  # fmt: skip


def note_commit(ledger: DynamoDbLedger, outcome: Outcome, counts: Mapping[str, int]) -> None:
    """What settling writes into the table's item, without a batch."""
    ledger.tables._table.update(table_key(outcome.table), table_fields(outcome), add=totals(counts))
