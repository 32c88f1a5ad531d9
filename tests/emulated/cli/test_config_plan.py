"""`sluice config plan`, and the question that `config push` asks, on an emulated stack."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from emulation.stack import NOW, describe
from support.bad_input import plain_parquet
from support.builders import in_a_terminal

from sluice.batch.manifest import TablePart, open_manifest
from sluice.config.table import TableConfig
from sluice.ledger import keys as items
from sluice.schema.history import StoredColumns
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import SchemaHistory
from sluice_aws.stack import Target
from sluice_cli.config import push as push_verb
from sluice_cli.main import run

TABLES = "defaults: {record_key: [id]}\ntables: [{topic: crm.public.user, table: crm.user}]\n"
MORE = "defaults: {record_key: [id]}\ntables: [{topic: crm.public.user, table: crm.user}, {topic: a, table: crm.a}]\n"
PAUSED = TABLES.replace("crm.user}", "crm.user, paused: true}")
PINNED = {"record_key": ["id"], "partition_by": [], "table_type": "cow", "topic": "crm.public.user"}


@pytest.fixture
def push(stack, tmp_path):
    def pushed(text, *options, verb="push"):
        (tmp_path / "tables.yaml").write_text(text)
        return run(["config", verb, "tables.yaml", *options])

    return pushed


def in_force(stack):
    listed = stack.s3.list_objects_v2(Bucket="s-artifacts", Prefix="config/tables.json").get("Contents", [])
    return stack.s3.get_object(Bucket="s-artifacts", Key="config/tables.json")["Body"].read() if listed else None


def test_the_exit_code_tells_changes_refusals_and_neither(stack, push, capsys):
    assert push(TABLES, verb="plan") == 3
    assert in_force(stack) is None, "a plan changes nothing"
    assert push(TABLES) == 0
    assert push(TABLES, verb="plan") == 0
    assert capsys.readouterr().out.endswith("Nothing would change\n")
    stack.ledger.tables.pin("crm.user", PINNED)
    assert push(TABLES.replace("[id]", "[uid]"), verb="plan") == 4
    out = capsys.readouterr().out
    assert "record_key: id -> uid: not in place, see `sluice rebuild table`" in out
    assert "refused  crm.user has data whose record_key is id and would become uid" in out
    assert out.splitlines()[-1] == "Tables: 1 refused"
    assert push("tables: [{topic: a, tabel: b.c}]", verb="plan") == 1


def test_another_transform_is_no_change_in_place_but_asks_for_a_rebuild(stack, push, capsys):
    day = TABLES.replace("crm.user}", "crm.user, partition_by: day(seen_at)}")
    assert push(day) == 0
    stack.ledger.tables.pin("crm.user", {**PINNED, "partition_by": ["day(seen_at)"]})
    assert push(day, verb="plan") == 0 and push(day.replace("day", "hour"), verb="plan") == 4
    wanted = "partition_by: day(seen_at) -> hour(seen_at): not in place, see `sluice rebuild table`"
    assert wanted in capsys.readouterr().out
    assert push(TABLES.replace("crm.user}", "crm.user, partition_by: week(seen_at)}"), verb="check") == 1
    assert "or bucket(number), and not 'week(seen_at)'" in " ".join(capsys.readouterr().err.split())


MISSPELT_COLUMNS = [
    pytest.param("columns: {mask: {emaill: 3}}", "columns: emaill", id="mask"),
    pytest.param("columns: {hash: emaill, key: s/k}", "columns: emaill", id="hash"),
    pytest.param("columns: {exclude: emaill}", "columns: emaill", id="exclude"),
    pytest.param("columns: {rename: {emaill: mail}}", "columns: emaill", id="rename"),
]
MISSPELT_NAMES = [
    pytest.param("record_key: emaill", "record_key: emaill", id="record_key"),
    pytest.param("partition_by: emaill", "partition_by: emaill", id="partition_by"),
    pytest.param("partition_by: day(emaill)", "partition_by: emaill", id="transform"),
    pytest.param("position: emaill", "position: emaill", id="position"),
    pytest.param("expect: {columns: {emaill: {not_null: true}}}", "expect: emaill", id="expect"),
    pytest.param("delete_when: {column: emaill, values: [D]}", "delete_when: emaill", id="delete_when"),
    pytest.param("services: {clustering: {by: emaill}}", "services.clustering.by: emaill", id="clustering"),
]


@pytest.mark.long
@pytest.mark.parametrize(("setting", "name"), [*MISSPELT_COLUMNS, *MISSPELT_NAMES])
def test_a_column_that_waiting_objects_lack_needs_a_yes(stack, push, capsys, setting, name):
    key = "topics/crm.public.user/partition=0/crm.public.user+0+0000000000.parquet"
    waits = stack.write(key, plain_parquet({"id": 1, "email": "a@b.de"}))
    stack.park(waits, format="parquet")
    text = TABLES.replace("crm.user}", f"crm.user, {setting}}}")
    assert push(text, verb="plan") == 3
    assert f"  ! {name} is not a column of the objects that wait (did you mean email?)" in capsys.readouterr().out
    assert push(text) == 2 and in_force(stack) is None, "unasked, nothing is pushed"
    assert push(text, "--yes") == 0
    assert push(text) == 0, "what is in force is not asked about again"


def test_a_misspelt_key_in_force_needs_a_yes_once_a_push_frees_objects(stack, push, capsys):
    misspelt = TABLES.replace("[id]", "[custmer_id]")
    assert push(misspelt.replace("crm.public.user", "crm.public.usr")) == 0
    waits = stack.write("topics/crm.public.user/a.parquet", plain_parquet({"id": 1, "customer_id": 2}))
    parked = {"table": None, "lane": None, "reason": "no rule", "format": "parquet"}
    stack.admit(waits, items.PARKED, **parked)
    before = in_force(stack)
    capsys.readouterr()
    assert push(misspelt, verb="plan") == 3
    lacking = "! record_key: custmer_id is not a column of the objects that wait (did you mean customer_id?)"
    assert lacking in capsys.readouterr().out
    assert push(misspelt) == 2 and in_force(stack) == before, "a corrected topic brings objects to the wrong key"
    paused = misspelt.replace("crm.user}", "crm.user, paused: true}")
    assert push(paused, "--yes") == 0
    assert push(misspelt) == 2, "so does the end of a pause"


def test_a_key_that_rows_of_waiting_objects_share_needs_a_yes(stack, push, capsys):
    rows = "".join(f'{{"id": {number}, "sellerid": {number // 2}}}\n' for number in range(6))
    waits = stack.write("topics/crm.public.user/sales.json", rows.encode())
    stack.park(waits, format="json")
    text = TABLES.replace("[id]", "[sellerid]")
    shared = "record_key: sellerid has 3 values in 6 rows of a snapshot; id is unique"
    assert push(text, verb="plan") == 3
    out, err = capsys.readouterr()
    assert f"  ! {shared}: its objects are quarantined as key_not_unique\n" in out and shared not in err
    assert push(text) == 2 and in_force(stack) is None, "unasked, nothing is pushed"
    assert push(text, "--yes") == 0
    capsys.readouterr()
    assert push(text) == 0, "what is in force is not asked about again"
    assert f"warning: crm.user: {shared}\n" in capsys.readouterr().err
    assert push(TABLES) == 0, "a unique key is no risk"


def parked_of(stack, topic, number=1):
    for place in range(number):
        waits = stack.write(f"topics/{topic}/{place}.parquet", plain_parquet({"id": place}))
        stack.park(waits, topic, format="parquet")


@pytest.mark.parametrize("topic", ["crm.public.usr", "crm.publc.*", "sales"])
def test_a_topic_that_no_object_has_is_warned_of_while_others_wait(stack, push, capsys, topic):
    parked_of(stack, "crm.public.user", 2)
    parked_of(stack, "hr.staff")
    text = TABLES.replace("crm.public.user", f"'{topic}'").replace(
        "crm.user", "'crm.{1}'" if "*" in topic else "crm.user"
    )
    warning = f"topic {topic}: no object waits for it, and 3 objects of 2 topics wait without a table: "
    for verb, options in (("check", ["--waiting"]), ("plan", []), ("push", [])):
        push(text, *options, verb=verb)
        assert f"warning: {warning}crm.public.user, hr.staff\n" in capsys.readouterr().err, verb


def test_a_topic_of_an_open_batch_a_table_or_quarantine_is_known(stack, push, capsys):
    parked_of(stack, "hr.staff")
    stack.ledger.tables.pin("crm.user", PINNED)
    stack.admit(stack.write("q"), items.QUARANTINED, table="crm.a", topic="a", code="incompatible_schema", reason="x")
    stack.admit(stack.write("p"), table="crm.b", topic="b")
    more = MORE.replace("table: crm.a}", "table: crm.a}, {topic: b, table: crm.b}")
    assert push(more) == 0
    assert "no object waits for it" not in capsys.readouterr().err


@pytest.mark.parametrize(("setting", "name"), MISSPELT_COLUMNS)
def test_a_column_that_a_table_with_data_lacks_needs_a_yes(stack, push, capsys, setting, name):
    assert push(TABLES) == 0
    stack.ledger.tables.pin("crm.user", PINNED)
    columns = StoredColumns("crm.user", {"id": "int", "email": "string"})
    SchemaHistory(Objects(stack.s3), "s-silver").keep_columns(columns)
    text = TABLES.replace("crm.user}", f"crm.user, {setting}}}")
    capsys.readouterr()
    assert push(text, verb="plan") == 3
    assert f"  ! {name} is not a column of the table (did you mean email?)" in capsys.readouterr().out
    assert push(text) == 2
    assert push(text, "--yes") == 0


def test_a_plan_counts_what_a_push_frees(stack, push, invoked, capsys):
    assert push(PAUSED) == 0
    stack.admit(stack.write("w"))
    stack.admit(stack.write("q"), items.QUARANTINED, code="object_too_large", reason="large")
    for key in ("p", "r"):
        stack.park(stack.write(key), "a")
    capsys.readouterr()
    more = MORE.replace("table: crm.user}", "table: crm.user, limits: {object_rows: 20000000}}")
    assert push(more, "--json", verb="plan") == 3
    plan = describe(capsys)
    waiting = {table["table"]: table["waiting"] for table in plan["tables"]}
    counts = ("parked", "pending", "quarantined", "quarantined_rows", "with_quarantined_rows")
    nothing = {**dict.fromkeys(counts, 0), "counted_all": True, "codes": []}
    assert waiting == {
        "crm.a": {**nothing, "parked": 2},
        "crm.user": {**nothing, "pending": 1, "quarantined": 1, "codes": ["object_too_large"]},
    }
    assert not plan["risks"] and not plan["refused"]
    assert push(more, "--json") == 0
    done = describe(capsys)
    assert (done["unparked"], done["plan"]["tables"]) == (2, plan["tables"])


def test_on_a_terminal_a_risky_push_asks_once_and_a_no_changes_nothing(stack, push, monkeypatch, capsys):
    questions = in_a_terminal(monkeypatch, False)
    assert push(TABLES) == 0
    before = in_force(stack)
    assert push(PAUSED) == 1
    assert "! paused: false -> true: objects wait until it is taken back" in capsys.readouterr().out
    assert questions == ["1 change can lose or stop something. Push?"] and in_force(stack) == before
    assert push(PAUSED, "--yes") == 0
    assert len(questions) == 1
    questions = in_a_terminal(monkeypatch, True)
    assert push("tables: [{topic: b, table: c.b, record_key: [id]}]") == 0
    assert len(questions) == 1


def test_without_a_terminal_only_a_risky_push_needs_a_yes(stack, push, capsys):
    assert push(MORE) == 0
    before = in_force(stack)
    assert push(TABLES, "--json") == 2
    out, err = capsys.readouterr()
    assert "crm.a: objects of topic a are parked until a rule takes them" in err
    assert "Use --yes to go on without a question" in err
    assert in_force(stack) == before
    assert push(TABLES, "--json", "--yes") == 0


def test_a_raised_generation_names_the_parked_objects_that_it_frees(stack, push, invoked, capsys):
    assert push(TABLES) == 0
    stack.ledger.tables.pin("crm.user", PINNED)
    stack.admit(stack.write("a"), items.PARKED, code="log_restarted", reason="again")
    capsys.readouterr()
    assert push(TABLES.replace("crm.user}", "crm.user, generation: 1}"), verb="plan") == 3
    out = capsys.readouterr().out
    assert "! generation: 0 -> 1: changes of the new log win over every row" in out
    assert "  become pending: 1 parked object\n" in out


def test_a_changed_mask_is_asked_about_once_rows_are_stored_or_on_their_way(stack, push, capsys):
    masks = [TABLES.replace("crm.user}", f"crm.user, columns: {{mask: {{email: {kept}}}}}}}") for kept in range(4)]
    assert push(masks[0]) == 0
    assert push(masks[1]) == 0, "nothing is stored yet"
    assert "!" not in capsys.readouterr().out
    claimed_by_a_run(stack, stack.admit(stack.write("a")))
    assert push(masks[2]) == 2, "a batch is about to write rows by the old mask"
    stack.ledger.tables.pin("crm.user", PINNED)
    assert push(masks[3]) == 2
    assert "! columns.mask: {email: 1} -> {email: 3}: rows from before keep" in capsys.readouterr().out


def claimed_by_a_run(stack, identity):
    """A batch with the object, which a run has claimed and not settled."""
    config = TableConfig("crm.user", "crm", "user", topic="crm.public.user", record_key=("id",))
    part = TablePart(config.to_dict(), (stack.listed(identity),))
    manifest = open_manifest("main", "run-1", NOW, "c", {"crm.user": part})
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
def test_a_fixed_setting_is_refused_while_the_first_batch_is_open(stack, push, capsys, new, refusal):
    assert push(TABLES) == 0
    before = in_force(stack)
    claimed_by_a_run(stack, stack.admit(stack.write("a")))
    capsys.readouterr()
    text = TABLES.replace("crm.user}", new)
    assert push(text, verb="plan") == 4
    wait = "`sluice wait` or `sluice pause main` first"
    shown = capsys.readouterr().out
    assert f"refused  crm.user has an open batch whose {refusal}: {wait}\n" in shown and "rebuild" not in shown
    assert push(text, "--yes") == 1 and in_force(stack) == before
    said = capsys.readouterr().err
    assert wait in said and "rebuild" not in said, "there is nothing to rebuild yet"


def test_a_position_is_refused_for_data_without_one(stack, push, capsys):
    config = TableConfig("crm.user", "crm", "user", topic="crm.public.user", record_key=("id",))
    ordered = TABLES.replace("crm.user}", "crm.user, position: seen_at}")
    assert push(ordered) == 0 and stack.ledger.tables.pin("crm.user", config.pinned)
    capsys.readouterr()
    assert push(ordered) == 1, "also where an older release took it"
    err = capsys.readouterr().err
    assert "crm.user has data whose position is none and would become seen_at" in err
    assert push(TABLES) == 0
    assert "position: seen_at -> none: as the table's data has it" in capsys.readouterr().out
    assert push(ordered) == 1
    rebuild = "topic or name, rebuild it: `sluice pause main`, `sluice rebuild table crm.user`, push again"
    assert rebuild in capsys.readouterr().err


def test_a_first_batch_that_begins_during_a_push_is_named(stack, push, monkeypatch, capsys):
    assert push(TABLES) == 0
    waits, store = stack.admit(stack.write("a")), push_verb._store

    def claimed_meanwhile(*given):
        claimed_by_a_run(stack, waits)
        store(*given)

    monkeypatch.setattr(push_verb, "_store", claimed_meanwhile)
    assert push(BY_DAY) == 1
    said = capsys.readouterr().err
    assert "In force, but a batch began during the push" in said and "Push the former settings" in said
    assert "crm.user has an open batch whose partition_by is none and would become day" in said
    assert stack.ledger.tables.pin("crm.user", PINNED), "the batch is committed by the settings of its manifest"
    assert not stack.ledger.tables.pin("crm.user", {**PINNED, "partition_by": ["day"]}), "and by no others"
    monkeypatch.setattr(push_verb, "_store", store)
    assert push(TABLES) == 0


def test_another_lane_or_table_is_refused_while_the_first_batch_is_open(stack, push, capsys):
    assert push(TABLES) == 0
    claimed_by_a_run(stack, stack.admit(stack.write("a")))
    other = "lanes: {other: {}}\n" + TABLES.replace("crm.user}", "crm.user, lane: other}")
    assert push(other, verb="plan") == 4
    assert push(TABLES.replace("crm.user}", "crm.customer}"), verb="plan") == 4
    assert "topic crm.public.user feeds crm.user, which has an open batch" in capsys.readouterr().out


BY_DAY = TABLES.replace("crm.user}", "crm.user, partition_by: [day]}")


def test_the_value_that_the_data_has_is_restored_without_a_rebuild(stack, push, capsys):
    push(BY_DAY)
    stack.ledger.tables.pin("crm.user", PINNED)
    rebuild = "_sluice/replaced/crm.user/0000000000001/rebuild.json"
    stack.s3.put_object(Bucket="s-silver", Key=rebuild, Body=b"{}")
    assert push(TABLES) == 0
    out = capsys.readouterr().out
    assert "partition_by: day -> none: as the table's data has it\n" in out and "rebuild" not in out


HASHED = TABLES.replace("crm.user}", "crm.user, columns: {hash: email, key: s/customers}}")


def test_a_new_hash_key_whose_secret_does_not_exist_is_warned_of(stack, push, capsys):
    assert push(HASHED, verb="plan") == 3
    said = capsys.readouterr().err
    assert (
        "warning: columns: there is no secret s/customers, and objects of crm.user wait until there is one: `aws"
        in said
    )
    assert 'secretsmanager create-secret --name s/customers --secret-string "$(openssl rand -hex 32)"`' in said
    assert push(HASHED) == 0 and "no secret" in capsys.readouterr().err
    assert push(HASHED, verb="plan") == 0 and "no secret" not in capsys.readouterr().err, "it is in force"


@pytest.mark.parametrize("error", [None, "AccessDeniedException", EndpointConnectionError(endpoint_url="https://a")])
def test_a_secret_that_exists_or_cannot_be_looked_at_is_not_warned_of(stack, push, monkeypatch, capsys, error):
    def described(**_):
        if isinstance(error, str):
            raise ClientError({"Error": {"Code": error}}, "DescribeSecret")
        if error is not None:
            raise error

    client, secrets = Target.client, SimpleNamespace(describe_secret=described)
    monkeypatch.setattr(
        Target, "client", lambda self, name: secrets if name == "secretsmanager" else client(self, name)
    )
    assert push(HASHED) == 0 and "secret" not in capsys.readouterr().err
