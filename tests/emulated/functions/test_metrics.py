"""Backlog and costs of runs are measured, and every alarm and widget of the template watches an emitted metric."""

import json
import re
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from admit.handler import handler as admit
from emulation.deployment import Bus, Recorder, avro, context, key, s3_body, sqs_event, use_bus
from plan_services.handler import handler as plan_services
from reconcile.handler import handler as reconcile
from supervise.handler import handler as supervise
from support.builders import aws_error, note_commit
from support.sam_template import TEMPLATE

from sluice.batch.backlog import Backlog, TableBacklog, backlog
from sluice.batch.claim import PendingObject
from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.document import Configuration
from sluice.config.lane import LaneConfig
from sluice.config.rules.table_rule import TableRule
from sluice.config.services import Pace, ServicePolicy
from sluice.lane.machine import HALT_AFTER_FAILURES, PAUSED, LaneState
from sluice.ledger.records import AdmittedObject
from sluice.ledger.recovery import KnownTable
from sluice.objects import ObjectId
from sluice.prices import BUNDLED, REGION
from sluice_aws.announce import Announcer, EventBus
from sluice_aws.clock import epoch_ms
from sluice_aws.lanes.gauges import COUNTED_IN_ALL, COUNTED_PER_TABLE, Gauges, spark_prices
from sluice_aws.lanes.job_runs import JobRuns
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.telemetry import telemetry_of

NOW = 1_700_000_000_000
ALARMS = {
    name: resource["Properties"]
    for name, resource in TEMPLATE["Resources"].items()
    if resource["Type"] == "AWS::CloudWatch::Alarm"
}
WATCHED = [
    (name, one["MetricStat"]["Metric"] if "MetricStat" in one else one)
    for name, alarm in ALARMS.items()
    for one in alarm.get("Metrics", [alarm])
    if "Expression" not in one
]
OURS = {"Fn::Sub": "Sluice/${AWS::StackName}"}
CONFIGURATION = Configuration(
    (
        TableRule("shop.orders", ("id",), topic="o", freshness_s=60),
        TableRule("shop.slow", ("id",), topic="s", freshness_s=7200),
        TableRule("shop.held", ("id",), topic="h", paused=True),
    )
)


def waiting(table, topic, seconds):
    return PendingObject(
        "b", f"{table}{seconds}", "v", 1, None, "avro", topic, 0, 0, NOW - seconds * 1000, table=table, shard=0
    )


def measured(*items, configuration=CONFIGURATION, open_since=()):
    return backlog(configuration, "main", items, NOW, open_since)


def test_what_waits_is_measured_by_its_age_and_by_its_tables_freshness():
    actual = measured(waiting("shop.orders", "o", 100), waiting("shop.slow", "s", 3600))
    assert actual == Backlog(2, 3600.0, 40.0)


def test_what_is_paused_or_unconfigured_waits_without_an_age():
    items = [waiting("shop.held", "h", 100), waiting("shop.gone", "g", 100)]
    assert measured(*items) == measured(*items, configuration=None) == Backlog(2, 0.0, 0.0)


def test_an_open_batch_has_an_age_although_its_objects_are_no_longer_pending():
    actual = measured(waiting("shop.orders", "o", 50), open_since=(NOW - 4_000_000, NOW - 10_000))
    assert actual == Backlog(1, 4000.0, 0.0)


def test_an_open_batch_counts_in_its_lanes_age_until_the_lane_is_paused(deployment):
    deployment.configure()
    ledger, configuration = deployment.ledger, ConfigStore(Objects(deployment.s3), "sluice-artifacts").load()
    ledger.lanes.wake("main")
    assert ledger.lanes.request_start("main", "run-1", NOW) and ledger.lanes.hold("main", "run-1", "job-1", 1, NOW)
    part = TablePart(config={}, objects=(ManifestObject("b", "k", "v", 7, None, "avro", "t", None, None, NOW),))
    assert ledger.batches.open(Manifest("b-1", "main", "run-1", NOW, "v", {"crm.user": part}), "k", "run-1", "job-1")
    lane = ledger.lanes.get("main")
    for shown, age in ((lane, 90.0), (replace(lane, state=PAUSED), 0.0)):
        report = Recorder()
        gauges(ledger, report, now=lambda: NOW + 90_000).publish([shown], configuration)
        assert report.metrics["OldestPendingSeconds"] == age


