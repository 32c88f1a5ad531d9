"""Keys, topics, reasons and values that try to steer the terminal, through every verb."""

import unicodedata

import pytest
from emulation.stack import NOW
from support.builders import avro_object
from support.silver_tables import SILVER_FOLDER, SilverFolder

from sluice.batch.outcome import COMMITTED, Outcome, RowErrorCount
from sluice.batch.row_errors import RowError, to_lines
from sluice.config.table import TableConfig
from sluice.ledger import keys as items
from sluice.silver_keys import rows_key
from sluice_cli.config import discover
from sluice_cli.main import run
from sluice_cli.tables import inspect, query
from sluice_cli.verbs import built

pytestmark = pytest.mark.long

HOSTILE = "\x1b]0;owned\x07\x9b31m\u202e\u2066\x7f\u2028\ufeff\U000e0041\b[bold]end"
IN_KEYS = "".join(mark for mark in HOSTILE if mark >= " ")  # of others the emulator makes no XML
TOPIC = f"crm.{IN_KEYS}"
KEY = f"topics/{TOPIC}/partition=0/{TOPIC}+0+{{:010d}}.avro"
TABLES = "tables: [{topic: crm.public.user, table: crm.user, record_key: id}]"
CONFIG = TableConfig("crm.user", "crm", "user", topic="crm.public.user", record_key=("id",))
SCHEMA = {"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"}, {"name": "__lsn", "type": "long"}]}
# Verbs whose output needs more than an emulator of S3 and DynamoDB, or has nothing of others in it.
ELSEWHERE = {
    "config schema", "demo", "doctor", "local down", "local info", "local up", "ops adopt-bucket", "ops catalog show",
    "ops catalog sync", "ops cost estimate", "ops cost runs", "ops services run", "package", "serve",
    "standstill begin", "standstill end", "table list"
}  # fmt: skip
SELECT = f"select '{HOSTILE}' as \"{HOSTILE}\", [{{'a': '{HOSTILE}'}}] as nested"
COMMANDS = {
    "put": ["put", IN_KEYS],
    "init": ["init", IN_KEYS],
    "backfill": ["backfill", "--dry-run"],
    "ops replay": ["ops", "replay", "--all", "--dry-run"],
    "wait": ["wait", "--timeout", "0"],
    "status": ["status"],
    "query": ["query", SELECT],
    "query wrong": ["query", f"select '{HOSTILE}'::int"],
    "diff": ["diff", "moma.works", "--from", HOSTILE],
    "history": ["history"],
    "top": ["top", "--once"],
    "trace": ["trace", KEY.format(1)],
    "row": ["row", "crm.user", HOSTILE],
    "forget": ["forget", "crm.user", HOSTILE, "--dry-run"],
    "pause": ["pause", HOSTILE],
    "resume": ["resume", HOSTILE],
    "ops runs": ["ops", "runs"],
    "ops logs": ["ops", "logs", HOSTILE],
    "ops dlq list": ["ops", "dlq", "list", HOSTILE],
    "ops dlq redrive": ["ops", "dlq", "redrive", HOSTILE],
    "table show": ["table", "show", f"moma.{HOSTILE}"],
    "table commits": ["table", "commits", f"moma.{HOSTILE}"],
    "table files": ["table", "files", f"moma.{HOSTILE}"],
    "table stats": ["table", "stats", f"moma.{HOSTILE}"],
    "table ddl": ["table", "ddl", f"moma.{HOSTILE}", "--engine", "spark"],
    "table accept": ["table", "accept", f"moma.{HOSTILE}"],
    "table drop": ["table", "drop", f"moma.{HOSTILE}"],
    "table adopt": ["table", "adopt", f"moma.{HOSTILE}", "--from", HOSTILE],
    "ops services list": ["ops", "services", "list", HOSTILE],
    "config check": ["config", "check", "wrong.yaml"],
    "config plan": ["config", "plan", "wrong.yaml"],
    "config push": ["config", "push", "wrong.yaml"],
    "config show": ["config", "show"],
    "config discover": ["config", "discover"],
    "config import": ["config", "import", "wrong.yaml"],
    "quarantine list": ["quarantine", "list"],
    "quarantine list --parked": ["quarantine", "list", "--parked"],
    "quarantine show": ["quarantine", "show", KEY.format(2)],
    "quarantine retry": ["quarantine", "retry", KEY.format(1)],
    "quarantine discard": ["quarantine", "discard", HOSTILE],
    "table schema list": ["table", "schema", "list"],
    "table schema history": ["table", "schema", "history", HOSTILE],
    "table schema diff": ["table", "schema", "diff", HOSTILE, "a", "b"],
    "table schema verdict": ["table", "schema", "verdict", HOSTILE, "a"],
    "audit": ["audit", "--objects"],
    "verify": ["verify", HOSTILE],
    "rebuild table": ["rebuild", "table", "crm.user", "--dry-run"],
    "rebuild ledger": ["rebuild", "ledger", "--dry-run"],
    "ops batch show": ["ops", "batch", "show"],
    "ops batch give-up": ["ops", "batch", "give-up", HOSTILE],
}
SAYS_IT = ("query", "wait", "history", "trace", "quarantine list", "quarantine show", "rebuild table", "status")


