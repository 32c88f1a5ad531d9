"""docs/events.md, docs/events.schema.json and the template's rule follow from the definitions of events."""

import json
import runpy
from pathlib import Path

import jsonschema
from support.sam_template import RESOURCES

from sluice.ledger.events import BATCH_COMMITTED, KINDS, SCHEMA_CHANGED

ROOT = Path(__file__).resolve().parents[3]
TOOL = runpy.run_path(str(ROOT / "tools" / "events.py"))


def test_the_page_and_the_schemas_are_current():
    page = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    assert TOOL["page"](page) == page, "run `make documents`"
    assert all(f"### {kind.detail_type}\n" in page for kind in KINDS)
    schema = (ROOT / "docs" / "events.schema.json").read_text(encoding="utf-8")
    assert schema == TOOL["schema"](), "run `make documents`"
    jsonschema.Draft202012Validator.check_schema(json.loads(schema))


def test_the_topic_gets_the_kinds_that_the_code_sends():
    rule = RESOURCES["EventsRule"]["Properties"]
    _, every, trouble = rule["EventPattern"]["detail-type"]["Fn::If"]
    assert every == [kind.detail_type for kind in KINDS]
    assert trouble == [kind for kind in every if kind not in (BATCH_COMMITTED, SCHEMA_CHANGED)]
    paths = rule["Targets"][0]["InputTransformer"]["InputPathsMap"]
    assert all(paths[name] == f"$.detail.{name}" for name in ("stack", "message"))
