"""All dialects, and the one of a record: that of its table's rule, or the one that its fields show."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Callable

from sluice.changes.dialects.airbyte import AIRBYTE
from sluice.changes.dialects.cockroachdb import COCKROACHDB
from sluice.changes.dialects.dynamodb import DYNAMODB_EXPORTS, DYNAMODB_STREAMS
from sluice.changes.dialects.goldengate import GOLDENGATE
from sluice.changes.dialects.messages import (
    CANAL,
    DMS_MESSAGES,
    ESTUARY,
    MAXWELL,
    PEERDB,
    QLIK_MESSAGES,
    SEQUIN,
    TICDC_SIMPLE,
)
from sluice.changes.dialects.mongodb import MONGODB_EVENTS
from sluice.changes.dialects.nested import UNTOLD, CaptureDialect, Reading, in_order
from sluice.changes.dialects.salesforce import SALESFORCE
from sluice.changes.dialects.varied_envelopes import (
    CASSANDRA,
    CLOUD_EVENTS,
    SCYLLADB,
    SPANNER,
    TICDC_CHANGES,
    YUGABYTEDB,
)
from sluice.changes.dialects.wal2json import WAL2JSON
from sluice.errors import UnusableSchema

# Debezium's envelope, varied.
_VARIED = (CLOUD_EVENTS, COCKROACHDB, YUGABYTEDB, CASSANDRA, SCYLLADB, SPANNER, TICDC_CHANGES)
_ALL: tuple[CaptureDialect, ...] = (
    *_VARIED,
    *(CANAL, MAXWELL, GOLDENGATE, WAL2JSON, MONGODB_EVENTS, DYNAMODB_EXPORTS, DYNAMODB_STREAMS, AIRBYTE),
    *(DMS_MESSAGES, QLIK_MESSAGES, PEERDB, ESTUARY, SALESFORCE, SEQUIN, TICDC_SIMPLE),
)
DIALECTS = {dialect.name: dialect for dialect in _ALL}
OF_DEBEZIUM = tuple(dialect.name for dialect in _VARIED)

# The field with the row as JSON text, by the dialects that have it in other formats too, and these formats.
_TEXTS: Mapping[Any, tuple[str, tuple[str, ...]]] = {
    PEERDB: ("_peerdb_data", ("avro", "parquet", "csv")),
    AIRBYTE: ("_airbyte_data", ("csv",)),
    MONGODB_EVENTS: ("fullDocument", ("avro", "parquet")),
}


def text_field(of_rule: CaptureDialect | str | None, format: str) -> str | None:
    """The field with the row as JSON text in objects of this format, which are then read as JSON is; None without."""
    field, formats = _TEXTS.get(of_rule, ("", ()))
    return field if format in formats else None


Translate = Callable[[dict[str, Any]], Sequence[dict[str, Any]]]  # raises UnusableSchema


def translator(of_rule: CaptureDialect | str | None, looked_for: Collection[str], reading: Reading) -> Translate:
    """What gives the changes in a record of a table, in Debezium's envelope; a record of no dialect as it is.

    `of_rule` is the dialect of the table's rule: a record of another form is refused. Without one a record's fields
    show it, among the dialects `looked_for`.
    """
    if of_rule is not None:
        dialect = DIALECTS[of_rule] if isinstance(of_rule, str) else of_rule
        return partial(_changes_of_rule, dialect, reading)
    return partial(changes_by_fields, looked_for=looked_for, reading=reading)


def changes_by_fields(
    record: dict[str, Any], *, looked_for: Collection[str] = DIALECTS, reading: Reading = UNTOLD
) -> Sequence[dict[str, Any]]:
    """The changes in a record of the dialect that its fields show (`translator`)."""
    dialect = shown_by(record, looked_for)
    return [record] if dialect is None else in_order(dialect.changes(record, reading), reading)


def shown_by(record: dict[str, Any], looked_for: Collection[str] = DIALECTS) -> CaptureDialect | None:
    """The dialect that a record's fields show; None for a row, and for Debezium's own changes."""
    for dialect in _with_fields(tuple(record)):
        if dialect.name in looked_for and dialect.recognises(record):
            return dialect
    return None


def _changes_of_rule(dialect: CaptureDialect, reading: Reading, record: dict[str, Any]) -> Sequence[dict[str, Any]]:
    if not dialect.recognises(record, named=True):
        raise UnusableSchema(
            f"The record is no change in the form `{dialect.name}`, which the table's rule says",
            next_step="Correct the rule's `format` or `change`, or give such records a topic of their own, and retry",
        )
    return in_order(dialect.changes(record, reading), reading)


@lru_cache(maxsize=1024)
def _with_fields(names: tuple[str, ...]) -> tuple[CaptureDialect, ...]:
    """The dialects of which one shape's fields are among a record's."""
    present = frozenset(names)
    return tuple(dialect for dialect in _ALL if any(shape <= present for shape in dialect.shapes))
