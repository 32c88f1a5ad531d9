"""docs/configuration.md and docs/tables.schema.json follow from the settings."""

import re
import runpy
from pathlib import Path

from sluice.config.limits import Limits
from sluice.config.setting import settings_of
from sluice_cli.config.model import schema_text

ROOT = Path(__file__).resolve().parents[3]
TOOL = runpy.run_path(str(ROOT / "tools" / "settings.py"))
PAGE = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_the_page_is_current():
    assert TOOL["page"](PAGE) == PAGE, "run `make documents`"
    assert set(re.findall(r"<!-- settings of (\w+) -->", PAGE)) == set(TOOL["_SETTINGS"])
    assert re.findall(r"<!-- hudi options (\w+) -->", PAGE) == ["allowed", "refused"]


def test_the_schema_for_editors_is_current():
    assert (ROOT / "docs" / "tables.schema.json").read_text(encoding="utf-8") == schema_text(), "run `make documents`"


def test_the_page_of_limits_names_their_defaults():
    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", text, re.M))
    assert {each.key: rows.get(each.key) for each in settings_of(Limits)} == {
        each.key: each.shown_default for each in settings_of(Limits)
    }
