"""Finds out whether a deployment changes the Spark application, which CloudFormation can't do while it is started."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

APPLICATION = "AWS::EMRServerless::Application"


def changes_application(
    deployed: Mapping[str, Any], new: Mapping[str, Any], now: Mapping[str, str], given: Mapping[str, str]
) -> bool:
    """Compare two templates' applications, and the parameters that they depend on.

    `now` are the stack's parameters, and `given` those of the deployment. Others have the new template's default. A
    change of any part of a condition counts: an unnecessary stop costs a minute.
    """
    before, after = _applications(deployed), _applications(new)
    if json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
        return True
    named = set(
        _named(
            {"applications": after, "conditions": [new.get("Conditions", {}).get(name) for name in _conditions(after)]}
        )
    )
    defaults = {name: str(one.get("Default", "")) for name, one in new.get("Parameters", {}).items()}
    return any(
        name in defaults and given.get(name, now.get(name, defaults[name])) != now.get(name, defaults[name])
        for name in named
    )


def parameters_of(overrides: str) -> dict[str, str]:
    """`--parameter-overrides` as SAM takes them: `Name=value Name="a value"`."""
    import shlex

    pairs = [word.partition("=") for word in shlex.split(overrides)]
    return {name: value for name, _, value in pairs}


def _applications(template: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: resource
        for name, resource in template.get("Resources", {}).items()
        if resource.get("Type") == APPLICATION
    }


def _named(node: Any) -> Iterator[str]:
    """The names in every `Ref`."""
    if isinstance(node, Mapping):
        if isinstance(node.get("Ref"), str):
            yield node["Ref"]
        for value in node.values():
            yield from _named(value)
    elif isinstance(node, list):
        for value in node:
            yield from _named(value)


def _conditions(node: Any) -> Iterator[str]:
    """The conditions that a node depends on."""
    if isinstance(node, Mapping):
        if isinstance(node.get("Condition"), str):
            yield node["Condition"]
        if isinstance(node.get("Fn::If"), list):
            yield node["Fn::If"][0]
        for value in node.values():
            yield from _conditions(value)
    elif isinstance(node, list):
        for value in node:
            yield from _conditions(value)
