"""The recipes for a pager and a chat on an emulator: an alarm fires, and a receiver on this machine hears of it."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from emulation.aws import ministack_client

from sluice_deploy.template import read_template

ROOT = Path(__file__).resolve().parents[3]
RESOURCES: dict[str, Any] = read_template(ROOT / "template.yaml")["Resources"]
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of an HTTP server, and the bodies that it got."""
    bodies: list[dict[str, Any]] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/integration/KEY/enqueue", bodies
    server.shutdown()
    server.server_close()


def until(holds: Callable[[], bool], sns: Any) -> None:
    """Wait until `holds`. The emulator delivers while it answers."""
    deadline = time.monotonic() + 20
    while not holds() and time.monotonic() < deadline:
        sns.list_topics()
    assert holds()


def fire(name: str, topic: str) -> None:
    described = {"AlarmDescription": RESOURCES[name]["Properties"]["AlarmDescription"], "AlarmActions": [topic]}
    metric = {"Namespace": "n", "MetricName": "m", "Statistic": "Sum", "Period": 60, "EvaluationPeriods": 1}
    limit = {"Threshold": 1, "ComparisonOperator": "GreaterThanOrEqualToThreshold"}
    cloudwatch = ministack_client("cloudwatch")
    cloudwatch.put_metric_alarm(AlarmName=f"sluice-{name}-1", **described, **metric, **limit)
    cloudwatch.set_alarm_state(AlarmName=f"sluice-{name}-1", StateValue="ALARM", StateReason="test")


def test_a_pager_gets_the_alarms_that_wake_and_no_others(receiver: Any) -> None:
    address, bodies = receiver
    sns = ministack_client("sns")
    topic = sns.create_topic(Name="alerts")["TopicArn"]
    (attributes,) = re.findall(r"--attributes '(\{.*\})'", OPERATIONS)
    sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=address, Attributes=json.loads(attributes))
    until(lambda: any("Token" in body for body in bodies), sns)
    (token,) = [body["Token"] for body in bodies]
    sns.confirm_subscription(TopicArn=topic, Token=token)
    fire("TableServicesAlarm", topic)
    sns.publish(TopicArn=topic, Message="Sluice s, Lane Halted: main")  # a line of EventsToTopic
    fire("LaneHaltedAlarm", topic)
    until(lambda: len(bodies) > 1, sns)
    (said,) = [json.loads(body["Message"]) for body in bodies[1:]]
    assert said["AlarmName"] == "sluice-LaneHaltedAlarm-1" and said["NewStateValue"] == "ALARM"
    assert said["AlarmDescription"].startswith("wake: Run `sluice status`")


def test_a_chat_gets_a_line_of_each_alarm(receiver: Any) -> None:
    address, bodies = receiver
    example = read_template(ROOT / "examples" / "alarms" / "slack.yaml")["Resources"]
    events = ministack_client("events")
    key = example["Connection"]["Properties"]["AuthParameters"]["ApiKeyAuthParameters"]
    parameters = {"ApiKeyAuthParameters": {**key, "ApiKeyValue": "s"}}
    made = events.create_connection(Name="slack", AuthorizationType="API_KEY", AuthParameters=parameters)
    place = {"ConnectionArn": made["ConnectionArn"], "InvocationEndpoint": address, "HttpMethod": "POST"}
    channel = events.create_api_destination(Name="slack", **place)["ApiDestinationArn"]
    rule = example["Alarms"]["Properties"]
    pattern = json.loads(json.dumps(rule["EventPattern"]).replace('{"Fn::Sub": "${Stack}-"}', '"sluice-"'))
    (target,) = rule["Targets"]
    events.put_rule(Name="slack", EventPattern=json.dumps({**pattern, "source": ["test"]}))
    own = {"Id": "slack", "Arn": channel, "RoleArn": "arn:aws:iam::123456789012:role/r"}
    events.put_targets(Rule="slack", Targets=[{**own, "InputTransformer": target["InputTransformer"]}])
    cost = "sluice-CostAlarm-1"
    for name, state in (("other-1", "ALARM"), (cost, "INSUFFICIENT_DATA"), (cost, "ALARM")):
        says = RESOURCES["CostAlarm"]["Properties"]["AlarmDescription"]
        detail = {"alarmName": name, "state": {"value": state}, "configuration": {"description": says}}
        (detail_type,) = pattern["detail-type"]
        events.put_events(Entries=[{"Source": "test", "DetailType": detail_type, "Detail": json.dumps(detail)}])
    until(lambda: bool(bodies), ministack_client("sns"))
    assert bodies == [{"text": f"ALARM sluice-CostAlarm-1: {says}"}]
