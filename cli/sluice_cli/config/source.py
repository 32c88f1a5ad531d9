"""Reads tables.yaml into a Configuration, or says every mistake in it at once with its line.

A YAML file's values with the line of each, and the mistakes found in them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from sluice.changes.hidden_columns import colliding
from sluice.config.catalog import CatalogRule
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.limits import Limits
from sluice.config.table import HARD, IGNORE, PLACEHOLDER, RECORD, TableRule
from sluice.errors import InvalidConfiguration
from sluice.names import COLUMN, LANE, NAME
from sluice.schema.columns import RAW_ALL
from sluice_cli.config.model import Lane, Rule, Settings, TablesFile
from sluice_cli.config.services import policy

_Model = TypeVar("_Model", bound=BaseModel)
_TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._*-]{1,249}")


def read_tables(text: str, *, defaults: Mapping[str, Any] | None = None) -> Configuration:
    """Read the text of a tables.yaml; `defaults` replace keys of the file's own `defaults:`.

    Raises ConfigurationMistakes with every mistake there is.
    """
    tree = YamlLines.of(text)
    raw = tree.value
    raw_defaults = raw.get("defaults")
    shared = {**(raw_defaults if isinstance(raw_defaults, dict) else {}), **(defaults or {})}
    if raw_defaults is not None and not isinstance(raw_defaults, dict):
        tree.mistake(("defaults",), "is a mapping of keys to values")
    for key in raw:
        if key not in TablesFile.model_fields:
            tree.mistake((key,), f"is unknown{_meant(key, TablesFile.model_fields)}")
    settings = _validated(tree, Settings, shared, ("defaults",)) or Settings()
    lanes = _lanes(tree, raw.get("lanes"))
    rules: list[tuple[int, TableRule]] = []
    listed = raw.get("tables")
    if not isinstance(listed, list) or not listed:
        tree.mistake(("tables",), "is a list of rules, at least one")
        listed = []
    _settings_mistakes(tree, settings, ("defaults",), lanes)
    for number, written in enumerate(listed):
        rule = _validated(tree, Rule, written, ("tables", number))
        if rule is not None:
            built = _rule(tree, rule, settings, ("tables", number), lanes)
            if built is not None:
                rules.append((number, built))
    _unreachable(tree, rules)
    if tree.mistakes:
        raise ConfigurationMistakes(tree.mistakes)
    return Configuration(rules=tuple(rule for _, rule in rules), lanes=tuple(lanes.values()))


def _validated(tree: YamlLines, model: type[_Model], written: Any, path: Path) -> _Model | None:
    """The model of what is written; without the keys that are wrong, so that the others' mistakes show too."""
    if not isinstance(written, dict):
        tree.mistake(path, "is a mapping of keys to values")
        return None
    try:
        return model.model_validate(written)
    except ValidationError as error:
        wrong = {found["loc"]: found for found in error.errors(include_url=False)}
    for place, found in wrong.items():
        message = found["msg"].removeprefix("Value error, ")
        if found["type"] == "extra_forbidden":
            message = f"is unknown{_meant(place[-1], _keys(model, place[:-1]))}"
        elif found["type"] == "missing":
            message = "is missing"
        tree.mistake((*path, *place), message)
    rest = {key: value for key, value in written.items() if key not in {place[0] for place in wrong}}
    try:
        return model.model_validate(rest)
    except ValidationError:  # what is left lacks a key that it needs, and that was told
        return None


