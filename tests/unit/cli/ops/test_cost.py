"""The parts of the costs, and the agreement of the document with the calculation."""

import json
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from sluice import prices
from sluice.batch.claim import TableState
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.config.values import DURATION
from sluice.cost import (
    FRESHNESS_CHOICES_S,
    HOURS_A_MONTH,
    Assumptions,
    Load,
    Throughput,
    crossover_hours_a_day,
    crossover_interval_s,
    freshness_advice,
    other_usd,
    scheduled_monthly,
    sluice_monthly,
    streaming_monthly,
    upkeep_monthly,
)
from sluice_cli.account.region_prices import prices_of
from sluice_cli.main import run
from sluice_cli.ops.bills import RunCost, besides_runs, by_table, dear_files
from sluice_cli.ops.cost import LOADS, crossover_lines, on_top_of, services_of, table_of
from sluice_cli.status.overview import lane_advice
from sluice_spark.merge.driver_limits import OBJECTS_IN_DRIVER

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "cost.md"


def batch(run_id, files=4, **sizes):
    parts = {name: SimpleNamespace(bytes=size) for name, size in sizes.items()}
    outcomes = dict.fromkeys(sizes, SimpleNamespace(counts={"files_written": files}))
    return SimpleNamespace(manifest=SimpleNamespace(run=run_id, tables=parts), outcomes=outcomes)


def test_a_runs_whole_cost_is_divided_among_its_tables_by_bytes():
    summary = by_table(
        {"r1": 1.0, "r2": 0.5, "r3": 0.2},
        [batch("r1", a=3 * 10**9), batch("r1", b=10**9), batch("r2", a=0, b=0), batch("older", a=1)],
        Assumptions(),
    )
    expected = {"gb": 3.0, "usd": pytest.approx(0.75 + 0.25), "usd_per_gb": pytest.approx(1 / 3), "files_usd": 0.0}
    assert summary["a"] == expected
    assert summary["(idle)"]["usd"] == 0.2 and sum(one["usd"] for one in summary.values()) == pytest.approx(1.7)


def test_files_that_cost_more_than_the_runs_are_named_with_what_helps():
    """A commit to two thousand partitions takes some four thousand puts: two cents."""
    batches = [batch("r1", files=2_004, parts=10**6), batch("r1", flat=10**6), batch("other", files=10**6, flat=1)]
    summary = by_table({"r1": 0.02}, batches, Assumptions())
    assert summary["parts"]["files_usd"] == pytest.approx(2_000 * 2 * 5 / 1e6) and summary["flat"]["files_usd"] == 0
    (line,) = dear_files(summary)
    assert line.startswith("parts: ") and "freshness" in line and "bucket(n)" in line


def test_a_trickle_keeps_one_lane_up_and_bursts_pay_for_their_minutes_alone():
    trickle, bursts = sluice_monthly(LOADS[0]), sluice_monthly(LOADS[1])
    assert trickle.busy_hours == HOURS_A_MONTH and bursts.runs == pytest.approx(HOURS_A_MONTH)
    assert bursts.spark < trickle.spark / 5


def test_a_lane_is_up_all_day_at_most_however_short_its_linger():
    for every_s in (30, 61, 75, 90):
        lane = sluice_monthly(Load("shop", 1, every_s, 1, 0.1), Assumptions(linger_s=20), freshness_s=0)
        assert lane.busy_hours <= HOURS_A_MONTH, every_s


def test_a_load_that_one_executor_can_not_merge_in_time_gets_more_of_them():
    load = Load("much", 7, 60, 70, 400)
    assert sluice_monthly(load).spark > 1.5 * sluice_monthly(replace(load, mb=1)).spark


def test_a_lane_that_keeps_no_executor_pays_for_its_driver_alone():
    usual, none = Assumptions(), Assumptions(least_executors=0)
    trickle, bursts = LOADS[0], replace(LOADS[0], objects=700)
    assert sluice_monthly(trickle, none).spark == pytest.approx(sluice_monthly(trickle, usual).spark / 2)
    assert sluice_monthly(bursts, none).spark == sluice_monthly(bursts, usual).spark
    assert none.driver_objects == OBJECTS_IN_DRIVER
    assert crossover_hours_a_day(1, none) == pytest.approx(2 * crossover_hours_a_day(1, usual))


