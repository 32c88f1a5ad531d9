"""What a load would cost a month: one lane that comes and goes, always-on streaming jobs, or jobs on a schedule; and where they cross.

Assumptions are fields with their reason; `sluice cost estimate` and docs/cost.md print them. Nothing here was measured on AWS.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Dict, Optional

from sluice.prices import OTHER, SPARK

HOURS_A_MONTH = 730.0
SECONDS_A_MONTH = HOURS_A_MONTH * 3600


@dataclass(frozen=True)
class Load:
    """Every `every_s` seconds `objects` objects of together `mb` megabytes, over `tables` tables."""

    name: str
    tables: int
    every_s: float
    objects: int
    mb: float

    @property
    def objects_a_month(self) -> float:
        return self.objects * SECONDS_A_MONTH / self.every_s


@dataclass(frozen=True)
class Assumptions:
    """Sizes are those that StartJobRun asks for (6 GB and a tenth of overhead, billed as 7); times are in seconds."""

    architecture: str = "x86_64"
    driver_vcpu: int = 2
    driver_gb: int = 7
    executor_vcpu: int = 2
    executor_gb: int = 7
    most_executors: int = 5
    start_s: float = 60.0  # from StartJobRun until the driver works; workers are billed from their own start on
    linger_s: float = 60.0
    commit_s: float = 4.0  # of one small table on S3, two tables at once
    mb_per_vcpu_s: float = 1.0  # objects read, merged and written; compressed Avro
    streaming_vcpu: int = 2  # of each always-on job: a driver and an executor of one vCPU each
    streaming_gb: int = 8
    schedule_s: float = 3600.0  # how often a scheduled job of each table runs
    schedule_vcpu: int = 4  # of each: a driver and an executor of two
    schedule_gb: int = 14
    ledger_writes: float = 20.0  # write units an object: admitted, claimed and settled in transactions
    ledger_reads: float = 8.0
    polls_s: float = 10.0  # reads of the lane a second while a run lives
    s3_puts: float = 25.0  # a commit of a table
    s3_gets: float = 60.0
    object_gets: float = 2.0  # head by admit, whole by the job
    metrics: int = 45  # custom ones, each all month
    alarms: int = 25


@dataclass(frozen=True)
class Monthly:
    """US dollars a month. `busy_hours` are those in which the lane has workers."""

    spark: float
    other: float
    fixed: float
    busy_hours: float
    runs: float

    @property
    def total(self) -> float:
        return self.spark + self.other + self.fixed


def sluice_monthly(load: Load, given: Assumptions = Assumptions()) -> Monthly:
    """One lane for all tables: a run stays while the next objects come within its linger, else it ends and the next one starts."""
    prices = SPARK[given.architecture]
    commits_s = ceil(load.tables / 2) * given.commit_s
    executors = 1
    while executors < given.most_executors and _work_s(load, executors, commits_s, given) > load.every_s:
        executors += 1
    work_s = _work_s(load, executors, commits_s, given)
    arrivals = SECONDS_A_MONTH / load.every_s
    stays = load.every_s - work_s <= given.linger_s
    busy_s = SECONDS_A_MONTH if stays else arrivals * max(60.0, given.start_s + work_s + given.linger_s)
    vcpu = given.driver_vcpu + executors * given.executor_vcpu
    memory = given.driver_gb + executors * given.executor_gb
    spark = busy_s / 3600 * (vcpu * prices.vcpu_hour + memory * prices.memory_gb_hour)
    commits = min(arrivals, SECONDS_A_MONTH / 60) * min(load.tables, load.objects)
    return Monthly(spark, _other(load, given, commits, busy_s), _fixed(given), busy_s / 3600, 1.0 if stays else arrivals)


def streaming_monthly(tables: int, given: Assumptions = Assumptions()) -> float:
    """One always-on streaming job per table, on EMR Serverless too: its workers alone."""
    prices = SPARK[given.architecture]
    return tables * HOURS_A_MONTH * (given.streaming_vcpu * prices.vcpu_hour + given.streaming_gb * prices.memory_gb_hour)


def scheduled_monthly(load: Load, given: Assumptions = Assumptions()) -> float:
    """One job per table on a schedule, each with a start of its own; runs whether or not something came."""
    prices = SPARK[given.architecture]
    mb = load.mb / load.tables * max(1.0, given.schedule_s / load.every_s)
    busy_s = max(60.0, given.start_s + given.commit_s + mb / (given.mb_per_vcpu_s * given.executor_vcpu))
    runs = load.tables * SECONDS_A_MONTH / given.schedule_s
    return runs * busy_s / 3600 * (given.schedule_vcpu * prices.vcpu_hour + given.schedule_gb * prices.memory_gb_hour)


def crossover_hours_a_day(tables: int, given: Assumptions = Assumptions()) -> Optional[float]:
    """Up to how many hours a day a lane's smallest run may be up and still be cheaper than streaming; None: always cheaper."""
    prices = SPARK[given.architecture]
    an_hour = (given.driver_vcpu + given.executor_vcpu) * prices.vcpu_hour + (given.driver_gb + given.executor_gb) * prices.memory_gb_hour
    hours = max(0.0, streaming_monthly(tables, given) - _fixed(given)) / an_hour / HOURS_A_MONTH * 24
    return None if hours >= 24 else hours


def crossover_interval_s(tables: int, given: Assumptions = Assumptions()) -> Optional[float]:
    """How far apart arrivals must be on average, so that starting a run for each costs less than streaming; None: any distance."""
    hours = crossover_hours_a_day(tables, given)
    if hours is None:
        return None
    one_s = given.start_s + ceil(tables / 2) * given.commit_s + given.linger_s
    return one_s * 24 / hours if hours else float("inf")


def _work_s(load: Load, executors: int, commits_s: float, given: Assumptions) -> float:
    return commits_s + load.mb / (given.mb_per_vcpu_s * executors * given.executor_vcpu)


def _other(load: Load, given: Assumptions, commits: float, busy_s: float) -> float:
    objects = load.objects_a_month
    million = 1e6
    parts: Dict[str, float] = {
        "ledger": objects * given.ledger_writes / million * OTHER.dynamodb_writes_million + (objects * given.ledger_reads + busy_s * given.polls_s) / million * OTHER.dynamodb_reads_million,
        "s3": commits * given.s3_puts / million * OTHER.s3_puts_million + (commits * given.s3_gets + objects * given.object_gets) / million * OTHER.s3_gets_million,
        "queue": objects * 3 / million * OTHER.sqs_requests_million,
        "functions": (objects * 0.3 + commits * 0.5) * OTHER.lambda_gb_second + (objects + commits) / million * OTHER.lambda_requests_million,
        "events": commits / million * OTHER.events_million,
        "logs": (objects + commits) * 1_500 / 1e9 * OTHER.cloudwatch_logs_gb,
    }
    return sum(parts.values())


def _fixed(given: Assumptions) -> float:
    """What a stack costs in which nothing arrives: metrics, alarms, the dashboard, schedules."""
    schedules = SECONDS_A_MONTH / 120 * 0.5 * 0.5 + SECONDS_A_MONTH / 900 * 0.5 * 2.0  # GB-seconds of supervise and reconcile
    return given.metrics * OTHER.cloudwatch_metric_month + given.alarms * OTHER.cloudwatch_alarm_month + OTHER.cloudwatch_dashboard_month + schedules * OTHER.lambda_gb_second
