"""template.yaml, which takes long to read, once for all tests of a process, and its policies. Change copies of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sluice_deploy.template import read_template

TEMPLATE = read_template(Path(__file__).resolve().parents[2] / "template.yaml")
RESOURCES: dict[str, dict[str, Any]] = TEMPLATE["Resources"]


def of_type(*types: str) -> dict[str, dict[str, Any]]:
    """The resources of these types by their names."""
    return {name: resource for name, resource in RESOURCES.items() if resource["Type"] in types}


def statements(node: Any) -> Iterator[dict[str, Any]]:
    """Every statement of every policy in a document, also those that a condition lets in."""
    if isinstance(node, dict):
        if "Effect" in node:
            yield node
        for value in node.values():
            yield from statements(value)
    elif isinstance(node, list):
        for value in node:
            yield from statements(value)
