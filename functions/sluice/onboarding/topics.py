"""Says which topics of the rules no object has, while objects of other topics wait without a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.config.values import PLACEHOLDER
from sluice.names import counted, listed, meant_name
from sluice.onboarding.keys import SHOWN

TOPICS_NAMED = 10  # topics without objects that are named one by one


@dataclass(frozen=True)
class TopicsWaiting:
    """The topics of which objects are known, and by topic the number of objects that wait without a table.

    `claimed` are the tables of open batches. `more` is true if not all waiting objects were counted.
    """

    topics: Collection[str]
    without_table: Mapping[str, int]
    claimed: Collection[str] = ()
    more: bool = False


def topics_without_objects(configuration: Configuration, waiting: TopicsWaiting) -> tuple[str, ...]:
    """Return a sentence on the rules whose topics no object has, while objects of other topics wait without a table.

    Such a topic may be misspelt: one that is like a topic of waiting objects, or like one that another rule takes, has
    a sentence of its own. Where nothing waits without a table, it has just not been written yet.
    """
    if not waiting.without_table:
        return ()
    unused = list(dict.fromkeys(rule.topic or rule.topic_regex or "" for rule in _unused(configuration, waiting)))
    names = {*waiting.without_table, *(topic for topic in waiting.topics if configuration.table_for_topic(topic))}
    meant = {topic: meant_name(topic, [name for name in names if _is_like(topic, name)]) for topic in unused}
    like = [(topic, name) for topic, name in meant.items() if name is not None]
    unlike = [topic for topic, name in meant.items() if name is None]
    left = counted(len(like) - TOPICS_NAMED, "more topic")
    return (
        *(_perhaps_misspelt(topic, name, waiting) for topic, name in like[:TOPICS_NAMED]),
        *([f"no object waits for {left}"] if len(like) > TOPICS_NAMED else []),
        *([_without_objects(unlike, waiting)] if unlike else []),
    )


def _unused(configuration: Configuration, waiting: TopicsWaiting) -> Iterator[TableRule]:
    for rule in configuration.rules:
        pattern = re.compile(rule.pattern)
        table = re.compile(".*".join(map(re.escape, PLACEHOLDER.split(rule.table)[::2])))
        if not any(map(pattern.fullmatch, waiting.topics)) and not any(map(table.fullmatch, waiting.claimed)):
            yield rule


def _is_like(topic: str, name: str) -> bool:
    """True if topics are alike in more than the parts that they begin with, which all topics of a source may share."""
    parts, others = topic.split("."), name.split(".")
    shared = next((at for at, (part, other) in enumerate(zip(parts, others)) if part != other), 0)
    return meant_name(".".join(parts[shared:]), (".".join(others[shared:]),)) is not None


def _perhaps_misspelt(topic: str, meant: str, waiting: TopicsWaiting) -> str:
    if meant not in waiting.without_table:
        return f"topic {topic}: {_no_object(waiting)} for it; did you mean {meant}, which another rule takes?"
    wait = _wait_without_table(waiting.without_table[meant], waiting)
    return f"topic {topic}: {_no_object(waiting)} for it; did you mean {meant} ({wait})?"


def _without_objects(topics: Sequence[str], waiting: TopicsWaiting) -> str:
    counts = waiting.without_table
    plural, them = ("s", "them") if len(topics) > 1 else ("", "it")
    what = f"topic{plural} {listed(topics, TOPICS_NAMED)}: {_no_object(waiting)} for {them}"
    wait = _wait_without_table(sum(counts.values()), waiting, f" of {counted(len(counts), 'topic')}")
    return f"{what}, and {wait}: {listed(sorted(counts), SHOWN)}"


def _no_object(waiting: TopicsWaiting) -> str:
    return f"no object {'that was looked at ' if waiting.more else ''}waits"


def _wait_without_table(number: int, waiting: TopicsWaiting, whose: str = "") -> str:
    objects = f"{counted(number, 'object')}{' or more' if waiting.more else ''}"
    return f"{objects}{whose} {'waits' if number == 1 and not waiting.more else 'wait'} without a table"