def _keys(model: type[BaseModel], place: Path) -> Iterable[str]:
    """The keys that there are at a place within a model."""
    for key in place:
        model = next(_models(model.model_fields[key].annotation))
    return model.model_fields


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models that a field's type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _lanes(tree: YamlLines, written: Any) -> dict[str, LaneConfig]:
    lanes = {"main": LaneConfig()}
    if written is not None and not isinstance(written, dict):
        tree.mistake(("lanes",), "is a mapping of lanes")
        return lanes
    for name, sizes in (written or {}).items():
        path: Path = ("lanes", name)
        if not isinstance(name, str) or not LANE.fullmatch(name):
            tree.mistake(path, "is no lane's name: at most 32 of a-z, 0-9 and -")
            continue
        lanes[name] = LaneConfig(name=name)  # known, whatever is wrong with its sizes
        lane = _validated(tree, Lane, {} if sizes is None else sizes, path)
        if lane is None:
            continue
        if lane.min_executors > lane.max_executors:
            tree.mistake(path + ("min_executors",), f"is above max_executors, {lane.max_executors}")
        values = lane.model_dump()
        lanes[name] = LaneConfig(
            name=name,
            linger_s=values.pop("linger"),
            max_age_s=values.pop("max_age"),
            service_slice_s=values.pop("service_slice"),
            **values,
        )
    return lanes


def _rule(
    tree: YamlLines, rule: Rule, defaults: Settings, path: Path, lanes: Mapping[str, LaneConfig]
) -> TableRule | None:
    """The core's rule of a written one and the defaults; None when something about it is wrong."""
    before = len(tree.mistakes)
    _settings_mistakes(tree, rule, path, lanes)
    said = {**defaults.model_dump(exclude_none=True), **rule.model_dump(exclude_none=True)}
    said["hudi"] = {**(defaults.hudi or {}), **(rule.hudi or {})}
    said["limits"] = Limits.of(
        {
            **(defaults.limits.model_dump(exclude_none=True) if defaults.limits else {}),
            **(rule.limits.model_dump(exclude_none=True) if rule.limits else {}),
        }
    )
    said["services"] = policy(defaults.services, rule.services)
    said["catalog"] = CatalogRule.of({**(defaults.catalog or {}), **(rule.catalog or {})})
    for key, wrong in said["catalog"].mistakes().items():
        tree.mistake((*path, "catalog", key), wrong)
    said["json_types"] = {**(defaults.json_types or {}), **(rule.json_types or {})}
    said["freshness_s"] = said.pop("freshness", TableRule.freshness_s)
    said["rewrite_limit_bytes"] = said.pop("rewrite_limit", TableRule.rewrite_limit_bytes)
    said["time_travel_h"] = said.pop("time_travel", TableRule.time_travel_h)
    if said.get("append_only"):
        if rule.record_key:
            tree.mistake((*path, "record_key"), "says nothing where append_only is true: rows then have no key")
        said["record_key"] = ()
    elif rule.coordinates:
        tree.mistake(
            (*path, "coordinates"), "says something only where append_only is true: rows then have no other key"
        )
    elif not said.get("record_key"):
        if not tree.has_mistake(("defaults", "record_key")) and not tree.has_mistake((*path, "record_key")):
            tree.mistake((*path, "record_key"), "is missing, here and under defaults")
        said["record_key"] = ("id",)
    if said.get("keep_deleted_values") and said.get("delete_mode") == IGNORE:
        tree.mistake(path + ("keep_deleted_values",), "says nothing where deletes are ignored")
    if said.get("index") == RECORD and said.get("delete_mode") == HARD:
        tree.mistake(
            (*path, "index"),
            "can't be record where delete_mode is hard: Hudi 1.0.2 fails on a record index that rows were removed from",
        )
    built = TableRule(**said)
    if built.services.interval_s > built.services.latest_s:
        tree.mistake((*path, "services", "interval"), f"is above latest, {built.services.latest_s}s")
    groups = _groups(tree, built, path)
    if groups is not None:
        _template_mistakes(tree, built, groups, path)
    return built if len(tree.mistakes) == before else None