def test_at_the_crossover_both_cost_the_same():
    given = Assumptions()
    interval, hours = crossover_interval_s(1), crossover_hours_a_day(1)
    at = sluice_monthly(Load("at", 1, interval, 1, 0.0), given)
    assert at.busy_hours / 730 * 24 == pytest.approx(hours)
    assert at.spark + at.fixed == pytest.approx(streaming_monthly(1), rel=1e-6)
    assert crossover_interval_s(7) is None and streaming_monthly(7) == pytest.approx(7 * streaming_monthly(1))


def test_a_schedule_costs_by_its_starts_whatever_comes():
    load = Load("x", 7, 3600, 7, 0.0)
    assert scheduled_monthly(load) == pytest.approx(7 * scheduled_monthly(replace(load, tables=1)))


def test_prices_have_a_date_and_a_region_and_arm_is_cheaper():
    assert prices.AS_OF.count("-") == 1 and prices.REGION == "us-east-1"
    arm, intel = (prices.BUNDLED.spark_usd(kind, vcpu_hours=1, memory_gb_hours=1) for kind in ("ARM64", "X86_64"))
    assert arm < intel


def freshness_rows(tables):
    """A row for each freshness: how long a lane with an object a minute is up, and its cost."""
    load = Load("an object a minute", tables=tables, every_s=60, objects=1, mb=0.1)
    lanes = {freshness_s: sluice_monthly(load, freshness_s=freshness_s) for freshness_s in (60, *FRESHNESS_CHOICES_S)}
    return [
        (DURATION.write(freshness_s), f"{lane.busy_hours / 730 * 24:.1f}", f"{lane.total:.0f}")
        for freshness_s, lane in lanes.items()
    ]


def test_the_document_shows_the_calculated_costs():
    text = DOCUMENT.read_text(encoding="utf-8")
    for row in (*table_of(LOADS), *services_of(LOADS), *on_top_of(LOADS)):
        assert f"| {' | '.join(row)} |" in text
    for one, seven in zip(freshness_rows(1), freshness_rows(7)):
        assert f"| {' | '.join((*one, *seven[1:]))} |" in text
    for line in crossover_lines((1, 2, 7)):
        assert f"- {line}" in text
    assert f"{sluice_monthly(LOADS[0], Assumptions(least_executors=0)).total:.0f} dollars" in text
    assert f"{prices.REGION}, {prices.AS_OF}" in text
    for name, value in vars(Assumptions()).items():
        if name == "prices":
            continue
        assert f"| `{name}` | {value if isinstance(value, str) else format(value, 'g')} |" in text, name


def test_what_runs_cost_besides_spark_is_reckoned_from_their_own_batches():
    def batch(run_id, *objects):
        return SimpleNamespace(
            manifest=SimpleNamespace(
                run=run_id,
                tables={str(number): SimpleNamespace(objects=range(count)) for number, count in enumerate(objects)},
            ),
            outcomes={"0": SimpleNamespace(counts={"files_written": 10}), "1": SimpleNamespace(counts={})},
        )

    given, runs = Assumptions(), [RunCost("r1", "SUCCESS", 4.0, 14.0, 1.0)]
    summary = besides_runs(runs, [batch("r1", 3, 1), batch("r1", 2), batch("another", 9)], given)
    assert (summary["objects"], summary["batches"], summary["commits"]) == (6, 2, 3)
    assert summary["usd"] == other_usd(Throughput(6, 2, 3, 3600.0, files=12))
    transitions = (
        2 * given.look_transitions + 3 * given.sync_transitions + 2 / given.looks_a_service * given.service_transitions
    )
    assert summary["usd"]["step_functions"] == pytest.approx(
        transitions * prices.OTHER_PRICES.state_transitions_million / 1e6
    )


def test_reconcile_asks_for_new_objects_and_the_audit_for_all():
    small, large = (upkeep_monthly(Load("x", 1, 60, objects, 1.0)) for objects in (10, 100))
    assert large["dynamodb"] == pytest.approx(10 * small["dynamodb"])
    versions = 10 * 43_800 * Assumptions().versions_months
    whole_passes = versions * 96 * 30.4 / 1e6 * prices.OTHER_PRICES.dynamodb_reads_million
    assert small["dynamodb"] < whole_passes / 20


def test_a_lane_has_a_ceiling_of_commits(sluice):
    assert "Divide the tables among 2 lanes" in sluice("ops cost estimate --tables 40 --objects 40").err
    assert "Divide" not in sluice("ops cost estimate --tables 40 --objects 40 --freshness 2m").err


