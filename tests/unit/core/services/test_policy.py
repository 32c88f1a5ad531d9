"""Which services of a table are due, and their settings in tables.yaml."""

from dataclasses import replace

import pytest

from sluice.batch.claim import TableState
from sluice.config.catalog import CatalogRule
from sluice.config.document import Configuration
from sluice.config.services import Pace, ServicePolicy
from sluice.config.setting import with_differences
from sluice.config.table import TableConfig
from sluice.services import policy
from sluice.services.policy import CATALOG, ServiceFacts
from sluice.services.requests import COMPACTION, SERVICES
from sluice_cli.config.source import read_tables
from sluice_cli.config.yaml_lines import ConfigurationMistakes

SECOND, HOUR, DAY = 1_000, 3_600_000, 86_400_000
NOW = 100 * DAY
SERVED = ServicePolicy(cluster_by=("day",))
CONFIG = TableConfig(
    "shop.orders", "shop", "orders", "shop.orders", ("id",), table_type="mor", delete_mode="hard", services=SERVED
)

STATE = TableState("shop.orders", NOW - HOUR, "20240101", services_since=NOW - 40 * DAY)


def facts(service, *, deleted=0, **of_service):
    return replace(STATE, totals={"deleted": deleted}), {service: ServiceFacts(**of_service)}


def due(state_and_services, config=CONFIG, now=NOW):
    return policy.due(*state_and_services, config, now)


def names(services):
    return [service.service for service in services]


@pytest.mark.parametrize("service", ["compaction", "clustering", "cleaning", "archival"])
def test_a_service_is_due_by_commits_and_not_before(service):
    pace = CONFIG.services.pace(service)
    for commits, expected in ((pace.commits, [service]), (pace.commits - 1, [])):
        served = facts(service, commits=commits, done_at=NOW - 700 * SECOND, ended_at=NOW - 700 * SECOND)
        assert names(due(served)) == expected


@pytest.mark.parametrize(("service", "age"), [("compaction", HOUR), ("cleaning", DAY)])
def test_fewer_commits_make_it_due_with_age_and_none_never(service, age):
    assert names(due(facts(service, commits=1, done_at=NOW - age, ended_at=NOW - age))) == [service]
    assert names(due(facts(service, commits=1, done_at=NOW - age + 1, ended_at=NOW - age))) == []
    assert names(due(facts(service, commits=0, done_at=NOW - 90 * DAY))) == []


def test_the_age_of_a_service_that_never_ran_counts_from_the_tables_first_look():
    state, services = facts(COMPACTION, commits=1)
    for since, wanted in ((NOW - HOUR, [COMPACTION]), (NOW - HOUR + 1, []), (None, [])):
        assert names(due((replace(state, services_since=since), services))) == wanted


def test_a_service_waits_for_its_interval_and_an_hour_after_a_failure():
    def at(ended, failed):
        return names(due(facts(COMPACTION, commits=99, ended_at=NOW - ended * SECOND, failed=failed)))

    assert at(599, False) == [] and at(600, False) == [COMPACTION]
    assert at(3_599, True) == [] and at(3_600, True) == [COMPACTION]


@pytest.mark.parametrize(("failed", "seconds"), [(False, 60), (True, 600)])
def test_the_catalog_waits_a_minute_and_after_a_failure_the_interval(failed, seconds):
    for more, expected in ((1, []), (0, [CATALOG])):
        synced = facts(CATALOG, commits=1, ended_at=NOW - seconds * SECOND + more, failed=failed)
        assert names(due(synced)) == expected


def test_the_catalog_of_an_iceberg_table_is_due_after_any_service():
    synced = ServiceFacts(done_at=NOW - HOUR, ended_at=NOW - HOUR)
    iceberg = replace(CONFIG, table_type="cow", iceberg=True)
    for service, seconds, wanted in (("cleaning", 1, [CATALOG]), ("forgetting", 1, [CATALOG]), ("cleaning", -1, [])):
        done = ServiceFacts(done_at=NOW - HOUR + seconds, ended_at=NOW - HOUR + seconds)
        both = STATE, {CATALOG: synced, service: done}
        assert names(due(both, iceberg, NOW)) == wanted and names(due(both)) == []


def test_the_catalog_is_due_after_any_commit_and_switched_off_by_its_own_key():
    one = facts(CATALOG, commits=1, done_at=NOW - HOUR, ended_at=NOW - HOUR)
    assert names(due(one)) == names(due(one, replace(CONFIG, services=ServicePolicy(on=False)))) == [CATALOG]
    assert due(one, replace(CONFIG, catalog=CatalogRule(sync=False))) == due(facts(CATALOG, commits=0)) == ()


def test_what_is_open_is_not_asked_for_again():
    assert due(facts(COMPACTION, commits=99, open=True)) == ()


