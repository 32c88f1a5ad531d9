"""All dialects, and the one of a record: that of its table's rule, or the one that its fields show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, Callable

from sluice.changes.dialects.canal import CANAL
from sluice.changes.dialects.cloud_events import CLOUD_EVENTS
from sluice.changes.dialects.maxwell import MAXWELL
from sluice.changes.dialects.nested import CaptureDialect, IsKey
from sluice.errors import UnusableSchema

_RECOGNISED: tuple[CaptureDialect, ...] = (CLOUD_EVENTS, CANAL, MAXWELL)
DIALECTS = {dialect.name: dialect for dialect in _RECOGNISED}

Translate = Callable[[dict[str, Any]], Sequence[dict[str, Any]]]  # raises UnusableSchema


def _no_key(name: str) -> bool:
    return False


def translator(name: str | None, *, rows: bool, is_key: IsKey = _no_key) -> Translate:
    """What gives the changes in a record of a table, in Debezium's envelope; a record of no dialect as it is.

    `name` is the dialect of the table's rule: a record of another form is refused. Without one a record's fields show
    it, unless the rule says that records are `rows` whatever their fields are called: then only Debezium's events.
    """
    if name is not None:
        return partial(_changes_of_rule, DIALECTS[name], is_key)
    return partial(changes_by_fields, rows=rows, is_key=is_key)


def changes_by_fields(
    record: dict[str, Any], *, rows: bool = False, is_key: IsKey = _no_key
) -> Sequence[dict[str, Any]]:
    """The changes in a record of the dialect that its fields show (`translator`)."""
    for dialect in _with_fields(tuple(record)):
        if (dialect is CLOUD_EVENTS or not rows) and dialect.recognises(record):
            return dialect.changes(record, is_key)
    return [record]


def _changes_of_rule(dialect: CaptureDialect, is_key: IsKey, record: dict[str, Any]) -> Sequence[dict[str, Any]]:
    if not dialect.recognises(record):
        raise UnusableSchema(f"The record is no change in the form `{dialect.name}`, which the table's rule names")
    return dialect.changes(record, is_key)


@lru_cache(maxsize=1024)
def _with_fields(names: tuple[str, ...]) -> tuple[CaptureDialect, ...]:
    """The dialects whose fields are among a record's."""
    return tuple(dialect for dialect in _RECOGNISED if dialect.fields <= frozenset(names))
