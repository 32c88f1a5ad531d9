"""`sluice forget`: what is asked of the lane, what is removed beside the table, and what the receipt lists."""

import json
import shutil
from dataclasses import replace

import pytest
from emulation.stack import NOW
from support.builders import avro_object, change, flattened
from support.silver_tables import SILVER_FOLDER, SilverFolder, kept_change, put_history

from sluice.batch.outcome import COMMITTED, Outcome, RowErrorCount
from sluice.batch.row_errors import BASE64, JSON_TEXT, RowError, from_lines, to_lines
from sluice.changes.forgotten import hashed_text, key_hash
from sluice.config.rules.columns import ColumnRules
from sluice.config.rules.table_rule import TableRule
from sluice.config.table import TableConfig
from sluice.schema import columns as kinds
from sluice.schema.columns import decimal_column, plain_column
from sluice.services.requests import FORGETTING, ServiceError, ServiceReport
from sluice.silver_keys import rows_key
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaStore
from sluice_cli.trace import row_life
from sluice_cli.trace.forget import holds_key
from sluice_read.place import history_folder
from sluice_read.reading import open_table

TABLE = "crm.user"
TOPIC = "crm.public.user"
CONFIG = TableConfig(TABLE, "crm", "user", topic=TOPIC, record_key=("id",))
COLUMNS = {"id": "long", "name": ["null", "string"]}
OBJECT = f"topics/{TOPIC}/partition=0/{TOPIC}+0+{{:010d}}.avro"


def quarantined(record, **values):
    text = json.dumps(values)
    return RowError(record, "null_record_key", f"of {values}", None, None, JSON_TEXT, text, len(text))


@pytest.fixture
def users(stack):
    """A table of two objects, the first with user 7, and a quarantined record of each user."""
    return put_users(stack, aside=[quarantined(5, id=7, name="Ada"), quarantined(6, id=8, name="Bob")])


def put_users(stack, *, aside, schema=None):
    stack.configure(TableRule(TABLE, ("id",), topic=TOPIC))
    stack.ledger.lanes.wake("main")
    stack.ledger.tables.pin(TABLE, {"topic": TOPIC})
    items = []
    for number, id in enumerate((7, 8)):
        body = avro_object(flattened(COLUMNS), [change(lsn=number + 1, id=id, name="n")])
        identity = stack.write(OBJECT.format(number), body)
        items.append(stack.listed(identity, schema=schema, offset=number))
    manifest = stack.batch(CONFIG, *items)
    hash = items[0].id.hash
    counted = (RowErrorCount(hash, 2, {"null_record_key": 2}),)
    outcome = Outcome(manifest.batch, TABLE, COMMITTED, NOW, instant="20260101000000000", quarantined_rows=counted)
    stack.aside = rows_key(manifest.batch, TABLE, hash)
    stack.put_documents(manifest, outcome)
    for name, text in ((stack.aside, to_lines(aside)), (f"_sluice/replaced/{TABLE}/0001700000000/rebuild.json", "{}")):
        stack.s3.put_object(Bucket="s-silver", Key=name, Body=text.encode())
    stack.items = items
    return stack


def aside(stack):
    body = stack.s3.get_object(Bucket="s-silver", Key=stack.aside)["Body"].read().decode()
    return [(row.record, row.content, row.reason) for row in from_lines(body)]


REMOVED = ServiceReport(rows=1, instant="2", more={"history_rows": 2, "older_files": 3, "marked": 1})


def lane_does(stack, monkeypatch, outcome=REMOVED):
    """Have the lane's run remove the row as soon as it is asked to, or fail."""
    supervise = "sluice_cli.terminal.services.supervise_now"
    monkeypatch.setattr(supervise, lambda target: stack.serve(TABLE, FORGETTING, outcome))


def test_a_row_that_the_table_never_had_is_nothing_to_remove(users, monkeypatch, sluice):
    none = ServiceReport(rows=0, instant=None, more={"history_rows": 0, "older_files": 0, "marked": 0})
    lane_does(users, monkeypatch, none)
    assert sluice("forget", TABLE, "99", "--yes").out.splitlines()[0].endswith(": nothing to remove")
    assert sluice.json("forget", TABLE, "99", "--yes")["state"] == "done"


