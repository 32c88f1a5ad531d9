"""Waits until the ledger knows the objects that were just put into bronze."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice

from sluice.ledger.ports import Ledger
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.objects import Objects, pages_of_bronze

RECENT_MS = 120_000  # older ones that the ledger doesn't know were never announced: `sluice backfill` admits them
PAGES = 20  # of a listing: a larger bucket is not looked through whole
PATIENCE_S = 10.0  # without a further admission
POLL_S = 0.3


def wait_for_admission(
    objects: Objects,
    bronze: str,
    ledger: Ledger,
    *,
    show: Callable[[int], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Wait until the ledger knows every object that was put lately, and return how many it still doesn't know.

    `show` is told their number after each look. The wait ends when nothing was admitted for PATIENCE_S.
    """
    since = epoch_ms() - RECENT_MS
    pages = islice(pages_of_bronze(objects, bronze), PAGES)
    unseen = [identity for page in pages for identity, listed in page.items() if listed.modified_at >= since]
    progress_at = clock()
    while unseen:
        known = ledger.objects.get(unseen)
        left = [identity for identity in unseen if identity not in known]
        if len(left) < len(unseen):
            progress_at = clock()
        unseen = left
        if clock() - progress_at >= PATIENCE_S:
            break
        if unseen:
            show(len(unseen))
            sleep(POLL_S)
    return len(unseen)
