"""Prices of a region from AWS's price list: answers of GetProducts, checked against the service's model."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from sluice.prices import BUNDLED, PUBLISHED, REGION, price_list
from sluice_aws.price_list import ENDPOINT_REGION, read_prices

FRANKFURT = "eu-central-1"


def product(usage_type: str, *tiers: tuple[str, str]) -> str:
    """A product as the list has it, with tiers of (begin, US dollars)."""
    dimensions = {
        f"sku.{begin}": {"beginRange": begin, "endRange": "Inf", "unit": "hour", "pricePerUnit": {"USD": usd}}
        for begin, usd in tiers
    }
    attributes = {"usagetype": usage_type, "regionCode": FRANKFURT}
    terms = {"OnDemand": {"sku.term": {"priceDimensions": dimensions}}}
    return json.dumps({"product": {"attributes": attributes}, "serviceCode": "x", "terms": terms})


#: What the list answers, by the usage type that is asked for.
ANSWERS: dict[str, list[list[str]]] = {
    "EMR-SERVERLESS-vCPUHours": [[product("EUC1-EMR-SERVERLESS-vCPUHours", ("0", "0.0605280000"))]],
    "EMR-SERVERLESS-ARM-vCPUHours": [
        [product("EUC1-EMR-SERVERLESS-ARM-vCPUHours-Trial", ("0", "9"))],
        [product("EUC1-EMR-SERVERLESS-ARM-vCPUHours", ("0", "0.048418"))],
    ],
    "TimedStorage-ByteHrs": [[product("EUC1-TimedStorage-ByteHrs", ("25", "0.306"), ("0", "0.0"))]],
    "Requests-Tier1": [[product("EUC1-Requests-Tier1", ("0", "0.0000054"))]],
    "KMS-Keys": [[product("eu-central-1-KMS-Keys", ("0", "1.0"))]],
}


@pytest.fixture
def pricing() -> Any:
    """A client whose answers are those of ANSWERS, each in one or several pages."""
    client = boto3.client("pricing", ENDPOINT_REGION, aws_access_key_id="x", aws_secret_access_key="x")
    with Stubber(client) as stubber:
        for published in PUBLISHED.values():
            filters = [
                {"Type": "TERM_MATCH", "Field": "regionCode", "Value": FRANKFURT},
                {"Type": "CONTAINS", "Field": "usagetype", "Value": published.usage_type},
            ]
            asked = {"ServiceCode": published.service, "Filters": filters}
            pages = ANSWERS.get(published.usage_type, [[]])
            for number, page in enumerate(pages, 1):
                more = {} if number == len(pages) else {"NextToken": str(number)}
                stubber.add_response("get_products", {"PriceList": page, **more}, asked)
                asked = {**asked, "NextToken": str(number)}
        yield client
        stubber.assert_no_pending_responses()


def test_the_prices_of_a_region_are_those_of_its_list_and_others_are_named(pricing: Any) -> None:
    usd = read_prices(pricing, FRANKFURT)
    prices = price_list(FRANKFURT, "2026-11-29", usd)
    assert prices.spark["x86_64"].vcpu_hour == 0.060528 and prices.spark["arm64"].vcpu_hour == 0.048418
    assert prices.other.dynamodb_gb_month == 0.306, "the first tier costs nothing"
    assert prices.other.s3_puts_million == pytest.approx(5.4)
    assert prices.other.kms_key_month == BUNDLED.other.kms_key_month and "kms_key_month" in prices.assumed
    assert prices.spark["x86_64"].memory_gb_hour == BUNDLED.spark["x86_64"].memory_gb_hour
    assert set(prices.assumed) == set(PUBLISHED) - set(usd)
    said = prices.described(FRANKFURT)
    assert said.startswith(f"list prices of {FRANKFURT}, 2026-11-29; of {REGION}, ") and "x86 64 memory gb hour" in said


def test_a_region_without_prices_of_its_own_is_said_to_have_assumed_ones() -> None:
    assert BUNDLED.described(FRANKFURT).endswith(f"assumed for {FRANKFURT}, where most cost up to 30 % more")
    assert BUNDLED.described() == BUNDLED.described(REGION)
    whole = price_list(FRANKFURT, "2026-11", dict.fromkeys(PUBLISHED, 1.0))
    assert whole.described(FRANKFURT) == f"list prices of {FRANKFURT}, 2026-11" and not whole.assumed
