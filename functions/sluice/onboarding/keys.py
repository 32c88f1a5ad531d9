"""Which columns identify a topic's rows, by the Kafka key, by what deletions tell, by uniqueness and by name.

What a few rows of a topic show about its columns: nulls, distinct values, repeats, and what deletions still tell.

One decision of a proposed rule: what is proposed, how sure that is, and what speaks for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from sluice.changes.hidden_columns import CREATE, DELETE, MESSAGE, SNAPSHOT_READ, TRUNCATE
from sluice.names import COLUMN
from sluice.schema.avro import ENVELOPE, WriterSchema
from sluice.schema.columns import ARRAY, BOOLEAN, BYTES, DOUBLE, FLOAT, JSON, Column

ROWS_ENOUGH = 10  # fewer rows are unique in nearly every column
SHOWN = 4  # candidates of one choice
PAIRS_OF = 8  # columns that are tried two by two
_BY_NAME_AND_DELETIONS = 12  # the score at which few rows are enough
_KEYLESS = frozenset({FLOAT, DOUBLE, BOOLEAN, ARRAY, JSON, BYTES})  # Hudi's key is text: these have several, or none


def record_key(
    writer: WriterSchema,
    table: str,
    *,
    rows: Sequence[SampledRow],
    facts: Sequence[ColumnFacts],
    changes: Sequence[SampledRow],
    kafka_key: tuple[str, ...] | None,
    key_file: str | None,
    inferred: bool,
) -> Choice:
    """The columns that identify a row. `rows` are those to judge by, with the `facts` of each column; `changes` all that were read.

    `table` is the bare name, "" where there is none; `kafka_key` are the Kafka key's fields, read from `key_file`.
    `inferred` schemas say of no column that it can't be null.
    """
    columns = {column.name: column for column in writer.row.columns}
    if kafka_key:
        absent = [name for name in kafka_key if name not in columns]
        if not absent:
            return _by_kafka_key(kafka_key, key_file, rows)
    described, deletions = describe_by_deletions(changes, writer.row.names)
    candidates = sorted(
        (
            _candidate(columns[fact.name], fact, table, described, deletions, inferred, place)
            for place, fact in enumerate(facts)
            if _may_be_key(columns[fact.name], fact)
        ),
        key=lambda found: -found[0],
    )
    others = tuple((name,) for _, name, _ in candidates[1:SHOWN])
    together = tuple(name for name in writer.row.names if name in described)
    if (
        len(rows) >= ROWS_ENOUGH
        and 1 < len(together) <= len(columns) // 2
        and not {name for _, name, _ in candidates} & described
        and not repeats(together, rows)
    ):
        return Choice(
            together,
            LIKELY,
            (
                f"the only columns that {counted(deletions, 'deletion')} tell",
                f"together unique in {counted(len(rows), 'row')}",
            ),
            others,
        )
    if not candidates:
        return _nearly_a_key(table, rows, facts, described, deletions) or _by_pairs(columns, rows, facts)
    score, name, evidence = candidates[0]
    reasons = list(evidence)
    if score < 4:
        reasons.append(
            "no name, deletion or Kafka key tells it from the other unique columns"
            if others
            else "its name doesn't say that it is the key"
        )
    elif len(rows) < ROWS_ENOUGH and score < _BY_NAME_AND_DELETIONS:
        reasons.append(f"{counted(len(rows), 'row')} {'is' if len(rows) == 1 else 'are'} too few to tell")
    elif len(candidates) > 1 and candidates[1][0] == score:
        reasons.append(f"{candidates[1][1]} has as much for it")
    else:
        return Choice((name,), LIKELY, evidence, others)
    return Choice((name,), AMBIGUOUS, tuple(reasons), others)


def _by_kafka_key(key: tuple[str, ...], file: str | None, rows: Sequence[SampledRow]) -> Choice:
    described = f"the Kafka key's fields, from {file}" if file else "the Kafka key's fields"
    nulls = sum(any(row.values.get(name) is None for name in key) for row in rows)
    if nulls:
        return Choice(key, AMBIGUOUS, (described, f"null in {nulls} of {counted(len(rows), 'row')}"))
    return Choice(key, CERTAIN, (described, f"never null in {counted(len(rows), 'row')}"))


def _may_be_key(column: Column, fact: ColumnFacts) -> bool:
    return (
        bool(fact.rows)
        and not fact.nulls
        and fact.distinct == fact.rows
        and column.kind not in _KEYLESS
        and COLUMN.fullmatch(column.name) is not None
    )


def _candidate(
    column: Column, fact: ColumnFacts, table: str, described: frozenset[str], deletions: int, inferred: bool, place: int
) -> tuple[int, str, tuple[str, ...]]:
    """A column's score and what makes it: 8 what deletions tell, 4 the table's own name, 2 an identifier's name, 1 the first column."""
    evidence = [f"unique and never null in {counted(fact.rows, 'row')}"]
    score = 0
    if described == {column.name}:
        score += 8
        evidence.append(f"the only column that {counted(deletions, 'deletion')} tell{'s' if deletions == 1 else ''}")
    own, identifier = _names_itself(column.name, table)
    if own:
        score += 4
        evidence.append("its name is the table's own identifier")
    elif identifier:
        score += 2
        evidence.append("its name is an identifier's")
    if place == 0:
        score += 1
        evidence.append("the first column")
    if not inferred and column.nullable:
        score -= 4
        evidence.append("but the schema lets it be null")
    return score, column.name, tuple(evidence)


