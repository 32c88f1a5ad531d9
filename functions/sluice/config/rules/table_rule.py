"""A rule of tables.yaml: the topics that it takes, and the table that it makes of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Callable

from sluice.changes.hidden_columns import ROW
from sluice.config.key_pattern import KeyName, named_by, named_by_folder
from sluice.config.rules.ignore import topic_regex
from sluice.config.rules.partition_fields import impossible_column
from sluice.config.setting import setting, settings_of
from sluice.config.table import TableConfig, TableSettings, history_name
from sluice.config.values import PLACEHOLDER, SWITCH, text
from sluice.errors import InvalidConfiguration
from sluice.names import COLUMN, NAME


@dataclass(frozen=True)
class _RuleTable:
    table: str = setting(
        ...,
        text(),
        "`database.table`, with `{1}`, `{2}` for what the pattern matched or `{name}` for a named group. "
        "Both names begin with a letter.",
        template=True,
    )


@dataclass(frozen=True)
class TableRule(TableSettings, _RuleTable):
    """A rule: the topics that it takes, and the table that it makes of each.

    Exactly one of `topic` and `topic_regex` is given. The settings that are templates may hold {1} or {name}.
    """

    topic: str | None = setting(
        None, text(), "A topic, or a pattern in which each `*` stands for one part without dots."
    )
    topic_regex: str | None = setting(
        None, text(500), "In place of `topic`: a regular expression for the whole topic, with groups."
    )
    also: bool = setting(
        False,
        SWITCH,
        "Makes a further table of topics that another rule takes: a masked copy beside the raw one, for instance.",
        page="producing.md#one-topic-several-tables",
    )

    @property
    def pattern(self) -> str:
        """The regular expression that a whole topic must match."""
        return topic_regex(self.topic or "") if self.topic_regex is None else self.topic_regex

    def named_by(self, key: str) -> KeyName | None:
        """What the rule's `key_pattern` reads from a key, with the topic; None where it has none or doesn't match."""
        parts = None if self.key_pattern is None else named_by(self.key_pattern, key)
        return parts if parts is None or parts.topic is not None else replace(parts, topic=self.topic)

    def markers_by(self, key: str) -> Iterator[KeyName]:
        """What a key may tell as the marker of a full dump of the rule; nothing for any other file."""
        folder, _, file = key.rpartition("/")
        if not self.snapshot.awaits_marker or file != self.snapshot.marker:
            return
        if self.key_pattern is None:
            parts = folder.split("/")
            yield from (KeyName(name) for name in (parts[-1], ".".join(parts[-2:])) if self.takes(name))
            return
        # As any object of the pattern, or in the place of one.
        name = self.named_by(key) or named_by_folder(self.key_pattern, folder)
        if name is not None:
            yield replace(name, topic=name.topic or self.topic)

    def takes(self, topic: str) -> bool:
        return _compiled(self.pattern).fullmatch(topic) is not None

    @property
    def history_table(self) -> str | None:
        """The template of its history tables' names, `database.name`; None without any."""
        database, _, name = self.table.partition(".")
        return f"{database}.{history_name(self.history, name)}" if self.history and not self.append_only else None

    def table_of(self, topic: str) -> str | None:
        """The name of the table that this rule makes of a topic, valid or not; None if it doesn't take the topic."""
        matched = _compiled(self.pattern).fullmatch(topic)
        return None if matched is None else _fill(self.table, matched)

    def apply(self, topic: str) -> TableConfig | None:
        """Return the table that this rule makes of a topic, or None if it doesn't take the topic.

        Raises InvalidConfiguration if the table or a column would have an impossible name.
        """
        matched = _compiled(self.pattern).fullmatch(topic)
        if matched is None:
            return None
        filled = _filled(self, lambda template: _fill(template, matched))
        database, _, name = filled.table.partition(".")
        if not (NAME.fullmatch(database) and NAME.fullmatch(name)):
            what = (
                f"table name {filled.table!r}; names are a lower-case letter, then lower-case letters, digits or _. "
                "Give the topic a rule of its own"
            )
            raise self._refused(topic, what, table=filled.table)
        if isinstance(filled.history, str) and not NAME.fullmatch(filled.history):
            what = f"history table {filled.history!r}, which is not a table name. Give the topic a rule of its own"
            raise self._refused(topic, what, table=filled.table)
        services = _filled(filled.services, lambda template: _fill(template, matched))
        record_key = (ROW,) if self.append_only else filled.record_key
        columns = (*record_key, *services.cluster_by, *filled.position_columns)
        impossible = [name for name in columns if not COLUMN.fullmatch(name)]
        for column in (*impossible, *map(impossible_column, filled.partition_by)):
            if column is not None:
                raise self._refused(topic, f"column name {column!r}", column=column)
        settings = {item.name: getattr(filled, item.name) for item in fields(TableSettings)}
        return TableConfig(
            **{**settings, "record_key": record_key, "services": services},
            table=filled.table,
            database=database,
            name=name,
            topic=topic,
        )

    def _refused(self, topic: str, what: str, **facts: str) -> InvalidConfiguration:
        message = f"The rule for {self.topic or self.topic_regex} gives topic {topic} the {what}"
        return InvalidConfiguration(message, topic=topic, **facts)


def history_taken(table: str, rules: Iterable[TableRule]) -> str | None:
    """Why `table` (`database.table`) can't be made: a rule may make it the history of another; None where it can."""
    for rule in rules:
        texts = PLACEHOLDER.split(rule.history_table or "")[::2]  # what lies between the placeholders
        if rule.history_table and re.fullmatch("[a-z0-9_]*".join(map(re.escape, texts)), table):
            return f"{table} may be a history table of the rule for {rule.topic or rule.topic_regex}"
    return None


def histories_taken(config: TableConfig, own: TableRule, rules: Iterable[TableRule]) -> str | None:
    """Why a table or its history can't be made: another rule may write the same; None where both can.

    Names of the form `<table>_history` differ wherever the tables do.
    """
    reason = history_taken(config.table, rules)
    if reason is not None or not config.history:
        return reason
    is_named = isinstance(config.history, str)
    others = (rule for rule in rules if rule is not own and (is_named or isinstance(rule.history, str)))
    return history_taken(config.history_table.table, others)


def _fill(template: str, matched: re.Match[str]) -> str:
    values = {str(number): value for number, value in enumerate(matched.groups(), 1)}
    values.update(matched.groupdict())
    return PLACEHOLDER.sub(lambda name: values.get(name[1]) or "", template)


def _filled(settings: Any, fill: Callable[[str], str]) -> Any:
    """Fill the templates among the settings of a dataclass."""

    def of(value: Any) -> Any:
        if isinstance(value, str):
            return fill(value)
        return tuple(map(fill, value)) if isinstance(value, Sequence) else value

    return replace(settings, **{name: of(getattr(settings, name)) for name in _templates(settings.__class__)})


@lru_cache(maxsize=8)
def _templates(kind: type) -> tuple[str, ...]:
    return tuple(entry.name for entry in settings_of(kind) if entry.template)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
