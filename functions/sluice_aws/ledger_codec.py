"""Plain values to DynamoDB's attribute values and back."""

from __future__ import annotations

from typing import Any, Dict, Mapping

Attribute = Dict[str, Any]


def attribute(value: Any) -> Attribute:
    """One value's form in a request. Raises TypeError for what the ledger never stores (floats, bytes, sets)."""
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, int):
        return {"N": str(value)}
    if isinstance(value, (list, tuple)):
        return {"L": [attribute(item) for item in value]}
    if isinstance(value, Mapping):
        return {"M": {name: attribute(item) for name, item in value.items() if item is not None}}
    raise TypeError(f"The ledger stores no {type(value).__name__}")


def item(values: Mapping[str, Any]) -> Dict[str, Attribute]:
    """An item's form in a request; what is None is left out."""
    return {name: attribute(value) for name, value in values.items() if value is not None}


def value(stored: Attribute) -> Any:
    """One attribute as a plain value; numbers are whole numbers."""
    ((kind, held),) = stored.items()
    if kind == "N":
        return int(held)
    if kind == "L":
        return [value(element) for element in held]
    if kind == "M":
        return {name: value(element) for name, element in held.items()}
    return None if kind == "NULL" else held


def values(stored: Mapping[str, Attribute]) -> Dict[str, Any]:
    """A stored item as plain values."""
    return {name: value(element) for name, element in stored.items()}
