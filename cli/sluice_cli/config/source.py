"""Reads tables.yaml into a Configuration, or finds all its mistakes at once, each with its line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from sluice.changes.dialects.registry import DIALECTS
from sluice.config.document import Configuration
from sluice.config.hudi_overrides import unknown
from sluice.config.key_pattern import LAST_OFFSET, OFFSET, TOPIC_GROUP, groups_of
from sluice.config.lane import MOST_GB, LaneConfig, bytes_to_read
from sluice.config.rules.change_rule import ChangeRule
from sluice.config.rules.ignore import TOPIC_PATTERN, Ignore
from sluice.config.rules.partition_fields import columns_read
from sluice.config.rules.snapshot import GENERATION
from sluice.config.rules.table_rule import TableRule, history_taken
from sluice.config.setting import settings_of
from sluice.config.table import HARD, IGNORE, MOR, RECORD, TableSettings
from sluice.config.values import DURATION, GIB, PLACEHOLDER
from sluice.names import LANE, NAME, did_you_mean, shortened
from sluice_cli.config.model import Ignored, Lane, Rule, Settings, TablesFile, built, field_values, laid_over
from sluice_cli.config.yaml_lines import ConfigurationMistakes, Path, YamlLines
from sluice_cli.terminal.guard import visible

_Model = TypeVar("_Model", bound=BaseModel)
_SECRET = "key"  # under columns
_VALUE_SHOWN = 60  # characters of a wrong value
_FEW_NAMES = 12  # that are all named where none of them is like an unknown one
NO_MAPPING = "must be a mapping of keys to values"


def read_tables(text: str, *, defaults: Mapping[str, Any] | None = None, may_be_empty: bool = False) -> Configuration:
    """Read the text of a tables.yaml. `defaults` replace keys of the file's own `defaults:`.

    `tables: []` has no rules. With `may_be_empty`, `tables:` may hold nothing, to which rules will be added.
    Raises ConfigurationMistakes with every mistake of the file.
    """
    return read_with_warnings(text, defaults=defaults, may_be_empty=may_be_empty)[0]


def read_with_warnings(
    text: str, *, defaults: Mapping[str, Any] | None = None, may_be_empty: bool = False
) -> tuple[Configuration, tuple[str, ...]]:
    """Read as `read_tables` does, and return also the warnings, each with its line and its table or place."""
    tree = YamlLines.of(text)
    raw = tree.value
    raw_defaults = raw.get("defaults")
    shared = {**(raw_defaults if isinstance(raw_defaults, dict) else {}), **(defaults or {})}
    if raw_defaults is not None and not isinstance(raw_defaults, dict):
        tree.mistake(("defaults",), NO_MAPPING)
    for key in raw:
        if key not in TablesFile.model_fields:
            tree.mistake((key,), f"is unknown{_meant(key, TablesFile.model_fields)}")
    _check_null_text(tree, shared, ("defaults",))
    settings = _validated(tree, Settings, shared, ("defaults",)) or Settings()
    lanes = _lanes(tree, raw.get("lanes"))
    written_ignore = _validated(tree, Ignored, raw.get("ignore") or {}, ("ignore",))
    ignore = Ignore() if written_ignore is None else Ignore(**field_values(Ignore, written_ignore))
    rules: list[tuple[int, TableRule]] = []
    listed = raw.get("tables")
    if not isinstance(listed, list):
        if not (may_be_empty and "tables" in raw and listed is None):
            tree.mistake(("tables",), "must be a list of rules")
        listed = []
    before = field_values(TableSettings, settings)
    _check_lane(tree, before, ("defaults",), lanes)
    for number, written in enumerate(listed):
        _check_null_text(tree, written, ("tables", number))
        rule = _validated(tree, Rule, written, ("tables", number))
        if rule is not None:
            made = _rule(tree, field_values(TableRule, rule), before, ("tables", number), lanes)
            if made is not None:
                rules.append((number, made))
                _check_memory(tree, made, ("tables", number), lanes)
    _check_reachable(tree, rules, ignore)
    if tree.mistakes:
        raise ConfigurationMistakes(tree.mistakes)
    configuration = Configuration(tuple(rule for _, rule in rules), tuple(lanes.values()), ignore=ignore)
    return configuration, tuple(_unknown_options(tree, rules))


def _unknown_options(tree: YamlLines, rules: Iterable[tuple[int, TableRule]]) -> Iterator[str]:
    """Yield a warning for every option under `hudi` that is neither allowed nor refused, once for each place of it."""
    warnings = set()
    for number, rule in rules:
        for option, warning in ((option, unknown(option)) for option in rule.hudi):
            line = tree.line(("tables", number, "hudi", option))
            place = rule.table if line else "defaults"
            line = line or tree.line(("defaults", "hudi", option))
            if warning is not None:
                warnings.add((line or 1, f"{place}: hudi: {warning}"))
    yield from (f"line {line}: {warning}" for line, warning in sorted(warnings))


def _needed(key: Any, given: Any, message: str) -> str:
    """The message about a value, with the value: `'often' is not one of soft, hard`. A list or mapping is not shown.

    Neither is what is given as a secret's name: it may be the secret.
    """
    if not message.startswith("is ") or message.startswith("is not "):
        return message
    if not isinstance(given, (str, int, float)) or key == _SECRET:
        return f"must be {message.removeprefix('is ')}"
    shown = f"'{visible(shortened(given, _VALUE_SHOWN))}'" if isinstance(given, str) else str(given)
    return f"{shown.lower() if isinstance(given, bool) else shown} is not {message.removeprefix('is ')}"


def _validated(tree: YamlLines, model: type[_Model], written: Any, path: Path) -> _Model | None:
    """Return the model of what is written. Keys with mistakes are left out, so that the others are checked too."""
    if not isinstance(written, dict):
        tree.mistake(path, NO_MAPPING)
        return None
    try:
        return model.model_validate(written)
    except ValidationError as error:
        wrong = {detail["loc"]: detail for detail in error.errors(include_url=False)}
    for place, fault in sorted(wrong.items(), key=lambda item: item[1]["type"] == "missing"):
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = f"is unknown{_meant(place[-1], _keys(model, place[:-1]))}"
        elif fault["type"] == "missing":
            if tree.has_mistake((*path, *place)):
                continue
            message = "is missing"
        elif fault["type"] == "model_type":
            message = NO_MAPPING
        else:
            message = _needed(place[-1], fault.get("input"), message)
        tree.mistake((*path, *place), message)
    rest = {key: value for key, value in written.items() if key not in {place[0] for place in wrong}}
    try:
        return model.model_validate(rest)
    except ValidationError:  # a required key is missing, and that was noted
        return None


def _keys(model: type[BaseModel], place: Path) -> Collection[str]:
    """Return the keys that a place within a model may have."""
    for key in place:
        model = next(_models(model.model_fields[key].annotation))
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that a field's type consists of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _lanes(tree: YamlLines, written: Any) -> dict[str, LaneConfig]:
    lanes = {"main": LaneConfig()}
    if written is not None and not isinstance(written, dict):
        tree.mistake(("lanes",), "must be a mapping of lanes")
        return lanes
    for name, sizes in (written or {}).items():
        path: Path = ("lanes", name)
        if not isinstance(name, str) or not LANE.fullmatch(name):
            tree.mistake(path, "is not a lane name: at most 32 of a-z, 0-9 and -")
            continue
        lanes[name] = LaneConfig(name=name)  # rules may use the lane, whatever is wrong with its sizes
        form = _validated(tree, Lane, {} if sizes is None else sizes, path)
        if form is None:
            continue
        lane = LaneConfig(name=name, **field_values(LaneConfig, form))
        if lane.min_executors > lane.max_executors:
            tree.mistake((*path, "min_executors"), f"is above max_executors, {lane.max_executors}")
        workers = {"driver": (lane.driver_cores, lane.driver_memory_gb)}
        workers["executor"] = (lane.executor_cores, lane.executor_memory_gb)
        for worker, (cores, gb) in workers.items():
            if gb > MOST_GB[cores]:
                wrong = f"is more than EMR Serverless gives a worker of {worker}_cores {cores}: {MOST_GB[cores]}"
                tree.mistake((*path, f"{worker}_memory_gb"), wrong)
        lanes[name] = lane
    return lanes


def _rule(
    tree: YamlLines, own: Mapping[str, Any], defaults: Mapping[str, Any], path: Path, lanes: Mapping[str, LaneConfig]
) -> TableRule | None:
    """Return the rule of its own settings over the defaults, or None if it has a mistake."""
    before = len(tree.mistakes)
    _check_lane(tree, own, path, lanes)
    values = laid_over(defaults, own)
    _check_record_key(tree, own, values, path)
    if "column" in own.get("delete_when", {}):
        values["delete_when"] = own["delete_when"]  # whole: a default's `values` don't belong to another column
    if values.get("append_only"):
        values["record_key"] = ()
    rule = TableRule(**built(TableRule, values))
    for key, wrong in rule.catalog.mistakes().items():
        tree.mistake((*path, "catalog", key), wrong)
    if rule.keep_deleted_values and rule.delete_mode == IGNORE:
        tree.mistake((*path, "keep_deleted_values"), "has no effect where deletes are ignored")
    if rule.append_only and rule.history:
        tree.mistake((*path, "history"), "has no effect where append_only is true: every row is kept")
    if rule.iceberg and rule.table_type == MOR:
        tree.mistake((*path, "iceberg"), "needs table_type: cow: Iceberg's readers don't merge Hudi's logs")
    _check_delete_when(tree, own, rule, path)
    _check_change(tree, rule, path)
    _check_columns(tree, rule, path)
    _check_key_pattern(tree, own, rule, path)
    _check_snapshot(tree, rule, path)
    if rule.index == RECORD and rule.delete_mode == HARD:
        tree.mistake(
            (*path, "index"),
            "can't be record where delete_mode is hard: Hudi 1.0.2 fails on a record index that rows were removed from",
        )
    if rule.services.interval_s > rule.services.latest_s:
        tree.mistake((*path, "services", "interval"), f"is above latest, {DURATION.write(rule.services.latest_s)}")
    groups = _groups(tree, rule, path)
    if _is_table_name(tree, rule, path) and groups is not None:
        _check_all_used(tree, rule, groups, path)
    if groups is not None:
        _check_templates(tree, rule, groups, path)
    return rule if len(tree.mistakes) == before else None


def _check_record_key(tree: YamlLines, own: Mapping[str, Any], values: Mapping[str, Any], path: Path) -> None:
    """Check that rows have exactly one kind of key."""
    if values.get("append_only"):
        if own.get("record_key"):
            tree.mistake((*path, "record_key"), "has no effect where append_only is true: rows then have no key")
    elif own.get("coordinates") and values.get("position"):
        tree.mistake((*path, "coordinates"), "has no effect where position orders the rows")
    elif not values.get("record_key"):
        if not tree.has_mistake(("defaults", "record_key")) and not tree.has_mistake((*path, "record_key")):
            tree.mistake((*path, "record_key"), "is missing, here and under defaults")


def _check_delete_when(tree: YamlLines, own: Mapping[str, Any], rule: TableRule, path: Path) -> None:
    """Check that deletions are marked by a column and its values, or by `is`, or not at all."""
    marked = rule.delete_when
    marks = bool(marked.values) + (marked.is_null is not None)
    if marks > 1:
        tree.mistake((*path, "delete_when"), "has values and is: one of them says which rows are deletions")
    elif (marked.column is None) != (not marks):
        missing = "column" if marked.column is None else "values"
        tree.mistake((*path, "delete_when"), f"needs {missing} too, as in {{column: Op, values: [D]}}")
    elif rule.append_only and "delete_when" in own and marked.marks:
        tree.mistake((*path, "delete_when"), "has no effect where append_only is true: every row is kept")


def _check_change(tree: YamlLines, rule: TableRule, path: Path) -> None:
    """Check that paths are given for records of no named form, and with the row that the others need."""
    change = rule.change
    if change.row is None and change != ChangeRule():
        tree.mistake((*path, "change"), "needs row too: the path of the row after a change")
    others = {"format": rule.format in DIALECTS, "shape": rule.shape, "position": rule.position}
    for key in (key for key, other in others.items() if change.row is not None and other):
        tree.mistake((*path, key), "has no effect beside change, whose paths say it")
    if change.row is None and "." in (rule.delete_when.column or ""):
        tree.mistake((*path, "delete_when", "column"), "is a path, which only a rule with change has")


def _check_columns(tree: YamlLines, rule: TableRule, path: Path) -> None:
    """Check that no setting names a column whose values the table doesn't have as they are."""
    columns = rule.columns
    for key, wrong in columns.mistakes().items():
        tree.mistake((*path, "columns", key), wrong)
    listed = (
        ("record_key", rule.record_key, False),
        ("partition_by", columns_read(rule.partition_by), False),
        ("position", rule.position_columns, True),
        ("coordinates", rule.coordinates, True),
        ("delete_when", (rule.delete_when.column,) if rule.delete_when.column else (), True),
    )
    for name in rule.expect.of_values():
        misused = columns.misused(name, as_is=True)
        if misused is not None:
            tree.mistake((*path, "expect", "columns"), f"{misused}: only not_null can be expected of it")
    for key, names, as_is in listed:
        for wrong in filter(None, (columns.misused(name, as_is=as_is) for name in names)):
            tree.mistake((*path, key), wrong)


