"""`sluice demo`: the bundled seven tables through the whole pipeline, by the verbs that a user would type."""
from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from sluice_cli.config_source import read_tables
from sluice_cli.failures import CommandFailed, UsageError
from sluice_cli.local_output import progress_lines
from sluice_cli.output import say
from sluice_cli.release import source_root
from sluice_local.home import Home
from sluice_local.stack import Options, local_stack

_SLUICE = [sys.executable, "-c", "from sluice_cli.main import main; main()"]
_TABLES = ("ems.category", "ems.event", "ems.venue", "crm.user", "ecomm.date", "ecomm.listing", "ecomm.sale")
_WAIT_SECONDS = 300
_ROWS_SHOWN = 2


class DemoFailed(CommandFailed):
    """A step of the demonstration did not succeed; facts: `command`, `exit_code`."""

    code = "demo_failed"


def demo() -> None:
    """Land the bundled change files of seven tables, merge them with Spark, print the tables, leave nothing running.

    Everything happens on this machine: AWS is emulated, Spark is real, and so are the files, which Debezium made from PostgreSQL and MariaDB.
    The first time, Spark's jars are fetched (400 MB).

      sluice demo
    """
    root = source_root()
    bronze, tables = root / "tests" / "data" / "tickit_small" / "bronze", root / "tables.yaml"
    if not bronze.is_dir():
        raise UsageError(f"The bundled files are not in {bronze}", next_step="Run the demonstration from a clone of the repository")
    read_tables(tables.read_text(encoding="utf-8"))
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
        home = Home(Path(folder) / "home")
        try:
            with progress_lines() as progress, local_stack(home, Options(), environment=os.environ, progress=progress.say) as stack:
                progress.stop()
                say(f"The local stack is up after {stack.description.ready_seconds:.1f} s: emulated S3, SQS, Lambda, DynamoDB and EventBridge, and a Spark that starts when it is asked for")
                _story(home, root, began)
        except KeyboardInterrupt:
            say("Interrupted; nothing is left running")
            raise typer.Exit(1) from None
    say("The stack has ended; nothing is left running")


def _story(home: Home, root: Path, began: float) -> None:
    _verb(home, root, "config", "push", "tables.yaml")
    _verb(home, root, "put", "tests/data/tickit_small/bronze")
    _verb(home, root, "wait", "--strict", "--timeout", str(_WAIT_SECONDS))
    say(f"{time.monotonic() - began:.0f} s after the start, on this machine (local), all seven tables are there")
    for table in _TABLES:
        database, name = table.split(".")
        _verb(home, root, "query", f'select * from {database}."{name}" limit {_ROWS_SHOWN}')
    counts = " union all ".join(f"select '{table}' as \"table\", count(*) as \"rows\" from {table.split('.')[0]}.\"{table.split('.')[1]}\"" for table in _TABLES)
    _verb(home, root, "query", counts, shown="query 'the row counts of all seven'")
    _verb(home, root, "status")


def _verb(home: Home, root: Path, *arguments: str, shown: str | None = None) -> None:
    """Run one verb as a user would, after showing it. Raises DemoFailed."""
    say(f"\n$ sluice {shown or _quoted(arguments)}")
    done = subprocess.run([*_SLUICE, *arguments], cwd=root, env=_environment(home), check=False)
    if done.returncode != 0:
        raise DemoFailed(
            f"`sluice {arguments[0]}` ended with {done.returncode}", command=" ".join(arguments), exit_code=done.returncode,
            next_step="Run `sluice local up --config tables.yaml`, repeat the commands above, and look at `sluice local logs --stderr`",
        )


def _environment(home: Home) -> Mapping[str, str]:
    return {**{name: value for name, value in os.environ.items() if name != "SLUICE_STACK"}, "SLUICE_HOME": str(home.path)}


def _quoted(arguments: Sequence[str]) -> str:
    return " ".join(f"'{argument}'" if " " in argument else argument for argument in arguments)
