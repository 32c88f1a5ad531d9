"""The `sluice` command: mounts every verb.

A new verb is a function (or a group, a Typer app) in the sub-package of its subject, and one line in `_mount`:
config (rules), ingest (objects on their way), status (the present and the last hours), tables (silver and its catalog),
trace (one object, one row), ops (operating a stack), local (the local stack and the demonstration).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import typer
import typer.main

from sluice_cli.terminal.guard import guard_output
from sluice_cli.terminal.output import Stack, stack_before_verb
from sluice_cli.terminal.run import Commands, run_command

app = typer.Typer(
    name="sluice",
    cls=Commands,
    rich_markup_mode="markdown",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Merge change files from S3 into Apache Hudi tables, with nothing running while nothing arrives.

    Every verb works on the local stack of this folder or one above it, or on the deployed stack that --stack NAME or
    SLUICE_STACK names. The first line on stderr says which.

    A first try:

      sluice local up --config tables.yaml --detach

      sluice put exports/ && sluice wait

      sluice query 'select * from crm."user" limit 5'

    Exit codes: 0 success, 1 failure or a negative answer, 2 an invalid command line.""",
)


@app.callback()
def everywhere(stack: Stack = None) -> None:
    stack_before_verb.set(stack)


def _mount() -> None:
    from sluice_cli.config import commands as config_commands
    from sluice_cli.config import discover as discover_command
    from sluice_cli.config import hudi_streamer as import_command
    from sluice_cli.config import push as push_commands
    from sluice_cli.ingest import put as put_command
    from sluice_cli.ingest import quarantine as quarantine_commands
    from sluice_cli.ingest import wait as wait_command
    from sluice_cli.local import commands as local_commands
    from sluice_cli.local import demo as demo_command
    from sluice_cli.ops import adopt_bucket as adopt_command
    from sluice_cli.ops import batches as batch_commands
    from sluice_cli.ops import cost as cost_command
    from sluice_cli.ops import dead_letters as dead_letter_commands
    from sluice_cli.ops import doctor as doctor_command
    from sluice_cli.ops import lanes as lane_commands
    from sluice_cli.ops import logs as logs_command
    from sluice_cli.ops import package as package_command
    from sluice_cli.ops import runs as runs_command
    from sluice_cli.ops import standstill as standstill_command
    from sluice_cli.status import status as status_command
    from sluice_cli.status import top as top_command
    from sluice_cli.tables import accept as accept_command
    from sluice_cli.tables import audit as audit_command
    from sluice_cli.tables import catalog as catalog_commands
    from sluice_cli.tables import inspect as table_commands
    from sluice_cli.tables import query as query_commands
    from sluice_cli.tables import rebuild as rebuild_command
    from sluice_cli.tables import rebuild_ledger as rebuild_ledger_command
    from sluice_cli.tables import schema as schema_commands
    from sluice_cli.tables import services as service_commands
    from sluice_cli.trace import history as history_command
    from sluice_cli.trace import row as row_command
    from sluice_cli.trace import trace as trace_command
    from sluice_cli.trace import verify as verify_command

    app.add_typer(local_commands.app, name="local")
    app.command("put")(put_command.put)
    app.command("wait")(wait_command.wait)
    app.command("status")(status_command.status)
    app.command("query")(query_commands.query)
    app.command("read")(query_commands.read)
    app.command("diff")(query_commands.diff)
    table_commands.app.command("ddl")(catalog_commands.ddl)
    table_commands.app.command("accept")(accept_command.accept)
    app.add_typer(table_commands.app, name="table")
    app.add_typer(catalog_commands.app, name="catalog")
    app.add_typer(service_commands.app, name="services")
    app.command("history")(history_command.history)
    app.command("top")(top_command.top)
    app.command("trace")(trace_command.trace)
    app.command("row")(row_command.row)
    app.command("verify")(verify_command.verify)
    config_commands.app.command("plan")(push_commands.plan)
    config_commands.app.command("push")(push_commands.push)
    config_commands.app.command("discover")(discover_command.discover)
    config_commands.app.command("import")(import_command.import_properties)
    app.add_typer(config_commands.app, name="config")
    app.add_typer(quarantine_commands.app, name="quarantine")
    app.add_typer(schema_commands.app, name="schema")
    rebuild_command.app.command("ledger")(rebuild_ledger_command.ledger)
    app.add_typer(rebuild_command.app, name="rebuild")
    app.command("pause")(lane_commands.pause)
    app.command("resume")(lane_commands.resume)
    app.command("runs")(runs_command.runs)
    app.command("logs")(logs_command.logs)
    app.add_typer(dead_letter_commands.app, name="dlq")
    app.add_typer(batch_commands.app, name="batch")
    app.command("adopt-bucket")(adopt_command.adopt_bucket)
    app.add_typer(cost_command.app, name="cost")
    app.command("audit")(audit_command.audit)
    app.command("doctor")(doctor_command.doctor)
    app.command("demo")(demo_command.demo)
    app.command("package")(package_command.package)
    app.add_typer(standstill_command.app, name="standstill")


_mount()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    guard_output()  # for the traceback of an unexpected error, too
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return run_command(_built(), arguments)


@cache
def _built() -> Callable[..., Any]:
    """The commands as Click has them. Typer takes some 80 ms to build them."""
    return typer.main.get_command(app)
