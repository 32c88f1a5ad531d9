"""The objects that are no changes of any table: named in tables.yaml, counted when they come, and never parked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from sluice.config.setting import Value, setting

_LONGEST = 249  # characters of a topic's name
_MOST = 100  # patterns; each object is compared with all of them
#: What the rule of an object that `ignore` left out begins with, in the ledger; the pattern follows.
LEFT_OUT = "ignore: "
TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._*-]{1,249}")


def topic_regex(pattern: str) -> str:
    """The regular expression of a topic or a pattern in which each `*` is one part without dots."""
    return "([^.]+)".join(re.escape(part) for part in pattern.split("*"))


def _patterns(form: re.Pattern[str], needed: str) -> Value:
    def parse(written: Any) -> tuple[str, ...]:
        listed = [written] if isinstance(written, str) else written
        if not isinstance(listed, list) or not all(isinstance(one, str) and form.fullmatch(one) for one in listed):
            raise ValueError(f"is {needed}, or a list of them")
        if len(listed) > _MOST:
            raise ValueError(f"is a list of at most {_MOST}")
        return tuple(listed)

    items = {"type": "string", "pattern": f"^{form.pattern}$"}
    schema = {"anyOf": [items, {"type": "array", "items": items, "maxItems": _MOST}]}
    return Value(parse, schema, list)


@dataclass(frozen=True)
class Ignore:
    """Patterns of topics and keys whose objects are ignored. They count before all rules."""

    topics: tuple[str, ...] = setting(
        (),
        _patterns(TOPIC_PATTERN, "a topic, or a pattern such as *.heartbeat"),
        "Topics, or patterns in which each `*` stands for one part without dots: `__debezium-heartbeat.*`.",
        default_text="none",
    )
    keys: tuple[str, ...] = setting(
        (),
        _patterns(re.compile(rf"[^\x00-\x1f]{{1,{_LONGEST}}}"), "a pattern such as *.RESOLVED"),
        "Patterns of file names, or with a `/` of whole keys. `*` stands for any characters, `?` for one, `[0-9]` "
        "for one of several: `*.RESOLVED`, `exports/*/manifest.json`.",
        default_text="none",
    )

    def of_key(self, key: str) -> str | None:
        """The pattern that leaves out an object by its key; None without one."""
        file = key.rpartition("/")[2]
        return next((one for one in self.keys if fnmatchcase(key if "/" in one else file, one)), None)

    def of_topic(self, topic: str) -> str | None:
        """The pattern that leaves out a topic; None without one."""
        return next((one for one in self.topics if re.fullmatch(topic_regex(one), topic)), None)
