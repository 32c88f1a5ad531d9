"""Reads templates, and finds out whether a deployment changes the Spark application.

CloudFormation can't change an application while it is started.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

APPLICATION = "AWS::EMRServerless::Application"


# libyaml's loader, where PyYAML has it, takes a tenth of the time.
class _TemplateLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML with CloudFormation's short forms: `!Ref A` is `{"Ref": "A"}`, and `!Sub a` is `{"Fn::Sub": "a"}`."""


def _written_out(loader: yaml.SafeLoader, name: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
        if name == "GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {name if name in ("Ref", "Condition") else f"Fn::{name}": value}


_TemplateLoader.add_multi_constructor("!", _written_out)


def parse_template(text: str) -> dict[str, Any]:
    """A template in YAML or JSON with CloudFormation's short forms written out. Raises yaml.YAMLError."""
    document = yaml.load(text, _TemplateLoader)  # nosec B506
    return dict(json.loads(json.dumps(document)))  # through JSON, so that YAML's anchors become copies


def read_template(path: Path) -> dict[str, Any]:
    """The template of a file, as `parse_template` does."""
    return parse_template(path.read_text(encoding="utf-8"))


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
    conditions = [new.get("Conditions", {}).get(name) for name in _conditions(after)]
    named = {part["Ref"] for part in _mappings([after, conditions]) if isinstance(part.get("Ref"), str)}
    defaults = {name: str(one.get("Default", "")) for name, one in new.get("Parameters", {}).items()}
    return any(
        name in defaults and given.get(name, now.get(name, defaults[name])) != now.get(name, defaults[name])
        for name in named
    )


def _applications(template: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: resource
        for name, resource in template.get("Resources", {}).items()
        if resource.get("Type") == APPLICATION
    }


def _conditions(node: Any) -> Iterator[str]:
    """The conditions that a node depends on."""
    for part in _mappings(node):
        if isinstance(part.get("Condition"), str):
            yield part["Condition"]
        if isinstance(part.get("Fn::If"), list):
            yield part["Fn::If"][0]


def _mappings(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every mapping in a node, itself too."""
    if isinstance(node, Mapping):
        yield node
    for value in node.values() if isinstance(node, Mapping) else node if isinstance(node, list) else ():
        yield from _mappings(value)
