"""Judges whether the values of columns keep the unit, or the form of their text, that the table's have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, islice

from sluice.changes.log_restart import SeenObject
from sluice.config.table import TableConfig
from sluice.errors import SluiceError
from sluice.schema.evolution import ANOTHER_TOPIC, incompatible
from sluice.schema.meaning import AS_NUMBER, AS_TEXT

MOST_CHARACTERS = 100_000  # of names and units, which the table's item holds
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
            units = dict(islice(own.items(), sum(size <= MOST_CHARACTERS for size in sizes)))
    return units, refused
