"""What a load would cost a month: one lane that comes and goes, always-on streaming jobs, or jobs on a schedule; and where they cross.

Assumptions are fields with their reason; `sluice cost estimate` and docs/cost.md print them. Nothing here was measured on AWS.

What AWS's list prices are: the one dated file that costs are reckoned from, in US dollars, us-east-1, before any discount or free tier.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

HOURS_A_MONTH = 730.0
SECONDS_A_MONTH = HOURS_A_MONTH * 3600
MILLION = 1e6


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
    look_s: float = 600.0  # between two looks at table services by the schedule; each batch has one, too
    look_transitions: int = 6  # of the state machine, with nothing due
    sync_transitions: int = 2  # more, for each table whose catalog entry is behind
    service_transitions: int = (
        17  # more, for a look that asks for Spark work: a run started, and followed for two pauses
    )
    looks_a_service: float = 10.0  # of batches, one has services due: cleaning comes with every tenth commit
    look_reads: float = 5.0  # read units a table, of the ledger
    look_gb_s: float = 0.5  # gathering and planning
    sync_gb_s: float = 0.5  # of a table, by the catalog's function
    metrics: int = 45  # custom ones, each all month
    alarms: int = 27


@dataclass(frozen=True)
class Monthly:
    """US dollars a month. `busy_hours` are those in which the lane has workers; `besides` is what `other` is made of, by the service that is paid."""

    spark: float
    other: float
    fixed: float
    busy_hours: float
    runs: float
    besides: Mapping[str, float]

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
    batches = min(arrivals, SECONDS_A_MONTH / 60)
    tables = min(load.tables, load.objects)
    besides = besides_spark(Besides(load.objects_a_month, batches, batches * tables, busy_s), given)
    return Monthly(
        spark,
        sum(besides.values()),
        sum(fixed_monthly(load.tables, given).values()),
        busy_s / 3600,
        1.0 if stays else arrivals,
        besides,
    )


@dataclass(frozen=True)
class Besides:
    """What went through the pipeline: objects, batches, commits (a batch has one of each of its tables), and the seconds in which the lane was up."""

    objects: float
    batches: float
    commits: float
    up_s: float


def besides_spark(through: Besides, given: Assumptions = Assumptions()) -> dict[str, float]:
    """What it costs besides Spark, in US dollars, by the service that is paid: what comes with objects, batches and commits."""
    objects, batches, commits = through.objects, through.batches, through.commits
    transitions = (
        batches * given.look_transitions
        + commits * given.sync_transitions
        + batches / given.looks_a_service * given.service_transitions
    )
    writes = objects * given.ledger_writes + batches + commits
    reads = objects * given.ledger_reads + through.up_s * given.polls_s + commits * given.look_reads
    gb_s = objects * 0.3 + commits * 0.5 + batches * given.look_gb_s + commits * given.sync_gb_s
    return {
        "dynamodb": writes / MILLION * OTHER.dynamodb_writes_million + reads / MILLION * OTHER.dynamodb_reads_million,
        "s3": commits * given.s3_puts / MILLION * OTHER.s3_puts_million
        + (commits * given.s3_gets + objects * given.object_gets) / MILLION * OTHER.s3_gets_million,
        "sqs": objects * 3 / MILLION * OTHER.sqs_requests_million,
        "lambda": gb_s * OTHER.lambda_gb_second
        + (objects + 2 * commits + 2 * batches) / MILLION * OTHER.lambda_requests_million,
        "step_functions": transitions / MILLION * OTHER.state_transitions_million,
        "eventbridge": batches / MILLION * OTHER.events_million,
        "logs": (objects + commits) * 1_500 / 1e9 * OTHER.cloudwatch_logs_gb,
    }


def streaming_monthly(tables: int, given: Assumptions = Assumptions()) -> float:
    """One always-on streaming job per table, on EMR Serverless too: its workers alone."""
    prices = SPARK[given.architecture]
    return (
        tables * HOURS_A_MONTH * (given.streaming_vcpu * prices.vcpu_hour + given.streaming_gb * prices.memory_gb_hour)
    )


def scheduled_monthly(load: Load, given: Assumptions = Assumptions()) -> float:
    """One job per table on a schedule, each with a start of its own; runs whether or not something came."""
    prices = SPARK[given.architecture]
    mb = load.mb / load.tables * max(1.0, given.schedule_s / load.every_s)
    busy_s = max(60.0, given.start_s + given.commit_s + mb / (given.mb_per_vcpu_s * given.executor_vcpu))
    runs = load.tables * SECONDS_A_MONTH / given.schedule_s
    return runs * busy_s / 3600 * (given.schedule_vcpu * prices.vcpu_hour + given.schedule_gb * prices.memory_gb_hour)


def crossover_hours_a_day(tables: int, given: Assumptions = Assumptions()) -> float | None:
    """Up to how many hours a day a lane's smallest run may be up and still be cheaper than streaming; None: always cheaper."""
    prices = SPARK[given.architecture]
    an_hour = (given.driver_vcpu + given.executor_vcpu) * prices.vcpu_hour + (
        given.driver_gb + given.executor_gb
    ) * prices.memory_gb_hour
    hours = (
        max(0.0, streaming_monthly(tables, given) - sum(fixed_monthly(tables, given).values()))
        / an_hour
        / HOURS_A_MONTH
        * 24
    )
    return None if hours >= 24 else hours


