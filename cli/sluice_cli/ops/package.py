"""`sluice package`: builds the Spark artifacts, and uploads them for a deployed stack, or the functions' package."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import Annotated

from sluice.errors import NoRegion, NoTarget, UsageError
from sluice_cli.terminal.options import Json, Stack, named_stack, option
from sluice_cli.terminal.output import print_json, say
from sluice_cli.terminal.stack import chosen_target
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import human_bytes
from sluice_deploy.functions import build_functions
from sluice_deploy.parameters import TEMPLATE, given_parameters
from sluice_deploy.pythons import find_python
from sluice_deploy.release import JOB_PYTHONS, build_release, source_root, upload_release, write_release
from sluice_deploy.wheels import Host, this_host
from sluice_local.cache import cache_directory

_CHOICES = {"x86_64": ("x86_64",), "arm64": ("arm64",), "both": ("x86_64", "arm64")}


def package(
    arch: Annotated[
        str,
        option(
            "--arch PROCESSOR",
            "Processor of the Spark workers: x86_64, arm64, both, or host (this machine, for the local stack).",
        ),
    ] = "both",
    output: Annotated[
        Path | None, option("--output FOLDER", "Write the files to a folder here, named by the version.")
    ] = None,
    upload: Annotated[
        bool, option("--upload", "Upload the files to the stack's artifact bucket, under releases/<version>/.")
    ] = False,
    if_deployed: Annotated[
        bool, option("--if-deployed", "Do nothing while the stack doesn't exist: it has no bucket to upload to.")
    ] = False,
    release_file: Annotated[
        Path | None, option("--release-file FILE", "Write the version to this file, for scripts.")
    ] = None,
    functions: Annotated[
        Path | None, option("--functions FILE", "Instead, write the functions' package to this zip file.")
    ] = None,
    python: Annotated[str, option("--python VERSION", "The Python of the functions' runtime.")] = "3.13",
    parameters: Annotated[
        list[str] | None,
        option(
            "--parameters TEXT",
            "Instead, print the parameters of an environment of samconfig.toml as `sam deploy "
            "--parameter-overrides` takes them; NAME=VALUE behind the environment's name replaces one.",
        ),
    ] = None,
    template: Annotated[
        Path, option("--template FILE", "With --parameters: the template that must have them all.")
    ] = TEMPLATE,
    stack: Stack = None,
    json: Json = False,
) -> None:
    """Build the Spark artifacts: ingest.py, sluice.zip and one archive of Python packages per processor.

    The version is a hash of the contents: the same sources and compiling Python give the same bytes and version on
    every machine. Needs no Docker, since it downloads the target's wheels. Byte code is compiled by a Python of the
    target's version; without one the archives are packed without it.

    Examples:

      sluice --stack NAME package --upload --release-file .aws-sam/release
      sluice package --functions .aws-sam/functions.zip --python 3.13
      sluice package --parameters "prod AlarmEmail=you@example.org"
    """
    if parameters:
        stack_name = stack or named_stack.get()
        print(given_parameters(" ".join(parameters), Path(), template, stack_name), flush=True)
        return
    if functions is not None:
        _write_functions(functions, python)
        return
    if arch != "host" and arch not in _CHOICES:
        raise UsageError(
            f"--arch {arch!r} is not a choice", next_step="Give --arch x86_64, --arch arm64, --arch both or --arch host"
        )
    try:
        target = chosen_target(stack) if upload else None
    except NoTarget as missing:
        if not if_deployed or isinstance(missing, NoRegion):
            raise
        say(f"{missing.message}: its first deployment makes the bucket, and nothing is uploaded yet")
        return
    hosts = [Host(python_of_job, processor) for processor in _CHOICES.get(arch, ()) for python_of_job in JOB_PYTHONS]
    hosts = hosts or [this_host()]
    compiler = _compiler(hosts[0].python, "each job starts some 0.6 s later")
    release = build_release(source_root(), hosts, cache_directory(os.environ), compiler)
    written = None
    if output is not None:
        written = output / release.version
        write_release(release, written)
    url = None
    if target is not None:
        url = release.url(target.artifacts)
        say(
            f"{'uploaded to' if upload_release(release, target.client('s3'), target.artifacts) else 'already at'} {url}"
        )
    if release_file is not None:
        release_file.parent.mkdir(parents=True, exist_ok=True)
        release_file.write_text(release.version)
    sizes = {name: len(content) for name, content in sorted(release.files.items())}
    if json:
        print_json(
            {"version": release.version, "files": sizes, "folder": str(written) if written else None, "url": url}
        )
    else:
        say(f"release {release.version}")
        print_table(("file", "size"), [(name, human_bytes(size)) for name, size in sizes.items()], right=(1,))


def _write_functions(file: Path, version: str) -> None:
    compiler = _compiler(version, "each function starts some 200 ms later")
    # The libraries are pure Python: the package is the same for every processor.
    packed = build_functions(source_root(), Host(version, "arm64"), compiler, cache_directory(os.environ))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(packed)
    say(f"{file}: {human_bytes(len(packed))}, SHA-256 {hashlib.sha256(packed).hexdigest()}")


def _compiler(version: str, without: str) -> Path | None:
    """A Python of `version`. Where there is none, says what the archives are `without`."""
    compiler = Path(sys.executable) if version == this_host().python else find_python(version, os.environ)
    if compiler is None:
        say(f"No Python {version} was found: without byte code, {without}")
    return compiler
