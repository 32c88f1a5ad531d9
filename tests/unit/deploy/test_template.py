"""Templates are read with what every installation has, as SAM reads them."""

import json
from pathlib import Path

import pytest
from samtranslator.yaml_helper import yaml_parse

from sluice_deploy.template import parse_template

ROOT = Path(__file__).resolve().parents[3]


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
