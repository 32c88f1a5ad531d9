"""Says which topics of the rules no object has, while objects of other topics wait without a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.config.values import PLACEHOLDER
from sluice.names import counted, listed
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

    Such a topic may be misspelt. Where nothing waits without a table, it has just not been written yet.
    """
    topics = list(dict.fromkeys(rule.topic or rule.topic_regex or "" for rule in _unused(configuration, waiting)))
    counts = waiting.without_table
    if not counts or not topics:
        return ()
    plural, them = ("s", "them") if len(topics) > 1 else ("", "it")
    number, more = sum(counts.values()), " or more" if waiting.more else ""
    no_object = f"no object {'that was looked at ' if waiting.more else ''}waits for {them}"
    wait = "wait" if more or number > 1 else "waits"
    return (
        f"topic{plural} {listed(topics, TOPICS_NAMED)}: {no_object}, and {counted(number, 'object')}{more} of "
        f"{counted(len(counts), 'topic')} {wait} without a table: {listed(sorted(counts), SHOWN)}",
    )


def _unused(configuration: Configuration, waiting: TopicsWaiting) -> Iterator[TableRule]:
    for rule in configuration.rules:
        pattern = re.compile(rule.pattern)
        table = re.compile(".*".join(map(re.escape, PLACEHOLDER.split(rule.table)[::2])))
        if not any(map(pattern.fullmatch, waiting.topics)) and not any(map(table.fullmatch, waiting.claimed)):
            yield rule
