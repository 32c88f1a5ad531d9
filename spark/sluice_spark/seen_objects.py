"""Brings what read tasks saw of their objects back to the driver, beside the rows."""

from __future__ import annotations

from typing import Dict, List, Sequence

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from sluice.log_restart import SeenObject
from sluice.manifest import ManifestObject

Seen = Dict[str, SeenObject]


class _ByObject(AccumulatorParam[Seen]):
    """A task that runs twice says the same twice: what is added is known by its object."""

    def zero(self, value: Seen) -> Seen:
        return {}

    def addInPlace(self, value1: Seen, value2: Seen) -> Seen:
        value1.update(value2)
        return value1


class SeenObjects:
    """One read's. Filled while Spark computes the rows: ask after the first action on them."""

    def __init__(self, context: SparkContext) -> None:
        self._seen: Accumulator[Seen] = context.accumulator({}, _ByObject())

    def add(self, seen: SeenObject) -> None:
        """From a task."""
        self._seen.add({seen.object: seen})

    def take(self, objects: Sequence[ManifestObject]) -> List[SeenObject]:
        """What was seen of these objects, in the order of their admission. It is forgotten here: Spark keeps accumulators for ever."""
        seen = dict(self._seen.value)
        self._seen.value.clear()
        return [
            seen[item.id.hash]
            for item in sorted(objects, key=lambda item: (item.admitted_at, item.id))
            if item.id.hash in seen
        ]