def _check_key_pattern(tree: YamlLines, own: Mapping[str, Any], rule: TableRule, path: Path) -> None:
    """Check that a rule's pattern tells the topic, where the rule is for more than one."""
    if rule.key_pattern is None:
        if "format" in own and rule.dialect is None:
            tree.mistake((*path, "format"), "has no effect without key_pattern: other keys tell their format")
    elif TOPIC_GROUP not in groups_of(rule.key_pattern) and (rule.topic is None or "*" in rule.topic):
        tree.mistake(
            (*path, "key_pattern"),
            "names no topic, and the rule takes several: add a group, as in exports/(?P<topic>[^/]+)/.*, or give the "
            "rule a topic without *",
        )


def _check_snapshot(tree: YamlLines, rule: TableRule, path: Path) -> None:
    """Check that dumps can replace the rule's tables, and that nothing but their place orders their rows."""
    if rule.snapshot.replace is None:
        return
    path = (*path, "snapshot")
    if rule.append_only:
        tree.mistake(path, "has no effect where append_only is true: every row is kept")
    elif rule.delete_mode == IGNORE:
        tree.mistake(path, "has no effect where deletes are ignored")
    elif rule.snapshot.replace == GENERATION:
        if not rule.snapshot.marker:
            tree.mistake((*path, "marker"), "can't be off: nothing but a marker says that a generation is complete")
    elif rule.key_pattern is not None and {OFFSET, LAST_OFFSET} & groups_of(rule.key_pattern):
        tree.mistake(path, "has no effect where key_pattern has an offset: dumps are ordered by their names and times")
    elif rule.position or rule.coordinates or rule.change.order:  # all of its rows would be below its own place
        ordering = "position, coordinates or change.order order the rows"
        tree.mistake(path, f"has no effect where {ordering}: a dump is ordered as a whole")


