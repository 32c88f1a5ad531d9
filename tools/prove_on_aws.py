"""Runs recorded changes through a stack on AWS or on this machine, and writes docs/proven/<date>-<where>.md.

    python tools/prove_on_aws.py STACK     a deployed stack: `make prove-on-aws` deploys it before, and removes it after
    python tools/prove_on_aws.py local     the local stack: `make prove-locally`
    python tools/prove_on_aws.py STACK --remove   what `make delete` keeps of a stack that was proven

Each step runs the command as a user would. A step that this place can't show is named in the record with the reason,
and one that fails ends neither the others nor the record. The record has no account, bucket or run in it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judging.fixture_sets import FixtureSet, find_set

from sluice_aws.stack import Target, find_target
from sluice_deploy.release import commit_of, distribution_version

ROOT = Path(__file__).resolve().parents[1]
TABLES = ("ems.category", "ems.venue", "crm.user")  # compared row by row; the others by `sluice verify`
PATIENCE_S = 1200
KEPT = ROOT / "build" / "proof.json"  # names of what outlives the stack
ONLY_ON_AWS = {
    "judge by Athena": "no emulator has Athena",
    "kill a job": "the stand-in's run is a process of this machine; tests/faults kills it",
    "bill": "only EMR Serverless knows it",
}


class Unshown(Exception):
    """A step that this place can't show; the text says why."""


class Wrong(Exception):
    """A step's answer is not what it must be."""


