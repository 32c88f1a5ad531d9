"""`sluice config plan`, and the question that `config push` asks, on an emulated stack."""

import json
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError
from support.bad_input import plain_parquet
from support.builders import aws_error, in_a_terminal

from sluice.config.table import TableConfig
from sluice.ledger import keys as items
from sluice.schema.history import StoredColumns
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory
from sluice_aws.stack import Target
from sluice_cli.config import push as push_verb

TABLES = "defaults: {record_key: [id]}\ntables: [{topic: crm.public.user, table: crm.user}]\n"
MORE = "defaults: {record_key: [id]}\ntables: [{topic: crm.public.user, table: crm.user}, {topic: a, table: crm.a}]\n"
PAUSED = TABLES.replace("crm.user}", "crm.user, paused: true}")
PINNED = {"record_key": ["id"], "partition_by": [], "table_type": "cow", "topic": "crm.public.user"}
CONFIG = TableConfig("crm.user", "crm", "user", topic="crm.public.user", record_key=("id",))


@pytest.fixture
def push(stack, tmp_path, sluice):
    def pushed(text, *options, verb="push", code=0):
        (tmp_path / "tables.yaml").write_text(text)
        return sluice("config", verb, "tables.yaml", *options, code=code)

    return pushed


def in_force(stack):
    listed = stack.s3.list_objects_v2(Bucket="s-artifacts", Prefix="config/tables.json").get("Contents", [])
    return stack.s3.get_object(Bucket="s-artifacts", Key="config/tables.json")["Body"].read() if listed else None


def test_the_exit_code_tells_changes_refusals_and_neither(stack, push):
    push(TABLES, verb="plan", code=3)
    assert in_force(stack) is None, "a plan changes nothing"
    push(TABLES)
    assert push(TABLES, verb="plan").out.endswith("Nothing would change\n")
    stack.ledger.tables.pin("crm.user", PINNED)
    out = push(TABLES.replace("[id]", "[uid]"), verb="plan", code=4).out
    assert "record_key: id -> uid: not in place, see `sluice rebuild table`" in out
    assert "refused  crm.user has data whose record_key is id and would become uid" in out
    assert out.splitlines()[-1] == "Tables: 1 refused"
    push("tables: [{topic: a, tabel: b.c}]", verb="plan", code=1)


def test_another_transform_is_no_change_in_place_but_asks_for_a_rebuild(stack, push):
    day = TABLES.replace("crm.user}", "crm.user, partition_by: day(seen_at)}")
    push(day)
    stack.ledger.tables.pin("crm.user", {**PINNED, "partition_by": ["day(seen_at)"]})
    push(day, verb="plan")
    wanted = "partition_by: day(seen_at) -> hour(seen_at): not in place, see `sluice rebuild table`"
    assert wanted in push(day.replace("day", "hour"), verb="plan", code=4).out
    refused = push(day.replace("day", "week"), verb="check", code=1).err
    assert "or bucket(number), and not 'week(seen_at)'" in " ".join(refused.split())


MISSPELT = TABLES.replace("crm.user}", "crm.user, columns: {mask: {emaill: 3}}}")


def test_a_column_that_waiting_objects_lack_needs_a_yes(stack, push):
    key = "topics/crm.public.user/partition=0/crm.public.user+0+0000000000.parquet"
    waits = stack.write(key, plain_parquet({"id": 1, "email": "a@b.de"}))
    stack.park(waits, format="parquet")
    shown = push(MISSPELT, verb="plan", code=3).out
    assert "  ! columns: emaill is not a column of the objects that wait (did you mean email?)" in shown
    push(MISSPELT, code=2)
    assert in_force(stack) is None, "unasked, nothing is pushed"
    push(MISSPELT, "--yes")
    push(MISSPELT)  # what is in force is not asked about again


