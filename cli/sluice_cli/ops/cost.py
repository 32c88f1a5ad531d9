"""`sluice ops cost`: the cost of past runs by their billed resources, and estimates of monthly cost.

`sluice ops cost runs` lists the job runs of EMR Serverless, which alone knows what they were billed for, trials too;
`sluice ops runs` lists the runs of the ledger, which knows why they ended. Both show the run's name and state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import typer

from sluice.config.table import TableSettings
from sluice.cost import (
    Assumptions,
    Load,
    ceiling_a_day,
    commits_a_minute,
    crossover_hours_a_day,
    crossover_interval_s,
    fixed_monthly,
    lanes_needed,
    on_top_monthly,
    scheduled_monthly,
    sluice_monthly,
    streaming_monthly,
)
from sluice.errors import UsageError
from sluice.prices import PriceList
from sluice_aws.stack import LOCAL
from sluice_cli.account.region_prices import prices_for, prices_of
from sluice_cli.ops.bills import _ended, _line, _remarks, _usd, besides_runs, by_table, dear_files
from sluice_cli.terminal.options import Json, Stack, TimeSpan, at_least, named_stack, option, seconds
from sluice_cli.terminal.output import described_documents, print_json, say, say_skipped
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import counted

app = typer.Typer(no_args_is_help=True)
LOADS = (
    Load("one object a minute over seven tables", tables=7, every_s=60, objects=1, mb=0.1),
    Load("hourly bursts of 700 objects over seven tables", tables=7, every_s=3600, objects=700, mb=350),
    Load("100 GB a day over seven tables, a batch a minute", tables=7, every_s=60, objects=70, mb=100_000 / 1440),
)
GIVEN = Assumptions()
DEFAULT_FRESHNESS_S = TableSettings().freshness_s
COLUMNS = dict(zip(LOADS, ("one object a minute", "hourly bursts", "100 GB a day"), strict=True))
IDLE = "no arrivals"
SERVICES = {
    "dynamodb": "DynamoDB",
    "s3": "S3",
    "sqs": "SQS",
    "lambda": "Lambda",
    "step_functions": "Step Functions",
    "eventbridge": "EventBridge",
    "logs": "logs",
    "cloudwatch": "CloudWatch",
}
LARGEST = {"MaximumCpu": "16 vCPU", "MaximumMemory": "128 GB"}  # the template's defaults


@app.command("runs")
def runs(
    limit: Annotated[int, option("--limit N", "Number of job runs, newest first.", min=1, max=500)] = 20,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Show the cost of the last runs by their billed resources, and by table in proportion to its bytes.

    Prices are list prices of the region and date in the output, read from AWS once a month. The cost of the other
    services (ledger, S3, queue, functions, state machine) is an estimate, as by `sluice ops cost estimate`. Local runs
    cost nothing: an estimate shows what EMR Serverless would bill for their seconds with a driver and one executor.

    Example:

      sluice ops cost runs --limit 50
    """
    target = chosen_target(stack)
    prices = prices_for(target)
    costs = list(islice(_ended(target, prices), limit))
    past = target.past_batches()
    batches = list(past.newest(at_most=20 * limit))
    say_skipped(past.skipped)
    given = Assumptions(prices)
    tables = by_table({one.run: one.usd for one in costs if one.usd is not None}, batches, given)
    besides = besides_runs(costs, batches, given)
    if as_json:
        print_json(
            {
                "prices": _described_prices(prices),
                "runs": [asdict(one) for one in costs],
                "tables": tables,
                "besides": besides,
                "skipped_documents": described_documents(past.skipped),
            }
        )
        return
    say(prices.described(target.region))
    if not costs:
        say("No run has ended yet, and runs that work or wait for more objects are not listed")
        return
    for line in _remarks(costs):
        say(line)
    print_table(
        ("run", "state", "vCPU hours", "GB hours", "USD"), [_line(one) for one in costs], right=(2, 3, 4), states=(1,)
    )
    if tables:  # none where no run has a bill yet, as was said
        print_table(
            ("table", "GB", "USD", "USD/GB", "files USD"),
            [
                (name, f"{cost['gb']:.6f}", *(_usd(cost[column]) for column in ("usd", "usd_per_gb", "files_usd")))
                for name, cost in tables.items()
            ],
            right=(1, 2, 3, 4),
        )
        for line in dear_files(tables):
            say(line)
    say(
        f"other services, estimated, for {counted(besides['objects'], 'object')} in "
        f"{counted(besides['batches'], 'batch', 'batches')}: "
        + ", ".join(f"{SERVICES[name]} {_usd(usd)}" for name, usd in besides["usd"].items())
    )


