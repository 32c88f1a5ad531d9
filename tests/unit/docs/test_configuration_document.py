"""docs/configuration.md, docs/hudi-options.md and docs/tables.schema.json follow from the settings."""

import re
import runpy
from pathlib import Path

from sluice.config.limits import Limits
from sluice.config.setting import settings_of
from sluice_cli.config.model import schema_text

ROOT = Path(__file__).resolve().parents[3]
TOOL = runpy.run_path(str(ROOT / "tools" / "settings.py"))
PAGE, OPTIONS = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("configuration.md", "hudi-options.md"))


def test_the_page_is_current():
    assert TOOL["page"](PAGE) == PAGE, "run `make documents`"
    assert set(re.findall(r"<!-- settings of (\w+) -->", PAGE)) == set(TOOL["_SETTINGS"])


def test_the_page_of_hudi_options_is_current():
    assert TOOL["options_page"](OPTIONS) == OPTIONS, "run `make documents`"
    assert re.findall(r"<!-- hudi options (\w+) -->", OPTIONS) == ["allowed", "refused"]


def test_the_schema_for_editors_is_current():
    assert (ROOT / "docs" / "tables.schema.json").read_text(encoding="utf-8") == schema_text(), "run `make documents`"


def test_the_page_of_limits_names_their_defaults():
    text = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", text, re.M))
    defaults = {setting.key: setting.shown_default for setting in settings_of(Limits)}
    assert {key: rows.get(key) for key in defaults} == defaults