def crossover_interval_s(tables: int, given: Assumptions = Assumptions()) -> float | None:
    """How far apart arrivals must be on average, so that starting a run for each costs less than streaming; None: any distance."""
    hours = crossover_hours_a_day(tables, given)
    if hours is None:
        return None
    one_s = given.start_s + ceil(tables / 2) * given.commit_s + given.linger_s
    return one_s * 24 / hours if hours else float("inf")


def _work_s(load: Load, executors: int, commits_s: float, given: Assumptions) -> float:
    return commits_s + load.mb / (given.mb_per_vcpu_s * executors * given.executor_vcpu)


def fixed_monthly(tables: int, given: Assumptions = Assumptions()) -> dict[str, float]:
    """What a stack costs in which nothing arrives, in US dollars: metrics, alarms, the dashboard, schedules."""
    looks = SECONDS_A_MONTH / given.look_s
    schedules = (
        SECONDS_A_MONTH / 120 * 0.5 * 0.5 + SECONDS_A_MONTH / 900 * 0.5 * 2.0 + looks * given.look_gb_s
    )  # GB-seconds of supervise, reconcile, plan_services
    return {
        "cloudwatch": given.metrics * OTHER.cloudwatch_metric_month
        + given.alarms * OTHER.cloudwatch_alarm_month
        + OTHER.cloudwatch_dashboard_month,
        "lambda": schedules * OTHER.lambda_gb_second,
        "step_functions": looks * given.look_transitions / MILLION * OTHER.state_transitions_million,
        "dynamodb": looks * tables * given.look_reads / MILLION * OTHER.dynamodb_reads_million,
    }


AS_OF = "2026-06"
REGION = "us-east-1"  # most other regions are 0 to 30 % dearer


@dataclass(frozen=True)
class SparkPrices:
    """EMR Serverless, by the hour of a vCPU, of a GB of memory, and of a GB of disk above the 20 GB a worker has for nothing."""

    vcpu_hour: float
    memory_gb_hour: float
    storage_gb_hour: float = 0.000111


@dataclass(frozen=True)
class Prices:
    """What the rest costs. Per million where the name says so."""

    lambda_requests_million: float = 0.20
    lambda_gb_second: float = 0.0000133334  # arm64; x86_64 is 0.0000166667
    dynamodb_writes_million: float = 0.625  # one write unit: 1 KB, twice that in a transaction
    dynamodb_reads_million: float = 0.125  # one read unit: 4 KB, strongly consistent
    dynamodb_gb_month: float = 0.25
    s3_puts_million: float = 5.00
    s3_gets_million: float = 0.40
    sqs_requests_million: float = 0.40
    cloudwatch_metric_month: float = 0.30
    cloudwatch_alarm_month: float = 0.10
    cloudwatch_dashboard_month: float = 3.00
    cloudwatch_logs_gb: float = 0.50
    events_million: float = 1.00
    state_transitions_million: float = 25.00  # Step Functions, standard workflows: each state that an execution enters


SPARK = {
    "x86_64": SparkPrices(vcpu_hour=0.052624, memory_gb_hour=0.0057785),
    "arm64": SparkPrices(vcpu_hour=0.042094, memory_gb_hour=0.0046280),
}
OTHER = Prices()


def spark_usd(architecture: str, *, vcpu_hours: float, memory_gb_hours: float, storage_gb_hours: float = 0.0) -> float:
    """What billed resources of EMR Serverless cost. `architecture` in either spelling ("X86_64", "arm64"); an unknown one as x86_64."""
    prices = SPARK.get(architecture.lower(), SPARK["x86_64"])
    return (
        vcpu_hours * prices.vcpu_hour
        + memory_gb_hours * prices.memory_gb_hour
        + storage_gb_hours * prices.storage_gb_hour
    )
