"""What the run loop needs of the world: small ports, which adapters and the tests' fakes satisfy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Callable, Protocol

from sluice.batch.claim import PendingObject, TableState
from sluice.batch.manifest import Manifest
from sluice.batch.outcome import Outcome
from sluice.config.document import Configuration
from sluice.config.table import TableConfig
from sluice.lane.machine import LaneState
from sluice.ledger.records import ManifestPointer
from sluice.objects import ObjectId
from sluice.services.requests import ServiceError, ServiceReport, ServiceRequest, SliceDone


class Ledger(Protocol):
    """The part of the ledger that a driver uses. Every read here is strongly consistent."""

    def lane(self, lane: str) -> LaneState: ...
    def hold(self, lane: str, run_id: str, job_run_id: str, attempt: int, now: int) -> LaneState | None: ...
    def holds(self, lane: str, run_id: str, job_run_id: str) -> bool: ...
    def release(self, lane: str, run_id: str, arrivals_seen: int, due_at: int | None, now: int) -> bool: ...
    def pending(self, lane: str, per_table: int) -> list[PendingObject]: ...
    def pending_of(self, lane: str, wanted: Mapping[str, int]) -> list[PendingObject]: ...
    def table_state(self, table: str) -> TableState: ...
    def table_states(self, tables: Iterable[str]) -> Mapping[str, TableState]: ...
    def open_batch(self, manifest: Manifest, manifest_s3_key: str, run_id: str, job_run_id: str) -> bool: ...
    def claim(self, manifest: Manifest) -> Sequence[ObjectId]: ...
    def unsettled(self, lane: str) -> Sequence[ManifestPointer]: ...
    def settle(
        self, lane: str, batch: str, outcome: Outcome, objects: Sequence[ObjectId], run_id: str, now: int
    ) -> bool: ...
    def close_batch(self, lane: str, batch: str, run_id: str, now: int) -> bool: ...
    def return_to_pending(
        self,
        batch: str,
        table: str,
        objects: Sequence[ObjectId],
        lane: str,
        run_id: str,
        job_run_id: str,
        generation: int | None = None,
    ) -> Sequence[ObjectId] | None: ...
    def record_table_error(self, table: str, error: str, backoff_until: int | None) -> TableState: ...
    def pin_table(self, table: str, pinned: Mapping[str, Any]) -> bool: ...
    def progressed(self, lane: str, run_id: str) -> bool: ...
    def open_services(self, lane: str) -> list[ServiceRequest]: ...
    def start_service(
        self, request: ServiceRequest, run_id: str, job_run_id: str, now: int
    ) -> ServiceRequest | None: ...
    def service_slice_done(
        self, request: ServiceRequest, run_id: str, report: ServiceReport, now: int
    ) -> ServiceRequest | None: ...
    def finish_service(
        self, request: ServiceRequest, run_id: str, report: ServiceReport, now: int
    ) -> ServiceRequest | None: ...
    def fail_service(
        self, request: ServiceRequest, run_id: str, error: ServiceError, now: int
    ) -> ServiceRequest | None: ...
    def interrupt_service(self, request: ServiceRequest, run_id: str, now: int) -> ServiceRequest | None: ...
    def raise_purge_floor(self, table: str, positions: Mapping[int, str]) -> None: ...
    def withdraw_service(self, request: ServiceRequest, error: ServiceError, now: int) -> ServiceRequest | None: ...
    def run_started(self, run_id: str, lane: str, now: int, job_run_id: str | None = None) -> None: ...
    def run_ended(self, run_id: str, state: str, reason: str | None, batches: int, now: int) -> None: ...


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


class Clock(Protocol):
    """The driver's time."""

    def now_ms(self) -> int: ...
    def wait(self, seconds: float) -> None: ...


class Log(Protocol):
    """Where events go."""

    def event(self, name: str, **fields: Any) -> None: ...
    def failure(self, name: str, error: BaseException, **fields: Any) -> None: ...