@pytest.mark.parametrize(
    "change",
    [
        {"services": replace(CONFIG.services, on=False)},
        {"services": replace(CONFIG.services, compaction=Pace(on=False))},
        {"table_type": "cow"},
        {"paused": True},
    ],
)
def test_a_service_can_be_off_or_of_no_use_to_a_table(change):
    assert due(facts(COMPACTION, commits=99), replace(CONFIG, **change), NOW) == ()


def test_a_table_without_data_or_that_is_paused_gets_no_service():
    state, services = facts(COMPACTION, commits=99)
    assert names(due((state, services))) == [COMPACTION]
    for change in ({"last_instant": None}, {"blocked": {"code": "table_went_back"}}):
        assert due((replace(state, **change), services)) == ()


def test_without_columns_there_is_no_clustering():
    clustered = facts("clustering", commits=99)
    assert names(due(clustered)) == ["clustering"]
    assert due(clustered, replace(CONFIG, services=ServicePolicy())) == ()


def test_deleted_rows_are_purged_after_the_first_passes_the_horizon_and_then_daily():
    state, services = never = facts("purge", deleted=5)
    assert names(due(never)) == ["purge"]
    assert due((replace(state, services_since=NOW - 14 * DAY + 1), services)) == due(facts("purge")) == ()
    assert due(never, replace(CONFIG, delete_mode="soft")) == ()
    assert names(due(facts("purge", deleted=5, done_at=NOW - DAY))) == ["purge"]
    assert due(facts("purge", deleted=5, done_at=NOW - DAY + 1)) == ()


def test_a_purge_that_left_nothing_behind_is_the_last_until_rows_are_deleted_again():
    quiet = replace(STATE, totals={"deleted": 5}, last_commit_at=NOW - 17 * DAY)
    assert due((quiet, {"purge": ServiceFacts(done_at=NOW - 2 * DAY)})) == ()
    deleted_since = {"purge": ServiceFacts(deleted=1, done_at=NOW - 2 * DAY)}
    assert names(due((quiet, deleted_since))) == ["purge"]


def test_all_due_services_come_together_the_catalog_first_each_with_a_reason():
    services = {name: ServiceFacts(commits=99) for name in (CATALOG, *SERVICES)}
    services = due((facts(CATALOG, deleted=1)[0], services))
    assert names(services) == [CATALOG, *SERVICES] and services[1].reason == "99 commits since the last run"


WRITTEN = """
defaults: {record_key: id, services: {interval: 5m, compaction: {commits: 3, age: 30m}, archival: off}}
tables:
  - {topic: "a.*", table: "a.{1}",
     services: {compaction: {commits: 7}, clustering: {by: "{1}_day"}, purge: {horizon: 30d}}}
  - {topic: b.c, table: b.c, services: off}
"""


def test_policies_are_inherited_key_by_key_and_defaults_are_not_written():
    configuration = read_tables(WRITTEN)
    table = configuration.table_for_topic("a.x")
    assert table.services == ServicePolicy(
        interval_s=300,
        compaction=Pace(commits=7, age_s=1_800),
        archival=Pace(on=False, commits=30),
        cluster_by=("x_day",),
        purge_horizon_s=30 * 86_400,
    )
    assert not configuration.table_for_topic("b.c").services.on
    assert Configuration.from_json(configuration.to_json()) == configuration
    assert TableConfig.from_dict(table.to_dict()) == table
    assert "services" not in read_tables("tables:\n  - {topic: a.b, table: a.b, record_key: id}\n").to_json()


def test_a_policy_of_another_release_is_read_as_far_as_it_is_known():
    stored = {"vacuum": {"on": True}, "compaction": {"commits": 2, "by_bytes": 5}}
    assert with_differences(ServicePolicy(), stored) == ServicePolicy(compaction=Pace(commits=2, age_s=3_600))


@pytest.mark.parametrize(
    ("services", "place"),
    [
        ("5", "services"),
        ("{compactoin: {}}", "services.compactoin"),
        ("{compaction: {commits: 0}}", "services.compaction.commits"),
        ("{compaction: {by: a}}", "services.compaction.by"),
        ("{clustering: {by: a b}}", "services.clustering.by"),
        ("{interval: 2d}", "services.interval"),
        ("{latest: 5s}", "services.latest"),
        ("{purge: {horizon: 10m}}", "services.purge.horizon"),
        ("{cleaning: sometimes}", "services.cleaning"),
        ("{clustering: {by: '{2}'}}", "services.clustering.by"),
    ],
)
def test_a_mistake_in_a_policy_is_reported_at_its_place(services, place):
    with pytest.raises(ConfigurationMistakes) as raised:
        read_tables(f"tables:\n  - {{topic: a.b, table: a.b, record_key: id, services: {services}}}\n")
    assert [mistake.where for mistake in raised.value.mistakes] == [f"tables[0].{place}"]
