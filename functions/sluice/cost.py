"""Estimates the monthly cost of a load on a Sluice lane, on always-on streaming jobs and on scheduled jobs.

`Assumptions` holds what the estimate assumes, with reasons; `sluice ops cost estimate` and docs/cost.md print it.
Nothing was measured on AWS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from sluice.config.lane import STAY_FOR_FRESHNESS_S, TABLES_AT_ONCE, LaneConfig
from sluice.config.table import TableSettings
from sluice.config.values import DURATION
from sluice.prices import BUNDLED, PriceList

HOURS_A_MONTH = 730.0
SECONDS_A_MONTH = HOURS_A_MONTH * 3600
DAYS_A_MONTH = HOURS_A_MONTH / 24
MILLION = 1e6
MINIMUM_BILLED_S = 60.0  # per worker. https://aws.amazon.com/emr/pricing/


@dataclass(frozen=True)
class Load:
    """Every `every_s` seconds, `objects` objects with `mb` megabytes in total arrive for `tables` tables."""

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
    """Assumptions of the estimates. Sizes are those of StartJobRun."""

    prices: PriceList = BUNDLED
    architecture: str = "x86_64"
    driver_vcpu: int = 2
    driver_gb: int = LaneConfig().driver_memory_gb
    executor_vcpu: int = 2
    executor_gb: int = LaneConfig().executor_memory_gb
    least_executors: int = LaneConfig().min_executors
    most_executors: int = 5
    driver_objects: int = 25  # of a table's batch that a driver without executors merges
    start_s: float = 60.0  # from StartJobRun until the driver works; a worker is billed from its own start
    linger_s: float = float(LaneConfig().linger_s)
    stay_s: float = float(STAY_FOR_FRESHNESS_S)  # for objects that wait for freshness only
    commit_s: float = 4.0  # of one small table on S3, two tables at once
    mb_per_vcpu_s: float = 1.0  # objects read, merged and written; compressed Avro
    streaming_vcpu: int = 2  # per always-on job: a driver and an executor of one vCPU each
    streaming_gb: int = 8
    schedule_s: float = 3600.0  # between two scheduled jobs of a table
    schedule_vcpu: int = 4  # per job: a driver and an executor of two vCPU each
    schedule_gb: int = 16
    ledger_writes: float = 20.0  # write units per object, which is admitted, claimed and settled in transactions
    ledger_reads: float = 8.0
    polls_s: float = 10.0  # reads of the lane per second while a run lives
    s3_puts: float = 25.0  # per commit of a table that writes few files
    few_files: int = 4
    file_puts: float = 2.0  # for each further file: itself, and its marker
    s3_gets: float = 60.0
    object_gets: float = 2.0  # the head by admit, the whole object by the job
    look_s: float = 600.0  # between two scheduled checks of table services; each batch has one too
    look_transitions: int = 6  # of the state machine per check with nothing due
    sync_transitions: int = 2  # on top, per table whose catalog entry is behind
    # On top, per check that requests Spark work: follow it for two pauses, the run for three.
    service_transitions: int = 23
    looks_a_service: float = 10.0  # batches per one with services due: cleaning is due every tenth commit
    look_reads: float = 5.0  # read units of the ledger per table
    look_gb_s: float = 0.5  # gathering and planning
    sync_gb_s: float = 0.5  # per table, of the catalog's function
    versions_months: float = 3.0  # for which an object version stays in bronze, and its record in the ledger
    record_kb: float = 1.0  # of the ledger, with its index
    passes_a_day: float = 96.0  # of reconcile over the listing
    pages_a_pass: float = 1350.0  # the time of one call; the next call goes on
    passes_an_object: float = 6.0  # that ask the ledger about a new object
    rewritten: float = 10.0  # bytes of silver that a commit replaces, per byte of objects; time travel keeps them
    time_travel_days: float = 7.0
    zones: int = 2  # availability zones of subnets
    metrics: int = 47  # custom metrics that exist all month
    alarms: int = 37  # metrics that the alarms watch: each is billed


@dataclass(frozen=True)
class Monthly:
    """US dollars per month. `busy_hours` counts the hours with workers; `other_by_service` breaks down `other`."""

    spark: float
    other: float
    fixed: float
    busy_hours: float
    runs: float
    other_by_service: Mapping[str, float]

    @property
    def total(self) -> float:
        return self.spark + self.other + self.fixed


def sluice_monthly(
    load: Load, given: Assumptions = Assumptions(), *, freshness_s: float = float(TableSettings().freshness_s)
) -> Monthly:
    """The cost of one lane for all tables, all of this freshness.

    A run goes on while objects can be claimed within its linger, or come due soon. Where it ends, the next one starts
    for the first object that may be claimed: arrivals within the freshness share it.
    """
    together = max(1, ceil(freshness_s / load.every_s)) if freshness_s > given.linger_s else 1
    load = replace(load, every_s=load.every_s * together, objects=load.objects * together, mb=load.mb * together)
    trickles = load.every_s / together <= given.linger_s
    commits_s = ceil(load.tables / TABLES_AT_ONCE) * given.commit_s
    executors = given.least_executors
    if load.objects > given.driver_objects * load.tables:
        executors = max(1, executors)
    while executors < given.most_executors and _work_s(load, executors, commits_s, given) > load.every_s:
        executors += 1
    work_s = _work_s(load, executors, commits_s, given)
    arrivals = SECONDS_A_MONTH / load.every_s
    idle_s = load.every_s - work_s
    run_s = max(60.0, given.start_s + work_s + given.linger_s)
    stays = (
        idle_s <= given.linger_s
        or (trickles and idle_s - given.linger_s <= given.stay_s)
        or run_s >= load.every_s  # what arrives meets the run of the arrival before
    )
    busy_s = SECONDS_A_MONTH if stays else arrivals * run_s
    spark = busy_s / 3600 * _workers_usd(given, executors)
    batches = min(arrivals, SECONDS_A_MONTH / 60)
    tables = min(load.tables, load.objects)
    other = other_usd(Throughput(load.objects_a_month, batches, batches * tables, busy_s), given)
    for service, usd in upkeep_monthly(load, given).items():
        other[service] += usd
    return Monthly(
        spark,
        sum(other.values()),
        sum(fixed_monthly(load.tables, given).values()),
        busy_s / 3600,
        1.0 if stays else arrivals,
        other,
    )


@dataclass(frozen=True)
class Throughput:
    """The work of a pipeline. A batch has one commit per table; `up_s` counts the seconds in which the lane was up.

    `files` are those that the commits wrote beyond `few_files` each.
    """

    objects: float
    batches: float
    commits: float
    up_s: float
    files: float = 0.0


def other_usd(through: Throughput, given: Assumptions = Assumptions()) -> dict[str, float]:
    """The cost in US dollars of all services but Spark, by service, as far as it depends on the work."""
    prices = given.prices.other
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
        "dynamodb": writes / MILLION * prices.dynamodb_writes_million + reads / MILLION * prices.dynamodb_reads_million,
        "s3": commits * given.s3_puts / MILLION * prices.s3_puts_million
        + files_usd(through.files, given)
        + (commits * given.s3_gets + objects * given.object_gets) / MILLION * prices.s3_gets_million,
        "sqs": objects * 3 / MILLION * prices.sqs_requests_million,
        "lambda": gb_s * prices.lambda_gb_second
        + (objects + 2 * commits + 2 * batches) / MILLION * prices.lambda_requests_million,
        "step_functions": transitions / MILLION * prices.state_transitions_million,
        "eventbridge": batches / MILLION * prices.events_million,
        "logs": (objects + commits) * 1_500 / 1e9 * prices.cloudwatch_logs_gb,
    }


def files_usd(files: float, given: Assumptions = Assumptions()) -> float:
    """The cost in US dollars of the requests by which so many files are written."""
    return files * given.file_puts / MILLION * given.prices.other.s3_puts_million


def upkeep_monthly(load: Load, given: Assumptions = Assumptions()) -> dict[str, float]:
    """The cost of looking after the objects, by service: reconcile, audit, sweep, the ledger and its recovery."""
    prices = given.prices.other
    versions = load.objects_a_month * given.versions_months
    passes, audits, sweeps = given.passes_a_day * DAYS_A_MONTH, DAYS_A_MONTH, DAYS_A_MONTH / 7
    listings = min(versions / 1000, given.pages_a_pass) * passes + versions / 200 * audits  # pages
    reads = load.objects_a_month * given.passes_an_object + versions * (audits + sweeps * given.record_kb / 8)
    gb = versions * given.record_kb / 1e6
    return {
        "s3": listings / MILLION * prices.s3_puts_million + versions * sweeps / MILLION * prices.s3_gets_million,
        "dynamodb": reads / MILLION * prices.dynamodb_reads_million
        + gb * (prices.dynamodb_gb_month + prices.dynamodb_recovery_gb_month),
        "lambda": listings * 0.1 * prices.lambda_gb_second,  # a fifth of a second in 512 MB
    }


def on_top_monthly(load: Load, given: Assumptions = Assumptions()) -> dict[str, float]:
    """What a stack costs besides, if it has it: by what it is."""
    prices = given.prices.other
    gb_a_month = load.mb / 1000 * SECONDS_A_MONTH / load.every_s
    zone_hours = given.zones * HOURS_A_MONTH
    return {
        "storage of objects in bronze": gb_a_month * given.versions_months * prices.s3_gb_month,
        "storage of older files for time travel": gb_a_month
        * given.rewritten
        * (given.time_travel_days / DAYS_A_MONTH)
        * prices.s3_gb_month,
        "a key of its own (KMS)": prices.kms_key_month
        + load.objects_a_month * 2 / MILLION * prices.kms_requests_million,
        "the job in subnets: an endpoint for KMS": zone_hours * prices.endpoint_hour,
        "functions too: four endpoints": 4 * zone_hours * prices.endpoint_hour,
        "a NAT gateway instead of endpoints": zone_hours * prices.nat_hour,
    }


def ceiling_a_day(vcpu: float, memory_gb: float, given: Assumptions = Assumptions()) -> float:
    """The most that Spark can cost a day, in US dollars: an application at its largest, all day long."""
    return given.prices.spark_usd(given.architecture, vcpu_hours=24 * vcpu, memory_gb_hours=24 * memory_gb)


def commits_a_minute(given: Assumptions = Assumptions()) -> float:
    """The most commits of small tables that one lane makes."""
    return TABLES_AT_ONCE * 60 / given.commit_s


def lanes_needed(load: Load, freshness_s: float, given: Assumptions = Assumptions()) -> int:
    """The lanes that commit this load's tables as often as their freshness and arrivals ask for."""
    commits = min(load.tables, load.objects) * 60 / max(freshness_s, load.every_s)
    return max(1, ceil(commits / commits_a_minute(given)))