def test_a_misspelt_key_in_force_needs_a_yes_once_a_push_frees_objects(stack, push):
    misspelt = TABLES.replace("[id]", "[custmer_id]")
    push(misspelt.replace("crm.public.user", "crm.public.usr"))
    waits = stack.write("topics/crm.public.user/a.parquet", plain_parquet({"id": 1, "customer_id": 2}))
    stack.park(waits, format="parquet")
    before = in_force(stack)
    lacking = "! record_key: custmer_id is not a column of the objects that wait (did you mean customer_id?)"
    assert lacking in push(misspelt, verb="plan", code=3).out
    push(misspelt, code=2)
    assert in_force(stack) == before, "a corrected topic brings objects to the wrong key"
    paused = misspelt.replace("crm.user}", "crm.user, paused: true}")
    push(paused, "--yes")
    push(misspelt, code=2)  # so does the end of a pause


def test_a_key_that_rows_of_waiting_objects_share_needs_a_yes(stack, push):
    rows = "".join(f'{{"id": {number}, "sellerid": {number // 2}}}\n' for number in range(6))
    waits = stack.write("topics/crm.public.user/sales.json", rows.encode())
    stack.park(waits, format="json")
    text = TABLES.replace("[id]", "[sellerid]")
    shared = "record_key: sellerid has 3 values in 6 rows of a snapshot; id is unique"
    out, err = push(text, verb="plan", code=3)
    assert f"  ! {shared}: its objects are quarantined as key_not_unique\n" in out and shared not in err
    push(text, code=2)
    assert in_force(stack) is None, "unasked, nothing is pushed"
    push(text, "--yes")
    assert f"warning: crm.user: {shared}\n" in push(text).err
    push(TABLES)  # a unique key is no risk


def parked_of(stack, topic, number=1):
    for place in range(number):
        waits = stack.write(f"topics/{topic}/{place}.parquet", plain_parquet({"id": place}))
        stack.park(waits, topic, format="parquet")


@pytest.mark.parametrize("topic", ["crm.public.usr", "crm.publc.*", "sales"])
def test_a_topic_that_no_object_has_is_warned_of_while_others_wait(stack, push, topic):
    parked_of(stack, "crm.public.user", 2)
    parked_of(stack, "hr.staff")
    table = "'crm.{1}'" if "*" in topic else "crm.user"
    text = TABLES.replace("crm.public.user", f"'{topic}'").replace("crm.user", table)
    warning = f"topic {topic}: no object waits for it, and 3 objects of 2 topics wait without a table: "
    for verb, options in (("check", ["--waiting"]), ("plan", []), ("push", [])):
        err = push(text, *options, verb=verb, code=None).err
        assert f"warning: {warning}crm.public.user, hr.staff\n" in err, verb


def test_a_topic_of_an_open_batch_a_table_or_quarantine_is_known(stack, push):
    parked_of(stack, "hr.staff")
    stack.ledger.tables.pin("crm.user", PINNED)
    stack.admit(stack.write("q"), items.QUARANTINED, table="crm.a", topic="a", code="incompatible_schema", reason="x")
    stack.admit(stack.write("p"), table="crm.b", topic="b")
    more = MORE.replace("table: crm.a}", "table: crm.a}, {topic: b, table: crm.b}")
    assert "no object waits for it" not in push(more).err


def test_a_column_that_a_table_with_data_lacks_needs_a_yes(stack, push):
    push(TABLES)
    stack.ledger.tables.pin("crm.user", PINNED)
    columns = StoredColumns("crm.user", {"id": "int", "email": "string"})
    SchemaHistory(Objects(stack.s3), "s-silver").keep_columns(columns)
    shown = push(MISSPELT, verb="plan", code=3).out
    assert "  ! columns: emaill is not a column of the table (did you mean email?)" in shown
    push(MISSPELT, code=2)
    push(MISSPELT, "--yes")