def test_a_table_that_is_late_is_announced_once_until_it_is_committed_again(deployment, monkeypatch):
    deployment.configure(TableRule("shop.orders", ("id",), topic="o", freshness_s=60))
    deployment.environment(LATE_AFTER_SECONDS="900", TABLE_METRICS="true")
    events, now = use_bus(monkeypatch), epoch_ms()

    def admitted(key, seconds):
        identity, taken = ObjectId("sluice-bronze", key, "v"), {"table": "shop.orders", "lane": "main", "topic": "o"}
        record = AdmittedObject(identity, "pending", now - seconds * 1000, format="avro", **taken)
        deployment.ledger.objects.admit(record)

    deployment.ledger.lanes.pause("side")
    admitted("young", 900)
    supervise({"detail-type": "Scheduled Event"}, context())
    assert events == [], "its freshness and the threshold have not passed"
    admitted("old", 1000)
    deployment.ledger.tables.record_error("shop.orders", "no memory", None)
    for _ in range(2):
        supervise({"detail-type": "Scheduled Event"}, context())
    ((_, late),) = events
    assert (late["table"], late["lane"], late["waiting"], late["last_error"]) == ("shop.orders", "main", 2, "no memory")
    assert 940 <= late["late_s"] < 1000
    made = Outcome("b", "shop.orders", COMMITTED, now - 3_600_000, instant="1")
    replay = replace(made, batch="b-2", committed_at=now - 3_000_000, instant=None, no_change=True)
    state = KnownTable(last=replay, committed=made)
    assert deployment.ledger.recovery.restore_table("shop.orders", state, purge_floors={})
    supervise({"detail-type": "Scheduled Event"}, context())
    assert len(events) == 2
    committed_at = datetime.fromisoformat(events[1][1]["last_commit_at"].replace("Z", "+00:00"))
    assert round(committed_at.timestamp() * 1000) == now - 3_600_000, "not when the replay ended"


def test_the_backlog_of_each_table_is_measured():
    orders = [waiting("shop.orders", "o", seconds) for seconds in (100, 90)]
    actual = measured(*orders, waiting("shop.slow", "s", 60))
    assert actual.tables == (TableBacklog("shop.orders", 2, 60, 40.0), TableBacklog("shop.slow", 1, 7200, 0.0))


def test_a_pass_reads_of_all_lanes_what_a_function_has_memory_for():
    read, objects = [], [waiting("shop.orders", "o", 60)] * (COUNTED_IN_ALL - 9_000)
    oldest = lambda lane, per_table, *, in_all: read.append(in_all) or objects  # noqa: E731
    ledger = SimpleNamespace(pending=SimpleNamespace(oldest=oldest), batches=SimpleNamespace(unsettled=lambda _: ()))
    gauges(ledger, Recorder()).publish((LaneState(lane) for lane in ("a", "b", "c")), CONFIGURATION)
    assert read == [COUNTED_IN_ALL, 9_000, COUNTED_PER_TABLE], "a lane with one table is counted as if it were alone"


#: A ledger by which no run's costs were reported.
UNBILLED = SimpleNamespace(history=SimpleNamespace(mark_billed=lambda run_id, now: True))


def gauges(ledger, report, run=None, now=lambda: NOW, **more):
    answer = {"jobRun": {"name": "run-main-1", "state": "SUCCESS", **(run or {})}}
    runs = JobRuns(Mock(**{"get_job_run.return_value": answer}), "a")
    return Gauges(ledger=ledger, job_runs=runs, report=report, now=now, **{"architecture": "ARM64", **more})


def ended(ledger=None, prices=BUNDLED, **run):
    report = Recorder()
    how = {"architecture": "X86_64", "prices": lambda: prices}
    gauges(ledger or UNBILLED, report, run, **how).publish_cost("00f1")
    return report


BILL = {"billedResourceUtilization": {"vCPUHour": 2.0, "memoryGBHour": 8.0, "storageGBHour": 0.0}}


def test_a_finished_run_is_listed_with_its_billed_usage():
    report = ended(**BILL)
    assert report.metrics == {"RunCostUsd": pytest.approx(2 * 0.052624 + 8 * 0.0057785)}
    assert BUNDLED.spark_usd("arm64", vcpu_hours=2, memory_gb_hours=8) < report.metrics["RunCostUsd"]


