"""A setting of tables.yaml, defined once as a field of a frozen dataclass.

The field's metadata says what the file may hold and what it means. The command line's validation, the JSON Schema, the
stored form and the documentation all follow from it:

    freshness_s: int = setting(60, DURATION, "How old the table may get.", key="freshness")

Any other field is no setting: the file doesn't name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, Callable, TypeVar

_METADATA = "setting"
_Settings = TypeVar("_Settings")


@dataclass(frozen=True)
class Value:
    """How the file writes a kind of value.

    `parse` turns what the file holds into the field's value, and raises ValueError with what it must be ("is ...").
    `schema` is its JSON Schema. `write` turns the field's value back into what the file would hold.
    """

    parse: Callable[[Any], Any]
    schema: Mapping[str, Any]
    write: Callable[[Any], Any] = lambda value: value


def only(fits: Callable[[Any], bool], needed: str) -> Callable[[Any], Any]:
    """A `parse` that takes values as they are and refuses those that don't fit, with what they must be."""

    def parse(written: Any) -> Any:
        if not fits(written):
            raise ValueError(needed)
        return written

    return parse


@dataclass(frozen=True)
class Setting:
    """One setting: the field's `name` and `default`, its `key` in the file, and what the file may say.

    A dotted key lies in another setting's mapping: `clustering.by`. Without a `value` the setting is a group, and its
    default is a dataclass with settings of its own. A `fixed` setting can't change once the table has data. A
    `template` may hold {1} or {name} for parts of the topic. `default_text` replaces the default in the documentation,
    and `page` is the document with more about the setting.
    """

    name: str
    key: str
    value: Value | None
    meaning: str
    default: Any
    required: bool
    fixed: bool
    template: bool
    default_text: str | None
    page: str | None

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to the setting in the file."""
        return tuple(self.key.split("."))

    @property
    def group(self) -> tuple[Setting, ...]:
        """The settings of a group, with the defaults that they have in it."""
        return () if self.value is not None else settings_of(type(self.default), self.default)

    @property
    def written_default(self) -> Any:
        """The default as the file would hold it."""
        return None if self.value is None or self.default is None else self.value.write(self.default)

    @property
    def shown_default(self) -> str:
        """The default for people; empty where there is none."""
        if self.default_text is not None:
            return self.default_text
        if self.value is None:
            shown = ((entry.key, entry.shown_default) for entry in self.group if entry.default is not True)
            return ", ".join(f"{key}: {default}" for key, default in shown if default)
        written = self.written_default
        if isinstance(written, bool):
            return "true" if written else "false"
        if isinstance(written, int):
            return f"{written:,}"
        return str(written) if written else ""

    @property
    def description(self) -> str:
        """Meaning and default as plain text."""
        default = f" Default: {self.shown_default}." if self.shown_default else ""
        return f"{self.meaning}{default}".replace("`", "")


def setting(
    default: Any,
    value: Value | None,
    meaning: str,
    *,
    key: str | None = None,
    fixed: bool = False,
    template: bool = False,
    default_text: str | None = None,
    page: str | None = None,
) -> Any:
    """Return a dataclass's field that is a setting; `...` as its default makes it a required one.

    Its key is the field's name unless `key` says another.
    """
    said = dict(value=value, meaning=meaning, key=key, fixed=fixed, template=template)
    metadata = {_METADATA: {**said, "default_text": default_text, "page": page}}
    if default is dict:
        return field(default_factory=dict, hash=False, metadata=metadata)
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


def settings_of(kind: type, defaults: Any = None) -> tuple[Setting, ...]:
    """Return the settings of a dataclass in the order of its fields, with their defaults in the instance `defaults`."""
    return tuple(
        Setting(
            name=item.name,
            default=_default(item) if defaults is None else getattr(defaults, item.name),
            required=item.default is MISSING and item.default_factory is MISSING,
            **{**item.metadata[_METADATA], "key": item.metadata[_METADATA]["key"] or item.name},
        )
        for item in fields(kind)
        if _METADATA in item.metadata
    )


def _default(item: Field[Any]) -> Any:
    if item.default_factory is not MISSING:
        return item.default_factory()
    return None if item.default is MISSING else item.default


def stored(settings: Any) -> dict[str, Any]:
    """Return a dataclass as plain JSON values: lists for tuples, and of a group only what differs from its default."""
    return {
        item.name: differences(value, _default(item)) if is_dataclass(value) else _plain(value)
        for item, value in _values(settings)
    }


def restored(kind: type[_Settings], values: Mapping[str, Any]) -> _Settings:
    """Return the dataclass that `stored` wrote. Fields that are absent get their default.

    Raises TypeError for a name that is no field.
    """
    by_name = {item.name: item for item in _fields_of(kind)}  # type: ignore[arg-type]
    return kind(
        **{name: _typed(value, _default(by_name[name])) if name in by_name else value for name, value in values.items()}
    )


def differences(settings: Any, default: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from those of `default`, as plain JSON values."""
    different: dict[str, Any] = {}
    for item, value in _values(settings):
        ordinary = getattr(default, item.name)
        if value != ordinary:
            different[item.name] = differences(value, ordinary) if is_dataclass(value) else _plain(value)
    return different


def with_differences(default: _Settings, values: Mapping[str, Any]) -> _Settings:
    """Return `default` with the values that `differences` wrote. Fields that only another release knows are ignored."""
    return replace(
        default,  # type: ignore[type-var]
        **{
            item.name: _typed(values[item.name], ordinary) for item, ordinary in _values(default) if item.name in values
        },
    )


def _values(settings: Any) -> Iterator[tuple[Field[Any], Any]]:
    for item in _fields_of(type(settings)):  # type: ignore[arg-type]
        yield item, getattr(settings, item.name)


@cache
def _fields_of(kind: type) -> tuple[Field[Any], ...]:
    """Looked up once: a configuration of hundreds of tables asks for them thousands of times."""
    return fields(kind)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _typed(value: Any, default: Any) -> Any:
    """Give a plain JSON value the type that the default has."""
    if is_dataclass(default):
        return with_differences(default, value)
    return tuple(value) if isinstance(default, tuple) else value
