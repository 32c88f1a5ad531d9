"""Proposes the columns that identify a topic's rows: by the Kafka key, by deletions, by uniqueness and by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from sluice.names import COLUMN, counted
from sluice.onboarding.samples import ColumnFacts, SampledRow, TopicSample, columns_of_deletions, repeats
from sluice.schema.avro import WriterSchema
from sluice.schema.columns import ARRAY, BOOLEAN, BYTES, DATE, DOUBLE, FLOAT, ISO_DATE, JSON, Column

CERTAIN, LIKELY, AMBIGUOUS = "certain", "likely", "ambiguous"

SHOWN = 4  # candidates of one choice
ROWS_ENOUGH = 10  # in fewer rows nearly every column is unique
_PAIRS_OF = 8  # columns that are tried in pairs
# Hudi's key is text, and a value of these types has several texts, or none.
_KEYLESS = frozenset({FLOAT, DOUBLE, BOOLEAN, ARRAY, JSON, BYTES})

_MOST_COLUMNS = 3  # of a key of several columns that is looked for
_OFTEN = 0.9  # of rows: the most values that a column of such a key has, since each of them repeats
# Words in the names of what is measured, counted or paid: never a key, though unique in a sample by chance.
_MEASURES = frozenset(
    "price amount qty quantity discount total subtotal cost fee tax rate score balance weight height width length "
    "percent percentage pct sum avg average min max count salary value revenue margin commission temperature duration "
    "latitude longitude lat lon lng paid".split()
)
_LINE = frozenset(("line", "seq", "sequence", "position", "ordinal", "index", "idx"))  # within another column's rows
_DAYS = frozenset(("date", "day", "month", "year", "hour"))
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")

# Scores of a candidate. A key needs at least the table's own name or the deletions on its side, and both of them where
# few rows were read.
_BY_DELETIONS, _OWN_NAME, _NAME_OF_A_KEY, _FIRST_COLUMN, _NULLABLE = 8, 4, 2, 1, -4
_ENOUGH, _ENOUGH_FOR_FEW_ROWS = _OWN_NAME, _BY_DELETIONS + _OWN_NAME


@dataclass(frozen=True)
class Choice:
    """One decision of a rule: the proposed value (empty: none), its confidence, the evidence, and other candidates."""

    value: tuple[str, ...]
    confidence: str
    evidence: tuple[str, ...]
    alternatives: tuple[tuple[str, ...], ...] = ()

    @property
    def decided(self) -> bool:
        """Whether a rule may have the value without anybody choosing it."""
        return self.confidence != AMBIGUOUS


@dataclass(frozen=True)
class _Candidate:
    score: int
    name: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class _Deletions:
    """The columns that deletions have values in, and how many deletions were read."""

    columns: frozenset[str]
    count: int


def record_key(
    sample: TopicSample, writer: WriterSchema, table: str, rows: Sequence[SampledRow], facts: Sequence[ColumnFacts]
) -> Choice:
    """Propose the record key.

    `rows` are distinct rows, `facts` those of each column in them. `table` is the bare name, or "" if it is open.
    """
    columns = {column.name: column for column in writer.row.columns}
    if sample.key_fields and all(name in columns for name in sample.key_fields):
        return _by_kafka_key(sample.key_fields, sample.key_file, rows)
    deletions = _Deletions(*columns_of_deletions(sample.rows, writer.row.names))
    # A schema in which every column can be null, as Spark and pyarrow write it, doesn't know which ones can't.
    nullable_known = not sample.inferred and not all(column.nullable for column in columns.values())
    candidates = sorted(
        (
            _candidate(columns[fact.name], fact, table, deletions, nullable_known=nullable_known, first=place == 0)
            for place, fact in enumerate(facts)
            if fact.rows and not fact.nulls and fact.distinct == fact.rows and _fits_a_key(columns[fact.name])
        ),
        key=lambda candidate: -candidate.score,
    )
    together = tuple(name for name in writer.row.names if name in deletions.columns)
    if (
        len(rows) >= ROWS_ENOUGH
        and 1 < len(together) <= len(columns) // 2
        and not {candidate.name for candidate in candidates} & deletions.columns
        and not repeats(together, rows)
    ):
        evidence = (
            f"the only columns with values in {counted(deletions.count, 'deletion')}",
            f"together unique in {counted(len(rows), 'row')}",
        )
        return Choice(together, LIKELY, evidence, _others(candidates))
    if candidates and (candidates[0].score >= _NAME_OF_A_KEY or _best(candidates, len(rows)).decided):
        return _best(candidates, len(rows))
    several = _of_several(columns, rows, facts, candidates)
    if several is not None:
        return several
    if not candidates:
        return _nearly_a_key(table, rows, facts, deletions) or _by_pairs(columns, rows, facts)
    best = _best(candidates, len(rows))
    return _beside(best, _nearly_a_key(table, rows, facts, deletions) or _by_pairs(columns, rows, facts))


def _beside(best: Choice, other: Choice) -> Choice:
    """Join a unique column that nothing else speaks for and what else could be the key: neither is taken unasked."""
    if other.value:
        return Choice(other.value, AMBIGUOUS, other.evidence, (best.value, *best.alternatives)[:SHOWN])
    no_key = "if rows have no key at all: append_only: true"
    unique = {name for columns in (best.value, *best.alternatives) for name in columns}
    pairs = [pair for pair in other.alternatives if unique.isdisjoint(pair)]
    others = (*best.alternatives, *pairs)[:SHOWN]
    return Choice(best.value, AMBIGUOUS, (*best.evidence, no_key), others)


def _by_kafka_key(key: tuple[str, ...], file: str | None, rows: Sequence[SampledRow]) -> Choice:
    origin = f"the Kafka key's fields, from {file}" if file else "the Kafka key's fields"
    nulls = sum(any(row.values.get(name) is None for name in key) for row in rows)
    if nulls:
        return Choice(key, AMBIGUOUS, (origin, f"null in {nulls} of {counted(len(rows), 'row')}"))
    return Choice(key, CERTAIN, (origin, f"never null in {counted(len(rows), 'row')}"))


def _fits_a_key(column: Column) -> bool:
    return column.kind not in _KEYLESS and COLUMN.fullmatch(column.name) is not None and not is_measure(column)


def is_measure(column: Column) -> bool:
    """True for a column that is named or typed as a measure, and not as an identifier."""
    words = [word.lower() for word in _WORD.findall(column.name)]
    return column.places > 0 or not _names_itself(column.name, "")[1] and not _MEASURES.isdisjoint(words)


def keys_of_several(
    columns: Mapping[str, Column], rows: Sequence[SampledRow], facts: Sequence[ColumnFacts]
) -> tuple[tuple[str, ...], ...]:
    """The smallest sets of columns, each named as an identifier, a line or a day, that no two rows share.

    Columns that are unique alone take no part. Those in front of the table and those without days come first.
    """
    fit = [
        fact.name
        for fact in facts
        if 1 < fact.distinct < fact.rows and not fact.nulls and _may_join(columns[fact.name])
    ]
    candidates = sorted(fit, key=lambda name: _is_day(columns[name]))[:_PAIRS_OF]
    for count in range(2, _MOST_COLUMNS + 1):
        keys = tuple(several for several in combinations(candidates, count) if not repeats(several, rows))
        if keys:
            return keys
    return ()


def _may_join(column: Column) -> bool:
    words = {word.lower() for word in _WORD.findall(column.name)}
    likely = _names_itself(column.name, "")[1] or not _LINE.isdisjoint(words) or _is_day(column)
    return likely and _fits_a_key(column)


def _is_day(column: Column) -> bool:
    return column.kind in (DATE, ISO_DATE) or not _DAYS.isdisjoint(map(str.lower, _WORD.findall(column.name)))


def _of_several(
    columns: Mapping[str, Column],
    rows: Sequence[SampledRow],
    facts: Sequence[ColumnFacts],
    candidates: Sequence[_Candidate],
) -> Choice | None:
    """Propose a key of several columns, as of the lines of an order. It stays open where anything else may be it."""
    keys = keys_of_several(columns, rows, facts)
    if not keys:
        return None
    best, *rest = keys
    distinct = {fact.name: fact.distinct for fact in facts}
    evidence = [f"together unique and never null in {counted(len(rows), 'row')}, and named as identifiers"]
    others = (*rest, *((candidate.name,) for candidate in candidates))[:SHOWN]
    if len(rows) < ROWS_ENOUGH:
        evidence.append(f"{counted(len(rows), 'row')} {'is' if len(rows) == 1 else 'are'} too few")
    elif others:
        evidence.append("other columns are unique as well")
    elif any(_is_day(columns[name]) or distinct[name] > _OFTEN * len(rows) for name in best):
        evidence.append("nearly each row has a value of its own in one of them, or one is a day")
    else:
        return Choice(best, LIKELY, tuple(evidence))
    return Choice(best, AMBIGUOUS, tuple(evidence), others)


def _candidate(
    column: Column, fact: ColumnFacts, table: str, deletions: _Deletions, *, nullable_known: bool, first: bool
) -> _Candidate:
    """Score a column. Whether it can be null counts where the schema knows that of its columns."""
    evidence = [f"unique and never null in {counted(fact.rows, 'row')}"]
    score = 0
    if deletions.columns == {column.name}:
        score += _BY_DELETIONS
        evidence.append(f"the only column with values in {counted(deletions.count, 'deletion')}")
    own, identifier = _names_itself(column.name, table)
    if own:
        score += _OWN_NAME
        evidence.append("named as the table's identifier")
    elif identifier:
        score += _NAME_OF_A_KEY
        evidence.append("named as an identifier")
    if first:
        score += _FIRST_COLUMN
        evidence.append("the first column")
    if nullable_known and column.nullable:
        score += _NULLABLE
        evidence.append("but nullable in the schema")
    return _Candidate(score, column.name, tuple(evidence))


def _best(candidates: Sequence[_Candidate], rows: int) -> Choice:
    """Choose the candidate with the highest score. It stays open if the score or the number of rows is too low."""
    best, *rest = candidates
    others = _others(candidates)
    if best.score < _ENOUGH:
        doubt = (
            "neither name, deletions nor Kafka key set it apart from the other unique columns"
            if others
            else "not named as a key"
        )
    elif rows < ROWS_ENOUGH and best.score < _ENOUGH_FOR_FEW_ROWS:
        doubt = f"{counted(rows, 'row')} {'is' if rows == 1 else 'are'} too few"
    elif rest and rest[0].score == best.score:
        doubt = f"{rest[0].name} has the same evidence"
    else:
        return Choice((best.name,), LIKELY, best.evidence, others)
    return Choice((best.name,), AMBIGUOUS, (*best.evidence, doubt), others)


def _others(candidates: Sequence[_Candidate]) -> tuple[tuple[str, ...], ...]:
    return tuple((candidate.name,) for candidate in candidates[1:SHOWN])


def _names_itself(column: str, table: str) -> tuple[bool, bool]:
    """Return whether a column is named as the identifier of its own table, and whether as one of any table."""
    plain, own = column.lower().replace("_", ""), table.lower().replace("_", "")
    if plain in ("id", "uuid", "guid", "pk", "key"):
        return True, True
    if not plain.endswith("id"):
        return False, plain.endswith(("key", "no", "number", "code"))
    stem = plain[:-2]
    alike = own.startswith(stem) or stem.startswith(own) and len(stem) <= len(own) + 2
    return bool(own) and len(stem) >= 3 and alike, True


def _nearly_a_key(
    table: str, rows: Sequence[SampledRow], facts: Sequence[ColumnFacts], deletions: _Deletions
) -> Choice | None:
    """Propose a column that its name or the deletions speak for, but that repeats or has nulls.

    Keys of rows that were created again repeat.
    """
    for fact in facts:
        by_deletions = deletions.columns == {fact.name}
        speaks = by_deletions or _names_itself(fact.name, table)[0]
        if speaks and fact.distinct and COLUMN.fullmatch(fact.name):
            why = (
                f"the only column with values in {counted(deletions.count, 'deletion')}"
                if by_deletions
                else "named as the table's identifier"
            )
            repeated = fact.rows - fact.nulls - fact.distinct
            doubts = []
            if fact.nulls:
                doubts.append(f"but null in {fact.nulls} of {counted(fact.rows, 'row')}, which would be quarantined")
            if repeated:
                doubts.append(f"but {repeated} of {counted(fact.rows, 'row')} repeat it: {_why_repeated(rows)}")
            return Choice((fact.name,), AMBIGUOUS, (why, *doubts))
    return None


def _why_repeated(rows: Sequence[SampledRow]) -> str:
    """Why distinct rows may share a key. A snapshot reads each row once."""
    if rows and all(row.read for row in rows):
        return "a snapshot reads each row once, so that it is no key unless several snapshots were taken"
    return "rows were created again, or captured twice"


def _by_pairs(columns: Mapping[str, Column], rows: Sequence[SampledRow], facts: Sequence[ColumnFacts]) -> Choice:
    """No single column is a key: offer the pairs of columns that are."""
    fit = [fact for fact in facts if fact.rows and not fact.nulls and _fits_a_key(columns[fact.name])]
    candidates = sorted(fit, key=lambda fact: (not _names_itself(fact.name, "")[1], -fact.distinct))[:_PAIRS_OF]
    pairs = tuple(
        pair
        for pair in combinations([fact.name for fact in candidates], 2)
        if len(rows) >= ROWS_ENOUGH and not repeats(pair, rows)
    )
    why = f"no column is unique and never null in {counted(len(rows), 'row')}" if rows else "no rows were read"
    advice = "these pairs are unique" if pairs else "if rows have no key at all: append_only: true"
    return Choice((), AMBIGUOUS, (why, advice), pairs[:SHOWN])
