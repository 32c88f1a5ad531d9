"""Deploys a clean clone to an emulator with `make deploy`, and writes docs/walkthroughs/EMULATOR.md.

    python tools/deploy_walkthrough.py ministack|localstack [--keep FILE]

`make deploy` and `make delete` run as for AWS: SAM's own build, deploy and delete, through AWS_ENDPOINT_URL. Two
things differ: the template (sluice_local.stack.overlay replaces EMR Serverless by the stand-in), and the parameters
that name this machine's Python.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judging.readers import RustReader

from sluice_aws.clients import COMMAND, Clients, Credentials
from sluice_aws.failures import NO_STACK
from sluice_aws.stack import Target, deployed_target
from sluice_deploy.template import read_template
from sluice_deploy.wheels import this_host
from sluice_local.cache import cache_directory
from sluice_local.emr.spark_command import Cloud, Machine
from sluice_local.emr.spark_runner import RunnerSettings
from sluice_local.emr.stand_in import start_stand_in
from sluice_local.emulators.choose import Kind, start_emulator
from sluice_local.emulators.emulator import ACCESS_KEY, ACCOUNT, REGION
from sluice_local.home import Home
from sluice_local.images.jars import ensure_jars, hudi_bundle
from sluice_local.images.java import find_java
from sluice_local.images.spark import build_image
from sluice_local.stack.overlay import Surroundings, overlay

ROOT = Path(__file__).resolve().parents[1]
STACK = "sluice"
EMULATED = "emulated.yaml"
SPARK_MEMORY = 3 << 30
SET = "tests/data/tickit_small"
FIRST, SECOND = "tickit.ems.category", "tickit.ems.venue"
TABLES = """defaults: {freshness: 0}
lanes: {main: {linger: 5s}}
tables:
  - {topic: tickit.ems.category, table: ems.category, record_key: catid}
  - {topic: tickit.*.*, table: "{1}.{2}", record_key: "{2}id"}
"""

# SAM's tables of changes, events and outputs have some hundred lines, and its output of a build repeats six times.
_LEFT_OUT = re.compile(
    r"^(-{20,}|(\+ |\* |- )?(Add|Modify|Delete|(CREATE|UPDATE|DELETE)_[A-Z_]+|Operation|ResourceStatus|Replacement)\s.*"
    r"|(Key|Description|Value)\s{5,}.*|\s{8,}\S.*"
    r"|Manifest file is changed .*|Building codeuri: .*|Valid cache found.*|\w+: (Running|Current) .*"
    r"|python3 -m pip .*|\s--target .*|cp -R .*|find .* -name __pycache__ .*"
    r"|\s+Uploading to \S+\s+\d+ / \d+\s+\((?!100).*|\s+File with same data already exists .*"
    r"|\s+- (Deleting|Could not find and delete) .*)$"
)
END = "end"
_BLANKS = re.compile(r"\n{3,}")


@dataclass
class Transcript:
    """Commands and their output, without this machine's names."""

    hidden: list[tuple[str, str]]
    lines: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        for real, shown in self.hidden:
            text = text.replace(real, shown)
        self.lines += text.splitlines()
        print(text, flush=True)

    def text(self) -> str:
        """The lines, with the number of those left out."""
        lines_left: list[str] = []
        left_out = 0
        for line in [*self.lines, END]:
            if _LEFT_OUT.match(line):
                left_out += 1
                continue
            if left_out and not line:
                continue  # blank lines between two left out
            if left_out:
                lines_left.append(f"[{left_out} lines]")
                left_out = 0
            lines_left.append(line.rstrip())
        lines_left.pop()
        return _BLANKS.sub("\n\n", "\n".join(lines_left)).strip() + "\n"


