"""The JSON Schema of tables.yaml, for editors: `python -m sluice_cli.config_schema docs/tables.schema.json`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sluice_cli.config_model import TablesFile


def schema_text() -> str:
    """The schema as the file holds it; a test keeps docs/tables.schema.json equal to it."""
    schema = TablesFile.model_json_schema(mode="validation")
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["required"] = ["tables"]
    return json.dumps(_without_nulls(schema), indent=2, sort_keys=True) + "\n"


def _without_nulls(node: object) -> object:
    """A key that is left out is not a key with null: drop the null alternatives and defaults."""
    if isinstance(node, list):
        return [_without_nulls(item) for item in node]
    if not isinstance(node, dict):
        return node
    kept = {key: _without_nulls(value) for key, value in node.items() if not (key == "default" and value is None)}
    options = kept.get("anyOf")
    if isinstance(options, list) and {"type": "null"} in options:
        options = [option for option in options if option != {"type": "null"}]
        kept.pop("anyOf")
        kept = {**options[0], **kept} if len(options) == 1 else {**kept, "anyOf": options}
    return kept


def main(arguments: list[str]) -> int:
    """Write the schema to the named file, or to standard output."""
    if arguments:
        Path(arguments[0]).write_text(schema_text(), encoding="utf-8")
    else:
        sys.stdout.write(schema_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
