"""`sluice config discover` on an emulated stack, with objects that real Debezium wrote."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from support.bad_input import plain_parquet

from sluice.admission.routing import classify
from sluice.ledger import keys as items
from sluice_cli.config.source import read_tables

BRONZE = Path(__file__).resolve().parents[2] / "data" / "tickit_small" / "bronze"
TOPICS = ("tickit.crm.user", "tickit.ems.category", "tickit.ems.venue")


@pytest.fixture
def parked(stack):
    for path in sorted(BRONZE.rglob("*.avro")):
        key = path.relative_to(BRONZE).as_posix()
        route = classify(key, 1)
        if route.topic in TOPICS:
            stack.park(stack.write(key, path.read_bytes()), route.topic, offset=route.offset)
    return stack


def test_discover_proposes_rules_for_all_waiting_topics_and_writes_complete_ones(parked, sluice):
    parked.park(parked.write("topics/lone/lone+0+0.avro", b"no Avro"), "lone")
    lone, *proposals = sluice.json("config discover --write", code=1)["proposals"]
    assert (lone["topic"], lone["shape"], lone["source"]) == ("lone", None, None)
    assert (lone["record_key"]["value"], lone["open"]) == ([], ["table", "record_key"])
    (evidence, *_) = lone["record_key"]["evidence"]
    assert "not_avro" in evidence and evidence.endswith(" (in topics/lone/lone+0+0.avro)")
    keys = {proposal["topic"]: proposal["record_key"]["value"] for proposal in proposals}
    assert keys == dict(zip(TOPICS, (["userid"], ["catid"], ["venueid"]), strict=True))
    assert {(proposal["shape"], proposal["source"]) for proposal in proposals} == {("flattened", "postgres")}
    expected = ["crm.user", "ems.category", "ems.venue"]
    assert [rule.table for rule in read_tables(Path("tables.yaml").read_text()).rules] == expected
    sluice("config check tables.yaml")
    assert "`sluice config discover` proposes rules" in sluice("wait").err


def test_a_topic_with_a_rule_is_not_proposed_again_and_options_fill_open_choices(parked, sluice):
    Path("tables.yaml").write_text("# mine\ntables:\n- {topic: 'tickit.*.*', table: '{1}.{2}', record_key: id}\n")
    out, err = sluice("config discover --write")
    assert out == "Nothing to add to tables.yaml\n" and "3 topics with a rule in tables.yaml already" in err
    Path("tables.yaml").unlink()
    sluice("config discover --write --key tickit.crm.user=email,phone --table tickit.ems.venue=a.b")
    user, _, venue = read_tables(Path("tables.yaml").read_text()).rules
    assert (user.table, user.record_key) == ("crm.user", ("email", "phone"))
    assert (venue.table, venue.record_key) == ("a.b", ("venueid",))


def test_a_column_beyond_ascii_is_proposed_and_chosen_by_its_stored_name(stack, sluice):
    key = "topics/shop.dinge/shop.dinge+0+0000000000"
    id = stack.write(f"{key}.json", '{"id": 1, "größe": 3, "grüße": "x"}'.encode())
    stack.admit(stack.write(f"{key}.keys.json", '{"größe": 3}'.encode()), items.IGNORED, table=None, lane=None)
    stack.park(id, "shop.dinge", format="json")
    (proposal,) = sluice.json("config discover")["proposals"]
    assert proposal["record_key"]["value"] == ["gr_u00f6_u00dfe"]
    assert any("'grüße' is stored as gr_u00fc_u00dfe" in note for note in proposal["notes"])


RULES = """
tables:
  - {topic: pagila.public.film, table: shop.film, record_key: %s, partition_by: [%s]}
  - {topic: public.film, table: dms.film, record_key: film_id}
