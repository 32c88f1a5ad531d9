"""Plans a push: what a new configuration changes for each table and lane, what it releases, and what it can lose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.pinned_topic import pinned_topic
from sluice.config.rules.ignore import Ignore
from sluice.config.rules.table_rule import TableRule
from sluice.config.setting import Setting, settings_of
from sluice.config.table import FIXED, TableConfig, TableSettings, fixed_settings
from sluice.onboarding.fit import Misfit
from sluice_cli.config.review import Remark, Review
from sluice_cli.config.risks import risk_of
from sluice_cli.terminal.step import completed

NEW, CHANGED, REMOVED = "new", "changed", "removed"


@dataclass(frozen=True)
class SettingChange:
    """A setting with its old and new value as the file would hold them.

    `risk` is what the change can lose or stop. With `rebuild`, the table's data has to be written again first. With
    `of_data`, the new value is the one that the data has.
    """

    key: str
    old: Any
    new: Any
    risk: str | None = None
    rebuild: bool = False
    of_data: bool = False


@dataclass(frozen=True)
class ObjectsWaiting:
    """Objects of a table that a push concerns. `counted_all` is False if there may be more than were counted.

    `parked` become pending, and `pending` become claimable. `quarantined` stay until they are retried, and so do
    `quarantined_rows` of `with_quarantined_rows` objects; `codes` says for what.
    """

    parked: int = 0
    pending: int = 0
    quarantined: int = 0
    quarantined_rows: int = 0
    with_quarantined_rows: int = 0
    counted_all: bool = True
    codes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableMisfit:
    """Where the rule of a table doesn't fit its columns, or the objects that wait. No `table`: about several."""

    table: str
    misfit: Misfit

    def __str__(self) -> str:
        return f"{self.table}: {self.misfit.text}" if self.table else self.misfit.text


@dataclass(frozen=True)
class Fit:
    """Where rules don't fit a stack, and `notes` on tables of whose waiting objects not all rows were looked at."""

    misfits: tuple[TableMisfit, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedTable:
    """What changes for one table. `risk` is what the table's removal stops.

    `unfit` says where changed settings don't fit the data, which would be stored otherwise than meant, or refused.
    `steps_named` is true where each refusal has the step that helps.
    """

    table: str
    topic: str
    kind: str
    settings: tuple[SettingChange, ...] = ()
    risk: str | None = None
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    waiting: ObjectsWaiting = ObjectsWaiting()
    unfit: tuple[str, ...] = ()
    steps_named: bool = False

    @property
    def risks(self) -> tuple[str, ...]:
        """What the push can lose or stop for the table."""
        texts = [f"{change.key}: {change.risk}" for change in self.settings if change.risk]
        return (*([self.risk] if self.risk else []), *texts, *self.unfit)

    def sets(self, setting: str) -> bool:
        """True if the push makes the table, gives it a topic, or changes this setting or another of its group."""
        group = setting.partition(".")[0]
        return self.kind == NEW or any(change.key.partition(".")[0] in (group, "topic") for change in self.settings)

    @property
    def frees(self) -> bool:
        """True if objects that wait can be merged after the push, and could not before it."""
        return bool(self.waiting.parked or self.waiting.pending)

    @property
    def retry(self) -> bool:
        """True if a setting changes: quarantined objects of the table stay, and a retry judges them by it."""
        return bool(self.settings) and not self.refusals


@dataclass(frozen=True)
class OtherChange:
    """What changes for a lane, for `ignore`, or for a rule with a pattern that no known topic matches."""

    name: str
    kind: str
    settings: tuple[SettingChange, ...] = ()


@dataclass(frozen=True)
class Plan:
    """What a push changes. `released` counts the parked objects that become pending."""

    before: str | None
    after: str
    tables: tuple[PlannedTable, ...] = ()
    lanes: tuple[OtherChange, ...] = ()
    rules: tuple[OtherChange, ...] = ()
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    released: int = 0

    @property
    def changes(self) -> bool:
        """True if a push would do anything."""
        return self.before != self.after or self.released > 0

    @property
    def risks(self) -> tuple[str, ...]:
        """What the push can lose or stop, each with its table."""
        return tuple(f"{table.table}: {risk}" for table in self.tables for risk in table.risks)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "before": self.before,
            "after": self.after,
            "changes": self.changes,
            "refused": bool(self.refusals),
            "risks": list(self.risks),
            "tables": [{**asdict(table), "risks": list(table.risks)} for table in self.tables],
            "lanes": [asdict(lane) for lane in self.lanes],
            "rules": [asdict(rule) for rule in self.rules],
            "refusals": list(self.refusals),
            "warnings": list(self.warnings),
            "notes": list(self.notes),
        }


