"""Decides whether a full dump of a source table is complete, and from which place on it replaces the table.

The object that completes a dump, its marker or itself, brings a truncate at the place where the dump begins: older rows
that the dump lacks are deleted by it, and rows that come late lose to it (`ManifestObject.replaces`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sluice.batch.claim import PendingObject
from sluice.batch.manifest import ManifestObject
from sluice.batch.outcome import Outcome
from sluice.changes.position import encode_floor, first_place, place_of_object
from sluice.config.key_pattern import named_by
from sluice.config.rules.snapshot import FOLDER, GENERATION, OBJECT
from sluice.config.table import TableConfig
from sluice.errors import DumpIncomplete, DumpLacksRows, SluiceError
from sluice.objects import ObjectId

REFUSED = "dumps_refused"  # the count of an outcome without the truncate of a folder that a later one completes


@dataclass(frozen=True)
class DumpFile:
    """A file of a dump. `is_merged`: all of it was committed. `trouble` says why it can't be, until it is retried.

    `modified_at` is in epoch ms.
    """

    id: ObjectId
    modified_at: int
    is_merged: bool = False
    trouble: str | None = None


@dataclass(frozen=True)
class Completion:
    """What becomes of an object that may complete a dump: it `waits` for others, is refused by `error`, or is claimed.

    A claimed one `replaces` what is before this place; None: it deletes nothing.
    """

    replaces: str | None = None
    waits: str | None = None
    error: SluiceError | None = None


Item = TypeVar("Item", bound=ManifestObject)


def as_dump(item: Item, config: TableConfig) -> Item:
    """An object that is a full dump by itself: it replaces what is before it. Any other object stays as it is."""
    order = _order(item.key, config)
    if config.snapshot.replace != OBJECT or item.offset is not None or item.modified_at is None and order is None:
        return item
    return replace(item, replaces=place_of_object(item.key, item.modified_at or 0, order))


def prefix_of(key: str) -> str:
    """The prefix of the keys of a marker's dump."""
    return key.rpartition("/")[0] + "/"


def is_of_dump(item: ManifestObject, carrier: ManifestObject, config: TableConfig) -> bool:
    """Whether an object is of the dump that another one, or itself, completes; of an earlier one counts as that."""
    if config.snapshot.replace == FOLDER:
        return item.key.startswith(prefix_of(carrier.key)) != config.snapshot.awaits_next and item.id != carrier.id
    return config.snapshot.replace == GENERATION or item.id == carrier.id


def complete_folder(
    marker: PendingObject, files: Sequence[DumpFile], config: TableConfig, *, claimed: Collection[ObjectId]
) -> Completion:
    """Whether a folder's dump is complete: each of its `files` was merged, or is `claimed` together with the marker.

    Without files it is refused, unless it may delete all rows: the dump then begins with its marker.
    """
    dump = prefix_of(marker.key)
    unready = _unready(dump, files, claimed)
    if unready is not None:
        return unready
    if files:
        return Completion(_begins({file.id: file.modified_at for file in files}, config))
    if marker.came_before:  # its files have expired since
        return Completion()
    if config.snapshot.most_deleted < 100:
        return Completion(error=DumpIncomplete(f"The dump {dump} has no files", dump=dump))
    return Completion(first_place(marker.modified_at or marker.admitted_at, _order(marker.key, config)))


def folders_around(
    item: ManifestObject, listed: Mapping[ObjectId, int], config: TableConfig
) -> tuple[list[ObjectId], dict[ObjectId, int]]:
    """The other files of an object's dump, and those of the last dump before it, with their times.

    `listed` are the files of all dumps.
    """
    dumps: dict[str, dict[ObjectId, int]] = {}
    for id, at in listed.items():
        dumps.setdefault(_folder(id.key, config), {})[id] = at
    own = dumps.pop(_folder(item.key, config), {})
    begins = {folder: _begins(files, config) for folder, files in dumps.items()}
    own_begin = _begins({item.id: item.modified_at or 0, **own}, config)
    before = [folder for folder in dumps if begins[folder] < own_begin]
    last = max(before, key=lambda folder: begins[folder], default="")
    return [id for id in own if id != item.id], dumps.get(last, {})