"""


@pytest.mark.long
def test_push_and_check_look_at_what_waits_for_a_new_table(stack, sluice, tables):
    film = min((BRONZE.parents[1] / "pagila_env" / "bronze").rglob("pagila.public.film*.avro"))
    rows = plain_parquet({"Op": "I", "film_id": 1}, {"Op": "D", "film_id": 2})
    for topic, key, body, offset in (
        ("pagila.public.film", "topics/pagila.public.film/pagila.public.film+0+0.avro", film.read_bytes(), 0),
        ("public.film", "topics/public/film/LOAD00000001.parquet", rows, None),
    ):
        stack.park(stack.write(key, body), topic, offset=offset, format=classify(key, 1).format)
    file = tables(RULES % ("language_id", "ratin"))
    checked = sluice("config check --waiting", file).err
    assert "shop.film: partition_by: ratin is not a column of the objects that wait (did you mean rating?)" in checked
    assert "warning: shop.film: record_key: language_id has 3 values in " in checked and "film_id" in checked
    assert "warning: dms.film: the column Op holds operations: add `delete_when: {column: Op, values: [D]}`" in checked
    sluice("config push --json", file, code=2)  # an absent column and a shared key need a yes
    pushed = sluice.json("config push --yes", file)
    assert [warning.split(":")[0] for warning in pushed["warnings"]] == ["dms.film"], pushed
    expected = [["shop.film", " partition_by"], ["shop.film", " record_key"]]
    assert [warning.split(":")[:2] for warning in pushed["plan"]["risks"]] == expected
    tables(RULES % ("film_id", "rating"))  # the objects are pending now
    assert [warning.split(":")[0] for warning in sluice.json("config push", file)["warnings"]] == ["dms.film"]
    stack.ledger.tables.pin("dms.film", {"topic": "public.film", "record_key": ["film_id"], "partition_by": []})
    assert sluice.json("config push", file)["warnings"] == [], "a table with data has merged such objects"


def waiting_rows(stack, number, *rows, **more):
    key = f"exports/shop.orders/{number:04d}.parquet"
    return stack.park(stack.write(key, plain_parquet(*rows)), "shop.orders", format="parquet", **more)


@pytest.mark.parametrize("changes_first", [True, False])
def test_columns_that_a_full_load_lacks_are_found_in_any_order_of_admission(stack, sluice, tables, changes_first):
    load = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}
    changes = [{"Op": "D" if id == 1 else "I", "id": id, "name": "c", "seq": f"{id:035d}"} for id in (1, 3)]
    for number, rows in enumerate([changes, load] if changes_first else [load, changes]):
        waiting_rows(stack, number, *rows)
    (proposal,) = sluice.json("config discover", code=1)["proposals"]
    assert (proposal["delete_when"], proposal["position"]["value"]) == (["Op", ["D"]], ["seq"])
    said = sluice("config check --waiting", tables(ORDERS % "id")).err
    assert "the column Op holds operations: add `delete_when: {column: Op, values: [D]}`" in said


def test_keys_that_several_objects_repeat_need_a_position(stack, sluice, tables):
    for number, (name, at) in enumerate([("a", "2026-01-01"), ("c", "2026-01-03"), ("b", "2026-01-02")]):
        waiting_rows(stack, number, {"id": 1, "name": name, "updated_at": at})
    (proposal,) = sluice.json("config discover --key shop.orders=id")["proposals"]
    assert (proposal["position"]["value"], proposal["position"]["confidence"]) == (["updated_at"], "likely")
    warned = sluice("config check --waiting", tables(ORDERS % "id")).err
    assert "shop.orders: position: objects repeat 1 value of id, and nothing orders these rows" in warned
    assert "name the column that does, such as updated_at" in warned
    assert "position" not in sluice("config check --waiting", tables(ORDERS % "id, position: updated_at")).err


def test_a_chosen_position_must_be_able_to_order(parked, sluice):
    rows = ({"id": id, "name": "a", "seq": None if id == 1 else f"{id:035d}"} for id in (1, 2))
    waiting_rows(parked, 1, *rows)
    chosen = ["config", "discover", "--key", "shop.orders=id", "--position"]
    said = sluice(*chosen, "shop.orders=name", code=1).err
    assert "name holds other values than whole numbers, dates and timestamps" in said
    sluice(*chosen, "shop.orders=seq")
    assert "changes of a log have a source position" in sluice(*chosen, "tickit.ems.venue=venueid", code=1).err


def test_a_column_of_the_rule_that_only_some_objects_lack_is_marked_by_a_push(stack, sluice, tables):
    waiting_rows(stack, 1, {"Op": "U", "id": 1, "seq": 7}, {"Op": "D", "id": 2, "seq": 8})
    waiting_rows(stack, 2, {"id": 1})
    file = tables(ORDERS % "id, delete_when: {column: Op, values: [D]}, position: seq")
    shown = " ".join("".join(sluice("config push", file, code=2)).split())
    assert "position: some of the objects that wait lack seq: objects without it are quarantined" in shown
    assert "lack Op" not in shown, "rows of a full load have none"


@pytest.mark.parametrize(
    "column, value, hinted",
    [("row_deleted", "true", True), ("is_deleted", False, True), ("deleted", "3", False), ("undeleted", True, False)],
)
def test_a_column_that_seems_to_mark_deletions_is_named(stack, sluice, tables, column, value, hinted):
    waiting_rows(stack, 1, {"id": 1, column: value})
    hint = f"{column} seems to mark deleted rows, which stay visible without `delete_when: {{column: {column}, values"
    assert any(hint in note for note in sluice.json("config discover", code=None)["proposals"][0]["notes"]) == hinted
    for more, warned in (("", hinted), (f", delete_when: {{column: {column}, values: [true]}}", False)):
        file = tables(ORDERS % f"id, position: id{more}")
        assert (f"{hint}: [true]}}`" in sluice("config check --waiting", file).err) == warned


ORDERS = "tables: [{topic: shop.orders, table: shop.orders, record_key: %s}]"


def test_a_key_that_is_shared_far_behind_in_an_object_is_found(stack, sluice, tables):
    waiting_rows(stack, 0, *({"id": n, "code": min(n, 4_998)} for n in range(5_000)))
    err = sluice("config check --waiting", tables(ORDERS % "code")).err
    assert "record_key: code has 4,999 values in 5,000 rows of a snapshot; id is unique" in err
    assert "looked at" not in err, "every row was"


def test_quarantined_objects_of_a_table_without_data_are_looked_at_too(stack, sluice, tables):
    id = stack.write("orders.parquet", plain_parquet({"id": 1}))
    stack.admit(id, items.QUARANTINED, table="shop.orders", topic="shop.orders", format="parquet", code="x", reason="x")
    printed = sluice("config push", tables(ORDERS % "idd"), code=2).out  # a retry would refuse them again
    shown = "record_key: idd is not a column of the objects that wait (did you mean id?): objects without it are quar"
    assert shown in printed


def test_objects_of_csv_without_a_header_have_the_columns_of_their_rule(stack, sluice, tables):
    waiting_csv(stack, "shop.orders", b"1;a\n2;b\n")
    file = tables(ORDERS % "id, csv: {columns: [id, code], delimiter: ';'}")
    assert "no column" not in "".join(sluice("config push", file))


def test_a_look_at_what_waits_that_fails_stops_no_push(parked, sluice, monkeypatch, tables):
    denied = Mock(side_effect=PermissionError("\x1b[31mAccess Denied"))
    monkeypatch.setattr("sluice_cli.config.waiting.sample_topic", denied)
    file = tables("tables: [{topic: tickit.crm.user, table: crm.user, record_key: userid}]")
    out, err = sluice("config push", file)
    assert "In force" in out and "crm.user: objects that wait can't be looked at: \\x1b[31mAccess Denied" in err


def waiting_csv(stack, topic, body):
    id = stack.write(f"topics/{topic}/1.csv", body)
    stack.park(id, topic, format="csv")


@pytest.mark.parametrize("header", ["id", "a;b,c"])
def test_a_delimiter_is_not_guessed_of_one_column_or_beside_commas(stack, sluice, header):
    waiting_csv(stack, "shop.prices", f"{header}\n1;2,3\n".encode() if "," in header else b"id\n1;2\n")
    assert sluice.json("config discover", code=None)["proposals"][0]["delimiter"] is None


def test_csv_that_is_not_utf_8_or_has_no_header_is_told_with_its_cure(stack, sluice, tables):
    waiting_csv(stack, "shop.latin", "id,name\n1,Müller\n".encode("latin-1"))
    waiting_csv(stack, "shop.bare", b"1,a\n2,b\n")
    bare, latin = sluice.json("config discover", code=1)["proposals"]
    assert any("line 2 is not UTF-8" in note for note in latin["notes"])
    assert any("`csv: {columns: [...]}` in the rule names the columns" in note for note in bare["notes"])
    pushed = "".join(sluice("config push", tables("tables: [{topic: shop.*, table: 'shop.{1}', record_key: id}]")))
    assert "line 2 is not UTF-8" in pushed and "`csv: {columns: [...]}` in the rule" in pushed


@pytest.mark.parametrize(
    ("format", "body"),
    [
        ("json", b'{"id": 1, "at": "2026-11-01 10:00:00", "day": "next"}\n{"id": 2, "at": "x", "day": null}\n'),
        ("csv", b"id,at,day\n1,2026-11-01 10:00:00,next\n2,x,\n"),
    ],
)
def test_types_that_the_values_do_not_have_need_a_yes(stack, sluice, tables, format, body):
    id = stack.write(f"topics/hr.staff/hr.staff+0+0.{format}", body)
    stack.park(id, "hr.staff", offset=0, format=format)
    rule = "{topic: hr.staff, table: hr.staff, record_key: id, types: {at: zoned_timestamp, day: date, id: long}}"
    file = tables(f"tables: [{rule}]\n")
    sluice("config push --json", file, code=2)
    shown = sluice("config plan", file, code=3).out
    assert "! types: at is no zoned_timestamp in 1 of 2 rows, such as 'x': such rows are quarantined\n" in shown
    assert "! types: day is no date in 1 of 2 rows, such as 'next': such rows are quarantined\n" in shown
    assert "types: id" not in shown