@dataclass(frozen=True)
class Walk:
    """One clone on one emulator."""

    clone: Path
    environment: dict[str, str]
    transcript: Transcript

    def run(self, shown: str, *, of_make: str = "", accept: tuple[int, ...] = (0,)) -> str:
        """Run a command line in the clone. `of_make` are hidden arguments of make. Exits if the command fails."""
        self.transcript.say(f"\n$ {shown}")
        done = subprocess.Popen(
            f"{shown} {of_make}",
            shell=True,
            cwd=self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # nosec B602
        assert done.stdout is not None
        said = []
        for line in done.stdout:
            said.append(line)
            self.transcript.say(line.rstrip("\n").rpartition("\r")[2])  # of a progress bar only the end
        if done.wait() not in accept:
            raise SystemExit(f"{shown} ended with {done.returncode}")
        return "".join(said)

    def make(self, target: str, **variables: str) -> str:
        """Run make with this interpreter's environment as .venv: a new one would take minutes."""
        given = " ".join(f'{name}="{value}"' for name, value in variables.items())
        venv = sys.prefix
        return self.run(
            f"make {target} {given}".strip(),
            of_make=f"VENV={venv} --old-file={venv}/.local --old-file={venv}/.dev --no-print-directory",
        )


def walk(name: str, scratch: Path) -> str:
    """Walk through all steps. Returns the transcript's text."""
    with ExitStack() as undo:
        emulator = start_emulator(scratch / "emulator", kind=Kind(name), progress=print)
        undo.callback(emulator.stop)
        endpoint = emulator.endpoint
        clients = _clients(endpoint)
        java, jars = find_java(os.environ), ensure_jars()
        settings = RunnerSettings(
            Home(scratch).runs,
            cache_directory(os.environ),
            build_image(scratch / "image", java, jars),
            Cloud(endpoint, REGION, ACCESS_KEY, ACCESS_KEY),
            Machine(2, SPARK_MEMORY),
        )
        stand_in = start_stand_in(
            settings, s3=clients.s3, events=clients.events, functions=clients.client("lambda"), account=ACCOUNT
        )
        undo.callback(stand_in.stop)
        bundle = hudi_bundle(jars)
        transcript = Transcript(
            [
                (str(scratch / "clone"), "."),
                (str(scratch), "SCRATCH"),
                (str(bundle.parent), "JARS"),
                (endpoint, "http://EMULATOR"),
                (stand_in.endpoint, "http://STAND-IN"),
                (sys.prefix, ".venv"),
                (str(ROOT), "sluice"),
                (str(Path.home()), "~"),
                (endpoint.rpartition(":")[2], "PORT"),
            ]
        )
        clone = scratch / "clone"
        walk = Walk(clone, _environment(clone, endpoint, stand_in.endpoint), transcript)
        os.environ.update(
            {name: value for name, value in walk.environment.items() if name.startswith("AWS_")}
        )  # so that the checks here see the same AWS
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        transcript.say(
            f"$ git clone --quiet <this repository> sluice && cd sluice && git log --oneline -1\n{_head(clone)}"
        )
        _write_overlay(clone, _clients(stand_in.endpoint).emr_serverless, stand_in.endpoint)
        _steps(walk, hudi=bundle.as_uri())
        return transcript.text()


def _steps(walk: Walk, *, hudi: str) -> None:
    host = this_host()
    built = {
        "TEMPLATE": EMULATED,
        "LAMBDA_PYTHON": f"{sys.version_info.major}.{sys.version_info.minor}",
        "LAMBDA_ARCHITECTURE": host.architecture,
        "SPARK_ARCHITECTURE": "host",
    }
    parameters = (
        f"Runtime=python{built['LAMBDA_PYTHON']} Architecture={host.architecture} "
        f"SparkArchitecture={host.architecture.upper()} HudiJars={hudi} BatchingWindow=0 "
        "SuperviseSchedule='rate(1 minute)'"
    )
    say = walk.transcript.say

    say("\n# The first deployment.")
    walk.make("deploy", **built, PARAMETERS=parameters)
    first = deployed_target(STACK, walk.environment)
    (walk.clone / "tables.yaml").write_text(TABLES)
    walk.run(f"sluice --stack {STACK} config push tables.yaml")

    say("\n# An object put, and its table committed.")
    walk.run(f"sluice --stack {STACK} put {SET}/bronze/topics/{FIRST} --prefix topics/{FIRST}")
    walk.run(f"sluice --stack {STACK} wait --strict --timeout 2400")
    walk.run(f'sluice --stack {STACK} query "select count(*) as rows from ems.category"')

    say("\n# An update: another parameter, and Spark code that differs by a line.")
    walk.run("echo '# One line more.' >> spark/ingest.py")
    walk.make("deploy", **built, PARAMETERS=f"{parameters} OldestPendingAlarmSeconds=3600")
    second = deployed_target(STACK, walk.environment)
    assert first.outputs["Release"] != second.outputs["Release"] != "none", "the release is another"
    say(f"# Release {first.outputs['Release']} became {second.outputs['Release']}.")
    walk.run(f"sluice --stack {STACK} put {SET}/bronze/topics/{SECOND} --prefix topics/{SECOND}")
    walk.run(f"sluice --stack {STACK} wait --strict --timeout 2400")
    walk.run(f'sluice --stack {STACK} query "select count(*) as rows from ems.venue"')

    delete(walk)
    for line in _left(second, walk.clone):
        say(line)


def delete(walk: Walk) -> None:
    """Delete the stack, and see that `sluice` finds none. Exits if it still finds one, or fails for another reason."""
    walk.transcript.say("\n# The stack is deleted; its data is not.")
    walk.make("delete")
    walk.run(f"sluice --stack {STACK} status", accept=(NO_STACK,))


def _left(target: Target, scratch: Path) -> Iterator[str]:
    """What remains after the deletion, according to plain clients."""
    s3, dynamodb = target.client("s3"), target.client("dynamodb")
    for bucket in (target.bronze, target.silver, target.artifacts):
        listed = [
            entry
            for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            for entry in page.get("Contents", ())
        ]
        assert listed, f"{bucket} is empty"
        yield f"{bucket}: {len(listed)} objects"
    items = sum(
        page["Count"] for page in dynamodb.get_paginator("scan").paginate(TableName=target.ledger_table, Select="COUNT")
    )
    assert items, "the ledger is empty"
    yield f"{target.ledger_table}: {items} items"
    for table in ("ems.category", "ems.venue"):
        rows = scratch / f"{table}.jsonl"
        RustReader(target).write_rows({table: rows})
        count = len(rows.read_text().splitlines())
        expected = len(
            (ROOT / SET / "expected" / "02_final" / f"{table.partition('.')[2]}.jsonl").read_text().splitlines()
        )
        assert count == expected, f"{table} has {count} rows, and {expected} are right"
        yield f"{table}: {count} rows read, as many as the source database had"


def _write_overlay(clone: Path, emr: Any, emr_endpoint: str) -> None:
    template = read_template(clone / "template.yaml")
    made = emr.create_application(
        name=STACK,
        releaseLabel=template["Parameters"]["EmrRelease"]["Default"],
        type="SPARK",
        architecture=this_host().architecture.upper(),
        clientToken=STACK,
    )
    emulated = overlay(template, Surroundings(made["applicationId"], made["arn"], emr_endpoint))
    (clone / EMULATED).write_text(json.dumps(emulated, indent=1))


def _environment(clone: Path, endpoint: str, emr_endpoint: str) -> dict[str, str]:
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SLUICE_", "SAM_", "PYTEST"))
    }
    return {
        **variables,
        "PATH": f"{sys.prefix}/bin{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": os.pathsep.join(str(clone / part) for part in ("functions", "spark", "cli", "deploy", "local")),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT_URL_EMR_SERVERLESS": emr_endpoint,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "COLUMNS": "150",
        "NO_COLOR": "1",
    }