def test_a_plan_counts_what_a_push_frees(stack, push, invoked):
    push(PAUSED)
    stack.admit(stack.write("w"))
    stack.admit(stack.write("q"), items.QUARANTINED, code="object_too_large", reason="large")
    for key in ("p", "r"):
        stack.park(stack.write(key), "a")
    more = MORE.replace("table: crm.user}", "table: crm.user, limits: {object_rows: 20000000}}")
    plan = json.loads(push(more, "--json", verb="plan", code=3).out)
    waiting = {table["table"]: table["waiting"] for table in plan["tables"]}
    counts = ("parked", "pending", "quarantined", "quarantined_rows", "with_quarantined_rows")
    nothing = {**dict.fromkeys(counts, 0), "counted_all": True, "codes": []}
    assert waiting == {
        "crm.a": {**nothing, "parked": 2},
        "crm.user": {**nothing, "pending": 1, "quarantined": 1, "codes": ["object_too_large"]},
    }
    assert not plan["risks"] and not plan["refused"]
    done = json.loads(push(more, "--json").out)
    assert (done["unparked"], done["plan"]["tables"]) == (2, plan["tables"])


def test_on_a_terminal_a_risky_push_asks_once_and_a_no_changes_nothing(stack, push, monkeypatch):
    questions = in_a_terminal(monkeypatch, False)
    push(TABLES)
    before = in_force(stack)
    assert "! paused: false -> true: objects wait until it is taken back" in push(PAUSED, code=1).out
    assert questions == ["1 change can lose or stop something. Push?"] and in_force(stack) == before
    push(PAUSED, "--yes")
    assert len(questions) == 1
    questions = in_a_terminal(monkeypatch, True)
    push("tables: [{topic: b, table: c.b, record_key: [id]}]")
    assert len(questions) == 1


def test_without_a_terminal_only_a_risky_push_needs_a_yes(stack, push):
    push(MORE)
    before = in_force(stack)
    out, err = push(TABLES, "--json", code=2)
    assert "crm.a: objects of topic a are parked until a rule takes them" in err
    assert "Use --yes to go on without a question" in err
    assert in_force(stack) == before
    push(TABLES, "--json", "--yes")


def test_a_raised_generation_names_the_parked_objects_that_it_frees(stack, push, invoked):
    push(TABLES)
    stack.ledger.tables.pin("crm.user", PINNED)
    stack.admit(stack.write("a"), items.PARKED, code="log_restarted", reason="again")
    out = push(TABLES.replace("crm.user}", "crm.user, generation: 1}"), verb="plan", code=3).out
    assert "! generation: 0 -> 1: changes of the new log win over every row" in out
    assert "  become pending: 1 parked object\n" in out


def test_a_changed_mask_is_asked_about_once_rows_are_stored_or_on_their_way(stack, push):
    masks = [TABLES.replace("crm.user}", f"crm.user, columns: {{mask: {{email: {end}}}}}}}") for end in range(4)]
    push(masks[0])
    assert "!" not in push(masks[1]).out
    claimed_by_a_run(stack, stack.admit(stack.write("a")))
    push(masks[2], code=2)  # a batch is about to write rows by the old mask
    stack.ledger.tables.pin("crm.user", PINNED)
    assert "! columns.mask: {email: 1} -> {email: 3}: rows from before keep" in push(masks[3], code=2).out


def claimed_by_a_run(stack, identity):
    """A batch with the object, which a run has claimed and not settled."""
    manifest = stack.batch(CONFIG, stack.listed(identity))
    stack.put_documents(manifest)
    stack.hold()
    stack.claim(manifest)


@pytest.mark.parametrize(
    ("new", "refusal"),
    [
        pytest.param("crm.user, partition_by: [day]}", "partition_by is none and would become day", id="partition_by"),
        pytest.param("crm.user, record_key: [uid]}", "record_key is id and would become uid", id="record_key"),
        pytest.param("crm.user, table_type: mor}", "table_type is cow and would become mor", id="table_type"),
    ],
)
def test_a_fixed_setting_is_refused_while_the_first_batch_is_open(stack, push, new, refusal):
    push(TABLES)
    before = in_force(stack)
    claimed_by_a_run(stack, stack.admit(stack.write("a")))
    text = TABLES.replace("crm.user}", new)
    shown = push(text, verb="plan", code=4).out
    wait = "`sluice wait` or `sluice pause main` first"
    assert f"refused  crm.user has an open batch whose {refusal}: {wait}\n" in shown and "rebuild" not in shown
    said = push(text, "--yes", code=1).err
    assert in_force(stack) == before
    assert wait in said and "rebuild" not in said, "there is nothing to rebuild yet"


