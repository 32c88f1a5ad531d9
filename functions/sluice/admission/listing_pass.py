"""The progress of a pass over bronze's listing, and which versions earlier passes have answered for.

A listing names versions in the order of their keys, so each pass goes through all of it. The ledger is asked only about
versions that were put since the last whole pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

#: S3 dates a multipart upload by when it began, and a replica by its original, so versions appear late in a listing.
#: What comes later than this without a notice is found by the round of the audit, which asks about every version.
APPEARS_WITHIN_MS = 3_600_000


@dataclass(frozen=True)
class ListingPass:
    """A pass that began at `began_at` (epoch ms), and goes on behind `after` (key, version id; None: from the start).

    `since`: versions dated before were found or admitted by an earlier pass; None: by none. `failed_since` is the
    earliest date of a version that this pass could not admit.
    """

    began_at: int
    since: int | None = None
    after: tuple[str, str] | None = None
    failed_since: int | None = None

    def is_due(self, modified_at: int) -> bool:
        """True if the ledger is to be asked about a version of this date."""
        return self.since is None or modified_at >= self.since

    def behind(self, after: tuple[str, str] | None, failed_at: int | None) -> ListingPass:
        """The pass behind one more page; `failed_at` is the earliest date in it of a version that was not admitted."""
        failed = [at for at in (self.failed_since, failed_at) if at is not None]
        return replace(self, after=after, failed_since=min(failed, default=None))

    def next_since(self, grace_ms: int) -> int:
        """The date up to which a later pass need not ask, once this one is whole."""
        answered = self.began_at - grace_ms - APPEARS_WITHIN_MS
        return answered if self.failed_since is None else min(answered, self.failed_since)

    def stored(self, grace_ms: int) -> dict[str, Any]:
        """Plain JSON values for the checkpoint: of this pass, or of the next one if this one is whole."""
        if self.after is None:
            return {"since": self.next_since(grace_ms)}
        key, version = self.after
        begun = {"began_at": self.began_at, "since": self.since, "failed_since": self.failed_since}
        return {"key": key, "version": version, **begun}

    @classmethod
    def resumed(cls, stored: Mapping[str, Any] | None, now: int) -> ListingPass:
        """The pass to go on with by the checkpoint, or a new one."""
        stored = stored or {}
        if not stored.get("key"):
            return cls(now, stored.get("since"))
        return cls(stored["began_at"], stored["since"], (stored["key"], stored["version"]), stored["failed_since"])