def _settings_mistakes(tree: YamlLines, settings: Settings, path: Path, lanes: Mapping[str, LaneConfig]) -> None:
    for key, columns in (
        ("record_key", settings.record_key),
        ("partition_by", settings.partition_by),
        ("raw", settings.raw),
        ("position", (settings.position,) if settings.position else ()),
        ("coordinates", settings.coordinates),
    ):
        for column in columns or ():
            if not (key == "raw" and column == RAW_ALL) and not COLUMN.fullmatch(PLACEHOLDER.sub("a", column)):
                tree.mistake(path + (key,), f"{column!r} is no column name")
        for column in colliding(columns or ()):
            tree.mistake(path + (key,), f"{column} is a column that Sluice or Hudi keeps itself")
    clustering = settings.services.clustering if settings.services else None
    for column in (clustering.by or ()) if clustering else ():
        if not COLUMN.fullmatch(PLACEHOLDER.sub("a", column)):
            tree.mistake((*path, "services", "clustering", "by"), f"{column!r} is no column name")
    if settings.lane is not None and settings.lane not in lanes:
        tree.mistake(path + ("lane",), f"{settings.lane} is not under lanes{_meant(settings.lane, lanes)}")


def _groups(tree: YamlLines, rule: TableRule, path: Path) -> dict[str, int] | None:
    """The placeholders that a rule's topic offers, each with its group's number."""
    if (rule.topic is None) == (rule.topic_regex is None):
        if not tree.has_mistake((*path, "topic")) and not tree.has_mistake((*path, "topic_regex")):
            tree.mistake(path, "needs either topic or topic_regex")
        return None
    if rule.topic is not None and not _TOPIC_PATTERN.fullmatch(rule.topic):
        tree.mistake(path + ("topic",), "is a topic (letters, digits, . _ -), with * for parts without dots")
        return None
    try:
        compiled = re.compile(rule.pattern)
    except re.error as error:
        tree.mistake(path + ("topic_regex",), f"is no regular expression: {error}")
        return None
    return {**{str(number): number for number in range(1, compiled.groups + 1)}, **compiled.groupindex}


def _template_mistakes(tree: YamlLines, rule: TableRule, groups: Mapping[str, int], path: Path) -> None:
    used: set[int] = set()
    for key, templates in (
        ("table", (rule.table,)),
        ("record_key", rule.record_key),
        ("partition_by", rule.partition_by),
        ("position", (rule.position,) if rule.position else ()),
        ("services", rule.services.cluster_by),
    ):
        for template in templates:
            for placeholder in PLACEHOLDER.findall(template):
                if placeholder not in groups:
                    offered = ", ".join(f"{{{name}}}" for name in groups) or "none: it has no *"
                    tree.mistake(path + (key,), f"{{{placeholder}}} is not among what the topic offers ({offered})")
                elif key == "table":
                    used.add(groups[placeholder])
    database, _, name = PLACEHOLDER.sub("a", rule.table).partition(".")
    if not (NAME.fullmatch(database) and NAME.fullmatch(name)):
        tree.mistake(path + ("table",), "is database.table, in lower-case letters, digits and _")
    elif set(groups.values()) - used:
        missing = ", ".join("{%d}" % number for number in sorted(set(groups.values()) - used))
        tree.mistake(path + ("table",), f"must use {missing}: else two topics would be written into one table")


def _unreachable(tree: YamlLines, rules: list[tuple[int, TableRule]]) -> None:
    tables: dict[str, int] = {}
    for place, (number, rule) in enumerate(rules):
        if not PLACEHOLDER.search(rule.table):
            if rule.table in tables:
                tree.mistake(
                    ("tables", number, "table"), f"{rule.table} is the table of tables[{tables[rule.table]}] already"
                )
            tables.setdefault(rule.table, number)
        if rule.topic is None or "*" in rule.topic:
            continue
        earlier = next((other for other, before in rules[:place] if re.fullmatch(before.pattern, rule.topic)), None)
        if earlier is not None:
            tree.mistake(("tables", number, "topic"), f"is never reached: tables[{earlier}] takes {rule.topic} first")


