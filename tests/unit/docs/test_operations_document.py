"""docs/operations.md has a section for each alarm, and tests for each section."""

import re
from pathlib import Path

from sluice_deploy.template import read_template

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.+)$", PAGE, re.M)


def test_every_section_names_its_tests_in_the_order_of_the_page():
    table = (ROOT / "docs" / "evidence" / "operating.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[([^]]+)\]\([^)]+\) \| `tests/", table, re.M) == SECTIONS


def test_every_alarm_leads_to_a_section():
    rows = dict(re.findall(r"^\| ((?:`\w+Alarm`(?:, )?)+) \|.*\]\(#([^)]+)\) \|$", PAGE, re.M))
    named = {alarm: section for alarms, section in rows.items() for alarm in re.findall(r"\w+Alarm", alarms)}
    template = read_template(ROOT / "template.yaml")["Resources"]
    alarms = {name for name, resource in template.items() if resource["Type"] == "AWS::CloudWatch::Alarm"}
    assert set(named) == alarms
    anchors = {re.sub(r"[^a-z0-9 -]", "", section.lower()).replace(" ", "-") for section in SECTIONS}
    assert set(named.values()) - anchors == set()
