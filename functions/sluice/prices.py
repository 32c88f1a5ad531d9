"""AWS's list prices in US dollars, of one region and one date, before discounts and free tiers.

All costs are calculated from this module.
"""

from __future__ import annotations

from dataclasses import dataclass

AS_OF = "2026-06"
REGION = "us-east-1"  # most other regions cost up to 30 % more


@dataclass(frozen=True)
class SparkPrices:
    """EMR Serverless, per hour: a vCPU, a GB of memory, and a GB of disk beyond the 20 GB that each worker has free."""

    vcpu_hour: float
    memory_gb_hour: float
    storage_gb_hour: float = 0.000111


@dataclass(frozen=True)
class Prices:
    """All other services. A name with `million` gives the price of a million."""

    lambda_requests_million: float = 0.20
    lambda_gb_second: float = 0.0000133334  # arm64; x86_64 is 0.0000166667
    dynamodb_writes_million: float = 0.625  # one write unit: 1 KB, twice that in a transaction
    dynamodb_reads_million: float = 0.125  # one read unit: 4 KB, strongly consistent
    dynamodb_gb_month: float = 0.25
    dynamodb_recovery_gb_month: float = 0.20  # point-in-time recovery
    s3_gb_month: float = 0.023
    s3_puts_million: float = 5.00  # also listings
    s3_gets_million: float = 0.40
    sqs_requests_million: float = 0.40
    cloudwatch_metric_month: float = 0.30
    cloudwatch_alarm_month: float = 0.10
    cloudwatch_dashboard_month: float = 3.00
    cloudwatch_logs_gb: float = 0.50
    events_million: float = 1.00
    state_transitions_million: float = 25.00  # Step Functions, standard workflows: states entered
    kms_key_month: float = 1.00
    kms_requests_million: float = 3.00
    endpoint_hour: float = 0.01  # an interface endpoint in one availability zone
    nat_hour: float = 0.045  # a NAT gateway
    nat_gb: float = 0.045


SPARK_PRICES = {
    "x86_64": SparkPrices(vcpu_hour=0.052624, memory_gb_hour=0.0057785),
    "arm64": SparkPrices(vcpu_hour=0.042094, memory_gb_hour=0.0046280),
}
OTHER_PRICES = Prices()


def priced_for(region: str | None = None) -> str:
    """Which list prices the figures are, in words, and what that means for a stack in `region`."""
    prices = f"list prices of {REGION}, {AS_OF}"
    return prices if region in (None, REGION) else f"{prices}: the table has none of {region}, mostly up to 30 % more"


def spark_usd(architecture: str, *, vcpu_hours: float, memory_gb_hours: float, storage_gb_hours: float = 0.0) -> float:
    """The cost in US dollars of resources that EMR Serverless bills.

    `architecture` is in any case ("X86_64", "arm64"). An unknown one is priced as x86_64.
    """
    prices = SPARK_PRICES.get(architecture.lower(), SPARK_PRICES["x86_64"])
    return (
        vcpu_hours * prices.vcpu_hour
        + memory_gb_hours * prices.memory_gb_hour
        + storage_gb_hours * prices.storage_gb_hour
    )
