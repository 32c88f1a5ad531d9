"""The surroundings of a sample event: every mistake gets one line, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice_local.stack import sample_world
from sluice_local.stack.sample_world import main

pytestmark = pytest.mark.long


def test_every_function_is_given_the_address_as_it_is_inside_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(sample_world, "set_up", lambda clients, event, root: {})
    outside, inside = "http://127.0.0.1:4566", "http://host.docker.internal:4566"
    given = ["--endpoint", outside, "--inside", inside, "--out", str(tmp_path), "--package", "packed.zip"]
    assert main(["admit-s3-put", *given]) == 0
    written = (tmp_path / "template.json").read_text()
    resources = json.loads(written)["Resources"].values()
    functions = [one["Properties"] for one in resources if one["Type"] == "AWS::Serverless::Function"]
    assert len(functions) > 4 and outside not in written
    assert {function["Environment"]["Variables"]["AWS_ENDPOINT_URL"] for function in functions} == {inside}
    assert {function["CodeUri"] for function in functions} == {str(Path("packed.zip").absolute())}


@pytest.mark.parametrize(
    ("machine", "architecture"), [("x86_64", "x86_64"), ("AMD64", "x86_64"), ("aarch64", "arm64"), ("arm64", "arm64")]
)
def test_functions_run_on_the_machines_own_processor(machine, architecture):
    template = {"Parameters": {"Architecture": {"Default": "arm64"}}, "Resources": {}}
    changed = sample_world.template_for(template, Path("x"), {}, machine)
    assert changed["Parameters"]["Architecture"]["Default"] == architecture
    assert template["Parameters"]["Architecture"]["Default"] == "arm64"
