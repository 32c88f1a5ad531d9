"""docs/operations.md has a section for each alarm, and tests for each section."""

import re
from pathlib import Path

from support.sam_template import of_type

from sluice_cli.verbs import OPS, VERBS

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SECTIONS = re.findall(r"^## (.+)$", PAGE, re.M)


def test_every_section_names_its_tests_in_the_order_of_the_page():
    table = (ROOT / "docs" / "evidence" / "operating.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \[([^]]+)\]\(\.\./operations[^)]+\) \| `tests/", table, re.M) == SECTIONS


def test_every_alarm_says_its_severity_its_first_step_and_its_section():
    alarms = {name: resource["Properties"] for name, resource in of_type("AWS::CloudWatch::Alarm").items()}
    rows = {name: more for name, *more in re.findall(r"^\| `(\w+Alarm)` \| (\w+) \|.*\]\(#([^)]+)\) \|$", PAGE, re.M)}
    assert set(rows) == set(alarms)
    anchors = {re.sub(r"[^a-z0-9 -]", "", section.lower()).replace(" ", "-") for section in SECTIONS}
    for name, (severity, anchor) in rows.items():
        said = re.fullmatch(r"(\w+): (.+)\. docs/operations\.md#([a-z-]+)", alarms[name]["AlarmDescription"])
        assert said and (said[1], said[3]) == (severity, anchor), name
        assert alarms[name]["Tags"] == [{"Key": "severity", "Value": severity}], name
        assert severity in ("wake", "morning", "ticket") and anchor in anchors, name
        assert said[2].split()[0] in ("Run", "Read", "Look", "Find"), name


def test_every_command_of_an_alarm_exists():
    page = (ROOT / "template.yaml").read_text(encoding="utf-8")
    for step in re.findall(r"AlarmDescription: .*?`sluice ([^`]+)`", page):
        words = [word for word in step.split() if not word.startswith("-")]
        assert words[0] in VERBS, step
        assert words[0] != "ops" or words[1] in OPS, step
