"""How much the driver itself reads and decides: of small parts, where a Spark job takes longer to plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sluice.admission.routing import AVRO, PARQUET
from sluice.batch.manifest import ManifestObject
from sluice.config.limits import Limits
from sluice.hudi.write_choices import MIB

# Parts that are decided in the driver: a change takes some 50 us there, and Spark reads every stored key at 13 us.
MOST_OBJECTS, MOST_BYTES, MOST_CHANGES = 100, 48 * MIB, 150_000
MOST_DECODED_BYTES = 96 * MIB  # of all objects, whose bytes may be compressed
# Parts whose objects are read in the driver, too: a Spark job takes longer to plan. Others are read in tasks.
OBJECTS_IN_DRIVER, OBJECT_BYTES_IN_DRIVER = 25, MIB
# Of JSON and CSV, whose values take up to a hundred times their text while they are parsed: the text of all objects.
TEXT_BYTES_IN_DRIVER = 2 * MIB
# Rows of an object that the driver sets aside; each is kept with some of its content.
BAD_ROWS_IN_DRIVER = 1_000


def are_few(objects: Sequence[ManifestObject]) -> bool:
    """Whether the driver itself reads the objects."""
    return len(objects) <= OBJECTS_IN_DRIVER and sum(item.size for item in objects) <= OBJECT_BYTES_IN_DRIVER


def for_driver(limits: Limits, *, format: str, objects: int, in_tasks: bool) -> Limits:
    """The limits of a table for one of so many objects that the driver decides about, and reads unless `in_tasks`.

    An object beyond them raises ExpansionLimit or TooManyBadRows, and is read in a task, by the table's own limits.
    """
    in_text = format not in (AVRO, PARQUET) and not in_tasks
    most = 2 * TEXT_BYTES_IN_DRIVER // objects if in_text else MOST_DECODED_BYTES
    return replace(
        limits,
        object_rows=min(MOST_CHANGES, limits.object_rows),
        decoded_bytes=min(most, limits.decoded_bytes),
        quarantined_rows=min(BAD_ROWS_IN_DRIVER, limits.quarantined_rows),
    )
