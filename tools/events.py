"""Writes the table of docs/events.md and docs/events.schema.json from the definitions of events: `make documents`.

With --check, fails if one of them is out of date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from sluice.ledger.events import KINDS, EventKind

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, SCHEMA = DOCS / "events.md", DOCS / "events.schema.json"
_PART = re.compile(r"(<!-- events -->\n).*?(<!-- end -->)", re.DOTALL)


def page(text: str) -> str:
    """Return the text of docs/events.md with current tables between its markers."""
    return _PART.sub(lambda match: match[1] + "".join(_of(kind) for kind in KINDS) + match[2], text)


def schema() -> str:
    """The JSON Schemas of all details, by detail-type."""
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Events of Sluice: the detail by detail-type",
        "$defs": {kind.detail_type: kind.schema() for kind in KINDS},
    }
    return json.dumps(document, indent=2) + "\n"


def _of(kind: EventKind) -> str:
    return "".join(
        (
            f"### {kind.detail_type}\n\n{kind.sent} `id`: {kind.id[0].lower()}{kind.id[1:]}\n\n",
            "| field | type | meaning |\n|---|---|---|\n",
            *_rows(kind),
            "\n",
        )
    )


def _rows(kind: EventKind) -> Iterator[str]:
    for name, field in kind.fields.items():
        yield f"| `{name}` | {_type(field.schema)} | {field.meaning} |\n"


def _type(schema: object) -> str:
    typed = schema if isinstance(schema, dict) else dict(schema)  # type: ignore[call-overload]
    kinds = typed["type"] if isinstance(typed["type"], list) else [typed["type"]]
    words = " or ".join("time" if typed.get("format") == "date-time" and kind == "string" else kind for kind in kinds)
    if words == "array" and "properties" in typed["items"]:
        return "list of " + ", ".join(f"`{name}`" for name in typed["items"]["properties"])
    return "list of text" if words == "array" else words.replace("string", "text").replace("integer", "number")


def main() -> None:
    """Write both files, or with --check compare them."""
    wanted = {PAGE: page(PAGE.read_text(encoding="utf-8")), SCHEMA: schema()}
    if "--check" in sys.argv[1:]:
        stale = [file.name for file, text in wanted.items() if file.read_text(encoding="utf-8") != text]
        if stale:
            sys.exit(f"{', '.join(stale)} out of date: run `make documents`")
        return
    for file, text in wanted.items():
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
