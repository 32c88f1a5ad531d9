"""The ports of a run: what its steps need of the ledger, S3, Spark, the clock and the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Callable, Protocol

from sluice.batch.claim import TableState
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.config.document import Configuration
from sluice.config.table import TableConfig
from sluice.services.requests import ServiceRequest, SliceDone


class Manifests(Protocol):
    """Manifests and outcomes in S3, from which a lost ledger is rebuilt."""

    def put_manifest(self, manifest: Manifest, still_held: Callable[[], bool]) -> str | None:
        """Store a manifest; its S3 key, or None where another one is there and `still_held` says no."""
        ...

    def some_of(self, lane: str, most: int) -> list[Manifest]:
        """Up to `most` manifests of the lane, in no order."""
        ...

    def manifest(self, key: str) -> Manifest | None:
        """The manifest under a key; None where there is none."""
        ...

    def put_outcome(self, outcome: Outcome) -> None: ...
    def outcome(self, batch: str, table: str) -> Outcome | None: ...


class Merger(Protocol):
    """Spark and Hudi: merges one table's part of a batch, and does slices of table services."""

    def prepare(self) -> None:
        """Start Spark unless it starts already, now that the lane is held. Returns at once."""
        ...

    def merge_part(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome:
        """Read, merge and commit one table's part. Raises LaneLost before any commit where `still_held` says no."""
        ...

    def resolve_part(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome | None:
        """Roll back what is unfinished; the outcome of the part by the timeline, None where it was not committed."""
        ...

    def serve_table(
        self,
        config: TableConfig,
        request: ServiceRequest,
        state: TableState,
        still_held: Callable[[], bool],
        slice_s: int,
        raise_floor: Callable[[Mapping[int, str]], None],
    ) -> SliceDone:
        """Do one slice of a table service, of about `slice_s` seconds (`serve_table`)."""
        ...

    def abandon(self) -> None:
        """Cancel all work, since the lane is lost."""
        ...

    def keep_warm(self) -> None:
        """Keep Python workers alive while nothing arrives. Returns at once."""
        ...


class Configurations(Protocol):
    """The source of the tables' configuration."""

    def load_if_changed(self) -> Configuration | None:
        """The configuration where it differs from the one last returned, else None. Raises where it is invalid."""
        ...
