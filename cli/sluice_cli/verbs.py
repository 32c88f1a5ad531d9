"""The table of the verbs of `sluice`, and its root command.

A new verb is a function (or a group, a Typer app) in the sub-package of its subject, and one entry in `VERBS`: config
(rules), ingest (objects on their way), status (the present and the last hours), tables (silver and its catalog), trace
(one object, one row), ops (operating a stack), local (the local stack and the demonstration).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
import typer.main

from sluice_cli.terminal.options import Stack, named_stack, option
from sluice_cli.terminal.run import Commands, debugging
from sluice_cli.terminal.step import TYPED
from sluice_cli.terminal.verbs import Verb, lazy_group

_INGEST, _READ, _TRACE = "Ingest", "Read", "Trace"
_TABLES, _OPERATE, _LOCAL = "Tables", "Operate", "Run locally and deploy"

# In the order of help. A test compares each summary with the first paragraph of the verb's own help.
OPS = {
    "runs": Verb(
        "ops.runs:runs",
        "List the last runs, the newest below: start, duration, state and its reason, batches, objects and changes.",
    ),
    "logs": Verb(
        "ops.logs:logs", "Print what a run's driver logged, with times in UTC. `sluice ops runs` lists the runs."
    ),
    "cost": Verb("ops.cost:app", "The cost of past runs, and estimates of monthly cost."),
    "batch": Verb("ops.batches:app", "Batches that no run has finished yet: what their next run does with them."),
    "dlq": Verb(
        "ops.dead_letters:app",
        "The dead-letter queues: notices that admit failed five times, events that announce gave up, reconcile "
        "invocations that exhausted their retries, and events that a rule could not deliver. Nothing is lost: "
        "reconcile repeats the work.",
    ),
    "services": Verb(
        "tables.services:app",
        "List and request table services: compaction, clustering, cleaning, archival, purge, catalog sync.",
    ),
    "catalog": Verb("tables.catalog:app", "The Glue catalog, where Athena, Redshift, EMR and Trino find the tables."),
    "replay": Verb("ingest.replay:replay", "Merge committed objects again, while everything else goes on."),
    "adopt-bucket": Verb(
        "ops.adopt_bucket:adopt_bucket",
        "Add the stack to the notifications of its bronze bucket, which the parameter BronzeBucketName names.",
    ),
}

VERBS = {
    "config": Verb(
        "config.commands:app",
        "Map topics to tables: check tables.yaml, put it in force, show the configuration in force.",
        _INGEST,
        {
            "plan": "config.push:plan",
            "push": "config.push:push",
            "discover": "config.discover:discover",
            "import": "config.hudi_streamer:import_properties",
        },
    ),
    "put": Verb("ingest.put:put", "Copy files into bronze. Any other S3 client works as well.", _INGEST),
    "backfill": Verb(
        "ingest.backfill:backfill",
        "Bring in the objects of the bronze bucket that the ledger doesn't know: history, or what no notice announced.",
        _INGEST,
    ),
    "wait": Verb("ingest.wait:wait", "Wait until every object version in bronze is settled.", _INGEST),
    "quarantine": Verb(
        "ingest.quarantine:app",
        "Objects that could not be merged, and single rows of objects whose other rows were merged.",
        _INGEST,
    ),
    "query": Verb(
        "tables.query:query", "Query the silver tables in DuckDB's SQL, or print a whole table, without Spark.", _READ
    ),
    "diff": Verb(
        "tables.query:diff",
        "Show which rows were added, changed or removed between two moments, and in which columns.",
        _READ,
    ),
    "serve": Verb("tables.serve:serve", "Serve the silver tables over HTTP, read only, until Ctrl-C.", _READ),
    "history": Verb(
        "trace.history:history",
        "Show what happened to objects: when each was put, admitted, claimed and readable, and in which batch and run.",
        _TRACE,
    ),
    "trace": Verb(
        "trace.trace:trace",
        "Show one object's path as a waterfall: put, notice, admit, claim, read, commit, readable.",
        _TRACE,
    ),
    "row": Verb(
        "trace.row:row",
        "Show the life of one row: its changes, where each came from, which won and why, and the row after each "
        "commit.",
        _TRACE,
    ),
    "forget": Verb(
        "trace.forget:forget",
        "Remove one row from every file of a table, its history and quarantine, and print a receipt.",
        _TABLES,
    ),
    "table": Verb(
        "tables.inspect:app",
        "Inspect a table: schema, commits, files, statistics. Declare, accept, adopt or drop one.",
        _TABLES,
        {
            "ddl": "tables.catalog:ddl",
            "accept": "tables.accept:accept",
            "adopt": "tables.adoption:adopt",
            "drop": "tables.drop:drop",
            "schema": "tables.schema:app",
        },
    ),
    "verify": Verb(
        "trace.verify:verify",
        "Prove a table by its content: merge its bronze objects again, without Spark, and compare every row.",
        _TABLES,
    ),
    "rebuild": Verb(
        "tables.rebuild:app",
        "Rebuild a table from its objects in bronze, or the ledger from manifests and outcomes.",
        _TABLES,
        {"ledger": "tables.rebuild_ledger:ledger"},
    ),
    "status": Verb(
        "status.status:status",
        "Show lanes and tables: objects by state, bytes, ages, active runs, last commits and errors.",
        _OPERATE,
    ),
    "top": Verb("status.top:top", "Watch lanes, pending objects, freshness and runs until Ctrl-C.", _OPERATE),
    "doctor": Verb(
        "ops.doctor:doctor",
        "Check buckets, ledger, application, release, configuration, lanes, tables, catalog, notices, announcements.",
        _OPERATE,
    ),
    "audit": Verb(
        "tables.audit:audit",
        "Account for every object version: bronze against the ledger, the ledger against batches and commits.",
        _OPERATE,
    ),
    "pause": Verb("ops.lanes:pause", "Stop starting runs in a lane. A run in progress ends after its batch.", _OPERATE),
    "resume": Verb("ops.lanes:resume", "End a pause or a halt, and start a run if one is due.", _OPERATE),
    "ops": Verb(
        "",
        "Look into runs, logs, cost, the catalog, table services, open batches and dead letters, or replay objects.",
        _OPERATE,
        below=OPS,
    ),
    "standstill": Verb(
        "ops.standstill:app",
        "Stop Spark before its application is changed or deleted, and resume it after.",
        _OPERATE,
        hidden=True,
    ),
    "demo": Verb(
        "local.demo:demo",
        "Load seven tables, change a row, delete it, upload a damaged file, and account for every object.",
        _LOCAL,
    ),
    "local": Verb(
        "local.commands:app",
        "Run the whole pipeline on this machine: MiniStack or LocalStack emulates AWS, and real Spark replaces EMR "
        "Serverless.",
        _LOCAL,
    ),
    "init": Verb(
        "local.init:init",
        "Write a project into a folder: tables.yaml, and what SAM deploys: template, samconfig.toml, Makefile.",
        _LOCAL,
    ),
    "package": Verb(
        "ops.package:package",
        "Build the Spark artifacts: ingest.py, sluice.zip and one archive of Python packages per processor.",
        _LOCAL,
        hidden=True,
    ),
}

# Names of before 0.1.0, which work for one release, and what is typed now.
MOVED = {"read": "query", **TYPED}

_SETTINGS: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}

app = typer.Typer(
    name="sluice",
    cls=lazy_group(Commands, VERBS, _SETTINGS, MOVED),
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Merge change files from S3 into Apache Hudi tables, with nothing running while nothing arrives.

    Every verb works on the local stack of this folder or one above it, or on the deployed stack that --stack NAME or
    SLUICE_STACK names. The first line on stderr says which.

    A first try:

      sluice local up --config tables.yaml --detach

      sluice put exports/ && sluice wait

      sluice query 'select * from crm."user" limit 5'""",
    epilog="""Exit codes: 0 success, 1 failure or a negative answer, 2 an invalid command line, 5 no stack, Region or
    valid credentials, 6 refused by AWS or no answer, 130 interrupted (0 where a verb goes on until Ctrl-C), 141 the
    reader of the output has gone (`sluice history | head`). `config plan` also has 3 and 4.""",
    **_SETTINGS,
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from sluice_deploy.release import commit_of, distribution_version, source_root

        commit = commit_of(source_root())
        release = distribution_version() or "from its sources, not installed"
        print(f"sluice {release}{commit and f' (commit {commit})'}", flush=True)
        raise typer.Exit()


@app.callback()
def everywhere(
    stack: Stack = None,
    version: Annotated[bool, option("--version", "Print the version.", callback=_show_version, is_eager=True)] = False,
    debug: Annotated[bool, option("--debug", "Show where an error came from.")] = False,
) -> None:
    named_stack.set(stack)
    debugging.set(debug)


@cache
def built() -> Callable[..., Any]:
    """Return the commands as Click has them, each verb built by its first use."""
    return typer.main.get_command(app)