def test_a_dry_run_lists_what_holds_the_row_and_changes_nothing(users, invoked, sluice):
    before = aside(users)

    document = sluice.json("forget", TABLE, "7", "--dry-run")

    assert document["state"] == "dry_run" and document["quarantined_rows"] == 1
    assert document["still_held_by"] == {
        "bronze": [{"key": OBJECT.format(0), "version": users.items[0].version}],
        "unread": [],
        "replaced": ["0001700000000"],
        "objects_not_searched": 0,
    }
    assert users.ledger.services.get("main", TABLE, FORGETTING) is None and aside(users) == before and invoked == []


@pytest.mark.parametrize(
    ("id", "history", "lines"),
    [
        (1, False, ["table:      has the row"]),
        (99, False, ["table:      no such row"]),
        (1, True, ["table:      has the row", "history:    1 change of it"]),
        (99, True, ["table:      no such row", "history:    1 change of it"]),
    ],
    ids=["there", "absent", "with-history", "history-alone"],
)
def test_a_dry_run_says_whether_the_table_has_the_row(users, tmp_path, monkeypatch, sluice, id, history, lines):
    shutil.copytree(SILVER_FOLDER, tmp_path / "silver")
    silver = SilverFolder(tmp_path / "silver")
    if history:
        put_history(tmp_path / "silver", [kept_change(1, "a", 1), kept_change(99, "b", 2)])
    monkeypatch.setattr(row_life, "open_table", lambda place, table, span: open_table(silver, table, span=span))
    monkeypatch.setattr(row_life, "history_folder", lambda place, table: history_folder(silver, table))
    out = sluice("forget", TABLE, str(id), "--dry-run").out.splitlines()
    assert [line for line in out if line.startswith(("table:", "history:"))] == lines
    assert out[0].endswith(": dry run, nothing was removed") and "quarantine: 0 records of the row" in out
    counts = sluice.json("forget", TABLE, str(id), "--dry-run")["found"]
    assert counts == {"rows": int(id == 1), "history_rows": int(history)}


def test_the_receipt_says_what_was_removed_and_the_ledger_has_no_key(users, monkeypatch, sluice):
    lane_does(users, monkeypatch)
    sluice("forget", TABLE, "7", code=2)  # nobody to ask

    out, err = sluice("forget", TABLE, "7", "--yes")
    assert "1 row and 2 changes of its history, 3 older files" in out and "older changes of the key stay out" in out
    assert f"bronze:     {OBJECT.format(0)}" in out and "rebuild table` would bring the row back" in err
    assert aside(users) == [(5, "{}", "forgotten"), (6, '{"id": 8, "name": "Bob"}', "of {'id': 8, 'name': 'Bob'}")]
    request = users.ledger.services.get("main", TABLE, FORGETTING)
    assert request.arguments == {"key": key_hash(TABLE, ["7"])} and request.requested_by == "sluice forget crm.user"


def test_a_failure_leaves_the_quarantine_and_says_why(users, monkeypatch, sluice):
    before = aside(users)
    lane_does(users, monkeypatch, ServiceError("too_many_forgotten", "no room for another mark", retriable=False))

    assert "no room for another mark" in sluice("forget", TABLE, "7", "--yes", code=1).err and aside(users) == before


@pytest.mark.long
def test_a_second_row_waits_until_the_first_is_forgotten(users, invoked, sluice):
    assert "repeat the command" in sluice("forget", TABLE, "8", "--yes", "--wait", "1", code=1).err
    said = sluice("forget", TABLE, "7", "--yes", "--wait", "1", code=1).err
    assert "Another forgetting of crm.user is under way" in said