def _names_itself(column: str, table: str) -> tuple[bool, bool]:
    """Whether a column's name is that of its own table's identifier, and whether of any."""
    plain, own = column.lower().replace("_", ""), table.lower().replace("_", "")
    if plain in ("id", "uuid", "guid", "pk", "key"):
        return True, True
    if not plain.endswith("id"):
        return False, plain.endswith(("key", "no", "number", "code"))
    stem = plain[:-2]
    return len(stem) >= 3 and bool(own) and (
        own.startswith(stem) or stem.startswith(own) and len(stem) <= len(own) + 2
    ), True


def _nearly_a_key(
    table: str, rows: Sequence[SampledRow], facts: Sequence[ColumnFacts], described: frozenset[str], deletions: int
) -> Choice | None:
    """A column that repeats, as keys of rows that were deleted and made again do, and that its name or deletions speak for."""
    for fact in facts:
        speaks = described == {fact.name} or _names_itself(fact.name, table)[0]
        if speaks and fact.rows and not fact.nulls and COLUMN.fullmatch(fact.name):
            why = (
                f"the only column that {counted(deletions, 'deletion')} tell"
                if described == {fact.name}
                else "its name is the table's own identifier"
            )
            return Choice(
                (fact.name,),
                AMBIGUOUS,
                (
                    why,
                    f"but {fact.rows - fact.distinct} of {counted(fact.rows, 'row')} repeat it, as rows that are made again do, or captured twice",
                ),
            )
    return None


def _by_pairs(columns: Mapping[str, Column], rows: Sequence[SampledRow], facts: Sequence[ColumnFacts]) -> Choice:
    """No column is a key by itself: pairs that are, for somebody to choose from."""
    fit = [
        fact
        for fact in facts
        if fact.rows and not fact.nulls and columns[fact.name].kind not in _KEYLESS and COLUMN.fullmatch(fact.name)
    ]
    named = sorted(fit, key=lambda fact: (not _names_itself(fact.name, "")[1], -fact.distinct))[:PAIRS_OF]
    pairs = tuple(
        pair
        for pair in combinations([fact.name for fact in named], 2)
        if len(rows) >= ROWS_ENOUGH and not repeats(pair, rows)
    )
    why = f"no column is unique and never null in {counted(len(rows), 'row')}" if rows else "no rows were read"
    return Choice(
        (),
        AMBIGUOUS,
        (why, "these pairs are unique" if pairs else "where rows have no key at all: append_only: true"),
        pairs[:SHOWN],
    )


_EMPTY = (None, "", 0, False, b"")  # what a deletion carries for a column that the source's log left out


@dataclass(frozen=True)
class SampledRow:
    """One change: its row, whether it is a deletion, and whether it begins the row's life (a snapshot's read or a creation)."""

    values: Mapping[str, Any]
    deleted: bool = False
    first: bool = True
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ColumnFacts:
    """What the sampled rows show about one column. `changed` counts updates that tell both values and differ, of `compared`."""

    name: str
    rows: int
    nulls: int
    distinct: int
    changed: int = 0
    compared: int = 0