@pytest.fixture
def frankfurt(monkeypatch, tmp_path):
    """AWS's price list as a command reads it: what it answers for each price, or raises; and how often it was read."""
    monkeypatch.setenv("SLUICE_CACHE", str(tmp_path))
    answers, asked = {"usd": dict.fromkeys(prices.PUBLISHED, 2.0)}, []

    def read(pricing, region):
        asked.append((pricing.meta.region_name, region))
        if isinstance(answers["usd"], Exception):
            raise answers["usd"]
        return answers["usd"]

    monkeypatch.setattr("sluice_cli.account.region_prices.read_prices", read)
    return answers, asked


def estimated(capsys):
    assert run(["ops", "cost", "estimate", "--tables", "2", "--region", "eu-central-1"]) == 0
    return capsys.readouterr().err


def test_prices_of_a_region_are_read_once_a_month_with_their_date(frankfurt, capsys):
    _, asked = frankfurt
    today = date.today()
    assert f"US dollars a month, list prices of eu-central-1, {today}; assumptions" in estimated(capsys)
    assert prices_of("eu-central-1", today + timedelta(days=30)).spark["arm64"].vcpu_hour == 2.0
    assert asked == [("us-east-1", "eu-central-1")], "the second came from the cache"
    assert prices_of("eu-central-1", today + timedelta(days=31)).as_of == str(today + timedelta(days=31))
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetProducts"), "pricing:GetProducts"),
        (NoCredentialsError(), "pricing:GetProducts"),
        ({}, "has nothing of eu-central-1"),
    ],
)
def test_prices_that_cannot_be_read_are_said_to_be_assumed(frankfurt, capsys, answer, said):
    answers, asked = frankfurt
    answers["usd"] = answer
    for _ in range(2):
        err = estimated(capsys)
        assert said in err and f"list prices of {prices.REGION}, {prices.AS_OF}, assumed for eu-central-1" in err
    assert len(asked) == 2, "nothing is kept"


def test_the_shortest_freshness_that_costs_less_than_streaming_is_advised():
    advice = freshness_advice(Load("a trickle", 2, 60, 1, 0.1), 60)
    assert advice.usd > advice.streaming_usd > advice.better_usd and advice.better_freshness_s == 300
    assert advice.described == (
        f"up 24 hours a day, about {advice.usd:.0f} US dollars a month, where 2 streaming jobs would cost 221. "
        f"Write `freshness: 5m` into its rules or under `defaults`: then it costs about {advice.better_usd:.0f} "
        "(docs/cost.md)"
    )


def test_config_check_names_a_lane_that_a_trickle_would_keep_up(capsys, tmp_path):
    def check(text):
        (tmp_path / "tables.yaml").write_text(text)
        assert run(["config", "check", str(tmp_path / "tables.yaml"), "--json"]) == 0
        return json.loads(capsys.readouterr().out)["notes"]

    one = "tables: [{topic: a, table: a.b, record_key: id%s}]"
    (note,) = check(one % "")
    assert note.startswith("lane main, if an object comes every minute: up 24 hours a day, about 2")
    assert "Write `freshness: 10m` into its rules" in note
    assert check(one % ", freshness: 10m") == []
    assert check("tables: [{topic: 'a.*', table: 'a.{1}', record_key: id}]") == [], "nobody knows how many tables"


HOUR_MS = 3_600_000
NOW = 1_700_000_000_000
PINNED = TableState("a.b", pinned={"topic": "a"})
ONE_TABLE = Configuration((TableRule("a.b", ("id",), topic="a"),))


def day_of(share, *, hours=24):
    """Runs, newest first, that were up for a share of each hour."""
    starts = [NOW - (hour + 1) * HOUR_MS for hour in range(hours)]
    times = [{"started_at": at, "ended_at": at + int(share * HOUR_MS)} for at in starts]
    return [{"run": f"r{hour}", "lane": "main", "batches": 50, **of} for hour, of in enumerate(times)]


def test_status_names_a_lane_that_was_up_longer_than_pays():
    (advice,) = lane_advice(day_of(1), [PINNED], ONE_TABLE, NOW)
    assert (advice["lane"], advice["tables"], advice["better_freshness_s"]) == ("main", 1, 600)
    assert advice["hours_a_day"] == pytest.approx(24, rel=0.05) and advice["usd"] > advice["streaming_usd"]
