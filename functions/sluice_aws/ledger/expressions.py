"""DynamoDB's expressions and attribute values, built from field names and plain values, never from input text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Condition:
    """Alternatives, each a group of tests (field, value) that must all hold; None means that the field is absent."""

    any_of: tuple[tuple[tuple[str, Any], ...], ...]

    def __or__(self, other: Condition) -> Condition:
        return Condition(self.any_of + other.any_of)


def when(**fields: Any) -> Condition:
    """The condition that every field has its value; None means that the field is absent."""
    return Condition((tuple(fields.items()),))


NEW_ITEM = when(pk=None)


@dataclass
class Expression:
    """The names and values of one request, collected behind placeholders."""

    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)

    def name(self, field_name: str) -> str:
        """A placeholder for a field's name, which may be a reserved word of DynamoDB."""
        placeholder = f"#{field_name}"
        self.names[placeholder] = field_name
        return placeholder

    def value(self, plain: Any) -> str:
        """A placeholder for a value."""
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = attribute(plain)
        return placeholder

    def condition(self, condition: Condition) -> str:
        """The condition's text."""
        groups = [" AND ".join(self._test(name, wanted) for name, wanted in group) for group in condition.any_of]
        return groups[0] if len(groups) == 1 else " OR ".join(f"({group})" for group in groups)

    def update(self, set: Mapping[str, Any], remove: Sequence[str] = (), add: Mapping[str, int] | None = None) -> str:
        """The update's text; a field set to None is removed."""
        present = {name: plain for name, plain in set.items() if plain is not None}
        gone = [*remove, *(name for name in set if set[name] is None)]
        clauses: list[str] = []
        if present:
            clauses.append(
                "SET " + ", ".join(f"{self.name(name)} = {self.value(plain)}" for name, plain in present.items())
            )
        if gone:
            clauses.append("REMOVE " + ", ".join(self.name(name) for name in gone))
        if add:
            clauses.append("ADD " + ", ".join(f"{self.name(name)} {self.value(plain)}" for name, plain in add.items()))
        return " ".join(clauses)

    def arguments(self) -> dict[str, Any]:
        """The request's arguments beside the expressions' texts."""
        arguments: dict[str, Any] = {}
        if self.names:
            arguments["ExpressionAttributeNames"] = self.names
        if self.values:
            arguments["ExpressionAttributeValues"] = self.values
        return arguments

    def _test(self, name: str, wanted: Any) -> str:
        if wanted is None:
            return f"attribute_not_exists({self.name(name)})"
        return f"{self.name(name)} = {self.value(wanted)}"


Attribute = dict[str, Any]


def attribute(value: Any) -> Attribute:
    """A value in the form of a request. Raises TypeError for types that the ledger does not store."""
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


def item(values: Mapping[str, Any]) -> dict[str, Attribute]:
    """An item in the form of a request; fields that are None are left out."""
    return {name: attribute(value) for name, value in values.items() if value is not None}


def value(stored: Attribute) -> Any:
    """An attribute as a plain value. Numbers are integers."""
    ((kind, held),) = stored.items()
    if kind == "N":
        return int(held)
    if kind == "L":
        return [value(element) for element in held]
    if kind == "M":
        return {name: value(element) for name, element in held.items()}
    return None if kind == "NULL" else held


def values(stored: Mapping[str, Attribute]) -> dict[str, Any]:
    """A stored item as plain values."""
    return {name: value(element) for name, element in stored.items()}