def complete_before(
    item: ManifestObject,
    own: Sequence[DumpFile],
    before: Sequence[DumpFile],
    config: TableConfig,
    *,
    claimed: Collection[ObjectId],
) -> Completion:
    """Whether an object is the first of its dump, and so completes the one `before`. `own` are the dump's others."""
    if not before or any(file.is_merged for file in own):
        return Completion()
    unready = _unready(prefix_of(before[0].id.key), before, claimed)
    return unready or Completion(_begins({file.id: file.modified_at for file in before}, config))


def _begins(files: Mapping[ObjectId, int], config: TableConfig) -> str:
    return min(first_place(at, _order(id.key, config)) for id, at in files.items())


def _folder(key: str, config: TableConfig) -> str:
    return _order(key, config) or key.rpartition("/")[0]


def complete_generation(
    marker: PendingObject,
    pending: Iterable[PendingObject],
    set_aside: Sequence[DumpFile],
    *,
    claimed: Collection[ObjectId],
) -> Completion:
    """Whether all objects of a generation are there that came before its marker.

    `pending` are the table's objects, `set_aside` those that can't be merged.
    """
    earlier = [item.key for item in pending if item.age_order < marker.age_order and item.id not in claimed]
    return _unready(prefix_of(marker.key), set_aside, claimed, earlier) or Completion("")


def _unready(
    dump: str, files: Sequence[DumpFile], claimed: Collection[ObjectId], earlier: Sequence[str] | None = None
) -> Completion | None:
    """Why a dump with these files is refused or waits; None where it is complete.

    It waits for the keys `earlier`, by default those of its files that are neither merged nor claimed with it.
    """
    for file in files:
        if file.trouble is not None:
            return Completion(error=incomplete(dump, file.id.key, file.trouble))
    missing = [file.id.key for file in files if not file.is_merged and file.id not in claimed]
    keys = missing if earlier is None else earlier
    if not keys:
        return None
    return Completion(waits=f"The dump {dump} waits for {len(keys):,} of its objects, such as {keys[0]}")


def incomplete(dump: str, key: str, trouble: str) -> SluiceError:
    """The error of a dump with an object that can't be merged: by its key and its trouble."""
    return DumpIncomplete(f"The dump {dump} is not complete: {key} {trouble}", dump=dump, object=key)


def _order(key: str, config: TableConfig) -> str | None:
    name = None if config.key_pattern is None else named_by(config.key_pattern, key)
    return None if name is None else name.order


def floors_of(items: Iterable[ManifestObject], config: TableConfig) -> frozenset[str]:
    """The positions of the truncates that objects bring because they complete dumps."""
    return frozenset(encode_floor(config.generation, item.replaces) for item in items if item.replaces is not None)


def refusal_of(deleted: int, left: int, config: TableConfig) -> SluiceError | None:
    """Why a dump is refused that would delete rows of the table; None where it may. `left` are the rows after it."""
    most = config.snapshot.most_deleted
    if deleted * 100 <= most * (deleted + left):
        return None
    return DumpLacksRows(
        f"The dump would delete {deleted:,} of {deleted + left:,} rows, and the rule's `most_deleted` is {most} %",
        deleted=deleted,
        left=left,
    )


def as_merged(item: ManifestObject, outcome: Outcome) -> ManifestObject:
    """An object as its batch merged it: without the truncate of a dump that was refused.

    An object that is no marker is merged all the same: the dump is another one, or has rows that were set aside.
    """
    holed = item.replaces is not None and any(row.object == item.id.hash for row in outcome.quarantined_rows)
    return replace(item, replaces=None) if holed or outcome.counts.get(REFUSED) else item
