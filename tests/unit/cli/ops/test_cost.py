"""The parts of the costs, and the agreement of the document with the calculation."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sluice import prices
from sluice.cost import (
    HOURS_A_MONTH,
    Assumptions,
    Load,
    Throughput,
    crossover_hours_a_day,
    crossover_interval_s,
    other_usd,
    scheduled_monthly,
    sluice_monthly,
    streaming_monthly,
)
from sluice_cli.main import run
from sluice_cli.ops.cost import LOADS, RunCost, besides_of, besides_runs, by_table, crossover_lines, table_of

DOCUMENT = Path(__file__).resolve().parents[4] / "docs" / "cost.md"


def batch(run_id, **sizes):
    return SimpleNamespace(
        manifest=SimpleNamespace(run=run_id, tables={name: SimpleNamespace(bytes=size) for name, size in sizes.items()})
    )


def test_a_runs_whole_cost_is_divided_among_its_tables_by_bytes():
    summary = by_table(
        {"r1": 1.0, "r2": 0.5, "r3": 0.2},
        [batch("r1", a=3 * 10**9), batch("r1", b=10**9), batch("r2", a=0, b=0), batch("older", a=1)],
    )
    assert summary["a"] == {"gb": 3.0, "usd": pytest.approx(0.75 + 0.25), "usd_per_gb": pytest.approx(1 / 3)}
    assert summary["(idle)"]["usd"] == 0.2 and sum(one["usd"] for one in summary.values()) == pytest.approx(1.7)


def test_a_trickle_keeps_one_lane_up_and_bursts_pay_for_their_minutes_alone():
    trickle, bursts = sluice_monthly(LOADS[0]), sluice_monthly(LOADS[1])
    assert trickle.busy_hours == HOURS_A_MONTH and bursts.runs == pytest.approx(HOURS_A_MONTH)
    assert bursts.spark < trickle.spark / 5


def test_a_load_that_one_executor_can_not_merge_in_time_gets_more_of_them():
    load = Load("much", 7, 60, 70, 400)
    assert sluice_monthly(load).spark > 1.5 * sluice_monthly(replace(load, mb=1)).spark


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
    assert prices.spark_usd("ARM64", vcpu_hours=1, memory_gb_hours=1) < prices.spark_usd(
        "X86_64", vcpu_hours=1, memory_gb_hours=1
    )


def test_the_document_shows_the_calculated_costs():
    text = DOCUMENT.read_text(encoding="utf-8")
    for row in (*table_of(LOADS), *besides_of(LOADS)):
        assert f"| {' | '.join(row)} |" in text
    for line in crossover_lines((1, 2, 7)):
        assert f"- {line}" in text
    assert f"{prices.REGION}, {prices.AS_OF}" in text
    for name, value in vars(Assumptions()).items():
        assert f"| `{name}` | {value if isinstance(value, str) else format(value, 'g')} |" in text, name


def test_what_runs_cost_besides_spark_is_reckoned_from_their_own_batches():
    def batch(run_id, *objects):
        return SimpleNamespace(
            manifest=SimpleNamespace(
                run=run_id,
                tables={str(number): SimpleNamespace(objects=range(count)) for number, count in enumerate(objects)},
            )
        )

    summary = besides_runs(
        [RunCost("r1", "SUCCESS", 4.0, 14.0, 1.0)], [batch("r1", 3, 1), batch("r1", 2), batch("another", 9)]
    )
    assert (summary["objects"], summary["batches"], summary["commits"]) == (6, 2, 3)
    assert summary["usd"] == other_usd(Throughput(6, 2, 3, 3600.0))
    given = Assumptions()
    transitions = (
        2 * given.look_transitions + 3 * given.sync_transitions + 2 / given.looks_a_service * given.service_transitions
    )
    assert summary["usd"]["step_functions"] == pytest.approx(
        transitions * prices.OTHER_PRICES.state_transitions_million / 1e6
    )


def test_an_estimate_needs_no_stack(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert run(["cost", "estimate", "--tables", "2", "--every", "7200", "--json"]) == 0
    assert '"streaming"' in capsys.readouterr().out


def test_the_estimate_needs_no_options(capsys):
    assert run(["cost", "estimate"]) == 0
    printed = capsys.readouterr().out
    assert all(load.name in printed for load in LOADS)
    assert run(["cost", "estimate", "--tables", "0"]) == 2