def test_a_run_costs_what_its_region_asks_and_else_the_bundled_prices(monkeypatch):
    prices = {"x86_64 vcpu_hour": 1.0, "x86_64 memory_gb_hour": 0.5}
    read, report = Mock(side_effect=[prices, aws_error("AccessDeniedException", "GetProducts")]), Recorder()
    monkeypatch.setattr("sluice_aws.lanes.gauges.read_prices", read)
    regions = ("eu-west-1", "eu-west-1", REGION)
    own, assumed, home = (spark_prices(object, region, "X86_64", report) for region in regions)
    assert ended(prices=own, **BILL).metrics == {"RunCostUsd": pytest.approx(6)}
    assert assumed is home is BUNDLED and report.names() == ["prices_assumed"]
    assert [(call.args[1], len(call.args[2])) for call in read.mock_calls] == [("eu-west-1", 3)] * 2


def test_a_runs_cost_is_reported_once_whichever_event_finds_the_bill_first(deployment):
    assert ended(deployment.ledger, **BILL).events == [], "a job of somebody else's on the same application"
    deployment.ledger.history.run_started("run-main-1", "main", NOW)
    reports = [ended(deployment.ledger), ended(deployment.ledger, **BILL), ended(deployment.ledger, **BILL)]
    assert [report.names() for report in reports] == [["cost_unknown"], ["run_billed"], []]
    assert [bool(report.metrics) for report in reports] == [False, True, False]


def emitted(text):
    """(namespace, metric, dimensions, unit) of every EMF line of a function's output."""
    collected = set()
    for line in text.splitlines():
        blob = json.loads(line) if line.startswith('{"_aws"') else {}
        for directive in blob.get("_aws", {}).get("CloudWatchMetrics", ()):
            for dimensions in directive["Dimensions"]:
                values = tuple(sorted((name, blob[name]) for name in dimensions))
                collected |= {
                    (directive["Namespace"], metric["Name"], values, metric["Unit"]) for metric in directive["Metrics"]
                }
    return collected


class NoLogger:
    """In place of Powertools' own, which keeps the stream of its first use for all tests to come."""

    def __init__(self, **_):
        self.info = self.warning = self.exception = self.append_keys = lambda *_, **__: None


@pytest.fixture
def metrics(deployment, monkeypatch, capsys):
    """What the functions emit, made to meet all that alarms and dashboard speak of."""
    monkeypatch.setattr("sluice_aws.telemetry.Logger", NoLogger)
    deployment.environment(POWERTOOLS_METRICS_NAMESPACE="Sluice/s", RECONCILE_GRACE_SECONDS="0")
    deployment.configure()
    ids = [
        deployment.land(key(0), avro()),
        deployment.land(key(1, topic="nobodys"), avro()),
        deployment.land(key(2), b"no avro"),
        deployment.land(key(3).replace(".avro", ".keys.avro"), b""),
    ]
    missing = ObjectId(ids[0].bucket, key(9), "gone")
    assert admit(sqs_event(s3_body(*ids, missing)), context()) == {"batchItemFailures": []}

    deployment.ledger.lanes.wake("other")
    for job in deployment.job_runs():
        job.state, job.state_details = "FAILED", "exceeded the maximum vCPU quota of your account"
    supervise({"detail-type": "Scheduled Event"}, context())
    for n in range(HALT_AFTER_FAILURES):
        lanes, lane = deployment.ledger.lanes, deployment.ledger.lanes.get("main")
        lanes.lapse("main", lane.run_id or "", 0, job_run_id=lane.job_run_id)
        lanes.wake("main")
        lanes.request_start("main", f"run-{n}", NOW * 2)
        request = {"applicationId": deployment.application, "executionRoleArn": "arn:aws:iam::123456789012:role/r"}
        job_run = deployment.emr.start_job_run(clientToken=f"t{n}", **request)
        lanes.started("main", f"run-{n}", job_run["jobRunId"])
        deployment.job_runs()[-1].state = "FAILED"
        supervise({"detail-type": "Scheduled Event"}, context())
    assert deployment.ledger.lanes.get("main").state == "halted"
    compacted = ServicePolicy(compaction=Pace(commits=1))
    deployment.configure(
        TableRule("shop.side", ("id",), topic="side", lane="side", table_type="mor", services=compacted),
        lanes=(LaneConfig(), LaneConfig("side")),
    )
    deployment.ledger.tables.pin("shop.side", {"topic": "side"})
    note_commit(deployment.ledger, Outcome("b", "shop.side", COMMITTED, instant="1", committed_at=1), {"commits": 1})
    assert len(plan_services({"step": "plan"}, context())["runs"]) == 1
    deployment.s3.delete_object(Bucket=ids[0].bucket, Key=ids[0].key, VersionId=ids[0].version)
    deployment.land(key(4), b"no avro either")  # and no notice announced it
    reconcile({}, context(400_000))
    reconcile({"duty": "audit"}, context(400_000))
    deployment.s3.put_object(Bucket="sluice-artifacts", Key="config/tables.json", Body=b"{")
    supervise({"detail-type": "Scheduled Event"}, context())

    telemetry = telemetry_of("supervise")
    gauges(UNBILLED, telemetry, BILL).publish_cost("00f1")
    # test_supervise.py has starts that fail.
    telemetry.observe(lambda *_: telemetry.count("StartsFailed", 1, lane="main"), {}, context())

    ids = {"batch": "b", "lane": "main", "run": "r", "state": "committed"}
    batch = {**ids, "objects": 3, "bytes": 9, "claimed_at": NOW, "committed_at": NOW + 1000}
    counts = dict.fromkeys(("read", "written", "losing", "deleted", "outdated"), 2)
    counts |= {"quarantined_objects": 1, "quarantined_rows": 2}

    batches = SimpleNamespace(
        parts=lambda name: {"shop.orders": {"state": "committed", "counts": counts}},
        mark_announced=lambda name, now: True,
        unannounced=lambda before: iter([batch]),
    )
    telemetry = telemetry_of("announce")
    bus = EventBus(Bus([], ()), bus="default", stack="s")
    announcer = Announcer(batches=batches, history=None, bus=bus, report=telemetry, now=lambda: NOW)
    telemetry.observe(lambda *_: announcer.announce_missed(NOW), {}, context())
    return emitted(capsys.readouterr().out)