_GIVEN_BY_DEFAULT = (60, 1, 0.1)  # --every, --objects and --mb


@app.command("estimate")
def estimate(
    tables: Annotated[int | None, option("--tables N", "Number of tables.", min=1)] = None,
    every: Annotated[
        float, option("--every DURATION", "Time between two arrivals: 90s, 5m, 2h.", parser=at_least(1))
    ] = TimeSpan(60),
    objects: Annotated[int, option("--objects N", "Objects per arrival.", min=1)] = 1,
    mb: Annotated[float, option("--mb N", "Megabytes per arrival, as stored.", min=0.0)] = 0.1,
    freshness: Annotated[
        float, option("--freshness DURATION", "How old a table may get: 90s, 5m, 2h.", parser=seconds)
    ] = TimeSpan(DEFAULT_FRESHNESS_S),
    region: Annotated[
        str | None, option("--region REGION", "Use this region's list prices, read from AWS once a month.")
    ] = None,
    as_json: Json = False,
    stack: Stack = None,
) -> None:
    """Estimate the monthly cost of a load with Sluice, a streaming job per table, and an hourly job per table.

    Without --tables, estimates three loads: a trickle, bursts, and 100 GB a day. Needs no stack, and makes no calls
    for us-east-1. With --stack, the ceiling is that of the stack's own application, and the prices are those of its
    region. docs/cost.md lists the assumptions.

    Examples:

      sluice ops cost estimate --tables 7 --every 1h --objects 700 --mb 350
      sluice ops cost estimate --tables 1 --freshness 10m
    """
    if tables is None and (every, objects, mb) != _GIVEN_BY_DEFAULT:
        raise UsageError(
            "--every, --objects and --mb describe a load of yours, and the number of its tables is missing",
            next_step=f"Name it, as in {Step('cost estimate', '--tables', '7')}",
        )
    freshness_s = int(freshness)
    loads = (Load("as given", tables, every, objects, mb),) if tables is not None else LOADS
    target = chosen_target(stack) if stack or named_stack.get() else None
    region = region or (target.region if target and target.kind != LOCAL else None)
    prices = prices_of(region)
    given = Assumptions(prices)
    vcpu, memory_gb = _largest(target.parameters if target else {})
    if as_json:
        print_json(
            {
                "prices": _described_prices(prices),
                "ceiling_usd_a_day": ceiling_a_day(vcpu, memory_gb, given),
                "assumptions": {name: value for name, value in asdict(given).items() if name != "prices"},
                "freshness_s": freshness_s,
                "loads": [{**asdict(load), **_figures(load, freshness_s, given)} for load in loads],
            }
        )
        return
    say(f"US dollars a month, {prices.described(region)}; assumptions in docs/cost.md")
    print_table(
        ("load", "Sluice", "of it Spark", "up h/day", "streaming", "hourly jobs"),
        table_of(loads, freshness_s, given),
        right=(1, 2, 3, 4, 5),
    )
    say("US dollars a month for services other than Spark")
    columns = ("service", *(COLUMNS.get(load, load.name) for load in loads), IDLE)
    print_table(columns, services_of(loads, freshness_s, given), right=range(1, len(columns)))
    say("US dollars a month on top, for what a stack has of these")
    print_table(("what", *columns[1:-1]), on_top_of(loads, given), right=range(1, len(columns) - 1))
    ceiling = f"{ceiling_a_day(vcpu, memory_gb, given):.0f} US dollars a day"
    say(f"At most {ceiling} for Spark, by MaximumCpu={vcpu:g} vCPU and MaximumMemory={memory_gb:g} GB")
    for load in loads:
        lanes = lanes_needed(load, freshness_s)
        if lanes > 1:
            say(
                f"{load.name}: one lane makes at most {commits_a_minute():.0f} commits a minute. Divide the tables "
                f"among {lanes} lanes, or give them a longer freshness"
            )
    numbers = [tables] if tables is not None else sorted({1, 2, *(load.tables for load in loads)})
    for line in crossover_lines(numbers, given):
        say(line)


