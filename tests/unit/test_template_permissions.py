"""What template.yaml lets each part do, where an emulator that asks for no permission would hide a missing one."""
from pathlib import Path
from typing import Any, Dict, List

import pytest

from sluice_local.overlay import read_template

TEMPLATE = read_template(Path(__file__).resolve().parents[2] / "template.yaml")


def statements(role: str) -> List[Dict[str, Any]]:
    return TEMPLATE["Resources"][role]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]


def actions(statement: Dict[str, Any]) -> List[str]:
    return statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]


@pytest.mark.parametrize("role", ["JobRole", "AdmitRole", "ReconcileRole"])
def test_whoever_reads_bronze_may_list_it_since_s3_answers_403_for_a_gone_object_otherwise(role: str) -> None:
    reads = next(one for one in statements(role) if "s3:GetObjectVersion" in actions(one))
    bronze = reads["Resource"]["Fn::Sub"][1]
    assert any("s3:ListBucket" in actions(one) and isinstance(one["Resource"], dict) and one["Resource"]["Fn::Sub"][1] == bronze for one in statements(role))
