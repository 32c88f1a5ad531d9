"""Reads a StartJobRun body: files to fetch, the program to run, and its settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Options of spark-submit and the settings that they abbreviate.
_OPTIONS = {
    "--name": "spark.app.name",
    "--jars": "spark.jars",
    "--py-files": "spark.submit.pyFiles",
    "--archives": "spark.archives",
    "--files": "spark.files",
    "--driver-memory": "spark.driver.memory",
    "--driver-cores": "spark.driver.cores",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
}
_DRIVER_ENVIRONMENT = "spark.emr-serverless.driverEnv."


class InvalidRequest(Exception):
    """The service refuses the body; the message is its reason."""


@dataclass(frozen=True)
class Archive:
    """An archive to unpack in the work directory under the name after its `#`."""

    uri: str
    directory: str


@dataclass(frozen=True)
class Submission:
    """The Spark job that a request describes."""

    entry_point: str
    arguments: tuple[str, ...]
    settings: Mapping[str, str]  # without those that the fields below hold
    py_files: tuple[str, ...]
    jars: tuple[str, ...]
    files: tuple[str, ...]
    archives: tuple[Archive, ...]
    driver_environment: Mapping[str, str]


def read_submission(request: Mapping[str, Any]) -> Submission:
    """Parse a StartJobRun body. Raises InvalidRequest for a job that the service or this stand-in can't run."""
    driver = request.get("jobDriver") or {}
    job = driver.get("sparkSubmit")
    if not isinstance(job, Mapping) or not job.get("entryPoint"):
        raise InvalidRequest("jobDriver.sparkSubmit.entryPoint is required")
    settings = {**_defaults(request), **_parameters(str(job.get("sparkSubmitParameters") or ""))}
    if settings.get("spark.jars.packages"):
        raise InvalidRequest("spark.jars.packages needs a network that a job without a VPC doesn't have")
    py_files, jars, files, archives = (
        _list(settings.pop(key, "")) for key in ("spark.submit.pyFiles", "spark.jars", "spark.files", "spark.archives")
    )
    environment = {
        key[len(_DRIVER_ENVIRONMENT) :]: settings.pop(key)
        for key in sorted(settings)
        if key.startswith(_DRIVER_ENVIRONMENT)
    }
    return Submission(
        entry_point=str(job["entryPoint"]),
        arguments=tuple(str(argument) for argument in job.get("entryPointArguments") or ()),
        settings=settings,
        py_files=py_files,
        jars=jars,
        files=files,
        archives=tuple(_archive(uri) for uri in archives),
        driver_environment=environment,
    )


def _defaults(request: Mapping[str, Any]) -> dict[str, str]:
    overrides = request.get("configurationOverrides") or {}
    settings: dict[str, str] = {}
    for configuration in overrides.get("applicationConfiguration") or ():
        if configuration.get("classification") != "spark-defaults":
            raise InvalidRequest(
                f"classification {configuration.get('classification')!r} is not supported by this stand-in"
            )
        settings.update({str(key): str(value) for key, value in (configuration.get("properties") or {}).items()})
    return settings


def _parameters(parameters: str) -> dict[str, str]:
    try:
        words = iter(shlex.split(parameters))
    except ValueError as error:
        raise InvalidRequest(f"sparkSubmitParameters can't be read: {error}") from error
    settings: dict[str, str] = {}
    for word in words:
        option, has_value, value = word.partition("=")
        if not has_value:
            value = next(words, "")
        if option in ("--conf", "-c"):
            key, separator, setting = value.partition("=")
            if not separator:
                raise InvalidRequest(f"--conf {value!r} is not key=value")
            settings[key.strip()] = setting
        elif option in _OPTIONS:
            settings[_OPTIONS[option]] = value
        else:
            raise InvalidRequest(f"spark-submit option {option!r} is not supported by this stand-in")
    return settings


def _list(value: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in value.split(",") if item.strip())


def _archive(uri: str) -> Archive:
    path, _, fragment = uri.partition("#")
    directory = fragment or path.rsplit("/", 1)[-1]
    if "/" in directory or directory in ("", ".", ".."):
        raise InvalidRequest(f"archive {uri!r} can't be unpacked as {directory!r}")
    return Archive(path, directory)
