"""Writes what the settings and parameters say: `make documents`.

Into docs/configuration.md, docs/hudi-options.md, docs/deploying.md and docs/tables.schema.json.

With --check, fails if one of them is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sluice.config.csv_form import CsvForm
from sluice.config.delete_when import DeleteWhen
from sluice.config.hudi_overrides import ALLOWED, REASONS
from sluice.config.lane import LaneConfig
from sluice.config.rules.change_rule import ChangeRule
from sluice.config.rules.columns import ColumnRules
from sluice.config.rules.expectations import Expectations
from sluice.config.rules.ignore import Ignore
from sluice.config.rules.snapshot import SnapshotRule
from sluice.config.rules.table_rule import TableRule
from sluice.config.services import Pace, ServicePolicy
from sluice.config.setting import Setting, settings_of
from sluice.config.table import TableSettings
from sluice_cli.config.model import schema_text
from sluice_deploy.template import changes_application, read_template

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGE, OPTIONS, DEPLOYING = DOCS / "configuration.md", DOCS / "hudi-options.md", DOCS / "deploying.md"
SCHEMA = DOCS / "tables.schema.json"
_TABLE = re.compile(r"(<!-- settings of (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_OPTIONS = re.compile(r"(<!-- hudi options (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_PARAMETERS = re.compile(r"(<!-- parameters -->\n).*?(<!-- end -->)", re.DOTALL)
_DOCUMENT = re.compile(r"docs/(\w+)\.md")
_SHARED = settings_of(TableSettings)
_RULES = (*(setting for setting in settings_of(TableRule) if setting not in _SHARED), *_SHARED)
#: The settings that most rules need; the others are listed apart.
USUAL = frozenset(
    "table topic record_key partition_by table_type delete_mode delete_when freshness time_travel lane generation "
    "paused types position append_only history columns expect".split()
)
_SETTINGS = {
    "rules": tuple(setting for setting in _RULES if setting.key in USUAL),
    "rules_rare": tuple(setting for setting in _RULES if setting.key not in USUAL),
    "delete_when": tuple(replace(setting, default_text="") for setting in settings_of(DeleteWhen)),
    "csv": settings_of(CsvForm),
    "change": settings_of(ChangeRule),
    "snapshot": settings_of(SnapshotRule),
    "columns": settings_of(ColumnRules),
    "expect": settings_of(Expectations),
    "services": settings_of(ServicePolicy),
    "services_each": tuple(replace(setting, default_text="") for setting in settings_of(Pace)),
    "lanes": settings_of(LaneConfig),
    "ignore": settings_of(Ignore),
}


def page(text: str) -> str:
    """Return the text of docs/configuration.md with current tables between its markers."""
    return _TABLE.sub(lambda match: match[1] + "".join(_rows(_SETTINGS[match[2]])) + match[3], text)


def options_page(text: str) -> str:
    """Return the text of docs/hudi-options.md with current tables between its markers."""
    return _OPTIONS.sub(lambda match: match[1] + "".join(_options(match[2])) + match[3], text)


def deploying_page(text: str, template: dict[str, Any]) -> str:
    """Return the text of docs/deploying.md with the template's parameters between its markers."""
    return _PARAMETERS.sub(lambda match: match[1] + "\n".join(_parameters(template)) + "\n" + match[2], text)


def _parameters(template: dict[str, Any]) -> Iterator[str]:
    """The parameters by the groups that CloudFormation's console shows."""
    for group in template["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"]:
        yield from ("", f"**{group['Label']['default']}**", "", "| parameter | default | meaning |", "|---|---|---|")
        for name in group["Parameters"]:
            parameter = template["Parameters"][name]
            default = f"`{parameter['Default']}`" if parameter["Default"] != "" else "empty"
            yield f"| `{name}` | {default} | {_meaning(name, parameter, template)} |"
    yield ""


def _meaning(name: str, parameter: dict[str, Any], template: dict[str, Any]) -> str:
    said = [_DOCUMENT.sub(r"[\1](\1.md)", parameter["Description"])]
    if "AllowedValues" in parameter:
        said.append(f"One of {', '.join(f'`{value}`' for value in parameter['AllowedValues'])}.")
    least, most = parameter.get("MinValue"), parameter.get("MaxValue")
    if most is not None:
        said.append(f"From {least:,} to {most:,}.")
    elif least is not None:
        said.append(f"At least {least:,}.")
    if changes_application(template, template, {}, {name: "another"}):
        said.append("*Stops Spark.*")
    return " ".join(said)


def _options(kind: str) -> Iterator[str]:
    if kind == "allowed":
        yield "| begins with | goes on with |\n|---|---|\n"
        for start, ends in sorted(ALLOWED.items()):
            yield f"| `{start}` | {', '.join(f'`.{end}`' for end in sorted(ends.split()))} |\n"
    else:
        yield "| begins with | why it is refused |\n|---|---|\n"
        for reason, names in REASONS.items():
            yield f"| {', '.join(f'`{name}`' for name in sorted(names.split()))} | {reason} |\n"


def _rows(settings: tuple[Setting, ...]) -> Iterator[str]:
    yield "| key | default | meaning |\n|---|---|---|\n"
    for setting in settings:
        more = f" [More]({setting.page})." if setting.page else ""
        fixed = " *Fixed.*" if setting.fixed else ""
        yield f"| `{setting.key}` | {_default(setting)} | {setting.meaning}{more}{fixed} |\n"


def _default(setting: Setting) -> str:
    if setting.required:
        return "required"
    default = setting.shown_default
    return default if setting.default_text is not None or not default else f"`{default}`"


def main() -> None:
    """Write the documents, or with --check say whether they are current."""
    wanted = {
        PAGE: page(PAGE.read_text(encoding="utf-8")),
        OPTIONS: options_page(OPTIONS.read_text(encoding="utf-8")),
        DEPLOYING: deploying_page(DEPLOYING.read_text(encoding="utf-8"), read_template(ROOT / "template.yaml")),
        SCHEMA: schema_text(),
    }
    for path, text in wanted.items():
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path.name} is out of date: run `make documents`")


if __name__ == "__main__":
    main()
