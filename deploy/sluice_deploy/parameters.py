"""The parameters of a deployment: those of samconfig.toml, with those of the command line over them.

`sluice package --parameters` prints them for `sam deploy --parameter-overrides`, which by itself takes the ones or the
others.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONFIGURATION = "samconfig.toml"


def parameters_of(overrides: str) -> dict[str, str]:
    """`--parameter-overrides` as SAM takes them: `Name=value Name="a value"`."""
    pairs = [word.partition("=") for word in shlex.split(overrides)]
    return {name: value for name, _, value in pairs}


def configured_parameters(environment: str, folder: Path) -> dict[str, str]:
    """The parameters that samconfig.toml of `folder` sets for an environment; none without the file."""
    file = folder / CONFIGURATION
    if not file.is_file():
        return {}
    settings = tomllib.loads(file.read_text(encoding="utf-8"))
    found = settings.get(environment, {}).get("deploy", {}).get("parameters", {}).get("parameter_overrides", "")
    return parameters_of(" ".join(found) if isinstance(found, list) else found)


def as_overrides(parameters: Mapping[str, str]) -> str:
    """The parameters as one text for `--parameter-overrides`."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in parameters.items())


def given_parameters(words: str, folder: Path) -> str:
    """The parameters of an environment, the first of `words`, with the others over them, as one text for SAM."""
    environment, _, given = words.strip().partition(" ")
    return as_overrides({**configured_parameters(environment, folder), **parameters_of(given)})