def sampled_row(record: Mapping[str, Any], writer: WriterSchema) -> SampledRow | None:
    """A record's row; None for a truncate, a message, or a record that isn't of the writer's form."""
    op = record.get(writer.meta.op) if writer.meta.op else None
    if op in (TRUNCATE, MESSAGE):
        return None
    deleted = op == DELETE or _true(record.get(writer.meta.deleted) if writer.meta.deleted else None)
    before = None
    row: Any = record
    if writer.shape == ENVELOPE:
        before = record.get("before")
        row = record.get("after") if record.get("after") is not None else before
    if not isinstance(row, Mapping):
        return None
    values = {column.name: row.get(column.written_name) for column in writer.row.columns}
    described = (
        {column.name: before.get(column.written_name) for column in writer.row.columns}
        if isinstance(before, Mapping) and not deleted
        else None
    )
    return SampledRow(values, deleted, op in (None, CREATE, SNAPSHOT_READ) and not deleted, described)


def living_rows(rows: Sequence[SampledRow]) -> list[SampledRow]:
    """The rows by which keys can be told: each row's first change where any are known, else all; every one once, as deliveries repeat."""
    alive = [row for row in rows if not row.deleted]
    first = [row for row in alive if row.first]
    seen: set[tuple[Any, ...]] = set()
    found = []
    for row in first or alive:
        key = tuple(sortable(value) for value in row.values.values())
        if key not in seen:
            seen.add(key)
            found.append(row)
    return found


def column_facts(name: str, rows: Sequence[SampledRow], all_rows: Sequence[SampledRow]) -> ColumnFacts:
    """One column over `rows`; whether updates change it, over `all_rows`."""
    values = [row.values.get(name) for row in rows]
    pairs = [(row.before.get(name), row.values.get(name)) for row in all_rows if row.before is not None]
    return ColumnFacts(
        name,
        len(values),
        sum(value is None for value in values),
        len({sortable(value) for value in values if value is not None}),
        sum(before != after for before, after in pairs),
        len(pairs),
    )


def repeats(columns: Sequence[str], rows: Sequence[SampledRow]) -> int:
    """How many rows have values in these columns that another row before them has."""
    return len(rows) - len({tuple(sortable(row.values.get(name)) for name in columns) for row in rows})


def describe_by_deletions(rows: Sequence[SampledRow], columns: Sequence[str]) -> tuple[frozenset[str], int]:
    """The columns that every deletion has a value in and that differ between deletions, and how many deletions there are.

    Where the source's log keeps the key alone, those are the key's: the others come null, or as a default, which is always the same.
    """
    deletions = [row for row in rows if row.deleted]

    def tells(name: str) -> bool:
        values = [row.values.get(name) for row in deletions]
        return not any(map(_is_empty, values)) and (len(values) < 2 or len({sortable(value) for value in values}) > 1)

    return frozenset(name for name in columns if deletions and tells(name)), len(deletions)


def sortable(value: Any) -> Any:
    """A value that sets can hold; 1 and true stay apart, and so do 1 and "1"."""
    if isinstance(value, (dict, list)):
        return repr(value)
    return (type(value).__name__, value)


def _is_empty(value: Any) -> bool:
    return any(value == empty and type(value) is type(empty) for empty in _EMPTY)


def _true(value: Any) -> bool:
    return value is True or value == "true"


CERTAIN, LIKELY, AMBIGUOUS = "certain", "likely", "ambiguous"


@dataclass(frozen=True)
class Choice:
    """One decision of a rule: the value proposed (empty: none), how sure, what speaks for it, and what else could be."""

    value: tuple[str, ...]
    confidence: str
    evidence: tuple[str, ...]
    alternatives: tuple[tuple[str, ...], ...] = ()

    @property
    def decided(self) -> bool:
        """Whether it may go into a rule without anybody choosing."""
        return self.confidence != AMBIGUOUS


def counted(count: int, noun: str) -> str:
    """(2, "row") -> "2 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