def _check_null_text(tree: YamlLines, written: Any, path: Path) -> None:
    """Check that the text for null is not YAML's own null, which would leave the default in force."""
    form = written.get("csv") if isinstance(written, dict) else None
    if isinstance(form, dict) and "null_text" in form and form["null_text"] is None:
        tree.mistake(
            (*path, "csv", "null_text"), 'must be text: write "NULL" in quotes, since YAML reads NULL as nothing'
        )


def _check_lane(tree: YamlLines, values: Mapping[str, Any], path: Path, lanes: Mapping[str, LaneConfig]) -> None:
    lane = values.get("lane")
    if lane is not None and lane not in lanes:
        tree.mistake((*path, "lane"), f"{lane} is not under lanes{_meant(lane, lanes)}")


def _check_memory(tree: YamlLines, rule: TableRule, path: Path, lanes: Mapping[str, LaneConfig]) -> None:
    """Note a table whose largest objects a task of its lane has no memory to read."""
    lane = lanes.get(rule.lane)
    needed = bytes_to_read(rule.limits)
    if lane is not None and needed > lane.task_bytes:
        tree.mistake(
            (*path, "limits"),
            f"let an object take {needed / GIB:.1f} GiB, and a task of lane {lane.name} has "
            f"{max(lane.task_bytes, 0) / GIB:.1f} GiB: lower them, or raise the lane's executor_memory_gb",
        )


