"""All dialects, and the one of a record: that of its table's rule, or the one that its fields show."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from typing import Any, Callable

from sluice.changes.dialects.canal import CANAL
from sluice.changes.dialects.cloud_events import CLOUD_EVENTS
from sluice.changes.dialects.cockroachdb import COCKROACHDB
from sluice.changes.dialects.maxwell import MAXWELL
from sluice.changes.dialects.nested import CaptureDialect, IsKey
from sluice.changes.dialects.yugabytedb import YUGABYTEDB
from sluice.errors import UnusableSchema

_ALL: tuple[CaptureDialect, ...] = (CLOUD_EVENTS, CANAL, MAXWELL, COCKROACHDB, YUGABYTEDB)
DIALECTS = {dialect.name: dialect for dialect in _ALL}
OF_DEBEZIUM = tuple(dialect.name for dialect in (CLOUD_EVENTS, COCKROACHDB, YUGABYTEDB))  # Debezium's envelope, varied

Translate = Callable[[dict[str, Any]], Sequence[dict[str, Any]]]  # raises UnusableSchema


def translator(of_rule: str | None, looked_for: Collection[str], is_key: IsKey = lambda name: False) -> Translate:
    """What gives the changes in a record of a table, in Debezium's envelope; a record of no dialect as it is.

    `of_rule` is the dialect of the table's rule: a record of another form is refused. Without one a record's fields
    show it, among the dialects `looked_for`.
    """
    if of_rule is not None:
        return partial(_changes_of_rule, DIALECTS[of_rule], is_key)
    return partial(changes_by_fields, looked_for=looked_for, is_key=is_key)


def changes_by_fields(
    record: dict[str, Any], *, looked_for: Collection[str] = DIALECTS, is_key: IsKey = lambda name: False
) -> Sequence[dict[str, Any]]:
    """The changes in a record of the dialect that its fields show (`translator`)."""
    for dialect in _with_fields(tuple(record)):
        if dialect.name in looked_for and dialect.recognises(record):
            return dialect.changes(record, is_key)
    return [record]


def _changes_of_rule(dialect: CaptureDialect, is_key: IsKey, record: dict[str, Any]) -> Sequence[dict[str, Any]]:
    if not dialect.recognises(record):
        raise UnusableSchema(f"The record is no change in the form `{dialect.name}`, which the table's rule names")
    return dialect.changes(record, is_key)


@lru_cache(maxsize=1024)
def _with_fields(names: tuple[str, ...]) -> tuple[CaptureDialect, ...]:
    """The dialects whose fields are among a record's."""
    return tuple(dialect for dialect in _ALL if dialect.fields <= frozenset(names))
