"""Which deployments change the application and therefore need a standstill."""

import json
from pathlib import Path

import pytest
from support.sam_template import TEMPLATE

from sluice_deploy.template import changes_application

ROOT = Path(__file__).resolve().parents[4]
NOW = {"MaximumCpu": "16 vCPU", "IdleTimeoutMinutes": "15", "Release": "old"}


@pytest.mark.parametrize(
    "given, changes",
    [
        ({}, False),
        ({"Release": "new", "LogLevel": "WARNING", "AlarmEmail": "a@example.org"}, False),
        ({"MaximumCpu": "16 vCPU"}, False),
        ({"MaximumCpu": "32 vCPU"}, True),
        ({"EmrRelease": "emr-7.15.0"}, True),
        ({"InitialDrivers": "1"}, True),
        ({"SubnetIds": "subnet-1"}, True),
    ],
)
def test_only_what_the_application_depends_on_changes_it(given, changes):
    assert changes_application(TEMPLATE, TEMPLATE, NOW, given) is changes


def test_another_definition_of_the_application_changes_it():
    other = json.loads(json.dumps(TEMPLATE))
    other["Resources"]["SparkApplication"]["Properties"]["SchedulerConfiguration"]["QueueTimeoutMinutes"] = 30
    assert changes_application(TEMPLATE, other, NOW, {})
