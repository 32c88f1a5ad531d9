"""The parameters of a deployment: those of samconfig.toml, with those of the command line over them.

`sluice package --parameters` prints them for `sam deploy --parameter-overrides`, which by itself takes the ones or the
others.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.errors import UsageError
from sluice.names import did_you_mean
from sluice_deploy.template import read_template

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CONFIGURATION = "samconfig.toml"
TEMPLATE = Path("template.yaml")
_CORRECT = f"Correct it where it is set: in PARAMETERS of make, or in {CONFIGURATION}"
_QUOTED = "LogLevel=INFO MaximumCpu='32 vCPU'"


def parameters_of(overrides: str) -> dict[str, str]:
    """`--parameter-overrides` as SAM takes them: `Name=value Name="a value"`. Raises UsageError for other words."""
    try:
        words = shlex.split(overrides)
    except ValueError as error:  # a quote is not closed
        raise UsageError(
            f"The parameters {overrides} can't be read: {error}", next_step=f"Write them as in {_QUOTED}"
        ) from error
    wrong = next((word for word in words if "=" not in word), None)
    if wrong is not None:
        raise UsageError(
            f"{wrong} is no parameter: it has no =", next_step=f"Quote values with blanks: write them as in {_QUOTED}"
        )
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def configured_parameters(environment: str, folder: Path) -> dict[str, str]:
    """The parameters that samconfig.toml of `folder` sets for an environment; none without the file."""
    written = _deployment(_settings(folder), environment).get("parameter_overrides", "")
    return parameters_of(" ".join(written) if isinstance(written, list) else written)


def configured_tags(environment: str, folder: Path) -> dict[str, str]:
    """The stack tags that samconfig.toml of `folder` sets for an environment; none without the file."""
    tags = _deployment(_settings(folder), environment).get("tags", "")
    return parameters_of(" ".join(tags) if isinstance(tags, list) else tags)


def as_overrides(parameters: Mapping[str, str]) -> str:
    """The parameters as one text for `--parameter-overrides`."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in parameters.items())


def given_parameters(words: str, folder: Path, template: Path = TEMPLATE, stack: str | None = None) -> str:
    """The parameters of an environment, the first of `words`, with the others over them, as one text for SAM.

    Raises UsageError for a folder without the template, an environment that samconfig.toml lacks, a parameter that the
    template lacks, which SAM would leave out, a value that CloudFormation would refuse, and a `stack` that is not the
    one of samconfig.toml, which SAM would deploy.
    """
    if not (folder / template).is_file():
        raise UsageError(
            f"There is no {template} here",
            next_step="Change to a project's folder, which `sluice init DIR` makes, or to a clone of Sluice",
        )
    environment, _, given = words.strip().partition(" ")
    _check_environment(environment, folder, stack)
    parameters = {**configured_parameters(environment, folder), **parameters_of(given)}
    parameters_known = read_template(folder / template).get("Parameters", {})
    for name in parameters:
        if name not in parameters_known:
            raise UsageError(
                f"{template} has no parameter {name}{did_you_mean(name, parameters_known)}", next_step=_CORRECT
            )
        wrong = _mistake(parameters[name], parameters_known[name])
        if wrong:
            raise UsageError(f"{name} is {parameters[name]!r}, which {wrong}", next_step=_CORRECT)
    return as_overrides(parameters)


def _mistake(value: str, declared: Mapping[str, Any]) -> str:
    """Why CloudFormation would refuse the value of a parameter, after the build and the uploads; empty if it takes it.

    https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/parameters-section-structure.html
    """
    allowed = [str(choice) for choice in declared.get("AllowedValues", ())]
    if allowed and value not in allowed:
        return f"is not one of {', '.join(allowed)}"
    if declared.get("Type") == "Number":
        try:
            number = float(value)
        except ValueError:
            return "is not a number"
        if number < float(declared.get("MinValue", number)):
            return f"is less than {declared['MinValue']}"
        if number > float(declared.get("MaxValue", number)):
            return f"is more than {declared['MaxValue']}"
    pattern = declared.get("AllowedPattern")
    return f"does not match {pattern}" if pattern and not re.fullmatch(pattern, value) else ""


def _check_environment(environment: str, folder: Path, stack: str | None) -> None:
    """Check that samconfig.toml has the environment, and names this stack for it. SAM reads other files, too."""
    if not (folder / CONFIGURATION).is_file():
        return
    settings = _settings(folder)
    if environment not in settings:
        raise UsageError(
            f"{CONFIGURATION} has no environment {environment}{did_you_mean(environment, settings)}",
            next_step=f"Name one that it has in ENV, or add [{environment}.global.parameters] with its stack_name",
        )
    own = _deployment(settings, environment).get("stack_name")
    if stack not in (None, own):
        raise UsageError(
            f"{CONFIGURATION} names the stack {own} for {environment}, and --stack names {stack}",
            next_step=f'Write `stack_name = "{stack}"` under [{environment}.global.parameters] of {CONFIGURATION}',
        )


def _deployment(settings: Mapping[str, Any], environment: str) -> dict[str, Any]:
    """The settings of an environment for `sam deploy`: its own parameters over those of every command."""
    sections = settings.get(environment, {})
    return {**sections.get("global", {}).get("parameters", {}), **sections.get("deploy", {}).get("parameters", {})}


def _settings(folder: Path) -> dict[str, Any]:
    """The environments of samconfig.toml; none without the file."""
    file = folder / CONFIGURATION
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{CONFIGURATION} can't be read: {error}", next_step="Correct it at this place") from error
    return {name: value for name, value in document.items() if isinstance(value, dict)}
