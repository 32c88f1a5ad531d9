"""Changes as Oracle GoldenGate for Big Data's JSON and Avro formatters write them, by operation or by row.

https://docs.oracle.com/en/middleware/goldengate/big-data/23/gadbd/using-pluggable-formatters.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sluice.changes.dialects.nested import (
    BY_WORDS,
    CaptureDialect,
    ChangePaths,
    Reading,
    Record,
    TypedForm,
    placed,
    whole,
)
from sluice.changes.hidden_columns import CREATE, DELETE, TRUNCATE, UPDATE
from sluice.errors import UnusableSchema

_METADATA = frozenset("table op_type op_ts current_ts pos primary_keys tokens csn xid".split())
_WORDS = {**BY_WORDS, "pk": UPDATE, "truncate": TRUNCATE}  # insertOpKey and its like
_NEW_KEYS = ("k", "p", "pk")
_BOTH = "Let GoldenGate write a deletion and an insert: gg.handler.<name>.format.pkUpdateHandling=delete-insert"
_MISSING = "_isMissing"  # with includeIsMissingFields, of a column that the trail lacks


def _place(record: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """The place in the trail, and the parts of the table's name: catalog, schema and table."""
    parts = dict(zip(("table", "schema", "db"), reversed(str(record.get("table") or "").split("."))))
    return {**parts, **placed(whole(record.get("pos")))}


def _present(row: Any, record: Mapping[str, Any], reading: Reading) -> Any:
    """The row without the columns that the trail lacks, and without their marks."""
    if not isinstance(row, Mapping) or not any(name.endswith(_MISSING) for name in row):
        return row
    absent = {name for name, value in row.items() if name.endswith(_MISSING)}
    absent |= {name.removesuffix(_MISSING) for name in absent if row[name]}
    return {name: value for name, value in row.items() if name not in absent}


def _is_mark(name: str) -> bool:
    return name.endswith(_MISSING)


def _is_metadata(name: str) -> bool:
    return name in _METADATA or _is_mark(name)


_OPERATIONS = ChangePaths(
    "goldengate",
    fields=frozenset(("table", "op_type", "op_ts")),
    operation="op_type",
    operations={"i": CREATE, **dict.fromkeys("ukp", UPDATE), "d": DELETE, "t": TRUNCATE, **_WORDS},
    row="after",
    before="before",
    place=_place,
    decoded=_present,
    partial=True,  # unless all columns are logged
    order=("pos",),
    typed_rows=True,
)


@dataclass(frozen=True)
class GoldenGate(CaptureDialect):
    """The dialect: operations with `before` and `after`, and rows with their metadata where a rule names it."""

    name: str = _OPERATIONS.name
    shapes: tuple[frozenset[str], ...] = _OPERATIONS.shapes

    def typed(self, names: Collection[str]) -> TypedForm | None:
        """The columns of operations, or of rows beside their metadata."""
        form = _OPERATIONS.typed(names)
        if form is None:
            return None
        form = replace(form, source=("schema", "table", "db", *form.source), own=_is_mark)
        return form if set(form.rows) & set(names) else replace(form, rows=("",), own=_is_metadata)

    def recognises(self, record: Record, *, named: bool = False) -> bool:
        """Whether a record is an operation, or if a rule `named` the dialect a row."""
        if "before" in record or "after" in record:
            return _OPERATIONS.recognises(record, named=named)
        of_rows = named or record.get("op_type") == "T" and record.keys() <= _METADATA
        return of_rows and str(record.get("op_type")).lower() in _OPERATIONS.operations

    def changes(self, record: Record, reading: Reading) -> Sequence[dict[str, Any]]:
        """The changes. Those by row hold the row before a deletion as those by operation do. Raises UnusableSchema."""
        if "before" not in record and "after" not in record and record.get("op_type") != "T":
            if str(record["op_type"]).lower() in _NEW_KEYS:
                raise UnusableSchema("An update of the key in GoldenGate's rows lacks the former key", next_step=_BOTH)
            row = {name: value for name, value in record.items() if name not in _METADATA}
            record = {**record, "before" if str(record["op_type"]).lower() == "d" else "after": row}
        return _OPERATIONS.changes(record, reading)


GOLDENGATE = GoldenGate()
