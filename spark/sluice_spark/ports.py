"""What the run loop needs of the world: small ports, which adapters and the tests' fakes satisfy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Callable, Protocol

from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.config.document import Configuration
from sluice.config.table import TableConfig
from sluice.services.requests import SliceDone


class Manifests(Protocol):
    """Manifests and outcomes in S3: what a lost ledger is rebuilt from (invariant 8)."""

    def put_manifest(self, manifest: Manifest) -> str:
        """Store a manifest and return its S3 key."""
        ...

    def manifest(self, key: str) -> Manifest | None:
        """The manifest under a key, None when there is none."""
        ...

    def put_outcome(self, outcome: Outcome) -> None: ...
    def outcome(self, batch: str, table: str) -> Outcome | None: ...


class Merger(Protocol):
    """Spark and Hudi: one table's part of a batch, from its objects to its commit."""

    def prepare(self) -> None:
        """The lane is held: begin to get ready. Returns at once."""
        ...

    def merge(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome:
        """Read, merge and commit. Raises LaneLost, before any commit, when `still_held` says no."""
        ...

    def resolve(self, manifest: Manifest, table: str, still_held: Callable[[], bool]) -> Outcome | None:
        """Roll back what is unfinished, then look the batch up on the timeline (rule 4). None: not committed."""
        ...

    def serve(
        self,
        config: TableConfig,
        service: str,
        still_held: Callable[[], bool],
        slice_s: int,
        raise_floor: Callable[[Mapping[int, str]], None],
        watch: Mapping[str, Any] = MappingProxyType({}),
    ) -> SliceDone:
        """Do one slice of a table service, of about that many seconds. Raises LaneLost, before any commit, when `still_held` says no.

        `raise_floor` is called before rows are purged, with the highest position of any of them by generation. `watch` is KafkaWatch.to_dict()
        of the table.
        """
        ...

    def abandon(self) -> None:
        """Cancel whatever still runs: the lane is lost."""
        ...

    def keep_warm(self) -> None:
        """Keep workers from going cold while nothing arrives. Returns at once."""
        ...


class Configurations(Protocol):
    """Where tables' configuration comes from."""

    def load_if_changed(self) -> Configuration | None:
        """The configuration when it differs from the one last returned, else None. Raises when it is broken."""
        ...
