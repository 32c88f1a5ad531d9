"""AWS's list prices in US dollars, before discounts and free tiers: of one region and one date, or of another's list.

All costs are calculated from this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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


def _published(usd: float, service: str, usage_type: str, times: float = 1.0) -> Any:
    """A price, and where AWS's list has it."""
    return field(default=usd, metadata={"published": PublishedPrice(service, usage_type, times)})


_MILLION = 1e6


@dataclass(frozen=True)
class Prices:
    """All other services. A name with `million` gives the price of a million."""

    lambda_requests_million: float = _published(0.20, "AWSLambda", "Request-ARM", _MILLION)
    # arm64; x86_64 is 0.0000166667
    lambda_gb_second: float = _published(0.0000133334, "AWSLambda", "Lambda-GB-Second-ARM")
    # one write unit: 1 KB, twice that in a transaction
    dynamodb_writes_million: float = _published(0.625, "AmazonDynamoDB", "WriteRequestUnits", _MILLION)
    # one read unit: 4 KB, strongly consistent
    dynamodb_reads_million: float = _published(0.125, "AmazonDynamoDB", "ReadRequestUnits", _MILLION)
    dynamodb_gb_month: float = _published(0.25, "AmazonDynamoDB", "TimedStorage-ByteHrs")
    # point-in-time recovery
    dynamodb_recovery_gb_month: float = _published(0.20, "AmazonDynamoDB", "TimedPITRStorage-ByteHrs")
    s3_gb_month: float = _published(0.023, "AmazonS3", "TimedStorage-ByteHrs")
    s3_puts_million: float = _published(5.00, "AmazonS3", "Requests-Tier1", _MILLION)  # also listings
    s3_gets_million: float = _published(0.40, "AmazonS3", "Requests-Tier2", _MILLION)
    sqs_requests_million: float = _published(0.40, "AWSQueueService", "Requests-Tier1", _MILLION)
    cloudwatch_metric_month: float = _published(0.30, "AmazonCloudWatch", "CW:MetricMonitorUsage")
    cloudwatch_alarm_month: float = _published(0.10, "AmazonCloudWatch", "CW:AlarmMonitorUsage")
    cloudwatch_dashboard_month: float = 3.00
    cloudwatch_logs_gb: float = _published(0.50, "AmazonCloudWatch", "DataProcessing-Bytes")
    events_million: float = _published(1.00, "AWSEvents", "Event-64K-Chunks", _MILLION)
    # Step Functions, standard workflows: states entered
    state_transitions_million: float = _published(25.00, "AmazonStates", "StateTransition", _MILLION)
    kms_key_month: float = _published(1.00, "awskms", "KMS-Keys")
    kms_requests_million: float = _published(3.00, "awskms", "KMS-Requests", _MILLION)
    # an interface endpoint in one availability zone
    endpoint_hour: float = _published(0.01, "AmazonVPC", "VpcEndpoint-Hours")
    nat_hour: float = _published(0.045, "AmazonEC2", "NatGateway-Hours")  # a NAT gateway
    nat_gb: float = _published(0.045, "AmazonEC2", "NatGateway-Bytes")


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


_SPARK = "ElasticMapReduce"
#: Prices that the list of a region is asked for, by their names here; those of Spark begin with the architecture.
PUBLISHED: Mapping[str, PublishedPrice] = {
    "x86_64 vcpu_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-vCPUHours"),
    "x86_64 memory_gb_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-MemoryGBHours"),
    "x86_64 storage_gb_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-StorageGBHours"),
    "arm64 vcpu_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-ARM-vCPUHours"),
    "arm64 memory_gb_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-ARM-MemoryGBHours"),
    "arm64 storage_gb_hour": PublishedPrice(_SPARK, "EMR-SERVERLESS-StorageGBHours"),
    **{of.name: of.metadata["published"] for of in fields(Prices) if of.metadata},
}


def price_list(region: str, as_of: str, usd: Mapping[str, float]) -> PriceList:
    """The price list of a region by the prices that were read of it, as PUBLISHED names them; else REGION's."""

    def of_spark(architecture: str) -> SparkPrices:
        own = SPARK_PRICES[architecture]
        names = [of.name for of in fields(own)]
        return SparkPrices(**{name: usd.get(f"{architecture} {name}", getattr(own, name)) for name in names})

    names = [of.name for of in fields(Prices)]
    other = Prices(**{name: usd.get(name, getattr(OTHER_PRICES, name)) for name in names})
    assumed = tuple(name for name in PUBLISHED if name not in usd)
    return PriceList(region, as_of, {name: of_spark(name) for name in SPARK_PRICES}, other, assumed)
