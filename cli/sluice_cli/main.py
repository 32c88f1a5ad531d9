"""The `sluice` command: its verbs, and how every expected failure ends in one line and an exit code."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

import typer
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, NoCredentialsError

from sluice.errors import SluiceError
from sluice_cli.failures import FAILED, CommandFailed
from sluice_cli.output import Stack, command_line, say, stack_before_verb

app = typer.Typer(
    name="sluice",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Change files from S3 into Apache Hudi tables, with nothing running while nothing arrives.

    Every verb works on the local stack that runs in this folder or above it, or on a deployed one given by --stack NAME or SLUICE_STACK; the first line on stderr says which.

    A first round:

      sluice local up --config tables.yaml --detach

      sluice put exports/ && sluice wait

      sluice query 'select * from crm."user" limit 5'

    Exit codes: 0 done, 1 it failed or is not so, 2 the command line is wrong.""",
)


@app.callback()
def everywhere(stack: Stack = None) -> None:
    stack_before_verb.set(stack)


def _mount() -> None:
    from sluice_cli import (
        adopt_command,
        catalog_commands,
        config_commands,
        cost_command,
        demo_command,
        diff_command,
        discover_command,
        doctor_command,
        history_command,
        import_command,
        lane_commands,
        local_commands,
        package_command,
        put_command,
        quarantine_commands,
        query_command,
        read_command,
        rebuild_command,
        rebuild_ledger_command,
        row_command,
        schema_commands,
        service_commands,
        standstill_command,
        status_command,
        table_commands,
        top_command,
        trace_command,
        wait_command,
    )

    app.add_typer(local_commands.app, name="local")
    app.command("put")(put_command.put)
    app.command("wait")(wait_command.wait)
    app.command("status")(status_command.status)
    app.command("query")(query_command.query)
    app.command("read")(read_command.read)
    app.command("diff")(diff_command.diff)
    table_commands.app.command("ddl")(catalog_commands.ddl)
    app.add_typer(table_commands.app, name="table")
    app.add_typer(catalog_commands.app, name="catalog")
    app.add_typer(service_commands.app, name="services")
    app.command("history")(history_command.history)
    app.command("top")(top_command.top)
    app.command("trace")(trace_command.trace)
    app.command("row")(row_command.row)
    config_commands.app.command("discover")(discover_command.discover)
    config_commands.app.command("import")(import_command.import_properties)
    app.add_typer(config_commands.app, name="config")
    app.add_typer(quarantine_commands.app, name="quarantine")
    app.add_typer(schema_commands.app, name="schema")
    rebuild_command.app.command("ledger")(rebuild_ledger_command.ledger)
    app.add_typer(rebuild_command.app, name="rebuild")
    app.command("pause")(lane_commands.pause)
    app.command("resume")(lane_commands.resume)
    app.command("adopt-bucket")(adopt_command.adopt_bucket)
    app.add_typer(cost_command.app, name="cost")
    app.command("doctor")(doctor_command.doctor)
    app.command("demo")(demo_command.demo)
    app.command("package")(package_command.package)
    app.add_typer(standstill_command.app, name="standstill")


_mount()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Unexpected errors keep their traceback: they are bugs."""
    command_line.set(shlex.join(["sluice", *(sys.argv[1:] if arguments is None else arguments)]))
    try:
        app(args=None if arguments is None else list(arguments), prog_name="sluice")
    except SystemExit as ended:  # how typer ends, also after a wrong command line
        return ended.code if isinstance(ended.code, int) else FAILED
    except SluiceError as error:
        say(f"error: {error}")
        return error.exit_code if isinstance(error, CommandFailed) else FAILED
    except EndpointConnectionError as error:
        say(
            f"error: nothing answers at {error.kwargs.get('endpoint_url')}. If the local stack has ended, `sluice local up` starts it"
        )
        return FAILED
    except NoCredentialsError:
        say("error: no AWS credentials were found. Configure them as for the AWS CLI (AWS_PROFILE, `aws sso login`)")
        return FAILED
    except (ClientError, BotoCoreError) as error:
        say(f"error: AWS refused: {error}. `sluice doctor` looks at the stack's parts")
        return FAILED
    return 0
