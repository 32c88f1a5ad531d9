"""The demonstration's change objects follow the bundled ones in the real form, and its cost line shows the bill."""

import io
import os
import re
import shlex
import signal
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import duckdb
import fastavro
import pytest

from sluice.admission.routing import classify
from sluice.batch.manifest import Manifest, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.prices import spark_usd
from sluice.schema.avro import read_writer_schema
from sluice_aws.s3.past_batches import PastBatch
from sluice_cli.local.demo import TABLES, Story, _interruptible, cost_line, next_commands
from sluice_cli.local.demo_changes import ChangeWriter
from sluice_cli.main import run
from sluice_local.errors import DeploymentFailed, DidNotStart
from sluice_local.home import Home

BRONZE = Path(__file__).resolve().parents[3] / "data" / "tickit_small" / "bronze"


def test_a_made_change_is_later_than_every_bundled_one_and_has_the_newest_schema():
    writer = ChangeWriter(BRONZE, "tickit.ecomm.sale", "salesid")
    row = writer.living_row()
    made = [writer.change(row, op="u", qtysold=7), writer.change(row, op="d")]
    names = [classify(key, len(body)) for key, body in made]
    bundled = sorted(BRONZE.rglob("tickit.ecomm.sale+*.avro"))
    newest = fastavro.reader(bundled[-1].open("rb"))
    rows = [record for path in bundled for record in fastavro.reader(path.open("rb"))]
    assert [(name.topic, name.offset) for name in names] == [
        ("tickit.ecomm.sale", names[0].offset),
        ("tickit.ecomm.sale", names[0].offset + 1),
    ]
    assert names[0].offset == classify(bundled[-1].name, 1).offset + len(list(newest))
    found = [fastavro.reader(io.BytesIO(body)) for _, body in made]
    assert {reader.writer_schema["name"] for reader in found} == {newest.writer_schema["name"]}
    assert read_writer_schema(found[0].writer_schema).row == read_writer_schema(newest.writer_schema).row
    (changed,), (deleted,) = (list(reader) for reader in found)
    assert (changed["qtysold"], changed["__op"], deleted["__op"], deleted["__deleted"]) == (7, "u", "d", "true")
    assert max(record["__pos"] for record in rows) < changed["__pos"] < deleted["__pos"]


def test_the_cost_of_a_run_is_at_least_a_minute_of_its_smallest_size():
    manifest = Manifest("b-1", "main", "run-1", 1, "v", {"a.b": TablePart({}), "a.c": TablePart({})})
    batches = [PastBatch(manifest, {"a.b": Outcome("b-1", "a.b", COMMITTED, 1, counts={"read": 1200})})]
    summary = cost_line(batches, [30.4])
    assert summary.startswith(
        "Cost: 1 batch, 2 tables, 1,200 changes, 1 run of 30 s so far. EMR Serverless would bill 0.067 vCPU hours, "
    )
    whole = spark_usd("x86_64", vcpu_hours=4 * 2, memory_gb_hours=16 * 2)
    assert f"bill 8.000 vCPU hours, {whole:.4f} US dollars at list prices of us-east-1" in cost_line(
        batches, [3600, 3600]
    )


def test_the_demonstration_ends_with_the_next_commands_in_readmes_order(tmp_path, monkeypatch, capsys):
    @contextmanager
    def stack(home, *given, **more):
        yield SimpleNamespace(description=SimpleNamespace(ready_seconds=1.0))

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "activate").touch()
    monkeypatch.setattr("sluice_cli.local.demo.local_stack", stack)
    monkeypatch.setattr(Story, "run", lambda story: None)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    assert run(["demo"]) == 0
    _, shown = capsys.readouterr().err.split("as FOLDER/topics/TOPIC/FILE (docs/producing.md):\n")
    readme = (BRONZE.parents[3] / "README.md").read_text(encoding="utf-8").split("## Use it")[1].split("Every verb")[0]
    verbs, known = (re.findall(r"sluice (local \w+|config \w+|\w+)", text) for text in (shown, _commands(readme)))
    assert verbs == known and shown.splitlines()[0] == f"  . {tmp_path}/bin/activate"
    (tmp_path / "sluice").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert next_commands()[0].startswith("sluice local up"), "the shell finds the command"


def _commands(readme):
    """The commands of a block without its comments."""
    return "\n".join(line.partition("#")[0] for line in readme.splitlines() if line.startswith("    "))


@pytest.mark.parametrize("names_its_log", [True, False], ids=["with a log", "without"])
def test_a_log_that_an_error_names_outlives_the_demonstration(names_its_log, tmp_path, monkeypatch, capsys):
    @contextmanager
    def failing(home, *given, **more):
        log = home.path / "emulator" / "emulator.log"
        log.parent.mkdir(parents=True)
        log.write_text("out of memory")
        if names_its_log:
            raise DidNotStart(f"MiniStack was killed; its output is in {log}", log=str(log))
        raise DeploymentFailed("a resource was refused")
        yield

    monkeypatch.setattr("sluice_cli.local.demo.local_stack", failing)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run(["demo"]) == 1
    assert [path.read_text() for path in tmp_path.rglob("*.log")] == ["out of memory"] * names_its_log
    assert names_its_log or not list(tmp_path.iterdir())


def test_the_demonstration_ends_quietly_with_its_stack_once_its_reader_has_gone(tmp_path, monkeypatch, capsys):
    states = []

    @contextmanager
    def stack(home, *given, **more):
        states.append("up")
        try:
            yield SimpleNamespace(description=SimpleNamespace(ready_seconds=1.0))
        finally:
            states.append("down")

    monkeypatch.setattr("sluice_cli.local.demo.local_stack", stack)
    monkeypatch.setattr(Story, "run", lambda story: story._verb("ops", "cost", "estimate"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        monkeypatch.setattr("sys.stdout", closed)
        assert run(["demo"]) == 141
    assert states == ["up", "down"] and not list(tmp_path.iterdir())
    assert "error" not in capsys.readouterr().err


def test_the_statement_that_counts_rows_is_shown_as_it_runs(monkeypatch, capsys, tmp_path):
    ran = []
    monkeypatch.setattr("sluice_cli.local.demo.run_command", lambda command, arguments: ran.append(arguments) or 0)
    Story(None, Home(tmp_path), BRONZE, tmp_path, 0.0, [], None)._land()
    shown = [shlex.split(text)[1:] for text in capsys.readouterr().err.split("\n$ ")[1:]]
    *_, (verb, statement) = ran
    assert verb == "query" and shown[-1][:2] == ["query", statement]
    with duckdb.connect() as connection:
        for table in TABLES:
            database, name = table.split(".")
            connection.execute(f'create schema if not exists {database}; create table {database}."{name}" (id int)')
        assert connection.execute(statement).fetchall() == [(table, 0) for table in TABLES]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_interrupts_the_demonstration_so_that_its_stack_ends(number):
    before = signal.signal(number, lambda *_: None)
    try:
        with pytest.raises(KeyboardInterrupt), _interruptible() as interrupted:
            signal.raise_signal(number)
        assert interrupted
    finally:
        signal.signal(number, before)