@dataclass(frozen=True)
class SparkBill:
    """The bill of EMR Serverless for a run: vCPU hours, GB hours of memory, and their price in US dollars."""

    vcpu_hours: float
    memory_gb_hours: float
    usd: float


def smallest_run_bill(seconds: float, given: Assumptions = Assumptions()) -> SparkBill:
    """The bill for a run of so many seconds with a driver and one executor."""
    hours = max(seconds, MINIMUM_BILLED_S) / 3600
    vcpu, memory = (given.driver_vcpu + given.executor_vcpu) * hours, (given.driver_gb + given.executor_gb) * hours
    return SparkBill(vcpu, memory, given.prices.spark_usd(given.architecture, vcpu_hours=vcpu, memory_gb_hours=memory))


@dataclass(frozen=True)
class Once:
    """The time and the cost of merging a backlog once, with the lane's most executors. `usd` has no fixed costs."""

    seconds: float
    usd: float


def backlog_once(objects: int, mb: float, tables: int, given: Assumptions = Assumptions()) -> Once:
    """Estimate one run that merges objects of so many megabytes together, in batches of the default size."""
    if not objects:
        return Once(0.0, 0.0)
    lane = LaneConfig()
    batches = max(ceil(objects / lane.batch_objects), ceil(mb * MILLION / lane.batch_bytes))
    commits_s = batches * ceil(tables / TABLES_AT_ONCE) * given.commit_s
    busy_s = given.start_s + _work_s(Load("", tables, 1.0, objects, mb), given.most_executors, commits_s, given)
    other = other_usd(Throughput(objects, batches, batches * tables, busy_s), given)
    return Once(busy_s, busy_s / 3600 * _workers_usd(given, given.most_executors) + sum(other.values()))