def plan_push(
    before: Configuration | None,
    after: Configuration,
    *,
    topics: Iterable[str],
    with_data: Mapping[str, Mapping[str, Any]],
    claimed: Iterable[str] = (),
    review: Review,
    waiting: Mapping[str, ObjectsWaiting],
) -> Plan:
    """Compare two configurations for all tables that they make of known topics, those that rules name included.

    `topics` come first where two of them feed one table. `with_data` has the fixed settings that the data of
    tables has, `claimed` are the tables whose rows a batch is about to write by the settings that it pinned.
    """
    old = before or Configuration(rules=(), lanes=())
    all_topics = dict.fromkeys((*topics, *_named_topics(old), *_named_topics(after)))
    tables_before, tables_after = _tables(old, all_topics), _tables(after, all_topics)
    have_rows = frozenset(with_data).union(claimed)
    remarks = (_by_table(review.refusals), _by_table(review.warnings))
    tables = []
    for name in sorted({*tables_before, *tables_after, *remarks[0], *waiting}):
        old_table, new_table = tables_before.get(name), tables_after.get(name)
        change = _table_change(name, old_table, new_table, pinned=with_data.get(name), has_rows=name in have_rows)
        refusals, warnings = (by_table.get(name, ()) for by_table in remarks)
        if old_table and not new_table and (heir := after.table_for_topic(old_table.topic)):
            only = "only " if heir.table in {other.table for other in old.tables_for_topic(old_table.topic)} else ""
            change = replace(change, risk=f"objects of topic {old_table.topic} go {only}to {heir.table} from now on")
        elif old_table and not new_table and after.ignore.of_topic(old_table.topic):
            change = replace(change, risk=f"objects of topic {old_table.topic} are ignored from now on")
        all_named = bool(refusals) and all(remark.names_step for remark in review.refusals if remark.table == name)
        change = replace(change, refusals=refusals, warnings=warnings, waiting=waiting.get(name, ObjectsWaiting()))
        change = replace(change, steps_named=all_named)
        if change.kind != CHANGED or change.settings or refusals or change.waiting.parked:
            tables.append(change)
    return Plan(
        before.version if before else None,
        after.version,
        tuple(tables),
        tuple(_lane_changes(old, after)),
        tuple(_rule_changes(old, after, all_topics)),
        tuple(dict.fromkeys(remark.text for remark in review.refusals)),
        tuple(dict.fromkeys(remark.text for remark in review.warnings)),
        released=sum(waiting_objects.parked for waiting_objects in waiting.values()),
    )


def with_misfits(plan: Plan, fit: Fit) -> tuple[Plan, tuple[TableMisfit, ...]]:
    """Add the misfits that need a yes to their tables, and return the others, which are warnings.

    A yes is needed where the push itself names a column that nothing has, or a key that several rows share: what it was
    meant to conceal would be stored in the clear, say, or every object would be quarantined. The same holds where the
    rule was in force before, and the push brings objects to it.
    """
    tables = {table.table: table for table in plan.tables}
    others = []
    for misfit in fit.misfits:
        table, setting = tables.get(misfit.table), misfit.misfit.setting
        if table is None or setting is None or not (table.sets(setting) or misfit.misfit.effect and table.frees):
            others.append(misfit)
        else:
            tables[misfit.table] = replace(table, unfit=(*table.unfit, misfit.misfit.consequence))
    return replace(plan, tables=tuple(tables.values()), notes=fit.notes), tuple(others)


def known_topics(configuration: Configuration, topics: Iterable[str]) -> dict[str, TableConfig]:
    """Return the table of each topic that a rule takes, by the table's name; the first topic of a table counts."""
    return _tables(configuration, (*topics, *_named_topics(configuration)))


def _named_topics(configuration: Configuration) -> list[str]:
    return [rule.topic for rule in configuration.rules if rule.topic is not None and "*" not in rule.topic]


def _tables(configuration: Configuration, topics: Iterable[str]) -> dict[str, TableConfig]:
    by_name: dict[str, TableConfig] = {}
    for topic in topics:
        for config in configuration.tables_for_topic(topic):
            by_name.setdefault(config.table, config)
    return by_name


def _by_table(remarks: Iterable[Remark]) -> dict[str, tuple[str, ...]]:
    texts_by_table: dict[str, dict[str, None]] = {}
    for remark in remarks:
        texts_by_table.setdefault(remark.table, {})[remark.text] = None
    return {table: tuple(texts) for table, texts in texts_by_table.items()}