def test_a_key_with_another_number_of_values_is_refused(users, sluice):
    said = sluice("forget", TABLE, "7", "8", "--yes", code=2).err
    assert "The key of crm.user is id, and 2 values are given\nnext step: Give 1 value" in said


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        (quarantined(0, before={"id": 7}, after=None), True),
        (quarantined(0, id="7"), True),
        (quarantined(0, id=77), False),
        (quarantined(0, other=7), False),
        (RowError(0, "c", "r", None, None, JSON_TEXT, '{"id": 7, "na', 99_999), True),
        (RowError(0, "c", "r", None, None, BASE64, "aWQ9Nw==", 4), True),
        (RowError(0, "c", "r", None, None, BASE64, "aWQ9OA==", 4), False),
    ],
    ids=["envelope", "text", "longer", "other-column", "cut", "bytes", "other-bytes"],
)
def test_quarantined_records_are_matched_by_their_key(row, holds):
    assert holds_key(row, CONFIG, ["7"]) == holds


DAY = plain_column("id", kinds.DATE, False, "int")
MOMENT = plain_column("id", kinds.TIMESTAMP_MICROS, False, "long")
ZONED = plain_column("id", kinds.ZONED_TIMESTAMP, False, "string")
PRICE = decimal_column("id", 9, 2, False, "bytes")


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        (DAY, 19_753, "2024-01-31"),
        (MOMENT, 1_706_702_400_500_000, "2024-01-31 12:00:00.5"),
        (MOMENT, 1_706_702_400_500_000, "2024-01-31T12:00:00.500000Z"),
        (ZONED, "2024-01-31T13:00:00+01:00", "2024-01-31 12:00:00"),
        (PRICE, {"base64": "AJY="}, "1.50"),
        (PRICE, {"base64": "AJY="}, "1.5"),
        (replace(DAY, field="born"), 19_753, "2024-01-31"),
    ],
    ids=["date", "moment", "iso-moment", "zoned", "decimal", "short-decimal", "renamed"],
)
def test_keys_of_dates_and_decimals_are_found_in_quarantined_records(column, value, text):
    row = quarantined(0, after={column.written_name: value})
    assert holds_key(row, CONFIG, [text], [column])
    assert not holds_key(row, CONFIG, ["2024-02-01"], [column]) and not holds_key(row, CONFIG, ["1.51"], [column])


@pytest.mark.parametrize(
    ("text", "type", "hashed"),
    [
        ("2024-01-31T12:00:00.500000Z", "timestamp", "2024-01-31 12:00:00.5"),
        ("2024-01-31 12:00:00", "timestamp", "2024-01-31 12:00:00"),
        ("2024-01-31T12:00:00Z", "string", "2024-01-31T12:00:00Z"),
        ("1.5", "decimal(9,2)", "1.50"),
        ("1.555", "decimal(9,2)", "1.555"),
        ("none", "decimal(9,2)", "none"),
        ("NaN", "decimal(9,2)", "NaN"),
    ],
)
def test_a_key_is_hashed_in_the_form_that_spark_gives_it(text, type, hashed):
    assert hashed_text(text, type) == hashed


def test_a_quarantined_record_is_read_by_the_schema_of_its_object(stack, monkeypatch, sluice):
    day = {"type": "int", "logicalType": "date"}
    mark = SchemaStore(Objects(stack.s3), "s-silver").keep(flattened({"id": day, "name": ["null", "string"]}))
    put_users(stack, schema=mark, aside=[quarantined(5, id=19_753, name="Ada"), quarantined(6, id=19_754)])
    assert sluice.json("forget", TABLE, "2024-01-31", "--dry-run")["quarantined_rows"] == 1


def test_a_cut_record_holds_a_key_beyond_ascii():
    cut = RowError(0, "c", "r", None, None, JSON_TEXT, json.dumps({"id": 'Zoë "Z"', "name": "n"})[:-2], 99_999)
    assert holds_key(cut, CONFIG, ['Zoë "Z"']) and not holds_key(cut, CONFIG, ["Zoé"])


def test_a_renamed_key_is_found_in_any_case():
    renamed = replace(CONFIG, columns=ColumnRules(rename={"user_id": "id"}))
    assert holds_key(quarantined(0, after={"USER_ID": 7}), renamed, ["7"])
    assert holds_key(quarantined(0, ID=7), CONFIG, ["7"])
    changed = replace(CONFIG, record_key=("gr_u00f6_u00dfe",))
    assert holds_key(quarantined(0, größe=7), changed, ["7"]) and not holds_key(quarantined(0, größe=8), changed, ["7"])