def _workers_usd(given: Assumptions, executors: int) -> float:
    """The price of a driver and so many executors per hour."""
    prices = given.prices.spark[given.architecture]
    vcpu = given.driver_vcpu + executors * given.executor_vcpu
    memory = given.driver_gb + executors * given.executor_gb
    return vcpu * prices.vcpu_hour + memory * prices.memory_gb_hour


def streaming_monthly(tables: int, given: Assumptions = Assumptions()) -> float:
    """The cost of the workers of one always-on streaming job per table, on EMR Serverless."""
    prices = given.prices.spark[given.architecture]
    return (
        tables * HOURS_A_MONTH * (given.streaming_vcpu * prices.vcpu_hour + given.streaming_gb * prices.memory_gb_hour)
    )


def scheduled_monthly(load: Load, given: Assumptions = Assumptions()) -> float:
    """The cost of one scheduled job per table. Each starts anew, and runs even if nothing arrived."""
    prices = given.prices.spark[given.architecture]
    mb = load.mb / load.tables * max(1.0, given.schedule_s / load.every_s)
    busy_s = max(60.0, given.start_s + given.commit_s + mb / (given.mb_per_vcpu_s * given.executor_vcpu))
    runs = load.tables * SECONDS_A_MONTH / given.schedule_s
    return runs * busy_s / 3600 * (given.schedule_vcpu * prices.vcpu_hour + given.schedule_gb * prices.memory_gb_hour)