@dataclass
class Proof:
    """One stack under proof, and what was recorded of it."""

    target: Target
    fixtures: FixtureSet
    rows: list[tuple[str, str, str, str]] = field(default_factory=list)

    @property
    def is_local(self) -> bool:
        return self.target.home is not None

    @property
    def emulator(self) -> str:
        """The name of the local stack's emulator."""
        noted = json.loads((self.target.home / "local.json").read_text()) if self.target.home else {}
        return str(noted.get("emulator", ""))

    def sluice(self, *words: str, accept: tuple[int, ...] = (0,)) -> str:
        """What `sluice` prints. Raises Wrong."""
        stack = [] if self.is_local else ["--stack", self.target.stack]
        command = [str(Path(sys.executable).with_name("sluice")), *stack, *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode not in accept:
            raise Wrong(f"`sluice {' '.join(words[:3])}` ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def put(self, keys: Iterator[str] | list[str], number: int = 1) -> None:
        client = self.target.client("s3")
        for key in keys:
            client.upload_file(str(self.fixtures.folder / "bronze" / key), self.target.bronze, key)

    def run(self, name: str, step: Callable[[Proof], str]) -> None:
        began = time.monotonic()
        try:
            if self.is_local and name in ONLY_ON_AWS:
                raise Unshown(ONLY_ON_AWS[name])
            result, said = "passed", step(self)
        except Unshown as reason:
            result, said = "not shown", str(reason)
        except (Wrong, subprocess.TimeoutExpired, KeyError, ValueError) as error:
            result, said = "FAILED", str(error)
        self.rows.append((name, result, f"{time.monotonic() - began:.0f}", _without_names(said, self.target)))
        print(*self.rows[-1], sep=" | ", flush=True)


def _without_names(text: str, target: Target) -> str:
    for name in (target.bronze, target.silver, target.artifacts, target.ledger_table):
        text = text.replace(name, "NAME")
    return re.sub(r"\b\d{12}\b", "ACCOUNT", text).replace("|", "/").replace("\n", " ")


def push(proof: Proof) -> str:
    proof.sluice("config", "push", str(ROOT / "tests" / "data" / "tickit_small.tables.yaml"), "--yes")
    return "seven rules"


def snapshot(proof: Proof) -> str:
    """A cold start: from the first put until every object is merged."""
    return _put_phase(proof, 0)


def changes(proof: Proof) -> str:
    """Inserts, updates and deletes while the run lingers."""
    return _put_phase(proof, 1)


def _put_phase(proof: Proof, number: int) -> str:
    keys = [item.key for item in proof.fixtures.delivery("in_order", proof.fixtures.phases[number])]
    proof.put(keys)
    began = time.monotonic()
    proof.sluice("wait", "--timeout", f"{PATIENCE_S}s")
    return f"{len(keys)} objects readable {time.monotonic() - began:.0f} s after the last put"


def judge(proof: Proof) -> str:
    """The rows of three tables are those of the source database, by our reader."""
    counts = []
    for table in TABLES:
        rows = [json.loads(line) for line in proof.sluice("query", table, "--json").splitlines()]
        expected = list(_expected(proof.fixtures.folder / "expected" / "01_changes", table.partition(".")[2]))
        key = next(iter(expected[0]))
        differing = _texts(rows, key, expected[0]) ^ _texts(expected, key, expected[0])
        if differing:
            raise Wrong(f"{table}: {len(differing)} rows differ")
        counts.append(f"{table} {len(expected):,}")
    return "rows equal the source: " + ", ".join(counts)


def _expected(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    import gzip

    plain, packed = folder / f"{name}.jsonl", folder / f"{name}.jsonl.gz"
    text = plain.read_text(encoding="utf-8") if plain.exists() else gzip.decompress(packed.read_bytes()).decode()
    yield from (json.loads(line) for line in text.splitlines())


def _texts(rows: list[dict[str, Any]], key: str, like: dict[str, Any]) -> set[str]:
    return {json.dumps([row[name] for name in sorted(like)], default=str) for row in rows}


def athena(proof: Proof) -> str:
    """The catalog's views have as many rows as our reader finds."""
    client, counts = proof.target.client("athena"), []
    for table in TABLES:
        database, _, name = table.partition(".")
        query = client.start_query_execution(
            QueryString=f'select count(*) from "{name}"',
            QueryExecutionContext={"Database": database},
            ResultConfiguration={"OutputLocation": f"s3://{proof.target.artifacts}/logs/athena/"},
        )["QueryExecutionId"]
        while (status := client.get_query_execution(QueryExecutionId=query)["QueryExecution"]["Status"])["State"] in (
            "QUEUED",
            "RUNNING",
        ):
            time.sleep(2)
        if status["State"] != "SUCCEEDED":
            raise Wrong(f"{table}: {status.get('StateChangeReason')}")
        rows = client.get_query_results(QueryExecutionId=query)["ResultSet"]["Rows"][1]["Data"][0]["VarCharValue"]
        ours = len(proof.sluice("query", table, "--json").splitlines())
        if int(rows) != ours:
            raise Wrong(f"{table}: Athena has {rows} rows, our reader {ours}")
        counts.append(rows)
    return f"rows by Athena and by our reader: {', '.join(counts)}"


def verify(proof: Proof) -> str:
    for table in TABLES:
        proof.sluice("verify", table)
    proof.sluice("audit")
    return "`sluice verify` and `sluice audit` find nothing"


def time_travel(proof: Proof) -> str:
    commits = json.loads(proof.sluice("table", "commits", "crm.user", "--json"))
    listed = commits if isinstance(commits, list) else commits["commits"]
    first = min(str(one["instant"]) for one in listed)
    rows = proof.sluice("query", "crm.user", "--as-of", first, "--json").splitlines()
    before = list(_expected(proof.fixtures.folder / "expected" / "00_snapshot", "user"))
    if len(rows) != len(before):
        raise Wrong(f"{len(rows)} rows as of the first commit, and the source had {len(before)}")
    return f"{len(rows)} rows as of the first of {len(listed)} commits"


def services(proof: Proof) -> str:
    proof.sluice("ops", "services", "run", "ems.category", "--service", "cleaning", "--wait", "10m")
    return "cleaning requested, and done by a run"


def quarantine(proof: Proof) -> str:
    """A broken object is set aside, listed and discarded, and stops nothing."""
    key = "topics/tickit.ems.category/partition=0/tickit.ems.category+0+0000009999.avro"
    proof.target.client("s3").put_object(Bucket=proof.target.bronze, Key=key, Body=b"not Avro")
    proof.sluice("wait", "--timeout", f"{PATIENCE_S}s", accept=(0, 1))
    listed = json.loads(proof.sluice("quarantine", "list", "--json"))
    if key not in json.dumps(listed):
        raise Wrong("the broken object is not in quarantine")
    proof.sluice("quarantine", "discard", "--table", "ems.category", "--yes")
    return "a broken object was quarantined, and discarded"


def kill(proof: Proof) -> str:
    """Cancel the job run in the middle: the next one takes its batch over."""
    emr, application = proof.target.client("emr-serverless"), proof.target.outputs["ApplicationId"]
    keys = [item.key for item in proof.fixtures.delivery("in_order", proof.fixtures.phases[1])][:5]
    proof.put(keys)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        running = emr.list_job_runs(applicationId=application, states=["RUNNING"])["jobRuns"]
        if running:
            emr.cancel_job_run(applicationId=application, jobRunId=running[0]["id"])
            break
        time.sleep(2)
    proof.sluice("wait", "--timeout", f"{PATIENCE_S}s")
    return "cancelled, and everything is settled"


def dead_letters(proof: Proof) -> str:
    proof.sluice("ops", "dlq", "list")
    return "no queue has a message"


def bill(proof: Proof) -> str:
    runs = json.loads(proof.sluice("ops", "cost", "runs", "--json"))["runs"]
    billed = [one["usd"] for one in runs if one["usd"] is not None]
    return f"{len(runs)} runs, {len(billed)} with a bill: {sum(billed):.4f} US dollars"


STEPS: dict[str, Callable[[Proof], str]] = {
    "push the configuration": push,
    "snapshot, cold": snapshot,
    "changes, lingering": changes,
    "judge by our reader": judge,
    "judge by Athena": athena,
    "verify and audit": verify,
    "time travel": time_travel,
    "table services": services,
    "kill a job": kill,
    "quarantine": quarantine,
    "dead letters": dead_letters,
    "bill": bill,
}


def record(proof: Proof, began: dt.datetime) -> str:
    """The record as Markdown."""
    failed = [name for name, result, *_ in proof.rows if result == "FAILED"]
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    where = f"the local stack with {proof.emulator} ({machine})" if proof.is_local else "AWS"
    release = proof.target.outputs.get("Release", "none")
    head = f"Sluice {distribution_version()}, commit {commit_of(ROOT)}, release {release}"
    table = "\n".join(f"| {' | '.join(row)} |" for row in proof.rows)
    unshown = [f"{name}: {said}" for name, result, _, said in proof.rows if result == "not shown"]
    return f"""# Proven on {began:%Y-%m-%d}, on {where}

{head}; Region {proof.target.region}. By `tools/prove_on_aws.py`, with the set `{proof.fixtures.folder.name}`.

{"Failed: " + ", ".join(failed) + "." if failed else "Every step that could be shown passed."}
{"Not shown here: " + "; ".join(unshown) + "." if unshown else "Nothing was left out."}

| step | result | seconds | what was seen |
|---|---|---|---|
{table}
"""


def remove(stack: str) -> None:
    """Delete the buckets and the ledger that `make delete` keeps. Raises Wrong for names that aren't the stack's."""
    import boto3

    names = json.loads(KEPT.read_text(encoding="utf-8"))
    for name in (*names["buckets"], names["ledger"]):
        if not name.startswith(f"{stack}-"):
            raise Wrong(f"{name} is not of the stack {stack}: remove it by hand")
    s3, dynamodb = boto3.resource("s3"), boto3.client("dynamodb")
    for name in names["buckets"]:
        s3.Bucket(name).object_versions.delete()
        s3.Bucket(name).delete()
    dynamodb.update_table(TableName=names["ledger"], DeletionProtectionEnabled=False)
    dynamodb.get_waiter("table_exists").wait(TableName=names["ledger"])
    dynamodb.delete_table(TableName=names["ledger"])
    KEPT.unlink()
    print("Left in the Glue catalog: the databases crm, ecomm and ems, where nothing else uses them")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stack", help="the name of a deployed stack, or `local`")
    parser.add_argument("--remove", action="store_true", help="delete what `make delete` keeps")
    given = parser.parse_args()
    if given.remove:
        remove(given.stack)
        return 0
    target = find_target(None if given.stack == "local" else given.stack, os.environ, Path.cwd())
    began = dt.datetime.now(dt.timezone.utc)
    proof = Proof(target, find_set("tickit_small", os.environ))
    if not proof.is_local:
        KEPT.parent.mkdir(exist_ok=True)
        buckets = [target.bronze, target.silver, target.artifacts]
        KEPT.write_text(json.dumps({"buckets": buckets, "ledger": target.ledger_table}), encoding="utf-8")
    for name, step in STEPS.items():
        proof.run(name, step)
    folder = ROOT / "docs" / "proven"
    folder.mkdir(exist_ok=True)
    place = proof.emulator.lower() if proof.is_local else target.region
    file = folder / f"{began:%Y-%m-%d}-{place}.md"
    file.write_text(record(proof, began), encoding="utf-8")
    print(f"wrote {file.relative_to(ROOT)}")
    return 1 if any(result == "FAILED" for _, result, *_ in proof.rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
