"""`sluice demo`: a demonstration with the verbs that a user types, on a local stack that ends with it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sluice.cost import smallest_run_bill
from sluice.errors import SluiceError, UsageError
from sluice.prices import AS_OF, REGION
from sluice_aws.clock import epoch_ms
from sluice_aws.stack import local_target
from sluice_cli.errors import DemoFailed, ReaderGone
from sluice_cli.local.demo_changes import ChangeWriter
from sluice_cli.local.progress import interruptible, progress_lines
from sluice_cli.terminal.guard import shell_text, visible
from sluice_cli.terminal.options import option, stacks_named
from sluice_cli.terminal.output import print_line, say
from sluice_cli.terminal.run import READER_GONE, run_command
from sluice_cli.terminal.step import Step
from sluice_cli.terminal.words import counted
from sluice_deploy.release import source_root
from sluice_local.home import Home
from sluice_local.stack.stack import Options, local_stack
from sluice_read.moments import iso

if TYPE_CHECKING:
    from sluice_aws.s3.past_batches import PastBatch

TABLES = ("ems.category", "ems.event", "ems.venue", "crm.user", "ecomm.date", "ecomm.listing", "ecomm.sale")
SALE, SALE_TOPIC, SALE_KEY = "ecomm.sale", "tickit.ecomm.sale", "salesid"
_WAIT_SECONDS = 300
# In a terminal; what the verbs print is plain.
_TITLE, _COMMAND, _NARRATION = "bold reverse cyan", "bold green", "cyan"

_NEXT = (  # as README has them
    "sluice local up --detach && sluice put FOLDER",
    "sluice config discover --write --file mine.yaml",
    "sluice config push mine.yaml && sluice wait",
    "sluice query 'select * from DATABASE.TABLE limit 5'",
    "sluice local down",
)


def demo(
    context: typer.Context,
    picture: Annotated[Path | None, option("--svg FILE", "Also draw the changed row's waterfall.")] = None,
) -> None:
    """Load seven tables, change a row, delete it, upload a damaged file, and account for every object.

    Everything runs on this machine, with emulated AWS and real Spark, and stops with the command. Debezium
    wrote the files of the seven tables from PostgreSQL and MariaDB; the demonstration adds changes in the
    same format. The first start downloads Spark's jars (120 MB). Ctrl-C stops it at any time.

    Example:

      sluice demo --svg waterfall.svg
    """
    root = source_root()
    bronze, tables = root / "tests" / "data" / "tickit_small" / "bronze", root / "tables.yaml"
    if not bronze.is_dir():
        raise UsageError(
            f"The bundled files are not in {bronze}", next_step="Run the demonstration from a clone of the repository"
        )
    if picture is not None and (picture.is_dir() or not picture.absolute().parent.is_dir()):
        raise UsageError(
            f"{visible(str(picture))} can't be written: it is a folder, or lies in none that exists",
            next_step="Name a file in a folder that exists",
        )
    from sluice_cli.config.source import read_tables

    read_tables(tables.read_text(encoding="utf-8"))
    began, drawn = time.monotonic(), Path.cwd() / (picture or "")
    with _temporary_folder() as folder:
        home = Home(folder / "home")
        try:
            with (
                interruptible() as interrupted,  # the interrupt itself ends only a verb
                progress_lines() as progress,
                local_stack(home, Options(), environment=os.environ, progress=progress.say) as stack,
            ):
                progress.stop()
                say(
                    f"The local stack is up after {stack.description.ready_seconds:.1f} s: emulated S3, SQS, Lambda,"
                    " DynamoDB and EventBridge, and real Spark, started on demand"
                )
                with _at(root, home):
                    Story(
                        context.find_root().command,
                        home,
                        ChangeWriter(bronze, SALE_TOPIC, SALE_KEY),
                        folder / "made",
                        began,
                        interrupted,
                        None if picture is None else drawn,
                    ).run()
        except KeyboardInterrupt:
            say("The local stack has stopped, and nothing is left running. The same command starts it again")
            raise
    seconds = time.monotonic() - began
    say(f"The local stack has stopped, and nothing is left running. Total: {seconds:.0f} s on this machine")
    say("\nNext, with change files of your own, as FOLDER/topics/TOPIC/FILE (docs/producing.md):")
    for line in next_commands():
        say(f"  {line}", whole=line)


def next_commands() -> tuple[str, ...]:
    """What to type after the demonstration. The environment comes first where the shell doesn't find the command."""
    script = Path(sys.prefix) / "bin" / "activate"
    shown = script.relative_to(Path.cwd()) if script.is_relative_to(Path.cwd()) else script
    return (*((f". {shell_text([str(shown)])}",) if shutil.which("sluice") is None and script.exists() else ()), *_NEXT)