def verbs(command=None, path=()):
    """Every verb, by its words."""
    for name, below in getattr(command or built(), "commands", {}).items():
        yield from verbs(below, (*path, name)) if getattr(below, "commands", {}) else [" ".join((*path, name))]


def test_every_verb_is_tried_or_listed():
    tried = {command.partition(" --")[0].removesuffix(" wrong") for command in COMMANDS}
    assert set(verbs()) - tried == ELSEWHERE


@pytest.fixture
def hostile(stack, tmp_path, tables, monkeypatch, invoked, sluice):
    """A stack whose objects, reasons, rows and files have hostile text in them."""
    sluice("config push", tables(TABLES))
    (tmp_path / "wrong.yaml").write_text(f"tables:\n  - {{topic: {ascii(HOSTILE)[1:-1]!r}, table: 1}}\n{HOSTILE}: 1\n")
    (tmp_path / IN_KEYS).write_bytes(b"{}")
    body = avro_object(SCHEMA, [{"id": 1, "__lsn": 1}])
    put = [stack.write(KEY.format(number), body) for number in range(5)]
    stack.admit(put[0], table=None, lane=None, state=items.PARKED, topic=TOPIC, reason=f"no rule takes {HOSTILE}")
    stack.admit(put[1], items.QUARANTINED, code="not_avro", reason=HOSTILE)
    holed, gone = stack.admit(put[2]), stack.admit(put[3])
    merged(stack, holed)
    for identity in (holed, gone):
        stack.s3.delete_object(Bucket="s-bronze", Key=identity.key, VersionId=identity.version)
    for module in (query, inspect):
        monkeypatch.setattr(module, "chosen_target", lambda stack: SilverFolder(SILVER_FOLDER))
    return stack


def merged(stack, holed):
    """A batch with a quarantined row of an object."""
    manifest = stack.batch(CONFIG, stack.listed(holed))
    stack.hold()
    stack.claim(manifest)
    row = RowError(0, "null_record_key", HOSTILE, 70, None, "json", f'{{"id":"{HOSTILE}"}}', 11)
    key = rows_key(manifest.batch, "crm.user", holed.hash)
    rows = (RowErrorCount(holed.hash, 1, {"null_record_key": 1}),)
    about = {"instant": "20260101000000000", "counts": {"read": 1, "quarantined_rows": 1}}
    outcome = Outcome(manifest.batch, "crm.user", COMMITTED, NOW, quarantined_rows=rows, **about)
    stack.s3.put_object(Bucket="s-silver", Key=key, Body=to_lines([row]).encode())
    stack.put_documents(manifest, outcome)
    stack.settle(manifest, outcome, [holed])


def steering(text):
    """The characters of a text that could steer a terminal; joiners don't."""
    return {mark for mark in text if unicodedata.category(mark) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n", "\t"}


@pytest.mark.parametrize("terminal", [pytest.param(False, marks=pytest.mark.whole), True], ids=["pipe", "terminal"])
def test_no_verb_prints_a_control_character(hostile, monkeypatch, capsys, terminal):
    monkeypatch.setenv("TERM", "dumb")  # rich's own sequences aside
    monkeypatch.setattr(discover, "ADMISSION_PATIENCE_S", 0)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal, raising=False)
    steered, silent = {}, set()
    for name, command in COMMANDS.items():
        for form in ([], ["--json"]):
            capsys.readouterr()
            code = run([*command, *form])
            printed = "".join(capsys.readouterr())
            assert code in (0, 1, 2) and "Traceback" not in printed, (name, printed)
            if steering(printed):
                steered[(name, *form)] = steering(printed)
            whole = not (terminal and name == "history")  # which leaves out the middle of keys in a narrow terminal
            if name in SAYS_IT and whole and not form and "x9b" not in printed:  # folded in narrow columns
                silent.add(name)
    assert (steered, silent) == ({}, set())
