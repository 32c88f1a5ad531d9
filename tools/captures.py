"""Writes the table of docs/captures.md: how samples of other products' change files are read, by the tests' data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGE, SAMPLES = ROOT / "docs" / "captures.md", ROOT / "tests" / "data" / "captures" / "samples.yaml"
_TABLE = re.compile(r"(<!-- samples -->\n).*?(<!-- end -->)", re.DOTALL)
_OF_ANY_RULE = ("topic", "table", "record_key", "key_pattern")
_RIGHT = [[1, "Anna3"], [3, "Cara"]]


def page(text: str) -> str:
    """Return the text of the page with the current table between its markers."""
    samples = yaml.safe_load(SAMPLES.read_text(encoding="utf-8"))
    return _TABLE.sub(lambda match: match[1] + "".join(_rows(samples)) + match[2], text)


def _rows(samples: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| format | made by | the rule says | the sample's rows |\n|---|---|---|---|\n"
    for name, sample in sorted(samples.items(), key=lambda sample: sample[1]["product"].lower()):
        settings = {name: value for name, value in sample["rule"].items() if name not in _OF_ANY_RULE}
        said = ", ".join(f"`{name}: {_flow(value)}`" for name, value in settings.items()) or "nothing"
        came = f"refused as `{sample['refused']}`: {sample['says']}" if "refused" in sample else _rows_of(name, sample)
        yield f"| {sample['product']} | {sample.get('real', 'documentation')} | {said} | {came} |\n"


def _rows_of(name: str, sample: Mapping[str, Any]) -> str:
    if "real" not in sample:
        return ", ".join(f"{key} {name}" for key, name in sample.get("rows", _RIGHT))
    rows = json.loads((SAMPLES.parent / name / "rows.json").read_text(encoding="utf-8"))
    return f"the {len(rows)} of its database"


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}: {_flow(held)}' for name, held in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return value if isinstance(value, str) else json.dumps(value)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
