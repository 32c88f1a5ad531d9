"""How much the driver itself reads and decides: of small parts, where a Spark job takes longer to plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sluice.admission.routing import AVRO, PARQUET
from sluice.batch.manifest import ManifestObject
from sluice.config.limits import Limits
from sluice.hudi.write_choices import MIB

# Parts that are decided in the driver: Spark's plan of a merge takes longer than so many changes.
MOST_OBJECTS, MOST_BYTES, MOST_CHANGES = 100, 16 * MIB, 50_000
MOST_DECODED_BYTES = 32 * MIB  # of all objects, whose bytes may be compressed
# Parts whose objects are read in the driver, too: a Spark job takes longer to plan. Others are read in tasks.
OBJECTS_IN_DRIVER, OBJECT_BYTES_IN_DRIVER = 25, MIB
# Of JSON and CSV, whose values take up to a hundred times their text while they are parsed: the text of all objects.
TEXT_BYTES_IN_DRIVER = 2 * MIB
# Rows of an object that the driver sets aside; each is kept with some of its content.
BAD_ROWS_IN_DRIVER = 1_000


def are_few(objects: Sequence[ManifestObject]) -> bool:
    """Whether the driver itself reads the objects."""
    return len(objects) <= OBJECTS_IN_DRIVER and sum(item.size for item in objects) <= OBJECT_BYTES_IN_DRIVER


def in_driver(limits: Limits, *, format: str, objects: int) -> Limits:
    """The limits of a table for one of so many objects that the driver reads.

    An object beyond them raises ExpansionLimit or TooManyBadRows, and is read in a task, by the table's own limits.
    """
    most = MOST_DECODED_BYTES if format in (AVRO, PARQUET) else 2 * TEXT_BYTES_IN_DRIVER // objects
    return replace(
        limits,
        object_rows=min(MOST_CHANGES, limits.object_rows),
        decoded_bytes=min(most, limits.decoded_bytes),
        quarantined_rows=min(BAD_ROWS_IN_DRIVER, limits.quarantined_rows),
    )