@dataclass(frozen=True)
class Story:
    """The chapters of the demonstration. `made` is the folder of its own objects."""

    command: Callable[..., Any]
    home: Home
    writer: ChangeWriter
    made: Path
    began: float
    interrupted: list[bool]
    picture: Path | None

    def run(self) -> None:
        """Run every chapter. Raises DemoFailed."""
        self._land()
        row = self.writer.living_row()
        number = int(row[SALE_KEY])
        before = iso(epoch_ms())
        changed = self._change_a_row(row, number, before)
        self._delete_beside_a_damaged_object(changed, number, before)
        self._account()

    def _land(self) -> None:
        self._chapter("Load seven tables: 37 files that Debezium wrote from PostgreSQL and MariaDB")
        self._verb("config", "push", "tables.yaml")
        self._verb("put", "tests/data/tickit_small/bronze")
        self._verb("wait", "--strict", "--timeout", str(_WAIT_SECONDS))
        say(f"All seven tables are loaded {time.monotonic() - self.began:.0f} s after the start", _NARRATION)
        counts = " union all\n".join(f"  select '{table}' as name, count(*) as rows from {table}" for table in TABLES)
        self._verb("query", f"\n{counts}", shown=f'query "\n{counts}"')

    def _change_a_row(self, row: Mapping[str, object], number: int, before: str) -> Mapping[str, object]:
        self._chapter(f"Update one row of {SALE}: one more object, generated in the connector's format")
        self._verb("query", self._row_query(number))
        changed = {**row, "qtysold": int(str(row["qtysold"])) + 1}
        key, body = self.writer.change(changed, op="u")
        self._put("changed", {key: body})
        self._verb("wait", "--strict", "--timeout", str(_WAIT_SECONDS))
        self._verb("trace", key, *(() if self.picture is None else ("--svg", str(self.picture))), shown=f"trace {key}")
        say("The row now, and before the update:", _NARRATION)
        self._verb("query", self._row_query(number))
        self._verb("query", "--as-of", before, self._row_query(number))
        return changed

    def _delete_beside_a_damaged_object(self, row: Mapping[str, object], number: int, before: str) -> None:
        self._chapter("Delete the row, and upload a damaged object with it")
        deleted, body = self.writer.change(row, op="d")
        cut, rest = self.writer.change(row, op="u", qtysold=99)
        self._put("deleted", {deleted: body, cut: rest[: len(rest) - 20]})
        self._verb("wait", "--timeout", str(_WAIT_SECONDS))
        self._verb("query", f'select count(*) as "rows that readers see" from {SALE} where {SALE_KEY} = {number}')
        say("Readers no longer see the row. Its history remains:", _NARRATION)
        self._verb("query", "--as-of", before, self._row_query(number))
        self._verb("diff", SALE, "--from", before)
        self._verb("row", SALE, str(number))
        say("The damaged object is in quarantine, with the reason:", _NARRATION)
        self._verb("quarantine", "list")

    def _account(self) -> None:
        self._chapter("Account for every object")
        from sluice_cli.ingest.survey import UNSETTLED, survey
        from sluice_cli.ingest.waiter import identities_in

        target = local_target(self.home.file)
        listed = identities_in(target)
        outlook = survey(listed, target.ledger.objects.get(listed), target.ledger.lanes.all())
        unexplained = sum(outlook.counts.get(state, 0) for state in UNSETTLED)
        states = ", ".join(
            f"{count:,} {state}" for state, count in sorted(outlook.counts.items()) if state not in UNSETTLED
        )
        objects = counted(sum(outlook.counts.values()), "object")
        print_line(f"Proof: {objects} in bronze: {states}; unexplained: {unexplained}")
        batches = list(target.past_batches().newest())
        runs = sorted({batch.manifest.run for batch in batches})
        started = [(target.ledger.history.run(run) or {}).get("started_at") for run in runs]
        print_line(cost_line(batches, [(epoch_ms() - at) / 1000 for at in started if at is not None]))
        sys.stdout.flush()
        if unexplained:
            raise DemoFailed(
                f"{counted(unexplained, 'object')} not accounted for",
                command="wait",
                exit_code=1,
                next_step=f"Repeat the commands on a stack of your own; {Step('status')} shows its lanes",
            )

    def _row_query(self, number: int) -> str:
        return f"select {SALE_KEY}, listid, qtysold, pricepaid from {SALE} where {SALE_KEY} = {number}"

    def _put(self, name: str, objects: Mapping[str, bytes]) -> None:
        folder = self.made / name
        for key, body in objects.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)
        self._verb("put", str(folder), shown=f"put {name}/")

    def _chapter(self, title: str) -> None:
        say(f"\n== {title}", _TITLE)

    def _verb(self, *arguments: str, shown: str | None = None) -> None:
        """Run one verb as a user would, after showing it. Raises DemoFailed, or ReaderGone as after `| head`."""
        command = f"$ sluice {shown or shell_text(arguments)}"
        say(f"\n{command}", _COMMAND, whole=command)
        exit_code = run_command(self.command, arguments)
        sys.stdout.flush()
        if self.interrupted:
            raise KeyboardInterrupt
        if exit_code == READER_GONE:
            raise ReaderGone
        if exit_code != 0:
            raise DemoFailed(
                f"{Step(arguments[0])} ended with {exit_code}",
                command=" ".join(arguments),
                exit_code=exit_code,
                next_step=f"Run {Step('local up', '--config', 'tables.yaml')}, repeat the commands above,"
                f" and check {Step('logs', '--stderr')}",
            )


