"""The form of tables.yaml: pydantic models made of the settings that the core defines, and their JSON Schema."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import is_dataclass, replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, create_model

from sluice.config.lane import LaneConfig
from sluice.config.rules.ignore import Ignore
from sluice.config.rules.table_rule import TableRule
from sluice.config.setting import Setting, settings_of, with_differences
from sluice.config.table import TableSettings
from sluice.config.values import LANE_NAME

_ENABLED = "enabled"  # a group with this key may be written as on or off
_IS = "is"  # of `delete_when`


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _form(title: str, meaning: str, settings: tuple[Setting, ...], *, defaults: bool = False) -> type[_Form]:
    """Make a model of settings. With `defaults` the JSON Schema names their defaults."""
    fields = {
        setting.key: _field(setting, settings, defaults=defaults) for setting in settings if len(setting.path) == 1
    }
    with warnings.catch_warnings():  # `schema` is also the name of a deprecated method of pydantic's
        warnings.filterwarnings("ignore", message='Field name "schema"')
        return create_model(title, __base__=_Form, __doc__=meaning, **fields)  # type: ignore[call-overload]


def _field(setting: Setting, settings: tuple[Setting, ...], *, defaults: bool) -> tuple[Any, Any]:
    """Return type and default of a model's field. A group also has the settings whose keys are below its own."""
    if setting.value is None:
        below = (setting_below for setting_below in settings if setting_below.path[:-1] == setting.path)
        kind = _group(setting, tuple(replace(setting_below, key=setting_below.path[-1]) for setting_below in below))
    else:
        kind = Annotated[Any, BeforeValidator(setting.value.parse), WithJsonSchema(dict(setting.value.schema))]
    if setting.required:
        return kind, Field(description=setting.description)
    shown = {"default": setting.written_default} if defaults else None
    return kind | None, Field(None, description=setting.description, json_schema_extra=shown)


def _group(group: Setting, more: tuple[Setting, ...]) -> Any:
    settings = (*group.group, *more)
    form = _form(group.key.title(), group.description, settings)
    if not any(setting.key == _ENABLED for setting in settings):
        return form
    schema = {"anyOf": [{"type": "boolean"}, {"enum": ["on", "off"]}, form.model_json_schema()]}
    return Annotated[form, BeforeValidator(_switched), WithJsonSchema(schema)]


def _switched(written: Any) -> Any:
    """`on` and `off` stand for a whole mapping; they are true and false to YAML."""
    if isinstance(written, bool) or written in ("on", "off"):
        return {_ENABLED: written in ("on", True)}
    if isinstance(written, dict) and _IS in written and written[_IS] is None:
        return {**written, _IS: "null"}  # as it stands there: YAML reads null as nothing
    return written


Settings = _form("Settings", "Settings of all rules that don't have them.", settings_of(TableSettings))
Rule = _form("Rule", "Topics and the table of each. The first rule that takes a topic counts.", settings_of(TableRule))
Lane = _form("Lane", "Sizes of a lane's runs, and when they end.", settings_of(LaneConfig), defaults=True)
Ignored = _form("Ignored", "What is counted and never merged or parked, before all rules.", settings_of(Ignore))
LaneName = Annotated[Any, BeforeValidator(LANE_NAME.parse), WithJsonSchema(dict(LANE_NAME.schema))]


class TablesFile(_Form):
    """tables.yaml: which topics become which tables, and how."""

    defaults: Settings = Field(default_factory=Settings)  # type: ignore[valid-type]
    lanes: dict[LaneName, Lane] = Field(default_factory=dict)  # type: ignore[valid-type]
    ignore: Ignored = Field(default_factory=Ignored)  # type: ignore[valid-type]
    tables: list[Rule] = Field(default_factory=list)  # type: ignore[valid-type]


def field_values(kind: type, written: BaseModel) -> dict[str, Any]:
    """Return what the file says, by the fields of the dataclass that its settings belong to. Groups are mappings."""
    values: dict[str, Any] = {}
    for setting in settings_of(kind):
        value: Any = written
        for key in setting.path:
            value = getattr(value, key, None)
        if value is not None:
            values[setting.name] = field_values(type(setting.default), value) if setting.value is None else value
    return values


def laid_over(values: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with `more` over them; mappings are laid over each other key by key."""
    merged = dict(values)
    for name, value in more.items():
        below = merged.get(name)
        merged[name] = laid_over(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def built(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return field values with the groups among them made into their dataclasses."""
    defaults = {setting.name: setting.default for setting in settings_of(kind)}
    return {
        name: with_differences(defaults[name], value) if is_dataclass(defaults[name]) else value
        for name, value in values.items()
    }


def schema_text() -> str:
    """Return the JSON Schema of tables.yaml, as docs/tables.schema.json holds it."""
    schema = TablesFile.model_json_schema(mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["required"] = ["tables"]
    return json.dumps(_without_nulls(schema), indent=2, sort_keys=True) + "\n"


def _without_nulls(node: object) -> object:
    """Drop the null alternatives and defaults: a key that is left out is not a key with null."""
    if isinstance(node, list):
        return [_without_nulls(item) for item in node]
    if not isinstance(node, dict):
        return node
    left = {key: _without_nulls(value) for key, value in node.items() if not (key == "default" and value is None)}
    options = left.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        options = [option for option in options if option != {"type": "null"}]
        left.pop("anyOf")
        left = {**options[0], **left} if len(options) == 1 else {**left, "anyOf": options}
    return left
