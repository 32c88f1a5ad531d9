"""Entries in quarantine whose key has a newer version that was merged: the entry can be discarded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from sluice.ledger.keys import COMMITTED, PARKED, SUPERSEDED
from sluice.ledger.records import ObjectRecord
from sluice.objects import ObjectId
from sluice_aws.ledger.ledger import Ledger
from sluice_cli.account.object import discarded

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
        pairs = [pair for of_it in pool.map(of_key, entries.items()) for pair in of_it]
    return {identity: newer for identity, newer in pairs if newer is not None}


def newer_merged(
    record: ObjectRecord, versions: Iterable[ObjectRecord], written_at: Callable[[ObjectId], int | None]
) -> ObjectRecord | None:
    """Return a merged version of the entry's key that was written after it, None where none is known.

    A superseded version counts while a committed one has its bytes. A version some of whose rows are in quarantine, or
    were discarded, doesn't count, nor do the bytes of one. The time of admission doesn't tell: notices come in any
    order, and a listing has the newest version first.
    """
    others = [one for one in versions if one.id != record.id and one.id.also_for == record.id.also_for]
    whole = [one for one in others if one.state == COMMITTED and not one.quarantined_rows + one.discarded_rows]
    merged_bytes = {(one.etag, one.size) for one in whole if one.etag is not None}
    same = [one for one in others if one.state == SUPERSEDED and (one.etag, one.size) in merged_bytes]
    merged = sorted([*whole, *same], key=lambda one: (one.admitted_at, one.id))
    later = [one for one in merged if _follows(one.sequencer, record.sequencer)]
    if later:
        return max(later, key=lambda one: (one.sequencer or "", one.id))
    unordered = [one for one in merged if not (one.sequencer and record.sequencer)][-COMPARED:]
    own = written_at(record.id) if unordered else None
    if own is None:
        return None
    return next((one for one in reversed(unordered) if (written_at(one.id) or 0) > own), None)


def _follows(sequencer: str | None, one: str | None) -> bool:
    """Compare two sequencers of one key as S3 documents it: hexadecimal text, the shorter one padded on the right.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html
    """
    if not (sequencer and one):
        return False
    digits = max(len(sequencer), len(one))
    return sequencer.upper().ljust(digits, "0") > one.upper().ljust(digits, "0")


def discard_advice(records: Sequence[ObjectRecord]) -> str:
    """The next step for entries that each have a newer version: one command for the first NAMED of them."""
    keys, them = ("this key", "it") if len(records) == 1 else ("each of these keys", "the entries")
    more = f" and {len(records) - NAMED:,} more" if len(records) > NAMED else ""
    return f"a newer version of {keys} is merged; discard {them}: {discarded(records[:NAMED])}{more}"


def missing_changes(records: Sequence[ObjectRecord], newer: NewerVersions) -> str:
    """A sentence on the rows that a discard of these entries leaves missing from the tables."""
    missing = sum(record.id not in newer for record in records)
    if not missing:
        return "A newer version is merged: nothing will be missing."
    if missing == len(records):
        return "Their changes will be missing from the tables."
    return f"The changes of {missing:,} will be missing from the tables; newer versions of the others are merged."