def table_of(
    loads: Iterable[Load], freshness_s: int = DEFAULT_FRESHNESS_S, given: Assumptions = GIVEN
) -> list[tuple[str, ...]]:
    """A row for each load: the costs of the alternatives."""
    rows = []
    for load in loads:
        described = _figures(load, freshness_s, given)
        rows.append(
            (
                load.name,
                *(f"{described[name]:.0f}" for name in ("sluice", "spark")),
                f"{described['busy_hours_a_day']:.1f}",
                *(f"{described[name]:.0f}" for name in ("streaming", "hourly_jobs")),
            )
        )
    return rows


def services_of(
    loads: Iterable[Load], freshness_s: int = DEFAULT_FRESHNESS_S, given: Assumptions = GIVEN
) -> list[tuple[str, ...]]:
    """A row for each service but Spark, and one for all: a column for each load, and one for a stack without arrivals.

    A load's column includes what the stack costs without it.
    """
    listed = list(loads)
    columns = [fixed_monthly(load.tables, given) for load in (*listed, listed[-1])]
    for column, load in zip(columns, listed, strict=False):
        for key, usd in sluice_monthly(load, given, freshness_s=freshness_s).other_by_service.items():
            column[key] = column.get(key, 0) + usd
    rows = [(name, *(f"{sums.get(key, 0):.2f}" for sums in columns)) for key, name in SERVICES.items()]
    return [*rows, ("together", *(f"{sum(sums.values()):.2f}" for sums in columns))]


def on_top_of(loads: Iterable[Load], given: Assumptions = GIVEN) -> list[tuple[str, ...]]:
    """A row for each thing that a stack may have besides: a column for each load."""
    columns = [on_top_monthly(load, given) for load in loads]
    return [(name, *(f"{column[name]:.2f}" for column in columns)) for name in columns[0]]


def _largest(parameters: Mapping[str, str]) -> tuple[float, float]:
    """The vCPU and the GB of memory that an application has at most, by the parameters of its stack."""
    given = (parameters.get(name) or default for name, default in LARGEST.items())
    vcpu, memory = (float(re.sub(r"[^0-9]", "", value)) for value in given)
    return vcpu, memory


def crossover_lines(tables: Iterable[int], given: Assumptions = GIVEN) -> list[str]:
    """The point from which a lane costs more than streaming, for each number of tables."""
    lines = []
    for number in tables:
        hours, interval = crossover_hours_a_day(number, given), crossover_interval_s(number, given)
        what = f"{number} table{'' if number == 1 else 's'}"
        if hours is None or interval is None:
            lines.append(f"{what}: cheaper than streaming even when its smallest run never ends")
        else:
            lines.append(
                f"{what}: cheaper than streaming while the lane is up at most {hours:.1f} hours a day, "
                f"that is with arrivals at least {interval / 60:.0f} minutes apart"
            )
    return lines


def _figures(load: Load, freshness_s: int, given: Assumptions) -> dict[str, Any]:
    lane = sluice_monthly(load, given, freshness_s=freshness_s)
    return {
        "sluice": lane.total,
        "spark": lane.spark,
        "other": lane.other,
        "fixed": lane.fixed,
        "besides": dict(lane.other_by_service),
        "fixed_parts": fixed_monthly(load.tables, given),
        "on_top": on_top_monthly(load, given),
        "lanes": lanes_needed(load, freshness_s),
        "runs": lane.runs,
        "busy_hours_a_day": lane.busy_hours / 730 * 24,
        "streaming": streaming_monthly(load.tables, given),
        "hourly_jobs": scheduled_monthly(load, given),
    }


def _described_prices(prices: PriceList) -> dict[str, Any]:
    return {"as_of": prices.as_of, "region": prices.region, "assumed": list(prices.assumed)}