def _meant(written: Any, known: Any) -> str:
    close = difflib.get_close_matches(str(written), list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


MAX_BYTES = 1_000_000
MAX_NODES = 100_000  # aliases can make a small file a large tree

Path = tuple[Any, ...]


@dataclass(frozen=True, order=True)
class Mistake:
    """One mistake: its line (1-based), its place such as tables[2].freshness, and what is wrong."""

    line: int
    where: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.where}: {self.message}" if self.where else f"line {self.line}: {self.message}"


class ConfigurationMistakes(InvalidConfiguration):
    """Everything that is wrong with a tables.yaml; `mistakes` in the order of their lines, `file` as it was named."""

    def __init__(self, mistakes: list[Mistake], file: str = "tables.yaml") -> None:
        self.mistakes = tuple(sorted(set(mistakes)))
        many = f"{len(self.mistakes)} mistake{'s' if len(self.mistakes) != 1 else ''}"
        super().__init__(
            "\n".join([f"{file} has {many}:", *map(str, self.mistakes)]),
            mistakes=[str(mistake) for mistake in self.mistakes],
        )


class YamlLines:
    """A YAML document's values, the line of every path in it, and the mistakes found so far."""

    def __init__(self, value: dict[str, Any], lines: dict[Path, int]) -> None:
        self.value = value
        self.mistakes: list[Mistake] = []
        self._lines = lines

    def has_mistake(self, path: Path) -> bool:
        """Whether something about this very place was told already."""
        return any(mistake.where == _describe(path) for mistake in self.mistakes)

    @classmethod
    def of(cls, text: str) -> YamlLines:
        """Read a document whose top is a mapping. Raises ConfigurationMistakes when it is none, or too large."""
        if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
            raise ConfigurationMistakes([Mistake(1, "", f"is larger than {MAX_BYTES:,} bytes")])
        try:
            loader = yaml.SafeLoader(text)
            node = loader.get_single_node()
            nodes = list(_walk(node, ()))
            value = None if node is None else loader.construct_document(node)
        except RecursionError as error:
            raise ConfigurationMistakes([Mistake(1, "", "is nested too deeply")]) from error
        except (yaml.YAMLError, ValueError) as error:  # a ValueError is a date that no calendar has
            mark = getattr(error, "problem_mark", None)
            raise ConfigurationMistakes(
                [Mistake(mark.line + 1 if mark else 1, "", f"is not YAML: {getattr(error, 'problem', None) or error}")]
            ) from error
        if not isinstance(value, dict):
            raise ConfigurationMistakes([Mistake(1, "", "needs the key tables, with a list of rules")])
        tree = cls(value, {})
        for path, line, twice in nodes:
            if twice:
                tree.mistakes.append(Mistake(line, _describe(path), "is there twice"))
            tree._lines.setdefault(path, line)
        return tree

    def mistake(self, path: Path, message: str) -> None:
        """Note a mistake at the line of the path, or of the nearest part of it that the file has."""
        near = path
        while near and near not in self._lines:
            near = near[:-1]
        self.mistakes.append(Mistake(self._lines.get(near, 1), _describe(path), message))


def _walk(node: yaml.Node | None, path: Path) -> Iterator[tuple[Path, int, bool]]:
    """Every path of a document with its line, and whether its key was there before."""
    pending: list[tuple[yaml.Node | None, Path, int, bool]] = [(node, path, 1, False)]
    seen = 0
    while pending:
        current, where, line, twice = pending.pop()
        seen += 1
        if seen > MAX_NODES:
            raise ConfigurationMistakes([Mistake(1, "", f"has more than {MAX_NODES:,} values")])
        yield where, line, twice
        if isinstance(current, yaml.MappingNode):
            keys: set[Any] = set()
            for key, value in current.value:
                name = (
                    key.value if isinstance(key, yaml.ScalarNode) else None
                )  # a list for a key is refused when values are made
                pending.append((value, where + (name,), key.start_mark.line + 1, name in keys))
                keys.add(name)
        elif isinstance(current, yaml.SequenceNode):
            pending.extend(
                (item, where + (number,), item.start_mark.line + 1, False) for number, item in enumerate(current.value)
            )


def _describe(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
