"""The ledger's DynamoDB table as template.yaml declares it, for tests that make it in an emulator."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

TEMPLATE = Path(__file__).resolve().parents[2] / "template.yaml"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads CloudFormation's short tags as plain values."""


_Loader.add_multi_constructor("!", lambda loader, tag, node: f"!{tag} {getattr(node, 'value', '')}")


@lru_cache(maxsize=1)
def _declared() -> dict[str, Any]:
    """Reading the template takes longer than most tests."""
    resources: dict[str, Any] = yaml.load(TEMPLATE.read_text(encoding="utf-8"), _Loader)["Resources"]
    return dict(resources["Ledger"]["Properties"])


def create_ledger_table(client: Any, name: str) -> str:
    """Create the table with the keys and the index of the template, and no stream."""
    declared = _declared()
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=declared["AttributeDefinitions"],
        KeySchema=declared["KeySchema"],
        GlobalSecondaryIndexes=declared["GlobalSecondaryIndexes"],
    )
    return name
