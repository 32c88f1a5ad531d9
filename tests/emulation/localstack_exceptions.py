"""The integration tests that LocalStack can't run, each with its reason."""

from collections.abc import Mapping
from pathlib import Path

import tomllib

FOLDER = Path(__file__).parents[1] / "integration"
FILE = FOLDER / "not_on_localstack.toml"


def exceptions() -> Mapping[str, str]:
    """`file.py::test_name`, without what stands in brackets for a parametrized one, and why it can't run."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))["tests"]