def _table_change(
    name: str, old: TableConfig | None, new: TableConfig | None, *, pinned: Mapping[str, Any] | None, has_rows: bool
) -> PlannedTable:
    if old is None:
        return PlannedTable(name, new.topic if new else "", NEW if new else CHANGED)
    if new is None:
        risk = f"objects of topic {old.topic} are parked until a rule takes them"
        return PlannedTable(name, old.topic, REMOVED, risk=risk)
    settings = tuple(_setting_changes(old, new, settings_of(TableSettings), has_rows=has_rows))
    settings = tuple(
        replace(item, risk=item.risk and completed(item.risk, TABLE=new.table, LANE=new.lane)) for item in settings
    )
    if pinned:
        settings = tuple(_beside_data(change, new, pinned) for change in settings)
    if old.topic != new.topic:
        of_data = bool(pinned) and pinned_topic(pinned) == new.topic
        topic = SettingChange("topic", old.topic, new.topic, rebuild=bool(pinned) and not of_data, of_data=of_data)
        settings = (topic, *settings)
    return PlannedTable(name, new.topic, CHANGED, settings)


def _beside_data(change: SettingChange, new: TableConfig, pinned: Mapping[str, Any]) -> SettingChange:
    """The change of a setting, compared with the settings that the data has and not with those before it."""
    if change.key not in FIXED:
        return change
    held = fixed_settings(pinned)
    of_data = change.key in held and fixed_settings(new.pinned)[change.key] == held[change.key]
    return replace(change, rebuild=not of_data, of_data=of_data)


def _setting_changes(
    old: Any, new: Any, settings: Iterable[Setting], *, prefix: str = "", has_rows: bool | None = None
) -> Iterator[SettingChange]:
    """Yield the changed settings. Those of a table, which has rows or hasn't (`has_rows`), come with their risks."""
    for setting in settings:
        old_value, new_value = getattr(old, setting.name), getattr(new, setting.name)
        key = f"{prefix}{setting.key}"
        if old_value == new_value:
            continue
        if setting.value is None:
            yield from _setting_changes(old_value, new_value, setting.group, prefix=f"{key}.", has_rows=has_rows)
            continue
        yield SettingChange(
            key,
            _written(setting, old_value),
            _written(setting, new_value),
            None if has_rows is None else risk_of(key, old_value, new_value, has_rows=has_rows),
        )


def _written(setting: Setting, value: Any) -> Any:
    """The value as the file would hold it; None where the file would not name the setting."""
    if value is None or setting.value is None:
        return None
    written = setting.value.write(value)
    return dict(written) if isinstance(written, Mapping) else written


def _lane_changes(old: Configuration, new: Configuration) -> Iterator[OtherChange]:
    names = set(old.lane_names()), set(new.lane_names())
    for name in sorted(names[0] | names[1]):
        kind = NEW if name not in names[0] else REMOVED if name not in names[1] else CHANGED
        before = LaneConfig(name=name) if kind == NEW else old.lane(name)
        settings = () if kind == REMOVED else tuple(_setting_changes(before, new.lane(name), settings_of(LaneConfig)))
        if kind != CHANGED or settings:
            yield OtherChange(name, kind, settings)


def _rule_changes(old: Configuration, new: Configuration, topics: Iterable[str]) -> Iterator[OtherChange]:
    """Yield what no table shows: changed rules with a pattern that no known topic matches, and `ignore`."""
    rules = [
        {
            f"{rule.topic or rule.topic_regex or ''}{' (also)' if rule.also else ''}": rule
            for rule in _unmatched(configuration, topics)
        }
        for configuration in (old, new)
    ]
    for pattern in sorted({*rules[0], *rules[1]}):
        old_rule, new_rule = rules[0].get(pattern), rules[1].get(pattern)
        kind = NEW if old_rule is None else REMOVED if new_rule is None else CHANGED
        settings = tuple(_setting_changes(old_rule, new_rule, settings_of(TableRule))) if old_rule and new_rule else ()
        if kind != CHANGED or settings:
            yield OtherChange(pattern, kind, settings)
    ignored = tuple(_setting_changes(old.ignore, new.ignore, settings_of(Ignore)))
    if ignored:
        yield OtherChange("ignore", CHANGED, ignored)


def _unmatched(configuration: Configuration, topics: Iterable[str]) -> list[TableRule]:
    """The rules with a pattern that take no known topic. The first rule that matches a topic takes it."""
    patterns = [re.compile(rule.pattern) for rule in configuration.rules]
    taken: set[int] = set()
    for topic in topics:
        matching = [number for number, pattern in enumerate(patterns) if pattern.fullmatch(topic)]
        first = [number for number in matching if not configuration.rules[number].also][:1]
        taken.update(first, (number for number in matching if configuration.rules[number].also))
    return [
        rule
        for number, rule in enumerate(configuration.rules)
        if number not in taken and (rule.topic is None or "*" in rule.topic)
    ]