def test_a_position_is_refused_for_data_without_one(stack, push):
    ordered = TABLES.replace("crm.user}", "crm.user, position: seen_at}")
    push(ordered)
    assert stack.ledger.tables.pin("crm.user", CONFIG.pinned)
    err = push(ordered, code=1).err
    assert "crm.user has data whose position is none and would become seen_at" in err
    assert "position: seen_at -> none: as the table's data has it" in push(TABLES).out
    rebuild = "topic or name, rebuild it: `sluice pause main`, `sluice rebuild table crm.user`, push again"
    assert rebuild in push(ordered, code=1).err


def test_a_first_batch_that_begins_during_a_push_is_named(stack, push, monkeypatch):
    push(TABLES)
    waits, store = stack.admit(stack.write("a")), push_verb._store

    def claimed_meanwhile(*given):
        claimed_by_a_run(stack, waits)
        store(*given)

    monkeypatch.setattr(push_verb, "_store", claimed_meanwhile)
    said = push(BY_DAY, code=1).err
    assert "In force, but a batch began during the push" in said and "Push the former settings" in said
    assert "crm.user has an open batch whose partition_by is none and would become day" in said
    assert stack.ledger.tables.pin("crm.user", PINNED), "the batch is committed by the settings of its manifest"
    assert not stack.ledger.tables.pin("crm.user", {**PINNED, "partition_by": ["day"]}), "and by no others"
    monkeypatch.setattr(push_verb, "_store", store)
    push(TABLES)


def test_another_lane_or_table_is_refused_while_the_first_batch_is_open(stack, push):
    push(TABLES)
    claimed_by_a_run(stack, stack.admit(stack.write("a")))
    other = "lanes: {other: {}}\n" + TABLES.replace("crm.user}", "crm.user, lane: other}")
    push(other, verb="plan", code=4)
    shown = push(TABLES.replace("crm.user}", "crm.customer}"), verb="plan", code=4).out
    assert "topic crm.public.user feeds crm.user, which has an open batch" in shown


BY_DAY = TABLES.replace("crm.user}", "crm.user, partition_by: [day]}")


def test_the_value_that_the_data_has_is_restored_without_a_rebuild(stack, push):
    push(BY_DAY)
    stack.ledger.tables.pin("crm.user", PINNED)
    rebuild = "_sluice/replaced/crm.user/0000000000001/rebuild.json"
    stack.s3.put_object(Bucket="s-silver", Key=rebuild, Body=b"{}")
    out = push(TABLES).out
    assert "partition_by: day -> none: as the table's data has it\n" in out and "rebuild" not in out


HASHED = TABLES.replace("crm.user}", "crm.user, columns: {hash: email, key: s/customers}}")


def test_a_new_hash_key_whose_secret_does_not_exist_is_warned_of(stack, push):
    said = push(HASHED, verb="plan", code=3).err
    wait = "objects of crm.user wait until there is one: `aws"
    assert f"warning: columns: there is no secret s/customers, and {wait}" in said
    assert 'secretsmanager create-secret --name s/customers --secret-string "$(openssl rand -hex 32)"`' in said
    assert "no secret" in push(HASHED).err
    assert "no secret" not in push(HASHED, verb="plan").err, "it is in force"


@pytest.mark.parametrize(
    "error", [None, aws_error("AccessDeniedException"), EndpointConnectionError(endpoint_url="https://a")]
)
def test_a_secret_that_exists_or_cannot_be_looked_at_is_not_warned_of(stack, push, monkeypatch, error):
    client, secrets = Target.client, SimpleNamespace(describe_secret=Mock(side_effect=error))
    others = {"secretsmanager": secrets}
    monkeypatch.setattr(Target, "client", lambda self, name: others.get(name) or client(self, name))
    assert "secret" not in push(HASHED).err
