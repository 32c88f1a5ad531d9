"""Reads the prices of a region from AWS's price list, by `pricing:GetProducts`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sluice.prices import PUBLISHED, PublishedPrice

ENDPOINT_REGION = "us-east-1"  # one of the few that have the price list, which is that of all


def read_prices(pricing: Any, region: str, names: Iterable[str] = PUBLISHED) -> dict[str, float]:
    """The prices of a region by their `names` in PUBLISHED, without those that its list lacks. A call or two for each.

    `pricing` is a client of ENDPOINT_REGION. Raises ClientError and BotoCoreError.
    """
    usd: dict[str, float] = {}
    for name in names:
        published = PUBLISHED[name]
        prices = (published.price_in(product) for product in _products(pricing, region, published))
        price = next((price for price in prices if price is not None), None)
        if price is not None:
            usd[name] = price
    return usd


def _products(pricing: Any, region: str, published: PublishedPrice) -> Iterator[Mapping[str, Any]]:
    filters = [
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": region},
        {"Type": "CONTAINS", "Field": "usagetype", "Value": published.usage_type},
    ]
    for page in pricing.get_paginator("get_products").paginate(ServiceCode=published.service, Filters=filters):
        yield from map(json.loads, page["PriceList"])
