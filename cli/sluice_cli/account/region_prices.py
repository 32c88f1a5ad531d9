"""The prices of a stack's region: those of the release, or AWS's price list, kept for a month."""

from __future__ import annotations

import json
import os
from datetime import date, timedelta

from sluice.prices import BUNDLED, REGION, PriceList, price_list
from sluice_aws.price_list import ENDPOINT_REGION, read_prices
from sluice_aws.stack import LOCAL, Target
from sluice_cli.terminal.output import say
from sluice_cli.terminal.run import AWS_ERRORS
from sluice_local.cache import cache_directory

KEPT = timedelta(days=30)


def prices_for(target: Target) -> PriceList:
    """The prices of a stack. The local one has those of the release."""
    return prices_of(None if target.kind == LOCAL else target.region)


def prices_of(region: str | None, today: date | None = None) -> PriceList:
    """The prices of a region (None: of the bundled one). What can't be read is said, and the bundled ones assumed."""
    if region in (None, REGION):
        return BUNDLED
    today = today or date.today()
    file = cache_directory(os.environ) / f"prices-{region}.json"
    prices = json.loads(file.read_text()) if file.is_file() else None
    if prices is None or date.fromisoformat(prices["as_of"]) + KEPT < today:
        from sluice_aws.clients import COMMAND, Clients

        try:
            usd = read_prices(Clients(region=ENDPOINT_REGION, options=COMMAND).client("pricing"), str(region))
        except AWS_ERRORS as error:
            say(f"note: the prices of {region} were not read, which needs pricing:GetProducts: {error}")
            return BUNDLED
        if not usd:
            say(f"note: the price list of AWS has nothing of {region}")
            return BUNDLED
        prices = {"as_of": today.isoformat(), "usd": usd}
        file.parent.mkdir(parents=True, exist_ok=True)
        written = file.with_suffix(f".{os.getpid()}")
        written.write_text(json.dumps(prices))
        written.replace(file)
    return price_list(str(region), prices["as_of"], prices["usd"])
