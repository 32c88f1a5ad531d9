"""Entries in quarantine whose key has a newer version that was merged: the older version can be discarded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from sluice.ledger.keys import COMMITTED, PARKED
from sluice.ledger.ports import Ledger
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_cli.ingest.set_aside import SHORT_ID

THREADS = 16
COMPARED = 3  # versions of a key whose times are asked of S3
NAMED = 20  # ids in one command

NewerVersions = Mapping[ObjectId, ObjectRecord]  # by the entry


def newer_versions(
    records: Iterable[ObjectRecord], ledger: Ledger, written_at: Callable[[ObjectId], int | None]
) -> NewerVersions:
    """Return the newer merged version of each entry that has one. Parked objects are left out.

    One query for each key, of one page. `written_at` asks S3 for a version's time (epoch ms, None when it is gone):
    only for versions that a listing found, since these have no sequencer, and for COMPARED of a key at most.
    """
    entries: dict[tuple[str, str], list[ObjectRecord]] = {}
    for record in records:
        if record.state != PARKED:
            entries.setdefault((record.id.bucket, record.id.key), []).append(record)

    def of_key(item: tuple[tuple[str, str], list[ObjectRecord]]) -> list[tuple[ObjectId, ObjectRecord | None]]:
        (bucket, key), of_it = item
        versions = ledger.objects.versions(bucket, key, first_page=True)
        return [(record.id, newer_merged(record, versions, written_at)) for record in of_it]

    with ThreadPoolExecutor(THREADS, thread_name_prefix="versions") as pool:
        found = [each for of_it in pool.map(of_key, entries.items()) for each in of_it]
    return {identity: newer for identity, newer in found if newer is not None}


def newer_merged(
    record: ObjectRecord, versions: Iterable[ObjectRecord], written_at: Callable[[ObjectId], int | None]
) -> ObjectRecord | None:
    """Return a merged version of the entry's key that was written after it, None where none is known.

    The time of admission doesn't tell: notices come in any order, and a listing has the newest version first.
    """
    merged = [each for each in versions if each.state == COMMITTED and each.id != record.id]
    later = [each for each in merged if _follows(each.sequencer, record.sequencer)]
    if later:
        return max(later, key=lambda each: (each.sequencer or "", each.id))
    unordered = [each for each in merged if not (each.sequencer and record.sequencer)][-COMPARED:]
    own = written_at(record.id) if unordered else None
    if own is None:
        return None
    return next((each for each in reversed(unordered) if (written_at(each.id) or 0) > own), None)


def _follows(sequencer: str | None, other: str | None) -> bool:
    """Compare two sequencers of one key as S3 documents it: hexadecimal text, the shorter one padded on the right.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    """
    if not (sequencer and other):
        return False
    digits = max(len(sequencer), len(other))
    return sequencer.upper().ljust(digits, "0") > other.upper().ljust(digits, "0")


def discard_advice(records: Sequence[ObjectRecord]) -> str:
    """What to do about entries with a newer version, in one command for the first NAMED of them."""
    what = "a newer version of this key is merged; discard it"
    if len(records) > 1:
        what = "newer versions of these keys are merged; discard the entries"
    command = " ".join(["sluice quarantine discard", *(record.id.hash[:SHORT_ID] for record in records[:NAMED])])
    more = f" and {len(records) - NAMED:,} more" if len(records) > NAMED else ""
    return f"{what}: `{command}`{more}"