def crossover_hours_a_day(tables: int, given: Assumptions = Assumptions()) -> float | None:
    """The hours per day that a lane's smallest run may be up and still cost less than streaming; None for all day."""
    hours = (
        max(0.0, streaming_monthly(tables, given) - sum(fixed_monthly(tables, given).values()))
        / _workers_usd(given, given.least_executors)
        / HOURS_A_MONTH
        * 24
    )
    return None if hours >= 24 else hours


def crossover_interval_s(tables: int, given: Assumptions = Assumptions()) -> float | None:
    """The seconds between arrivals from which a run for each costs less than streaming; None for any interval."""
    hours = crossover_hours_a_day(tables, given)
    if hours is None:
        return None
    one_s = given.start_s + ceil(tables / TABLES_AT_ONCE) * given.commit_s + given.linger_s
    return one_s * 24 / hours if hours else float("inf")


FRESHNESS_CHOICES_S = (300, 600, 900, 1800, 3600)


@dataclass(frozen=True)
class FreshnessAdvice:
    """What a longer freshness saves a lane that is up for longer than pays. Dollars are those of a month."""

    tables: int
    freshness_s: int
    hours_a_day: float
    usd: float
    streaming_usd: float
    better_freshness_s: int
    better_usd: float

    @property
    def described(self) -> str:
        jobs = "one streaming job" if self.tables == 1 else f"{self.tables} streaming jobs"
        better = DURATION.write(self.better_freshness_s)
        return (
            f"up {self.hours_a_day:.0f} hours a day, about {self.usd:.0f} US dollars a month, where {jobs} would cost "
            f"{self.streaming_usd:.0f}. Write `freshness: {better}` into its rules or under `defaults`: then it costs "
            f"about {self.better_usd:.0f} (docs/cost.md)"
        )


def observed_monthly(hours_a_day: float, tables: int, given: Assumptions = Assumptions()) -> float:
    """The cost of a lane of the smallest size that is up for so many hours a day, without what depends on its work."""
    return hours_a_day / 24 * HOURS_A_MONTH * _workers_usd(given, given.least_executors) + sum(
        fixed_monthly(tables, given).values()
    )


def freshness_advice(load: Load, freshness_s: int, given: Assumptions = Assumptions()) -> FreshnessAdvice | None:
    """Advise a longer freshness where streaming jobs would cost less than the lane, and the lane with it even less.

    The shortest freshness that does so is advised; None where nothing is to be gained.
    """
    now = sluice_monthly(load, given, freshness_s=freshness_s)
    streaming = streaming_monthly(load.tables, given)
    if now.total <= streaming:
        return None
    for better_s in FRESHNESS_CHOICES_S:
        better = sluice_monthly(load, given, freshness_s=better_s)
        if better_s > freshness_s and better.total < streaming:
            return FreshnessAdvice(
                load.tables,
                freshness_s,
                now.busy_hours / HOURS_A_MONTH * 24,
                now.total,
                streaming,
                better_s,
                better.total,
            )
    return None


def _work_s(load: Load, executors: int, commits_s: float, given: Assumptions) -> float:
    vcpu = executors * given.executor_vcpu or given.driver_vcpu
    return commits_s + load.mb / (given.mb_per_vcpu_s * vcpu)


def fixed_monthly(tables: int, given: Assumptions = Assumptions()) -> dict[str, float]:
    """The monthly cost in US dollars of a stack in which nothing arrives, by service."""
    prices = given.prices.other
    looks = SECONDS_A_MONTH / given.look_s
    # GB-seconds of supervise, reconcile and plan_services.
    schedules = SECONDS_A_MONTH / 120 * 0.5 * 0.5 + SECONDS_A_MONTH / 900 * 0.5 * 2.0 + looks * given.look_gb_s
    return {
        "cloudwatch": given.metrics * prices.cloudwatch_metric_month
        + given.alarms * prices.cloudwatch_alarm_month
        + prices.cloudwatch_dashboard_month,
        "lambda": schedules * prices.lambda_gb_second,
        "step_functions": looks * given.look_transitions / MILLION * prices.state_transitions_million,
        "dynamodb": looks * tables * given.look_reads / MILLION * prices.dynamodb_reads_million,
    }
