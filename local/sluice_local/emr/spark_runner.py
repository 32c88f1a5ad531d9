"""Runs job runs, each in its own directory, process group and thread."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sluice_local import processes as children
from sluice_local.emr.job_runs import LocalJobRun
from sluice_local.emr.python_memory import python_bytes, python_limit
from sluice_local.emr.spark_command import Cloud, Machine, spark_command
from sluice_local.emr.work_directory import CannotFetch, Fetched, Fetcher
from sluice_local.images.spark import ClassArchive, SparkImage

if TYPE_CHECKING:
    from sluice_local.emr.service import Behaviour, Service


_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.05
_MEMORY_SECONDS = 0.5
# A sentence of AWS's page "Troubleshooting errors in EMR Serverless".
NO_CAPACITY = "Job failed as account has reached the service limit on the maximum vCPU it can use concurrently."
_KEPT_WORDS = 200  # last characters of the driver's output that fit into stateDetails


@dataclass(frozen=True)
class RunnerSettings:
    """The runs' directory and the image they run on."""

    home: Path  # one directory per run: stdout, stderr, request.json, and `work` while it runs
    cache: Path  # class archives
    image: SparkImage
    cloud: Cloud
    machine: Machine
    concurrent: int = 2  # runs at once; more are QUEUED


class SparkRunner:
    """The jobs of one stand-in."""

    def __init__(self, service: Service, settings: RunnerSettings, fetcher: Fetcher) -> None:
        self._service = service
        self._settings = settings
        self._fetcher = fetcher
        self._slots = threading.Semaphore(settings.concurrent)
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()

    def launch(self, run: LocalJobRun) -> None:
        """Start the run's thread. It lives as long as the driver, which the kernel binds to it."""
        thread = threading.Thread(target=self._see_through, args=(run,), name=f"job-{run.id}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def stop(self) -> None:
        """End every run and wait for their threads."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(15.0)

    def directory(self, run: LocalJobRun) -> Path:
        """Where a run's output is kept."""
        return self._settings.home / run.id

    # ------------------------------------------------------------------
    def _see_through(self, run: LocalJobRun) -> None:
        directory = self.directory(run)
        work = directory / "work"
        try:
            (work / "tmp").mkdir(parents=True)
            for name in ("stdout", "stderr"):
                (directory / name).touch()
            (directory / "request.json").write_text(json.dumps(run.request, indent=2))
            state, details = self._run(run, directory, work)
        except Exception as error:  # the run ends after any error, as in the cloud
            _LOG.exception("job run failed", extra={"job_run": run.id})
            state, details = "FAILED", f"The stand-in failed: {error!r}"
        self._put_logs(run, directory)
        self._service.move(run, state, details)
        shutil.rmtree(work, ignore_errors=True)

    def _run(self, run: LocalJobRun, directory: Path, work: Path) -> tuple[str, str]:
        if not self._slots.acquire(blocking=False):
            self._service.move(run, "QUEUED")
            while not self._slots.acquire(timeout=_POLL_SECONDS):
                if self._must_end(run):
                    return "CANCELLED", "Cancelled by request while queued"
        try:
            self._service.move(run, "PENDING")
            try:
                fetched = self._fetcher.fetch(run.submission, work)
            except CannotFetch as error:
                return "FAILED", f"Job failed, please check complete logs: {error}"
            self._service.move(run, "SCHEDULED")
            behaviour = self._service.behaviour_of_next()
            if behaviour.no_capacity:
                return "FAILED", NO_CAPACITY
            if behaviour.never_begin:
                while not self._must_end(run):
                    time.sleep(_POLL_SECONDS)
                return "CANCELLED", run.details or "Cancelled by request"
            return self._drive(run, fetched, directory, work, behaviour)
        finally:
            self._slots.release()

    def _drive(
        self, run: LocalJobRun, fetched: Fetched, directory: Path, work: Path, behaviour: Behaviour
    ) -> tuple[str, str]:
        settings = self._settings
        archive = ClassArchive(settings.image.java, settings.image.class_path(fetched.jars), settings.cache / "classes")
        archive.home.mkdir(parents=True, exist_ok=True)
        command = spark_command(
            run.submission,
            fetched,
            run=run.id,
            directory=work,
            image=settings.image,
            cloud=replace(settings.cloud, endpoint=behaviour.endpoint or settings.cloud.endpoint),
            machine=settings.machine,
            sharing=archive.options(directory),
        )
        process = children.start(
            command.arguments,
            cwd=work,
            environment={**command.environment, **behaviour.environment},
            stdout=directory / "stdout",
            stderr=directory / "stderr",
        )
        (directory / "pid").write_text(str(process.pid))
        self._service.move(run, "RUNNING")
        ended = self._watch(run, process)
        children.signal_group(process, signal.SIGKILL)  # workers that outlived their driver
        if archive.remember(directory) and not self._stopping.is_set():
            threading.Thread(target=archive.build, name="class-archive", daemon=True).start()
        return ended if ended else verdict(process.returncode, directory / "stderr")

    def _watch(self, run: LocalJobRun, process: subprocess.Popen[bytes]) -> tuple[str, str] | None:
        """Wait for the driver's end. Returns the state to report if it was ended from outside."""
        minutes = float(run.request.get("executionTimeoutMinutes") or 720)
        deadline = time.monotonic() + minutes * 60
        limit, measured = python_limit(run.submission.settings), time.monotonic()
        while True:
            try:
                process.wait(_POLL_SECONDS)
                return ("CANCELLED", "Cancelled by request") if run.cancel_grace is not None else None
            except subprocess.TimeoutExpired:
                pass  # still running
            if limit is not None and time.monotonic() > measured + _MEMORY_SECONDS:
                measured = time.monotonic()
                taken = python_bytes(process.pid)
                if taken > limit:  # as the kernel does to a worker of EMR Serverless
                    children.signal_group(process, signal.SIGKILL)
                    process.wait()
                    return "FAILED", f"Python took {taken >> 20:,} MiB of the {limit >> 20:,} MiB that its worker has"
            if time.monotonic() > deadline and run.cancel_grace is None:
                run.cancel_grace = 0.0
                self._service.move(run, "CANCELLING", f"The job run exceeded its time limit of {minutes:.0f} minutes")
            if self._must_end(run):
                grace = 2.0 if self._stopping.is_set() else run.cancel_grace or 0.0
                process.send_signal(signal.SIGTERM)  # only the driver: it ends its workers itself
                try:
                    process.wait(grace)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                return "CANCELLED", run.details or "Cancelled by request"

    def _must_end(self, run: LocalJobRun) -> bool:
        return self._stopping.is_set() or run.cancel_grace is not None

    def _put_logs(self, run: LocalJobRun, directory: Path) -> None:
        overrides = run.request.get("configurationOverrides") or {}
        uri = ((overrides.get("monitoringConfiguration") or {}).get("s3MonitoringConfiguration") or {}).get("logUri")
        try:
            self._fetcher.keep_logs(uri, run.application.id, run.id, directory)
        except Exception:  # a deleted bucket must not keep the run from ending; the output stays in the directory
            _LOG.warning("logs were not put to %s", uri, exc_info=True, extra={"job_run": run.id})


def verdict(status: int, stderr: Path) -> tuple[str, str]:
    """The state of a run whose driver ended by itself, and the details: what happened, or the last that it printed."""
    if status == 0:
        return "SUCCESS", ""
    ended = children.described_status(status)
    if children.signal_of(status) is not None:
        memory = ". The machine may have run out of memory" if children.signal_of(status) == signal.SIGKILL else ""
        return "FAILED", f"The driver {ended}{memory}"
    with stderr.open("rb") as output:
        output.seek(0, 2)
        output.seek(max(0, output.tell() - _KEPT_WORDS))
        last = output.read().decode(errors="replace")
    return "FAILED", f"Job failed: the driver {ended}. Last of stderr: {last}"
