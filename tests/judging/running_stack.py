"""A running stack as its users see it: the `sluice` command, an S3 client, and the stack's description."""

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml
from boto3.dynamodb.types import TypeDeserializer

from judging.patience import patient
from sluice_aws.stack import HOME_VARIABLE, STACK_VARIABLE, Target, local_file, local_target
from sluice_cli.main import run

REPOSITORY = Path(__file__).resolve().parents[2]
SLUICE = "import sys; from sluice_cli.main import main; sys.exit(main())"  # the console script, also if not installed
WARM = "5m"  # longer than the longest pause between two tests that use the lane
START_TIMEOUT_S = 300.0  # jars may have to be fetched


class CommandFailed(AssertionError):
    """A `sluice` command ended with an unexpected status: its output."""


@dataclass(frozen=True)
class RunningStack:
    """A local stack, by its SLUICE_HOME."""

    home: Path

    @cached_property
    def target(self) -> Target:
        """Names, endpoints and clients."""
        file = local_file({HOME_VARIABLE: str(self.home)}, self.home)
        assert file is not None, f"no stack runs in {self.home}"
        return local_target(file)

    @property
    def s3(self) -> Mapping[str, str]:
        """What an S3 reader that is not boto3 needs: endpoint, region, access_key, secret_key."""
        target = self.target
        assert target.endpoint is not None and target.credentials is not None
        return {
            "endpoint": target.endpoint,
            "region": target.region,
            "access_key": target.credentials.access_key_id,
            "secret_key": target.credentials.secret_access_key,
        }

    def sluice(self, *arguments: str, accept: Sequence[int] = (0,)) -> str:
        """Run a command on this stack, in this process, and return its standard output.

        One at a time: standard output is the process's. Raises CommandFailed for a status that isn't accepted.
        """
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv(HOME_VARIABLE, str(self.home))
            patch.setenv(STACK_VARIABLE, "")
            status = run(arguments)
        return _accepted(arguments, status, accept, out.getvalue(), err.getvalue())

    def describe(self, *arguments: str, accept: Sequence[int] = (0,)) -> Any:
        """What a command prints with `--json`."""
        return json.loads(self.sluice(*arguments, "--json", accept=accept))

    def sluice_process(self, *arguments: str, timeout_s: float = 600.0, accept: Sequence[int] = (0,)) -> str:
        """Run a command on this stack as a process of its own, within `timeout_s` of a quiet machine."""
        done = subprocess.run(
            [sys.executable, "-c", SLUICE, *arguments],
            capture_output=True,
            text=True,
            timeout=patient(timeout_s),
            cwd=self.home,
            env=self._environment(),
        )
        return _accepted(arguments, done.returncode, accept, done.stdout, done.stderr)

    def configure(
        self, rules: Sequence[Mapping], *, defaults: Mapping | None = None, lanes: Mapping | None = None
    ) -> None:
        """Push a tables.yaml of these rules.

        Tests don't wait for pacing: the freshness is 0 unless `defaults` sets another. They share a warm Spark: the
        run of the lane `main` stays for the next test unless `lanes` says otherwise.
        """
        content = {
            "defaults": {"freshness": 0, **(defaults or {})},
            "tables": [dict(rule) for rule in rules],
            "lanes": {"main": {"linger": WARM}, **(lanes or {})},
        }
        file = self.home / "judged-tables.yaml"
        file.write_text(yaml.safe_dump(content, sort_keys=False))
        self.sluice("config", "push", "--yes", str(file))

    def put(self, key: str, content: bytes | Path) -> str:
        """Put one object with a plain S3 client; the version that it became."""
        body = content if isinstance(content, bytes) else content.read_bytes()
        return (
            self.target.client("s3").put_object(Bucket=self.target.bronze, Key=key, Body=body).get("VersionId", "null")
        )

    def wait(self, timeout_s: float, *, strict: bool = True) -> float:
        """Run `sluice wait`; return the seconds that it took.

        Raises CommandFailed when an object is left, parked, or (`strict`) quarantined.
        """
        started = time.monotonic()
        self.sluice("wait", "--timeout", str(int(patient(timeout_s))), *(["--strict"] if strict else []))
        return time.monotonic() - started

    def ledger_objects(self, bucket: str, *, prefix: str) -> list[dict[str, Any]]:
        """The ledger's items of the object versions whose key begins with `prefix`, as plain values.

        Scans the table, so it is for a local ledger only.
        """
        read = TypeDeserializer().deserialize
        pages = (
            self.target.client("dynamodb")
            .get_paginator("scan")
            .paginate(
                TableName=self.target.ledger_table,
                ConsistentRead=True,
                FilterExpression="begins_with(pk, :key)",
                ExpressionAttributeValues={":key": {"S": f"object#{bucket}/{prefix}"}},
            )
        )
        return [{name: read(value) for name, value in item.items()} for page in pages for item in page["Items"]]

    def _environment(self) -> dict[str, str]:
        paths = [str(REPOSITORY / folder) for folder in ("functions", "spark", "cli", "deploy", "local")]
        return {**os.environ, HOME_VARIABLE: str(self.home), STACK_VARIABLE: "", "PYTHONPATH": os.pathsep.join(paths)}


def _accepted(arguments: Sequence[str], status: int, accept: Sequence[int], out: str, err: str) -> str:
    if status not in accept:
        raise CommandFailed(f"sluice {' '.join(arguments)} ended with {status}\n{out[-4000:]}\n{err[-4000:]}")
    return out


def processes_naming(folder: Path) -> dict[int, str]:
    """The command lines of this user's processes that name a folder there or in their environment, by id."""
    lines: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                line = (entry / "cmdline").read_bytes()
                if not ended and os.fsencode(folder) in line + (entry / "environ").read_bytes():
                    lines[int(entry.name)] = line.decode(errors="replace")
        except OSError:  # it has ended, or is another user's
            continue
    return lines


@contextmanager
def local_stack(home: Path, *arguments: str) -> Iterator[RunningStack]:
    """Start a local stack in `home` for the length of a block. `arguments` go to `sluice local up`."""
    home.mkdir(parents=True, exist_ok=True)
    stack = RunningStack(home)
    stack.sluice_process("local", "up", "--detach", *arguments, timeout_s=START_TIMEOUT_S)
    try:
        yield stack
    finally:
        stack.sluice_process("local", "down", "--yes")
