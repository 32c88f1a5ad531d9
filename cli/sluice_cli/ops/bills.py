"""What past runs cost: the bills of EMR Serverless, by table, and an estimate of all other services."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from sluice.cost import Assumptions, Throughput, files_usd, other_usd, smallest_run_bill
from sluice.lane.supervision import is_terminal
from sluice.prices import PriceList
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.s3.past_batches import PastBatch
from sluice_aws.stack import LOCAL, Target
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.words import counted

GB = 1e9
OWN = ("run-", "trial-")  # prefixes of runs and trials; an existing application may have other jobs too


@dataclass(frozen=True)
class RunCost:
    """A job run that has ended. `state` is the ledger's, of a trial EMR Serverless's.

    `usd` is None until EMR Serverless reports the billed resources. With `estimated` it ran on the local stack, and the
    rest is what EMR Serverless would bill for its seconds.
    """

    run: str
    state: str
    vcpu_hours: float
    memory_gb_hours: float
    usd: float | None
    estimated: bool = False


def besides_runs(runs: Iterable[RunCost], batches: Iterable[PastBatch], given: Assumptions) -> dict[str, Any]:
    """Estimate the cost of these runs' batches in all services but Spark.

    The time that lanes were up follows from the smallest run's size, which makes it an upper bound.
    """
    listed = list(runs)
    names = {one.run for one in listed}
    own = [batch for batch in batches if batch.manifest.run in names]
    manifests = [batch.manifest for batch in own]
    files = sum(_further_files(batch, table, given) for batch in own for table in batch.outcomes)
    parts = [part for manifest in manifests for part in manifest.tables.values()]
    up_s = sum(one.vcpu_hours for one in listed) * 3600 / (given.driver_vcpu + given.executor_vcpu)
    through = Throughput(sum(len(part.objects) for part in parts), len(manifests), len(parts), up_s, files)
    return {
        "objects": through.objects,
        "batches": through.batches,
        "commits": through.commits,
        "usd": other_usd(through, given),
    }


def _further_files(batch: PastBatch, table: str, given: Assumptions) -> int:
    """How many files a table's commit wrote beyond the few that each commit writes."""
    return max(0, batch.outcomes[table].counts.get("files_written", 0) - given.few_files)


def by_table(usd: Mapping[str, float], batches: Iterable[PastBatch], given: Assumptions) -> dict[str, dict[str, Any]]:
    """The cost of runs by table, in proportion to the bytes in their batches. A run without batches is "(idle)".

    `files_usd` is the cost of writing the files of the table's commits beyond a few each, which grows with partitions.
    """
    sizes: dict[str, dict[str, int]] = {}
    files: Counter[str] = Counter()
    for batch in batches:
        run = batch.manifest.run
        of_run = sizes.setdefault(run, {})
        for table, part in batch.manifest.tables.items():
            of_run[table] = of_run.get(table, 0) + part.bytes
        if run in usd:
            files.update({table: _further_files(batch, table, given) for table in batch.outcomes})
    gb: dict[str, float] = {}
    cost: dict[str, float] = {}
    for run, dollars in usd.items():
        parts = sizes.get(run) or {"(idle)": 0}
        whole = sum(parts.values())
        for table, size in parts.items():
            gb[table] = gb.get(table, 0.0) + size / GB
            cost[table] = cost.get(table, 0.0) + dollars * (size / whole if whole else 1 / len(parts))
    return {
        table: {
            "gb": gb[table],
            "usd": cost[table],
            "usd_per_gb": cost[table] / gb[table] if gb[table] else None,
            "files_usd": files_usd(files[table], given),
        }
        for table in sorted(cost)
    }


def dear_files(tables: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """What helps tables whose commits write so many files that these cost more than the runs."""
    for table, cost in tables.items():
        if cost["files_usd"] > cost["usd"]:
            yield (
                f"{visible(table)}: the files of its commits cost {_usd(cost['files_usd'])} US dollars, more than the "
                "runs: a longer `freshness` makes fewer commits, `bucket(n)` in `partition_by` fewer files in each "
                "(docs/cost.md)"
            )


def _ended(target: Target, prices: PriceList) -> Iterator[RunCost]:
    history = target.ledger.history
    listed = set()
    for one in _billed(target, prices):
        listed.add(one.run)
        record = history.run(one.run) or {}  # a trial is in no ledger
        yield replace(one, state=str(record.get("state") or one.state))
    if target.kind == LOCAL:  # where `sluice local down --keep` ends the list of job runs, and keeps the ledger
        for item in history.runs():
            began, ended = item.get("started_at"), item.get("ended_at")
            if item["run"] not in listed and began and ended:
                bill = smallest_run_bill((ended - began) / 1000)
                yield RunCost(item["run"], str(item.get("state")), **asdict(bill), estimated=True)


def _billed(target: Target, prices: PriceList) -> Iterator[RunCost]:
    """The runs with the states of EMR Serverless."""
    emr, application, local = target.client("emr-serverless"), target.outputs["ApplicationId"], target.kind == LOCAL
    architecture = emr.get_application(applicationId=application)["application"].get("architecture", "X86_64")
    job_runs = JobRuns(emr, application)
    # Without a filter by states, by which EMR Serverless would group them: the newest come first.
    for page in emr.get_paginator("list_job_runs").paginate(applicationId=application):
        for summary in page["jobRuns"]:
            if not summary.get("name", "").startswith(OWN) or not is_terminal(summary["state"]):
                continue
            if local:
                bill = smallest_run_bill(job_runs.seconds(summary["id"]) or 0.0)
                yield RunCost(summary["name"], summary["state"], **asdict(bill), estimated=True)
                continue
            billed = job_runs.billed(summary["id"])
            if billed is None:
                yield RunCost(summary.get("name", ""), summary["state"], 0.0, 0.0, None)
            else:
                usd = prices.spark_usd(
                    architecture,
                    vcpu_hours=billed.vcpu_hours,
                    memory_gb_hours=billed.memory_gb_hours,
                    storage_gb_hours=billed.storage_gb_hours,
                )
                yield RunCost(billed.name, summary["state"], billed.vcpu_hours, billed.memory_gb_hours, usd)


def _remarks(costs: Iterable[RunCost]) -> Iterator[str]:
    """What the figures of these runs are, where they are no bill."""
    if any(one.estimated for one in costs):
        yield (
            "Local runs cost nothing. Estimated: what EMR Serverless would bill for their seconds, at least a minute "
            "each, with a driver and one executor"
        )
    unbilled = sum(one.usd is None for one in costs)
    if unbilled:
        have, whose = ("has", "the run's") if unbilled == 1 else ("have", "a run's")
        yield f"{counted(unbilled, 'run')} {have} no bill yet: EMR Serverless reports it some time after {whose} end"


def _line(one: RunCost) -> tuple[str, ...]:
    if one.usd is None:
        return one.run, one.state, "-", "-", "-"
    return one.run, one.state, f"{one.vcpu_hours:.3f}", f"{one.memory_gb_hours:.3f}", _usd(one.usd)


def _usd(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
