"""What a writer schema means for a table: the change of each column, the table's types after it, and the verdict.

A stored column keeps its type or gets a wider one, in place or by rewriting the table (`widen`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sluice.changes.hidden_columns import NAMES
from sluice.config.table import FREEZE, TableConfig
from sluice.errors import PUSH_AND_RETRY, Incompatible, SchemaFrozen, SluiceError
from sluice.schema.capture_order import check_position_column
from sluice.schema.columns import ARRAY, BOOLEAN, BYTES, INT, JSON, LONG, MAX_PRECISION, STRING, RowSchema
from sluice.schema.made_columns import check_sources

SAME, NARROWER, PROMOTED, REWRITTEN = "same", "narrower", "promoted", "rewritten"  # in order of work
NEW_TABLE, ADDED, DROPPED, INCOMPATIBLE = "new_table", "added", "dropped", "incompatible"
# A schema's verdict is that of its column furthest right here.
_BY_STRENGTH = (SAME, DROPPED, NARROWER, ADDED, PROMOTED, REWRITTEN, NEW_TABLE, INCOMPATIBLE)

# A topic stays with its table, and a rebuild begins with the objects of the former type.
ANOTHER_TOPIC = (
    "Change it back at the source, or let the source write to another topic, whose table then has the new type "
    "from the start"
)
_DESCRIPTIONS = {
    ADDED: "{column} is new ({new}): null in rows from before",
    DROPPED: "{column} ({old}) is no longer sent: kept, null in rows that change from now on",
    NARROWER: "{column} comes as {new}: kept as {old}",
    PROMOTED: "{column} becomes {to} ({new} came, it was {old})",
    REWRITTEN: "{column} becomes {to} ({new} came, it was {old}): the commit that brings it rewrites the table",
}


@dataclass(frozen=True)
class ColumnChange:
    """The change of one column. Types are Spark's names; `old` and `new` are None where the column is absent.

    `to` is the stored type afterwards.
    """

    column: str
    change: str
    old: str | None
    new: str | None
    to: str | None
    described: str


@dataclass(frozen=True)
class Evolution:
    """The verdict on a writer schema, the columns that it changes, and the table's types after it."""

    verdict: str
    changes: tuple[ColumnChange, ...]
    target: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the target."""
        return {"verdict": self.verdict, "changes": [asdict(change) for change in self.changes]}


def evolve(
    stored: Mapping[str, str] | None,
    written: RowSchema,
    *,
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    untyped: bool = False,
) -> Evolution:
    """Compare a schema with the table's columns (name -> Spark's type name; None while there is no table).

    The schema of an `untyped` object has no column that is null in all of its records. Raises Incompatible for the
    first column that doesn't fit. Sluice's own columns are left out.
    """
    for name in record_key:
        if written.column(name) is None:
            raise _without_key(name, stored, written, untyped=untyped)
    types = {column.name: column.spark_type for column in written.columns}
    if stored is None:
        return Evolution(NEW_TABLE, (), types)
    stored_names = {name.lower(): name for name in stored}
    for name in types:
        if (same := stored_names.get(name.lower(), name)) != name:
            raise differ_in_case(same, name, f"into the table's rule, {PUSH_AND_RETRY}")
    changes = tuple(change for change in compare(stored, types) if change.column not in NAMES)
    for change in changes:
        name, old, new = change.column, change.old, change.new
        if old is None or new is None:
            continue
        if name in record_key + partition_by and change.to not in (old, "bigint"):
            raise incompatible(name, old, new, "it is part of the table's key or of its folders", ANOTHER_TOPIC)
        if change.change == INCOMPATIBLE:
            widen(name, old, new)  # raises
    return _after(stored, changes)


def _after(before: Mapping[str, str], changes: tuple[ColumnChange, ...]) -> Evolution:
    verdict = max((change.change for change in changes), key=_BY_STRENGTH.index, default=SAME)
    return Evolution(verdict, changes, {**before, **{change.column: change.to or "" for change in changes}})


def compare(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[ColumnChange, ...]:
    """Every column that differs between two schemas (name -> Spark's type name), incompatible columns included."""
    changes: list[ColumnChange] = []
    for name, kind in old.items():
        if name not in new:
            changes.append(_change(name, DROPPED, kind, None, kind))
            continue
        try:
            widening = widen(name, kind, new[name])
        except Incompatible as error:
            changes.append(ColumnChange(name, INCOMPATIBLE, kind, new[name], None, str(error)))
            continue
        if widening.change != SAME:
            changes.append(_change(name, widening.change, kind, new[name], widening.type))
    return (*changes, *(_change(name, ADDED, None, kind, kind) for name, kind in new.items() if name not in old))


def evolve_further(stored: Mapping[str, str] | None, so_far: Mapping[str, str], written: RowSchema) -> Evolution:
    """The verdict on a later schema of one batch, which fits: compared with the columns that the earlier ones make.

    `stored` are the table's own columns, None while there is no table. A type that no file has is changed in place.
    """
    changes = tuple(
        _change(change.column, PROMOTED, change.old, change.new, change.to or "")
        if change.change == REWRITTEN and change.column not in (stored or {})
        else change
        for change in compare(so_far, {column.name: column.spark_type for column in written.columns})
        if change.column not in NAMES
    )
    return _after(so_far, changes)


def refused(error: SluiceError) -> Evolution:
    """The verdict INCOMPATIBLE, from the error of `evolve`."""
    old, new = (error.facts.get("types") or [None, None])[:2]
    change = ColumnChange(str(error.facts.get("column", "")), INCOMPATIBLE, old, new, None, str(error))
    return Evolution(INCOMPATIBLE, (change,), {})


def rewritten_columns(stored: Mapping[str, str], target: Mapping[str, str]) -> tuple[str, ...]:
    """The stored columns whose type in `target` requires rewriting every file of the table."""
    return tuple(
        name for name, old in stored.items() if name in target and widen(name, old, target[name]).change == REWRITTEN
    )


def _change(column: str, change: str, old: str | None, new: str | None, to: str) -> ColumnChange:
    described = _DESCRIPTIONS[change].format(column=column, old=old, new=new, to=to)
    return ColumnChange(column, change, old, new, to, described)


def differ_in_case(one: str, other: str, where: str) -> Incompatible:
    """The error of two columns whose names Spark and Glue can't tell apart; `where` says where to rename the other."""
    step = f"Put `columns: {{rename: {{{other}: {one}}}}}` {where}"
    message = f"Columns {one} and {other} differ in case only"
    return Incompatible(message, next_step=step, column=other, types=[one, other])


def evolve_table(
    before: Mapping[str, str] | None,
    row: RowSchema,
    config: TableConfig,
    *,
    untyped: bool = False,
    of_changes: bool = False,
) -> Evolution:
    """`evolve` for a row of `row_for_table`, by the table's configuration; `untyped` and `of_changes` are its writer's.

    Raises SchemaFrozen where it would change a frozen table, and Incompatible also where two columns have one name;
    where the position column is missing, or orders changes of a log, whose deletions have no value of it; where the
    column that marks deletions holds other values than text, whole numbers and booleans; where a column of the key or
    of the partitions is an array or a map, whose text may vary; and where the table would have more columns than its
    limits allow, since each object may bring other names.
    """
    _check_names(row)
    check_sources(row, config)
    for name in config.record_key + config.partition_columns:
        column = row.column(name)
        if column is not None and (column.kind == ARRAY or column.kind == JSON and column.element is not None):
            message = f"Column {name} of the key or the partitions is {column.source_type}"
            step = "Give the topic a table with a record_key and partition_by of numbers, texts or times"
            raise Incompatible(message, column=name, types=[column.source_type, "a single value"], next_step=step)
    for name in config.position_columns:
        column = row.column(name)
        if of_changes:
            raise Incompatible(
                f"The position column {name} would order changes of a log, whose deletions do not carry it",
                column=name,
                types=["" if column is None else column.spark_type, "a row of a query"],
                next_step="Take `position` out of the rule in tables.yaml, since these changes are ordered by their "
                "source position: `sluice config push` says how a table with data is rebuilt",
            )
        if column is None:
            message = f"The position column {name} is not a column of this schema"
            raise Incompatible(message, column=name, types=["", "absent"], next_step=_lacked("position"))
        check_position_column(column)
    marking = row.column(config.marks_of_rows.column or "")
    if marking is None and config.marks_of_rows.marks and config.marks_of_rows.is_null:
        raise Incompatible(
            f"The column {config.marks_of_rows.column} of delete_when is not a column of this schema, so that every "
            "row would be a deletion",
            column=str(config.marks_of_rows.column),
            types=["", "null or absent" if untyped else "absent"],
            next_step=_lacked("delete_when"),
        )
    by_value = config.marks_of_rows.marks and config.marks_of_rows.is_null is None
    if marking is not None and by_value and marking.kind not in (STRING, INT, LONG, BOOLEAN, BYTES):
        raise Incompatible(
            f"The column {marking.name} of delete_when is {marking.source_type or marking.spark_type}",
            column=marking.name,
            types=[marking.spark_type, "text, a whole number or a boolean"],
            next_step="Name a column in `delete_when` that holds text, whole numbers, or true and false",
        )
    try:
        evolution = evolve(
            before, row, record_key=config.record_key, partition_by=config.partition_columns, untyped=untyped
        )
    except Incompatible as error:
        of_a_type = error.facts["column"] in (before or ())
        raise _by_rule(error, row, config, untyped=untyped) if of_a_type else error from None
    width = len(evolution.target.keys() - set(NAMES))
    if width > config.limits.schema_columns and len(evolution.target) > len(before or ()):
        new = next(name for name in evolution.target if name not in (before or ()))
        raise Incompatible(
            f"The table would have {width:,} columns, {new[:100]} among the new ones",
            column=new[:100],
            types=["", evolution.target[new]],
            next_step="Let the source write fields without fixed names as one column of JSON text or a map, "
            "or raise the table's limit schema_columns",
        )
    if config.schema == FREEZE and before is not None:
        _check_frozen(evolution)
    return evolution


def _by_rule(error: Incompatible, row: RowSchema, config: TableConfig, *, untyped: bool) -> Incompatible:
    """The error with the rule's `columns` or `types` for its cause, where these set the column's type, or no longer do.

    A step that renames the column names it as the rule's `rename` must: by the source's name.
    """
    name = error.facts["column"]
    column = row.column(name)
    rules = config.columns
    source = next((old for old, new in rules.rename.items() if new.lower() == name.lower()), name)
    declared = config.json_types.get(column.written_name if column else name) or config.json_types.get(name)
    if column is None:
        return error
    if rules.hashes(source) or rules.mask_of(source) is not None:
        cause, change, keep = "The rule's `columns` makes it text", "Take it out there", "keep it"
    elif declared is not None:
        cause, change, keep = f"The rule's `types` declares it as {declared}", "Take it out there", "keep it"
    elif untyped:
        cause = f"The objects say no types, and the rule's `types` has no entry for {column.written_name}"
        change, keep = f"Add one that makes it {error.facts['types'][0]}", "leave it out"
    elif name in config.position_columns:
        stored, written = error.facts["types"]
        return incompatible(name, stored, written, "it is the table's position", ANOTHER_TOPIC)
    else:
        step = error.next_step.replace(f"{{rename: {{{name}: ", f"{{rename: {{{source}: ")
        return Incompatible(error.message, next_step=step, **error.facts)
    return Incompatible(
        error.message,
        next_step=(
            f"{cause}. {change}, run `sluice config push`, then "
            f"`sluice quarantine retry --code {error.code} --table {config.table}`. Or {keep} and rebuild the table: "
            f"`sluice pause {config.lane}`, `sluice rebuild table {config.table}`, push again, "
            f"`sluice resume {config.lane}`, and retry"
        ),
        **error.facts,
    )


_AIVEN = frozenset(("key", "value", "offset", "timestamp", "headers"))  # `format.output.fields` of Aiven's S3 sink


def _without_key(name: str, stored: Mapping[str, str] | None, row: RowSchema, *, untyped: bool) -> Incompatible:
    """The error for a schema without a column of the key. Untyped objects don't have columns that are always null."""
    if "value" in row.names and _AIVEN.issuperset(row.names):
        step = (
            "Its fields are those that Aiven's S3 sink puts around a record: set format.output.envelope=false and "
            "format.output.fields=value there (as JSON with format.output.type=jsonl)"
        )
    elif stored is None:
        step = _correct("record_key")
    else:
        step = (
            f"If the source renamed it, put `columns: {{rename: {{NEW: {name}}}}}` into the table's rule, "
            f"{PUSH_AND_RETRY}. Otherwise let the connector send it, or rebuild the table with another record_key"
        )
    absence = "null or absent in all records of the object" if untyped else "not a column of this schema"
    return Incompatible(
        f"The record key {name} is {absence}",
        column=name,
        types=[(stored or {}).get(name, ""), "null or absent" if untyped else "absent"],
        next_step=f"If it is null, let the source write a value of it in every row. {step}" if untyped else step,
    )


def _correct(setting: str) -> str:
    """The next step where a setting names no column of the schema and the table has no data yet."""
    return (
        f"Correct `{setting}` in tables.yaml, run `sluice config push`, then "
        f"`sluice quarantine retry --code {Incompatible.code}`"
    )


def _lacked(setting: str) -> str:
    """The next step where an object lacks the column of a setting, which other objects of the table may have."""
    return (
        "If other objects have the column, let the source write it with every row that is no full load's, and upload "
        f"the object again. Otherwise c{_correct(setting)[1:]}"
    )


def _check_frozen(evolution: Evolution) -> None:
    """Raise SchemaFrozen for the first column that would change the table."""
    for change in evolution.changes:
        if change.change in (ADDED, PROMOTED, REWRITTEN):
            new = change.change == ADDED
            described = f"is new ({change.new})" if new else f"is {change.new} and the table has {change.old}"
            raise SchemaFrozen(
                f"The table's schema is frozen, and column {change.column[:100]} {described}",
                column=change.column[:100],
                types=[change.old or "", change.new],
            )


def _check_names(row: RowSchema) -> None:
    """Raise Incompatible where a renamed column gets the name of another one."""
    written_names: dict[str, str] = {}
    for column in row.columns:
        same = written_names.setdefault(column.name.lower(), column.written_name)
        if same != column.written_name:
            raise Incompatible(
                f"The source's columns {same} and {column.written_name} would both be {column.name}",
                column=column.name,
                types=[same, column.written_name],
                next_step="Give one of them another name in the rule's `columns: {rename: ...}` and push it, then "
                "`sluice quarantine retry --code incompatible_schema`",
            )


_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY = re.compile(r"array<(.*)>")
_PROMOTIONS = {("int", "bigint"), ("float", "double")}
_RAW_PAIRS = (
    {"timestamp", "bigint"},
    {"timestamp", "string"},
    {"date", "int"},
    {"string", "bigint"},
    {"string", "int"},
)


@dataclass(frozen=True)
class Widening:
    """The type (Spark's name) that holds stored and written values, and the work of changing to it (`change`)."""

    type: str
    change: str


def widen(name: str, stored: str, written: str) -> Widening:
    """The type of a column of type `stored` after values of type `written`. Raises Incompatible.

    Types are Spark's names: "bigint", "decimal(18,4)", "array<int>".
    """
    if stored == written:
        return Widening(stored, SAME)
    if (stored, written) in _PROMOTIONS:
        return Widening(written, PROMOTED)
    if (written, stored) in _PROMOTIONS:
        return Widening(stored, NARROWER)
    old, new = _decimal(stored), _decimal(written)
    if old and new:
        return _wider_stored_decimal(name, stored, written, old, new)
    items, new_items = _ARRAY.fullmatch(stored), _ARRAY.fullmatch(written)
    if items and new_items:
        inner = widen(name, items[1], new_items[1])
        # Hudi's reader casts a column of an older file, but not the items of a list ("Nested types with type changes").
        return Widening(f"array<{inner.type}>", REWRITTEN if inner.change == PROMOTED else inner.change)
    raise incompatible(name, stored, written)


def incompatible(name: str, stored: str, written: str, why: str = "", next_step: str | None = None) -> Incompatible:
    """The error for a column whose types have no common type."""
    step = next_step or (
        f"Change it back to {stored} at the source, and update the rows of the waiting objects there; or keep the new "
        f"type in another column: put `columns: {{rename: {{{name}: NAME}}}}` into the table's rule, {PUSH_AND_RETRY}"
    )
    message = f"Column {name} is {written} and the table has {stored}{f': {why}' if why else ''}"
    by_setting = (
        stored == "string" or {stored, written} in _RAW_PAIRS
    )  # a change of the rule may make such a difference
    restore = ". If the rule's `raw` or `columns` was changed, restore that, push and retry" if by_setting else ""
    return Incompatible(message, next_step=f"{step}{restore}", column=name, types=[stored, written])


def _decimal(type_name: str) -> tuple[int, int] | None:
    matched = _DECIMAL.fullmatch(type_name)
    return (int(matched[1]), int(matched[2])) if matched else None


def _wider_stored_decimal(name: str, stored: str, written: str, old: tuple[int, int], new: tuple[int, int]) -> Widening:
    """A decimal with the longer integer part and the longer fraction.

    Stored decimals are fixed-length bytes without their scale. Where Hudi 1.0 rewrites a file it keeps the bytes: under
    another scale 1.25 silently becomes 0.125, and another length fails. So one commit rewrites all files.
    """
    scale = max(old[1], new[1])
    precision = max(old[0] - old[1], new[0] - new[1]) + scale
    if (precision, scale) == old:
        return Widening(stored, NARROWER)
    if precision > MAX_PRECISION:
        raise incompatible(
            name, stored, written, f"together they need {precision} digits, and a decimal has {MAX_PRECISION}"
        )
    in_place = scale == old[1] and _bytes(precision) == _bytes(old[0])
    return Widening(f"decimal({precision},{scale})", PROMOTED if in_place else REWRITTEN)


def _bytes(precision: int) -> int:
    """Bytes of a two's complement number of so many digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8