def _groups(tree: YamlLines, rule: TableRule, path: Path) -> dict[str, int] | None:
    """Return the placeholders that a rule's topic offers, each with the number of its group."""
    if (rule.topic is None) == (rule.topic_regex is None):
        if not tree.has_mistake((*path, "topic")) and not tree.has_mistake((*path, "topic_regex")):
            tree.mistake(path, "needs either topic or topic_regex")
        return None
    if rule.topic is not None and not TOPIC_PATTERN.fullmatch(rule.topic):
        needed = "is a topic (letters, digits, . _ -), with * for parts without dots"
        tree.mistake((*path, "topic"), _needed("topic", rule.topic, needed))
        return None
    try:
        compiled = re.compile(rule.pattern)
    except re.error as error:
        tree.mistake((*path, "topic_regex"), f"is not a regular expression: {error}")
        return None
    return {**{str(number): number for number in range(1, compiled.groups + 1)}, **compiled.groupindex}


def _is_table_name(tree: YamlLines, rule: TableRule, path: Path) -> bool:
    """Check the form of the table's name, whatever the topic is."""
    database, _, name = PLACEHOLDER.sub("a", rule.table).partition(".")
    if NAME.fullmatch(database) and NAME.fullmatch(name):
        return True
    needed = "is database.table, each part a lower-case letter, then lower-case letters, digits or _"
    tree.mistake((*path, "table"), _needed("table", rule.table, needed))
    return False


