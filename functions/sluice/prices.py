"""AWS's list prices in US dollars, before discounts and free tiers: of one region and one date, or of another's list.

All costs are calculated from this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

AS_OF = "2026-06"
REGION = "us-east-1"


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


@dataclass(frozen=True)
class PriceList:
    """The prices of a region, read at a date. `assumed` names those that the region's list lacks: they are REGION's."""

    region: str
    as_of: str  # YYYY-MM or YYYY-MM-DD
    spark: Mapping[str, SparkPrices]
    other: Prices
    assumed: tuple[str, ...] = ()

    def spark_usd(
        self, architecture: str, *, vcpu_hours: float, memory_gb_hours: float, storage_gb_hours: float = 0.0
    ) -> float:
        """The cost in US dollars of resources that EMR Serverless bills.

        `architecture` is in any case ("X86_64", "arm64"). An unknown one is priced as x86_64.
        """
        prices = self.spark.get(architecture.lower(), self.spark["x86_64"])
        return (
            vcpu_hours * prices.vcpu_hour
            + memory_gb_hours * prices.memory_gb_hour
            + storage_gb_hours * prices.storage_gb_hour
        )

    def described(self, region: str | None = None) -> str:
        """Which list prices the figures are, in words, and what that means for a stack in `region`."""
        prices = f"list prices of {self.region}, {self.as_of}"
        if region not in (None, self.region):
            return f"{prices}, assumed for {region}, where most cost up to 30 % more"
        lacked = ", ".join(self.assumed).replace("_", " ")
        return f"{prices}; of {REGION}, {AS_OF}, where its list has none: {lacked}" if lacked else prices


BUNDLED = PriceList(REGION, AS_OF, SPARK_PRICES, OTHER_PRICES)


@dataclass(frozen=True)
class PublishedPrice:
    """Where AWS's price list has a price: a service, and a usage type behind the region's prefix.

    Its unit is multiplied by `times`.
    """

    service: str
    usage_type: str
    times: float = 1.0

    def price_in(self, product: Mapping[str, Any]) -> float | None:
        """The price in one product of the list: of the first tier that isn't free. None for another usage type."""
        usage_type = product.get("product", {}).get("attributes", {}).get("usagetype", "")
        if not re.fullmatch(f"([A-Z]{{2,4}}[0-9]?-)?{re.escape(self.usage_type)}", usage_type):
            return None
        offers = product.get("terms", {}).get("OnDemand", {}).values()
        tiers = [tier for offer in offers for tier in offer["priceDimensions"].values()]
        prices = sorted((float(tier["beginRange"]), float(tier["pricePerUnit"].get("USD", 0))) for tier in tiers)
        return next((usd * self.times for _, usd in prices if usd > 0), None)


_SPARK, _MILLION = "ElasticMapReduce", 1e6
#: Prices that the list of a region is asked for, by their names here; those of Spark begin with the architecture.
PUBLISHED: Mapping[str, PublishedPrice] = {
    "x86_64 vcpu_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-vCPUHours"),
    "x86_64 memory_gb_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-MemoryGBHours"),
    "x86_64 storage_gb_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-StorageGBHours"),
    "arm64 vcpu_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-ARM-vCPUHours"),
    "arm64 memory_gb_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-ARM-MemoryGBHours"),
    "arm64 storage_gb_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-StorageGBHours"),
    "lambda_requests_million": PublishedPrice("AWSLambda", "Request-ARM", _MILLION),
    "lambda_gb_second": PublishedPrice("AWSLambda", "Lambda-GB-Second-ARM"),
    "dynamodb_writes_million": PublishedPrice("AmazonDynamoDB", "WriteRequestUnits", _MILLION),
    "dynamodb_reads_million": PublishedPrice("AmazonDynamoDB", "ReadRequestUnits", _MILLION),
    "dynamodb_gb_month": PublishedPrice("AmazonDynamoDB", "TimedStorage-ByteHrs"),
    "dynamodb_recovery_gb_month": PublishedPrice("AmazonDynamoDB", "TimedPITRStorage-ByteHrs"),
    "s3_gb_month": PublishedPrice("AmazonS3", "TimedStorage-ByteHrs"),
    "s3_puts_million": PublishedPrice("AmazonS3", "Requests-Tier1", _MILLION),
    "s3_gets_million": PublishedPrice("AmazonS3", "Requests-Tier2", _MILLION),
    "sqs_requests_million": PublishedPrice("AWSQueueService", "Requests-Tier1", _MILLION),
    "cloudwatch_metric_month": PublishedPrice("AmazonCloudWatch", "CW:MetricMonitorUsage"),
    "cloudwatch_alarm_month": PublishedPrice("AmazonCloudWatch", "CW:AlarmMonitorUsage"),
    "cloudwatch_logs_gb": PublishedPrice("AmazonCloudWatch", "DataProcessing-Bytes"),
    "events_million": PublishedPrice("AWSEvents", "Event-64K-Chunks", _MILLION),
    "state_transitions_million": PublishedPrice("AmazonStates", "StateTransition", _MILLION),
    "kms_key_month": PublishedPrice("awskms", "KMS-Keys"),
    "kms_requests_million": PublishedPrice("awskms", "KMS-Requests", _MILLION),
    "endpoint_hour": PublishedPrice("AmazonVPC", "VpcEndpoint-Hours"),
    "nat_hour": PublishedPrice("AmazonEC2", "NatGateway-Hours"),
    "nat_gb": PublishedPrice("AmazonEC2", "NatGateway-Bytes"),
}


def price_list(region: str, as_of: str, usd: Mapping[str, float]) -> PriceList:
    """The price list of a region by the prices that were read of it, as PUBLISHED names them; else REGION's."""

    def of_spark(architecture: str) -> SparkPrices:
        own = SPARK_PRICES[architecture]
        names = [field.name for field in fields(own)]
        return SparkPrices(**{name: usd.get(f"{architecture} {name}", getattr(own, name)) for name in names})

    names = [field.name for field in fields(Prices)]
    other = Prices(**{name: usd.get(name, getattr(OTHER_PRICES, name)) for name in names})
    assumed = tuple(name for name in PUBLISHED if name not in usd)
    return PriceList(region, as_of, {name: of_spark(name) for name in SPARK_PRICES}, other, assumed)
