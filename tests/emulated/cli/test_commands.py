"""The verbs on an emulated stack: S3, DynamoDB and CloudFormation."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from emulation.aws import set_fields
from emulation.stack import NOW
from support.builders import halt

from sluice.batch.manifest import Manifest, TablePart
from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.errors import TableWentBack, UnreadableManifest
from sluice.hudi.java_properties import parse_properties
from sluice.ledger import keys as items
from sluice_aws import stack as aws_stack
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.configuration import PUSHES
from sluice_cli.config.review import raised_generations

TABLES = """
defaults: {record_key: [id]}
tables:
  - {topic: "crm.public.user", table: crm.user}
  - {topic: "shop.*", table: "shop.{1}", lane: side}
lanes: {side: {}}
"""


@pytest.mark.parametrize("arguments", [["--stack", "s", "status"], ["status", "--stack", "s"]])
def test_a_stack_is_named_before_or_after_the_verb(stack, monkeypatch, arguments, sluice):
    monkeypatch.delenv("SLUICE_STACK")
    sluice(*arguments)


def test_put_keeps_paths_inside_a_folder_and_the_name_of_a_file(stack, tmp_path, sluice):
    (tmp_path / "in" / "a b").mkdir(parents=True)
    (tmp_path / "in" / "a b" / "x+0+1.avro").write_bytes(b"12")
    (tmp_path / "in" / "é.avro").write_bytes(b"3")
    (tmp_path / "one.avro").write_bytes(b"4")
    objects = {item["key"]: item for item in sluice.json("put in one.avro --prefix topics/")["objects"]}
    assert set(objects) == {"topics/a b/x+0+1.avro", "topics/é.avro", "topics/one.avro"}
    key = "topics/a b/x+0+1.avro"
    answer = stack.s3.get_object(Bucket="s-bronze", Key=key, VersionId=objects[key]["versionId"])
    assert answer["Body"].read() == b"12"


def test_put_refuses_two_files_of_one_key_before_it_copies_anything(stack, tmp_path, sluice):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_bytes(b"1")
    assert "the same key x" in sluice("put a b", code=2).err
    assert "Contents" not in stack.s3.list_objects_v2(Bucket="s-bronze")


def test_wait_is_done_when_nothing_is_pending_claimed_or_unseen(stack, sluice):
    stack.admit(stack.write("a"), items.IGNORED, rule="marker")
    assert sluice.json("wait --timeout 0")["objects"] == {"ignored": 1}


@pytest.mark.parametrize("state", [None, items.PENDING])
def test_wait_that_runs_out_of_time_fails_with_the_keys(stack, sluice, state):
    identity = stack.write("topics/x.avro")
    if state:
        stack.admit(identity, state)
    out, err = sluice("wait --timeout 0", code=1)
    assert f"{state or 'unseen'}\t{'crm.user' if state else '-'}\t1 object\ttopics/x.avro" in out
    assert "Not settled within 0 s" in err
    assert ("`sluice doctor` checks the notifications" in err) is (state is None)


PINNED = {"record_key": ["id"], "partition_by": [], "table_type": "cow", "topic": "crm.public.user"}
PAUSED = TABLES.replace("table: crm.user}", "table: crm.user, paused: true}")
WAITS = "and 1 object will wait\nnext step:"
USERS = "topic_regex: '[a-z0-9]+[.]public[.](?P<t>user)'"
TWO_TOPICS = f"defaults: {{record_key: [id]}}\ntables: [{{{USERS}, table: 'crm.{{t}}'}}]"


@pytest.mark.parametrize(
    ("text", "rebuild", "why"),
    [
        (PAUSED, False, f"crm.user is paused, {WAITS} Remove `paused`"),
        (TABLES.replace("crm.public.user", "crm.public.people"), False, "which no rule takes any longer"),
        (TABLES, True, f"crm.user is being rebuilt, {WAITS} `sluice rebuild table crm.user` continues"),
        (TWO_TOPICS, False, f"by topic db2.public.user, not crm.public.user, {WAITS} Give the objects' topic a table"),
    ],
    ids=["paused", "without a rule", "being rebuilt", "another topic's"],
)
def test_a_blocked_table_ends_the_wait_at_once_with_its_keys_and_the_next_step(
    stack, tables, sluice, text, rebuild, why
):
    if rebuild:
        stack.ledger.lanes.pause("main")
        stack.ledger.rebuilds.begin("crm.user", "main", {"to": "aside"})
        stack.ledger.lanes.resume("main")
    if text == TWO_TOPICS:
        stack.ledger.tables.pin("crm.user", {**PINNED, "topic": "db2.public.user"})
    sluice("config push", tables(text))
    stack.admit(stack.write("topics/x.avro"))
    out, err = sluice("wait --timeout 600", code=1)
    assert "pending\tcrm.user\t1 object\ttopics/x.avro" in out
    assert why in err and "Not settled within" not in err
    assert sluice.json("wait --timeout 600", code=1)["standing_tables"][0]["table"] == "crm.user"


def test_an_older_version_of_a_key_is_waited_for_too(stack, sluice):
    stack.write("a")
    stack.admit(stack.write("a"), items.IGNORED)
    assert sluice.json("wait --timeout 0", code=1)["objects"] == {"ignored": 1, "unseen": 1}


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--strict"], 1)])
def test_parked_and_quarantined_objects_fail_a_wait_only_when_it_is_strict(stack, arguments, code, sluice):
    stack.admit(stack.write("p"), items.PARKED, reason="no rule of tables.yaml takes this topic")
    stack.admit(stack.write("q"), items.QUARANTINED, reason="not Avro", code="not_avro")
    sluice("wait", *arguments, code=code)


@pytest.mark.parametrize("why", ["halted", "standstill"])
def test_a_lane_that_stands_with_some_of_the_objects_ends_the_wait_at_once(stack, why, sluice):
    stack.admit(stack.write("a"))
    if why == "halted":
        halt(stack.ledger, "main")
    else:
        stack.ledger.lanes.pause("main")
        stack.ledger.lanes.note_standstill(["main"])
    sluice("wait", code=1)


def test_lanes_that_stand_over_other_objects_delay_nothing(stack, sluice):
    stack.ledger.lanes.pause("side")
    halt(stack.ledger, "main")
    stack.admit(stack.write("a"), items.IGNORED)
    sluice("wait --timeout 0")


def claim(stack, identity):
    part = TablePart({}, (stack.listed(identity, size=7),))
    stack.hold()
    stack.claim(Manifest("b-1", "main", "run-1", NOW, "v", {"crm.user": part}))


def about_user(sluice):
    """What doctor says of crm.user, and its advice on the quarantine."""
    by_about = {item["about"]: item for item in sluice.json("doctor", code=None)}
    return by_about.get("table crm.user"), by_about["quarantine"]["advice"]


def test_a_table_whose_objects_are_in_quarantine_is_not_failing(stack, sluice):
    identity = stack.admit(stack.write("bad"))
    claim(stack, identity)
    refused = UnreadableManifest("it is damaged")
    outcome = Outcome.set_aside("b-1", "crm.user", [identity], refused, NOW)
    stack.ledger.batches.settle("main", "b-1", outcome, [identity], "run-1", NOW)
    (table,) = sluice.json("status")["tables"]
    assert (table["last_error"], table["quarantined"]["objects"]) == (None, 1)
    assert table["notes"] == ["all of its rows are in quarantine, and nothing retries them by itself"]
    finding, advice = about_user(sluice)
    assert finding is None and advice.startswith("Nothing retries these by itself: `sluice quarantine list`")
    sluice("quarantine discard --yes --all")
    (table,) = sluice.json("status")["tables"]
    assert (table["last_error"], table["quarantined"]["objects"], table["notes"]) == (None, 0, [])


def test_the_error_of_a_table_ends_with_the_objects_that_it_was_about(stack, sluice):
    identity = stack.admit(stack.write("poison"))
    stack.ledger.lanes.wake("main")
    stack.ledger.tables.record_error("crm.user", "it broke", NOW + 30_000)
    assert about_user(sluice)[0]["found"] == "1 failure: it broke"
    claim(stack, identity)
    outcome = Outcome.set_aside("b-1", "crm.user", [identity], UnreadableManifest("it is damaged"), NOW)
    stack.ledger.batches.settle("main", "b-1", outcome, [identity], "run-1", NOW)
    stack.ledger.batches.close("main", "b-1", "run-1", NOW)
    assert about_user(sluice)[0] is None
    (table,) = sluice.json("status")["tables"]
    assert (table["last_error"], table["failures"], table["backoff_until"]) == (None, 0, None)


def test_config_push_stores_canonical_json_and_its_history(stack, tables, sluice):
    version = sluice.json("config push", tables(TABLES))["version"]
    keys = ("config/tables.json", f"config/history/{version}.json")
    stored = [stack.s3.get_object(Bucket="s-artifacts", Key=key)["Body"].read() for key in keys]
    assert stored[0] == stored[1]
    assert sluice("config show --json").out.strip().encode() == stored[0]


def test_config_push_makes_parked_objects_pending_and_starts_their_lane(stack, tables, invoked, sluice):
    parked = stack.park(stack.write("p"), "shop.orders", reason="no rule takes this topic")
    other = stack.park(stack.write("o"), "elsewhere", reason="no rule takes this topic")
    place = {"table": "shop.orders", "topic": "shop.orders", "lane": "side"}
    coded = stack.admit(stack.write("r"), items.PARKED, reason="another one", code="another", **place)
    done = sluice.json("config push", tables(TABLES))
    assert (done["unparked"], done["moved"], done["ignored"], done["woken"]) == (1, 0, 0, ["side"])
    records = stack.ledger.objects.get([parked, other, coded])
    expected = {"p": "pending", "o": "parked", "r": "parked"}
    assert {identity.key: records[identity].state for identity in records} == expected
    assert (records[parked].table, records[parked].lane) == ("shop.orders", "side")
    assert stack.ledger.lanes.get("side").arrivals == 1
    assert invoked == [("s-supervise", "Event")]


def test_pushing_the_same_configuration_again_changes_nothing_and_starts_nothing(stack, tables, invoked, sluice):
    sluice("config push", tables(TABLES))
    stack.admit(stack.write("a"))
    stack.ledger.lanes.wake("main")
    document = sluice.json("config push", tables(TABLES))
    assert (document["changed"], document["woken"], invoked) == (False, [], [])


def test_a_changed_configuration_wakes_the_lanes_in_which_something_waits(stack, tables, invoked, sluice):
    stack.admit(stack.write("a"))
    stack.ledger.lanes.wake("main")
    assert sluice.json("config push", tables(TABLES))["woken"] == ["main"]
    assert stack.ledger.lanes.get("main").arrivals == 2


@pytest.mark.parametrize(("text", "again"), [(TABLES.replace("[id]", "[id], freshness: 5s"), True), (TABLES, False)])
def test_a_push_that_changes_a_failed_table_has_it_tried_again_at_once(stack, tables, invoked, sluice, text, again):
    sluice("config push", tables(TABLES))
    stack.admit(stack.write("a"))
    stack.ledger.tables.record_error("crm.user", "no", NOW + 10**12)
    assert ("Back-off ended: crm.user\n" in sluice("config push", tables(text)).out) is again
    assert (stack.ledger.tables.get("crm.user").backoff_until is None) is again


def test_an_invalid_file_changes_nothing_and_every_mistake_is_reported(stack, tables, sluice):
    err = sluice("config push", tables("tables: [{topic: a, tabel: x.y, delete_mode: often}]"), code=1).err
    assert "tabel: is unknown; did you mean table?" in err and "delete_mode: 'often' is not one of" in err
    assert "sluice config push" in sluice("config show", code=1).err


def test_a_pushed_configuration_that_is_gone_stops_only_what_needs_one(stack, sluice):
    stack.ledger.history.count(PUSHES)
    for verb in ("config show", "ops services run crm.user", "ops catalog sync", "ops replay --all"):
        assert "config/tables.json is gone, though a configuration was pushed" in sluice(verb, code=1).err
    for verb in ("status", "top", "wait", "ops services list", "pause main", "resume main"):
        assert "though a configuration was pushed" not in sluice(verb).err


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (TABLES.replace("record_key: [id]", "record_key: [uid]"), "record_key"),
        (TABLES.replace("table: crm.user}", "table: crm.user, partition_by: [day]}"), "partition_by"),
        (TABLES.replace("table: crm.user}", "table: crm.user, table_type: mor}"), "table_type"),
        (TABLES.replace("table: crm.user}", "table: crm.people}"), "would feed crm.people"),
        (TABLES.replace('topic: "crm.public.user"', 'topic: "crm.public.users"'), "would be fed by crm.public.users"),
    ],
)
def test_a_change_that_a_table_with_data_cannot_take_is_refused(stack, tables, sluice, text, refusal):
    sluice("config push", tables(TABLES))
    stack.ledger.tables.pin("crm.user", PINNED)
    before = stack.s3.get_object(Bucket="s-artifacts", Key="config/tables.json")["Body"].read()
    err = sluice("config push", tables(text), code=1).err
    assert refusal in err and "sluice rebuild table" in err
    assert "`sluice pause main`, `sluice rebuild table crm.user`, push again, `sluice resume main`" in err
    assert stack.s3.get_object(Bucket="s-artifacts", Key="config/tables.json")["Body"].read() == before


def test_a_refused_table_that_would_move_is_rebuilt_in_its_present_lane(stack, tables, sluice):
    text = "lanes: {side: {}}\ntables: [{topic: a, table: crm.a, record_key: [id], lane: side}]\n"
    sluice("config push", tables(text))
    stack.ledger.tables.pin("crm.a", {**PINNED, "topic": "a"})
    said = sluice("config push", tables(text.replace("side", "new").replace("[id]", "[uid]")), code=1).err
    assert "`sluice pause side`, `sluice rebuild table crm.a`, push again, `sluice resume side`" in said


MOVED = TABLES.replace("table: crm.user}", "table: crm.user, lane: side}")


def test_a_table_changes_lane_only_when_nothing_waits_and_both_lanes_are_paused(stack, tables, invoked, sluice):
    sluice("config push", tables(TABLES))
    stack.ledger.tables.pin("crm.user", PINNED)
    for lane in ("main", "side"):
        stack.ledger.lanes.wake(lane)
    said = sluice("config push", tables(MOVED), code=1).err
    assert "while main and side can run: `sluice pause main`, `sluice pause side` first" in said
    assert "next step: Do as each line says and push again" in said and "sluice rebuild table" not in said
    for lane in ("main", "side"):
        sluice("pause", lane)
    waiting = stack.admit(stack.write("a"))
    step = "push without the move first, then `sluice resume main && sluice wait`, then push the move"
    said = sluice("config push", tables(MOVED), code=1).err
    assert f"has objects waiting in lane main and can't move to side: {step}" in said
    assert stack.ledger.objects.quarantine_pending(stack.record(waiting), "lost_before_read", "gone", NOW)
    sluice("config push", tables(MOVED))


RAISED = TABLES.replace("table: crm.user}", "table: crm.user, generation: 1}")


def test_a_generation_rises_only_if_all_pending_objects_follow_a_restarted_log(stack, tables, invoked, sluice):
    sluice("config push", tables(TABLES))
    old = stack.admit(stack.write("a"), kafka_partition=0, offset=40)
    stack.admit(stack.write("b"), kafka_partition=0, offset=90)
    stack.admit(stack.write("c"), kafka_partition=0, offset=10, generation=0)  # keeps its own
    stack.admit(stack.write("d"), items.PARKED, kafka_partition=0, offset=80, code="log_restarted")
    err = sluice("config push", tables(RAISED), code=1).err
    assert "crm.user would go from generation 0 to 1 while objects of it wait (2)" in err and "--with-waiting" in err
    sluice("config push", tables(TABLES.replace("[id]", "[id], freshness: 5s")))  # another change is free

    mark = {"generation": 0, "offset": 70, "kind": "postgres", "highest": "0000.1.1", "restarted_at": 80}
    set_fields(stack.ledger, items.table_key("crm.user"), table="crm.user", watch={"marks": {"0": mark}})
    assert "wait (1)" in sluice("config push", tables(RAISED), code=1).err
    assert stack.ledger.objects.quarantine_pending(stack.record(old), "lost_before_read", "gone", NOW)
    sluice("config push", tables(RAISED), "--yes")


def test_a_push_reads_the_states_of_waiting_tables_at_once(stack, monkeypatch):
    stack.admit(stack.write("a"))
    before, raised = (
        Configuration((TableRule("crm.user", ("id",), topic="crm.public.user", generation=number),))
        for number in range(2)
    )
    monkeypatch.delattr(type(stack.ledger.tables), "get")
    assert len(list(raised_generations(stack.ledger, before, raised))) == 1


def test_pending_objects_are_merged_under_a_raised_generation_on_request(stack, tables, invoked, sluice):
    sluice("config push", tables(TABLES))
    stack.admit(stack.write("a"))
    sluice("config push", tables(RAISED), code=1)
    sluice("config push", tables(RAISED), "--with-waiting", "--yes")


def test_a_generation_does_not_fall_below_that_of_merged_changes(stack, tables, invoked, sluice):
    """Also where no configuration is in force that says so: a lost one comes back from an older file."""
    mark = {"generation": 1, "offset": 70, "kind": "postgres", "highest": "0001.1.1"}
    pinned = {"topic": "crm.public.user", "record_key": ["id"]}
    key = items.table_key("crm.user")
    listed = {"listed_as": items.TABLES_LISTED_AS, "listed_at": items.listed_at(0)}
    set_fields(stack.ledger, key, table="crm.user", pinned=pinned, watch={"marks": {"0": mark}}, **listed)
    err = sluice("config push", tables(TABLES), code=1).err
    assert "every change of generation 0 would lose to it: give it `generation: 1`" in err and "rebuild" not in err
    sluice("config push", tables(RAISED), "--yes")
    assert "has data of generation 1" in sluice("config push", tables(TABLES), "--yes", code=1).err


def test_a_paused_lane_is_resumed_and_supervised_at_once(stack, invoked, sluice):
    assert sluice.json("pause main")["state"] == "paused"
    assert sluice("resume main").out == "main: a run is due with the next supervision\n"
    assert invoked == [("s-supervise", "Event")]


def test_tables_of_a_resumed_lane_are_tried_again_at_once(stack, invoked, sluice):
    stack.admit(stack.write("w"))
    stack.ledger.lanes.wake("main")
    for table in ("crm.user", "crm.other"):  # no object of the second one is pending
        stack.ledger.tables.record_error(table, "the secret can't be read", epoch_ms() + 600_000)
    arrivals = stack.ledger.lanes.get("main").arrivals
    assert "crm.user is tried again at once\n" in sluice("resume main").err
    user, other = (stack.ledger.tables.get(table) for table in ("crm.user", "crm.other"))
    assert (user.backoff_until, user.last_error, user.failures) == (None, "the secret can't be read", 1)
    assert other.backoff_until is not None and stack.ledger.lanes.get("main").arrivals == arrivals + 1
    assert invoked == [("s-supervise", "Event")]


def test_a_lane_that_rests_is_resumed_without_a_run_that_finds_nothing(stack, invoked, sluice):
    stack.ledger.lanes.wake("main")
    lane = stack.ledger.lanes.get("main")
    assert "main is neither paused nor halted" in sluice("resume main").err
    assert stack.ledger.lanes.get("main") == lane


def test_doctor_finds_what_is_not_set_up_yet(stack, sluice):
    by_about = {item["about"]: item["result"] for item in sluice.json("doctor", code=1)}
    ok = ("bronze bucket", "silver bucket", "artifact bucket", "ledger", "quarantine", "lost notices", "announcements")
    failed = ("bronze notices", "application", "release", "configuration")
    assert by_about == {**dict.fromkeys(ok, "ok"), **dict.fromkeys(failed, "fail")}


def test_doctor_fails_a_full_disk_of_the_local_stack(stack, monkeypatch, sluice, tmp_path):
    deployed_target = aws_stack.deployed_target
    monkeypatch.setattr(aws_stack, "deployed_target", lambda *given: replace(deployed_target(*given), home=tmp_path))
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=4096))
    disk = next(item for item in sluice.json("doctor", code=None) if item["about"] == "disk")
    assert disk["result"] == "fail" and disk["found"].startswith("4.0 KiB left") and "Free some space" in disk["advice"]


def test_doctor_fails_an_unversioned_bucket(stack, sluice):
    stack.s3.put_bucket_versioning(Bucket="s-bronze", VersioningConfiguration={"Status": "Suspended"})
    assert "keeps no versions" in sluice("doctor", code=1).out


PROPERTIES = "crm/user/.hoodie/hoodie.properties"


@pytest.fixture
def went_back(stack, tables, sluice):
    """A table whose last commit in the ledger is gone from silver, which holds an earlier one."""
    sluice("config push", tables(TABLES))
    identity = stack.admit(stack.write("a"))
    claim(stack, identity)
    outcome = Outcome("b-1", "crm.user", COMMITTED, NOW, instant="20240501101500002")
    assert stack.ledger.batches.settle("main", "b-1", outcome, [identity], "run-1", NOW)
    stack.s3.put_object(Bucket="s-silver", Key="crm/user/.hoodie/20240501101500001.commit", Body=b"")
    stack.s3.put_object(Bucket="s-silver", Key=PROPERTIES, Body=b"hoodie.table.name=user\nhoodie.table.version=6")
    return stack


def test_doctor_fails_a_table_whose_last_commit_is_gone(went_back, sluice):
    entry, _ = about_user(sluice)
    assert entry["result"] == "fail" and "20240501101500002 is gone" in entry["found"]
    assert "sluice table accept" in entry["advice"]
    went_back.s3.put_object(Bucket="s-silver", Key="crm/user/.hoodie/20240501101500002.commit", Body=b"")
    assert about_user(sluice)[0] is None


def test_doctor_fails_a_table_that_fails_again_and_again(stack, tables, sluice):
    sluice("config push", tables(TABLES))
    claim(stack, stack.admit(stack.write("a")))
    for number, result in ((1, "warn"), (2, "fail")):
        stack.ledger.tables.record_error("crm.user", "it broke\nwith a trace", None)
        entry, _ = about_user(sluice)
        assert (entry["result"], entry["found"]) == (result, f"{number} failure{'s' * (number - 1)}: it broke")
    sluice("doctor", code=1)


def test_an_accepted_table_goes_on_at_its_newest_commit(went_back, invoked, sluice):
    ledger = went_back.ledger
    ledger.tables.block("crm.user", TableWentBack("crm.user is behind", table="crm.user"), NOW)
    rebuilt = "rebuild it: `sluice pause main && sluice rebuild table crm.user && sluice resume main`"
    waiting = went_back.admit(went_back.write("b"))
    arrivals = ledger.lanes.get("main").arrivals
    entry = {item["about"]: item for item in sluice.json("doctor", code=None)}["table crm.user"]
    assert entry["found"] == "crm.user is behind" and rebuilt in entry["advice"]
    said = sluice("wait --timeout 1", code=1).err
    assert "crm.user is blocked: crm.user is behind, and 1 object will wait" in said and rebuilt in said
    assert "blocked: crm.user is behind" in sluice("status").out

    assert "Use --yes" in sluice("table accept crm.user", code=2).err
    document = sluice.json("table accept crm.user --yes")
    expected = ("20240501101500001", "20240501101500002", True)
    assert (document["instant"], document["before"], document["changed"]) == expected
    state = ledger.tables.get("crm.user")
    assert (state.last_instant, state.blocked, state.last_error) == ("20240501101500001", None, None)
    assert ledger.lanes.get("main").arrivals == arrivals + 1 and invoked
    assert ledger.objects.get([waiting])[waiting].state == "pending"
    assert not sluice.json("table accept crm.user")["changed"]


@pytest.mark.parametrize("lost", ["gone", "empty"])
@pytest.mark.parametrize("blocked", [True, False])
def test_accepting_a_table_restores_its_lost_properties(went_back, invoked, sluice, lost, blocked):
    s3, ledger = went_back.s3, went_back.ledger
    s3.put_object(Bucket="s-silver", Key="crm/user/.hoodie/20240501101500002.commit", Body=b"")
    s3.put_object(Bucket="s-silver", Key=PROPERTIES, Body=b"")
    if lost == "gone":
        s3.delete_object(Bucket="s-silver", Key=PROPERTIES)
    error = TableWentBack.without_properties("crm.user", "20240501101500002")
    if blocked:
        ledger.tables.block("crm.user", error, NOW)
    else:
        ledger.tables.record_error("crm.user", str(error), NOW + 10**9)
    entry = {item["about"]: item for item in sluice.json("doctor", code=1)}["table crm.user"]
    assert "hoodie.properties is gone or empty" in entry["found"]
    assert "`sluice table accept crm.user`" in entry["advice"]
    assert "rebuild" not in entry["advice"]
    arrivals = ledger.lanes.get("main").arrivals
    document = sluice.json("table accept crm.user")  # nothing is asked where no commit is lost
    assert (document["restored"], document["changed"]) == (["crm.user"], blocked)
    written = parse_properties(s3.get_object(Bucket="s-silver", Key=PROPERTIES)["Body"].read().decode())
    assert (written["hoodie.table.name"], written["hoodie.table.recordkey.fields"]) == ("user", "id")
    state = ledger.tables.get("crm.user")
    assert (state.blocked, state.backoff_until, state.last_instant) == (None, None, "20240501101500002")
    assert ledger.lanes.get("main").arrivals == arrivals + 1 and invoked
    assert "nothing to accept" in sluice("table accept crm.user").out


def test_doctor_fails_lifecycle_rules_that_take_files_of_tables_away(stack, tables, sluice):
    some = {"And": {"Prefix": "", "Tags": [{"Key": "k", "Value": "v"}]}}
    rules = [
        {"ID": "own", "Status": "Enabled", "Filter": {}, "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 3}},
        {"ID": "noncurrent", "Status": "Enabled", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 1}},
        {"ID": "off", "Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 3}},
        {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "crm/"}, "Expiration": {"Days": 30}},
        {"ID": "cold", "Status": "Enabled", "Filter": some, "Transitions": [{"Days": 90, "StorageClass": "GLACIER"}]},
        {"ID": "warm", "Status": "Enabled", "Filter": {}, "Transitions": [{"Days": 30, "StorageClass": "STANDARD_IA"}]},
    ]
    assert "silver lifecycle" not in {item["about"] for item in sluice.json("doctor", code=None)}
    stack.s3.put_bucket_lifecycle_configuration(Bucket="s-silver", LifecycleConfiguration={"Rules": rules})
    reasons = [item["found"] for item in sluice.json("doctor", code=1) if item["about"] == "silver lifecycle"]
    assert [text.partition(":")[0] for text in reasons] == [
        "its lifecycle rule 'old' deletes after 30 days all objects under crm/",
        "its lifecycle rule 'cold' archives after 90 days some objects",
    ]


def test_taking_back_a_tables_pause_wakes_a_lane_that_nothing_woke_before(stack, tables, invoked, sluice):
    sluice("config push", tables(PAUSED))
    stack.admit(stack.write("a"))
    assert [(lane["lane"], lane["pending"]["objects"]) for lane in sluice.json("status")["lanes"]] == [("main", 1)]
    assert sluice.json("config push", tables(TABLES))["woken"] == ["main"]


def test_objects_that_wait_for_another_topics_table_may_be_given_one_of_their_own(stack, tables, invoked, sluice):
    sluice("config push", tables(TABLES))
    stack.ledger.tables.pin("crm.user", PINNED)
    stack.admit(stack.write("a"), topic="db2.public.user")
    rules = "{topic: crm.public.user, table: crm.user}, {topic: db2.public.user, table: db2.user}"
    err = sluice("config push", tables(f"defaults: {{record_key: [id]}}\ntables: [{rules}]")).err
    move = "wait for crm.user, which topic crm.public.user feeds: they move to db2.user"
    assert f"objects of topic db2.public.user {move}" in err


def test_objects_that_wait_for_a_table_without_data_move_to_its_new_name(stack, tables, invoked, sluice):
    sluice("config push", tables(TABLES))
    waiting = stack.admit(stack.write("a"))
    stack.ledger.lanes.wake("main")
    renamed = tables(TABLES.replace("table: crm.user}", "table: crm.people}"))
    err = sluice("config push", renamed, "--yes", code=1).err
    assert "which would feed crm.people: `sluice pause main` first, `sluice resume main` after" in err
    assert "push again" in err and "sluice rebuild table" not in err
    sluice("pause main")
    assert "1 pending object moved to another table or lane" in sluice("config push", renamed, "--yes").out
    assert stack.ledger.objects.get([waiting])[waiting].table == "crm.people"
    assert sluice.json("config push", tables(TABLES), "--yes")["moved"] == 1