def _head(clone: Path) -> str:
    return subprocess.run(
        ["git", "log", "--oneline", "-1"], cwd=clone, check=True, capture_output=True, text=True
    ).stdout.strip()


def _clients(endpoint: str) -> Clients:
    return Clients(
        region=REGION, endpoint_url=endpoint, options=COMMAND, credentials=Credentials(ACCESS_KEY, ACCESS_KEY)
    )


def heading(emulator: str) -> str:
    """What stands above the transcript of an emulator."""
    return (
        f"# `make deploy` and `make delete` on {emulator}\n"
        f"Made by `make deploy-walkthrough EMULATOR={emulator}` at the commit that the first command prints;\n"
        "[deploying.md](../deploying.md) says what each step is for, and which steps this doesn't cover.\n"
    )


def main() -> None:
    """Walk, and write the transcript."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("emulator", choices=[kind.value for kind in Kind])
    parser.add_argument("--keep", type=Path, help="another file than docs/walkthroughs/EMULATOR.md")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-walkthrough-") as scratch:
        text = walk(given.emulator, Path(scratch))
    page = given.keep or ROOT / "docs" / "walkthroughs" / f"{given.emulator}.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(heading(given.emulator) + f"\n```text\n{text}```\n")
    print(f"written to {page}")


if __name__ == "__main__":
    main()
