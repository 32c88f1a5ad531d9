"""Refuses or parks objects whose values don't compare with their table's.

They are changes of another source table, values of columns with another unit or form of their text, and values of
what a rule names to order changes in another form: those of one form alone compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from sluice.changes.log_restart import SeenObject
from sluice.changes.source_tables import parts_of
from sluice.config.table import TableConfig
from sluice.errors import OtherSourceTable, SluiceError, Unordered
from sluice.schema.capture_order import BETWEEN, NO_UNIT, UNITS_OF_NUMBERS, place_form, years_between
from sluice.schema.evolution import ANOTHER_TOPIC, incompatible
from sluice.schema.meaning import AS_NUMBER, AS_TEXT


@dataclass(frozen=True)
class SourceMark:
    """The source table whose changes were merged under a generation, as `source_tables.source_table` names it."""

    generation: int
    table: str


def judge_sources(
    before: SourceMark | None, seen: Sequence[SeenObject], config: TableConfig
) -> tuple[SourceMark | None, dict[str, OtherSourceTable]]:
    """The mark after the accepted objects, and the refused ones by hash (`one-source-table`).

    The first object decides. What a column of the table names of the source (`TableConfig.source_words`) may differ.
    """
    if config.merged:
        return None, {}
    compared = [word not in config.source_words for word in ("db", "schema", "table")]
    table = before.table if before is not None and before.generation == config.generation else None
    refused: dict[str, OtherSourceTable] = {}
    for item in seen:
        others = [name for name in item.source_tables if not _is_same(name, table or item.source_tables[0], compared)]
        if others:
            refused[item.object] = OtherSourceTable(
                f"The object has changes of the source table {others[0]}, and {config.table} holds those of "
                f"{table or item.source_tables[0]}",
                found=others[0],
                held=table or item.source_tables[0],
            )
        elif table is None and item.source_tables:
            table = item.source_tables[0]
    return (before if table is None else SourceMark(config.generation, table)), refused


def _is_same(one: str, other: str, compared: Sequence[bool]) -> bool:
    """Whether two names may be of one table: a connector may leave out its database or its schema."""
    parts = zip(parts_of(one), parts_of(other), compared)
    return all(part == own or not part or not own or not counts for part, own, counts in parts)


MOST_UNIT_CHARACTERS = 100_000  # of names and units, which the table's item holds
# A number's text in a key is the one that sources write, too.
_ONE_FORM = {AS_NUMBER, AS_TEXT}


def judge_units(
    before: Mapping[str, str], seen: Sequence[SeenObject], config: TableConfig
) -> tuple[Mapping[str, str], dict[str, SluiceError]]:
    """The table's units by column after the accepted objects, and the refused ones by hash (`equals-its-source`).

    The first object decides, since stored values of one type show no unit. A rebuild decides again.
    """
    units = dict(before)
    refused: dict[str, SluiceError] = {}
    for item in seen:
        own = dict(units)
        for name, unit in item.units:
            held = own.setdefault(name, unit)
            if held != unit and {held, unit} != _ONE_FORM:
                of_key = name in config.record_key
                refused[item.object] = incompatible(
                    name,
                    held,
                    unit,
                    "it is part of the table's key" if of_key else "nothing would tell the stored values apart",
                    ANOTHER_TOPIC if of_key else None,
                )
        if item.object not in refused:
            sizes = accumulate(len(name) + len(unit) for name, unit in own.items())
            units = dict(islice(own.items(), sum(size <= MOST_UNIT_CHARACTERS for size in sizes)))
    return units, refused


# A writer that changes the unit goes on with times near the former ones. Counters look like times decades apart.
_MOST_YEARS = 10


@dataclass(frozen=True)
class FormMark:
    """The highest place with a form that was merged under a generation, by `TableConfig.orders`; "" where none has."""

    generation: int
    highest: tuple[str, ...]


def judge_forms(
    before: FormMark | None, seen: Sequence[SeenObject], config: TableConfig
) -> tuple[FormMark | None, dict[str, str], dict[str, SluiceError]]:
    """The mark after the accepted objects, why others (by hash) are parked, and the refused ones (`log-restart`).

    Parked are objects whose values have another unit or form than the table's: they would sort before, or after, all
    of the table's rows. Refused are those that hold two forms. Numbers that may count anything are never judged.
    """
    highest = [""] * len(config.orders)
    if before is not None and before.generation == config.generation and len(before.highest) == len(highest):
        highest = list(before.highest)
    parked: dict[str, str] = {}
    refused: dict[str, SluiceError] = {}
    for item in seen:
        forms = [{str(place_form(place)): place for place in places} for places in item.places]
        mixed = next((own for own in forms if len(own) > 1 and _are_certain(own)), None)
        if mixed is not None:
            name = config.orders[forms.index(mixed)]
            texts = " and ".join(sorted(mixed))
            refused[item.object] = Unordered(
                f"What orders changes, {name}, holds {texts} in one object, which don't compare",
                field=name,
                value=texts,
                next_step="Let the source write one unit, or one form of time, in every row, and upload the object "
                "again; discard this one",
            )
            continue
        for name, own, held in zip(config.orders, forms, highest):
            table_form = place_form(held) if held else None
            is_timed = table_form not in (None, NO_UNIT) and not {str(table_form), NO_UNIT} & own.keys()
            if is_timed and any(years_between(held, place) <= _MOST_YEARS for place in own.values()):
                parked[item.object] = _describe(name, " and ".join(own), str(table_form))
        if item.object not in parked:
            highest = [_after(held, own) for own, held in zip(forms, highest)] or highest
    mark = FormMark(config.generation, tuple(highest)) if any(highest) else before
    return mark, parked, refused


def _after(held: str, own: dict[str, str]) -> str:
    """The highest place with an object's. A counter, whose numbers have no unit or grew from one to another, stays."""
    if held and place_form(held) == NO_UNIT or not own:
        return held
    return own.get(NO_UNIT) or (BETWEEN[0] if len(own) > 1 else max(held, *own.values()))


def _are_certain(forms: dict[str, str]) -> bool:
    """Whether places have several forms indeed: numbers may also have grown from one to the other."""
    are_near = years_between(min(forms.values()), max(forms.values())) <= _MOST_YEARS
    return are_near and NO_UNIT not in forms and not forms.keys() <= UNITS_OF_NUMBERS


def _describe(name: str, own: str, held: str) -> str:
    return (
        f"what orders changes, {name}, holds {own}, and in the table's rows {held}, which don't compare; let the "
        "source write the former form again, and run `sluice quarantine discard` for these objects; or, if all later "
        "changes have the new form, raise the table's `generation` in tables.yaml and run `sluice config push`"
    )