def watched():
    """Every metric of ours that an alarm or a widget names: (where, metric, dimensions, unit or None)."""
    for name, metric in WATCHED:
        if metric["Namespace"] == OURS:
            dimensions = tuple((one["Name"], one["Value"]) for one in metric["Dimensions"])
            yield name, metric["MetricName"], dimensions, metric.get("Unit")
    for widget in dashboard()["widgets"]:
        for row in widget["properties"]["metrics"]:
            if row[0] == "Sluice/s":
                yield widget["properties"]["title"], row[1], ((row[2], row[3]),), None


def dashboard():
    body = TEMPLATE["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    return json.loads(body.replace("${AWS::StackName}", "s").replace("${AWS::Region}", "r"))


def test_every_alarm_and_widget_watches_a_metric_that_the_code_emits(metrics):
    units = {(name, dimensions, unit) for _, name, dimensions, unit in metrics}
    emitted = units | {(name, dimensions, None) for name, dimensions, _ in units}
    unseen = [one for one in watched() if one[1:] not in emitted]
    assert unseen == [] and {namespace for namespace, *_ in metrics} == {"Sluice/s"}


def test_every_function_emits_into_the_stacks_own_namespace():
    assert TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]["POWERTOOLS_METRICS_NAMESPACE"] == OURS


def test_every_alarm_has_a_receiver_and_a_description():
    topic = [{"Fn::If": ["MakeTopic", {"Ref": "Alerts"}, {"Ref": "AlarmTopicArn"}]}]
    for name, alarm in ALARMS.items():
        assert alarm["AlarmActions"] == alarm["OKActions"] == topic, name
        assert alarm["TreatMissingData"] in ("notBreaching", "missing"), name


def test_a_schedule_that_no_longer_runs_is_an_alarm_too():
    expected = {"OldestPendingAlarm", "AuditAgeAlarm"}
    assert {name for name, alarm in ALARMS.items() if "InsufficientDataActions" in alarm} == expected
    assert all(ALARMS[name]["TreatMissingData"] == "missing" for name in ("OldestPendingAlarm", "AuditAgeAlarm"))


def test_every_function_has_an_alarm_on_its_errors():
    resources, of_functions = (
        TEMPLATE["Resources"].items(),
        [one for _, one in WATCHED if one["Namespace"] == "AWS/Lambda"],
    )
    functions = {name for name, resource in resources if resource["Type"] == "AWS::Serverless::Function"}
    assert functions == {metric["Dimensions"][0]["Value"]["Ref"] for metric in of_functions}


def test_the_dashboard_names_nothing_that_the_stack_does_not_have():
    body = TEMPLATE["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    assert {name.split(".")[0] for name in re.findall(r"\$\{([A-Za-z.]+)\}", body)} <= set(TEMPLATE["Resources"])
