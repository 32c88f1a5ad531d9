"""Which columns identify a topic's rows, by the Kafka key, by what deletions tell, by uniqueness and by name."""

from __future__ import annotations

from itertools import combinations
from typing import FrozenSet, Mapping, Optional, Sequence, Tuple

from sluice.allowed_names import COLUMN
from sluice.avro_schema import WriterSchema
from sluice.choices import AMBIGUOUS, CERTAIN, LIKELY, Choice, counted
from sluice.column_types import ARRAY, BOOLEAN, BYTES, DOUBLE, FLOAT, JSON, Column
from sluice.row_samples import ColumnFacts, SampledRow, repeats, told_by_deletions

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
    kafka_key: Optional[Tuple[str, ...]],
    key_file: Optional[str],
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
    told, deletions = told_by_deletions(changes, writer.row.names)
    candidates = sorted(
        (
            _candidate(columns[fact.name], fact, table, told, deletions, inferred, place)
            for place, fact in enumerate(facts)
            if _may_be_key(columns[fact.name], fact)
        ),
        key=lambda found: -found[0],
    )
    others = tuple((name,) for _, name, _ in candidates[1:SHOWN])
    together = tuple(name for name in writer.row.names if name in told)
    if (
        len(rows) >= ROWS_ENOUGH
        and 1 < len(together) <= len(columns) // 2
        and not {name for _, name, _ in candidates} & told
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
        return _nearly_a_key(table, rows, facts, told, deletions) or _by_pairs(columns, rows, facts)
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


def _by_kafka_key(key: Tuple[str, ...], file: Optional[str], rows: Sequence[SampledRow]) -> Choice:
    told = f"the Kafka key's fields, from {file}" if file else "the Kafka key's fields"
    nulls = sum(any(row.values.get(name) is None for name in key) for row in rows)
    if nulls:
        return Choice(key, AMBIGUOUS, (told, f"null in {nulls} of {counted(len(rows), 'row')}"))
    return Choice(key, CERTAIN, (told, f"never null in {counted(len(rows), 'row')}"))


def _may_be_key(column: Column, fact: ColumnFacts) -> bool:
    return (
        bool(fact.rows)
        and not fact.nulls
        and fact.distinct == fact.rows
        and column.kind not in _KEYLESS
        and COLUMN.fullmatch(column.name) is not None
    )


def _candidate(
    column: Column, fact: ColumnFacts, table: str, told: FrozenSet[str], deletions: int, inferred: bool, place: int
) -> Tuple[int, str, Tuple[str, ...]]:
    """A column's score and what makes it: 8 what deletions tell, 4 the table's own name, 2 an identifier's name, 1 the first column."""
    evidence = [f"unique and never null in {counted(fact.rows, 'row')}"]
    score = 0
    if told == {column.name}:
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


def _names_itself(column: str, table: str) -> Tuple[bool, bool]:
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
    table: str, rows: Sequence[SampledRow], facts: Sequence[ColumnFacts], told: FrozenSet[str], deletions: int
) -> Optional[Choice]:
    """A column that repeats, as keys of rows that were deleted and made again do, and that its name or deletions speak for."""
    for fact in facts:
        speaks = told == {fact.name} or _names_itself(fact.name, table)[0]
        if speaks and fact.rows and not fact.nulls and COLUMN.fullmatch(fact.name):
            why = (
                f"the only column that {counted(deletions, 'deletion')} tell"
                if told == {fact.name}
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