def cost_line(batches: Sequence[PastBatch], runs_s: Sequence[float]) -> str:
    """The work done, and EMR Serverless's bill for runs of these seconds with a driver and one executor."""
    rows = sum(outcome.counts.get("read", 0) for batch in batches for outcome in batch.outcomes.values())
    tables = {table for batch in batches for table in batch.manifest.tables}
    bills = [smallest_run_bill(seconds) for seconds in runs_s]
    vcpu, usd = sum(bill.vcpu_hours for bill in bills), sum(bill.usd for bill in bills)
    done = (
        f"{len(batches)} batch{'' if len(batches) == 1 else 'es'}, {counted(len(tables), 'table')},"
        f" {counted(rows, 'change')}, {counted(len(runs_s), 'run')} of {sum(runs_s):.0f} s so far"
    )
    return (
        f"Cost: {done}. EMR Serverless would bill {vcpu:.3f} vCPU hours, {usd:.4f} US dollars at list prices"
        f" of {REGION}, {AS_OF}, with a driver and one executor; the local stack costs nothing"
    )


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    """A folder that is removed in the end, unless an error names a log in it."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-demo-"))
    log = ""
    try:
        yield folder
    except SluiceError as error:
        log = str(error.facts.get("log", ""))
        raise
    finally:
        if not (log and Path(log).is_relative_to(folder)):
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _at(folder: Path, home: Home) -> Iterator[None]:
    """Run verbs in this folder and on this stack."""
    before, variables = Path.cwd(), {name: os.environ.get(name) for name in ("SLUICE_HOME", "SLUICE_STACK")}
    os.chdir(folder)
    os.environ["SLUICE_HOME"] = str(home.path)
    os.environ.pop("SLUICE_STACK", None)
    token = stacks_named.set(set())
    try:
        yield
    finally:
        stacks_named.reset(token)
        os.chdir(before)
        for name, value in variables.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