def _check_templates(tree: YamlLines, rule: TableRule, groups: Mapping[str, int], path: Path) -> None:
    """Check that templates use only what the topic offers."""
    for place, template in _templates(rule, path):
        for placeholder in PLACEHOLDER.findall(template):
            if placeholder not in groups:
                offered = ", ".join(f"{{{name}}}" for name in groups) or "none: it has no *"
                tree.mistake(place, f"{{{placeholder}}} is not among what the topic offers ({offered})")


def _check_all_used(tree: YamlLines, rule: TableRule, groups: Mapping[str, int], path: Path) -> None:
    """Check that the table's name uses all that the topic offers, and its history's name all that the table's does."""
    used = {groups[placeholder] for placeholder in PLACEHOLDER.findall(rule.table) if placeholder in groups}
    if set(groups.values()) - used and not rule.several_topics:
        missing = ", ".join(f"{{{number}}}" for number in sorted(set(groups.values()) - used))
        tree.mistake((*path, "table"), f"must use {missing}: without merged, one topic feeds a table")
    if isinstance(rule.history, str):
        used_in_history = {groups[name] for name in PLACEHOLDER.findall(rule.history_table or "") if name in groups}
        missing = ", ".join(f"{{{number}}}" for number in sorted(used - used_in_history))
        if missing:
            tree.mistake((*path, "history"), f"must use {missing}: otherwise two tables would have one history")


def _templates(settings: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the templates of a rule and of its groups, each with its path in the file."""
    for setting in settings_of(type(settings)):
        value = getattr(settings, setting.name)
        if setting.template:
            for template in (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ():
                yield (*path, *setting.path), template
        elif setting.value is None:
            yield from _templates(value, (*path, setting.key))


def _check_reachable(tree: YamlLines, rules: list[tuple[int, TableRule]], ignore: Ignore) -> None:
    """Check that no rule's topic is ignored or taken by an earlier rule, and that no two share a table."""
    tables: dict[str, int] = {}
    for number, rule in rules:
        if not PLACEHOLDER.search(rule.table):
            if rule.table in tables:
                tree.mistake(
                    ("tables", number, "table"), f"{rule.table} is already the table of tables[{tables[rule.table]}]"
                )
            taken = history_taken(rule.table, (other for _, other in rules))
            if taken is not None:
                tree.mistake(("tables", number, "table"), taken)
            if isinstance(rule.history, str) and rule.history_table is not None:
                taken = history_taken(rule.history_table, (other for _, other in rules if other is not rule))
                if taken is not None:
                    tree.mistake(("tables", number, "history"), taken)
            tables.setdefault(rule.table, number)
        if rule.topic is None or "*" in rule.topic:
            continue
        if ignore.of_topic(rule.topic) is not None:
            tree.mistake(("tables", number, "topic"), f"is never reached: ignore leaves {rule.topic} out")
        firsts = [(other, one) for other, one in rules if not one.also and re.fullmatch(one.pattern, rule.topic)]
        earlier = next((other for other, _ in firsts if other < number), None)
        if rule.also and not firsts:
            tree.mistake(("tables", number, "also"), f"has no effect: no other rule takes {rule.topic}")
        elif earlier is not None and not rule.also:
            tree.mistake(("tables", number, "topic"), f"is never reached: tables[{earlier}] takes {rule.topic} first")


def _meant(written: Any, keys: Any) -> str:
    few = f"; known are {', '.join(map(str, keys))}" if len(keys) <= _FEW_NAMES else ""
    return did_you_mean(str(written), keys) or few
