"""The plan of a push: changes of tables, lanes and rules, what they release, refuse and risk."""

import pytest

from sluice.config.setting import settings_of
from sluice.config.table import TableSettings
from sluice_cli.config.plan import ObjectsWaiting, plan_push
from sluice_cli.config.plan_text import lines_of
from sluice_cli.config.review import Remark, Review
from sluice_cli.config.risks import OF_STORED_ROWS, RISKS, risk_of
from sluice_cli.config.source import read_tables

HEAD = "defaults: {record_key: [id]}\n"
BEFORE = HEAD + "tables: [{topic: crm.user, table: crm.user}, {topic: 'shop.*', table: 'shop.{1}'}]"

NO_REMARKS = Review()


def planned(before, after, *, topics=(), with_data=(), claimed=(), review=NO_REMARKS, waiting=None):
    old = read_tables(before) if before else None
    stored = {topic: old.table_for_topic(topic).pinned for topic in with_data}  # each of a topic of its name
    more = {"with_data": stored, "claimed": claimed, "review": review, "waiting": waiting or {}}
    return plan_push(old, read_tables(after), topics=topics, **more)


def test_the_same_configuration_changes_nothing():
    plan = planned(BEFORE, BEFORE, topics=["shop.orders"])
    assert (plan.tables, plan.lanes, plan.rules, plan.changes) == ((), (), (), False)
    assert list(lines_of(plan, refusals=True)) == ["Nothing would change"]


def test_parked_objects_that_a_repeated_push_frees_are_a_change():
    plan = planned(BEFORE, BEFORE, waiting={"crm.user": ObjectsWaiting(parked=3)})
    assert plan.changes
    assert "  become pending: 3 parked objects" in lines_of(plan, refusals=True)


def test_each_tables_settings_are_shown_with_old_and_new_value():
    after = HEAD + (
        "tables: [{topic: crm.user, table: crm.user, freshness: 5m, services: {cleaning: {commits: 7}}},"
        " {topic: 'shop.*', table: 'shop.{1}', lane: side}, {topic: crm.role, table: crm.role}]\n"
        "lanes: {side: {}}"
    )
    plan = planned(BEFORE, after, topics=["shop.orders"])
    assert {
        table.table: (table.kind, [(setting.key, setting.old, setting.new) for setting in table.settings])
        for table in plan.tables
    } == {
        "crm.role": ("new", []),
        "crm.user": ("changed", [("freshness", "60s", "5m"), ("services.cleaning.commits", 10, 7)]),
        "shop.orders": ("changed", [("lane", "main", "side")]),
    }
    assert [(lane.name, lane.kind) for lane in plan.lanes] == [("side", "new")]
    assert plan.risks == ()


def test_a_pattern_that_no_known_topic_matches_is_shown_as_a_rule():
    after = BEFORE.replace("'shop.{1}'}", "'shop.{1}', freshness: 5m}")
    assert [(rule.name, rule.kind) for rule in planned(BEFORE, after).rules] == [("shop.*", "changed")]
    plan = planned(BEFORE, after, topics=["shop.orders"])
    assert (plan.rules, [table.table for table in plan.tables]) == ((), ["shop.orders"])


def test_a_pattern_is_shown_though_it_matches_topics_that_an_earlier_rule_takes():
    text = HEAD + "tables: [{topic: shop.orders, table: shop.orders}, {topic: 'shop.*', table: 'shop.{1}'}]"
    plan = planned(None, text)
    assert ([table.table for table in plan.tables], [rule.name for rule in plan.rules]) == (["shop.orders"], ["shop.*"])
    assert planned(None, text, topics=["shop.items"]).rules == ()


def test_a_fixed_setting_needs_a_rebuild_only_where_the_table_has_data():
    after = BEFORE.replace("table: crm.user}", "table: crm.user, table_type: mor}")
    refused = Review((Remark("crm.user", "crm.user has data whose table_type is 'cow'"),))
    with_data = planned(BEFORE, after, with_data=["crm.user"], review=refused)
    assert with_data.tables[0].settings[0].rebuild and with_data.tables[0].refusals and with_data.refusals
    assert "refused  crm.user has data whose table_type is 'cow'" in lines_of(with_data, refusals=True)
    assert not planned(BEFORE, after).tables[0].settings[0].rebuild


def test_a_table_names_its_steps_where_each_of_its_refusals_does():
    def names_steps(*of_refusals):
        refusals = tuple(
            Remark("crm.user", f"reason {number}", names_step) for number, names_step in enumerate(of_refusals)
        )
        (table,) = planned(BEFORE, BEFORE, review=Review((*refusals, Remark("other.table", "elsewhere")))).tables[:1]
        assert table.table == "crm.user"
        return table.steps_named

    assert [names_steps(True, True), names_steps(True, False), names_steps(False)] == [True, False, False]


def test_a_renamed_table_says_where_objects_go():
    plan = planned(BEFORE, BEFORE.replace("table: crm.user}", "table: crm.person}"))
    said = "objects of topic crm.user go to crm.person from now on"
    assert plan.risks == (f"crm.user: {said}",) and f"  ! {said}" in lines_of(plan, refusals=False)


def test_a_removed_table_is_a_risk_and_a_warning_of_another_table_is_kept():
    after = HEAD + "tables: [{topic: 'shop.*', table: 'shop.{1}'}]"
    plan = planned(BEFORE, after, review=Review(warnings=(Remark("other.table", "elsewhere"),)))
    assert plan.risks == ("crm.user: objects of topic crm.user are parked until a rule takes them",)
    assert plan.warnings == ("elsewhere",)
    assert [table.table for table in plan.tables] == ["crm.user"]


@pytest.mark.parametrize(
    ("setting", "risky"),
    [
        ("generation: 1", True),
        ("paused: true", True),
        ("time_travel: 24h", True),
        ("time_travel: 30d", False),
        ("delete_mode: hard", True),
        ("lineage: off", True),
        ("limits: {object_rows: 10}", True),
        ("services: {purge: {horizon: 2h}}", True),
        ("services: off", True),
        ("catalog: off", True),
        ("freshness: 5m", False),
        ("schema: freeze", True),
        ("columns: {exclude: note}", True),
    ],
)
def test_only_what_can_lose_or_stop_something_is_a_risk(setting, risky):
    after = BEFORE.replace("table: crm.user}", f"table: crm.user, {setting}}}")
    plan = planned(BEFORE, after, with_data=["crm.user"])
    assert bool(plan.risks) is risky
    assert any("! " in line for line in lines_of(plan, refusals=True)) is risky


@pytest.mark.parametrize(
    "setting",
    [
        "columns: {mask: [ssn]}",
        "generation: 1",
        "delete_when: {column: op, values: [D]}",
        "time_travel: 24h",
        "raw: true",
        "types: {born: date}",
        "csv: {delimiter: ;}",
        "services: {purge: {horizon: 2h}}",
        "catalog: off",
    ],
)
def test_a_table_without_rows_asks_for_nothing_about_stored_ones(setting):
    after = BEFORE.replace("table: crm.user}", f"table: crm.user, {setting}}}")
    assert planned(BEFORE, after).risks == ()
    assert planned(BEFORE, after, with_data=["crm.user"]).risks
    claimed = planned(BEFORE, after, claimed=["crm.user"])
    assert claimed.risks, "a batch is about to write rows by the old settings"
    assert not claimed.tables[0].settings[0].rebuild


def test_a_table_without_rows_still_asks_about_what_stops_objects():
    for setting in ("paused: true", "limits: {object_rows: 10}", "schema: freeze"):
        assert planned(BEFORE, BEFORE.replace("table: crm.user}", f"table: crm.user, {setting}}}")).risks


def test_taking_a_risk_back_is_none():
    rules = {"gender": {"in": ["Male"]}}
    assert risk_of("history", True, False) is not None and risk_of("history", False, "log") is None
    assert risk_of("expect.columns", rules, {}) is None and risk_of("expect.columns", {}, rules) is not None
    taken_back = [("paused", True, False), ("time_travel", 24, 48)]
    assert [risk_of(*setting) for setting in taken_back] == [None, None]


def test_every_risk_is_that_of_a_setting():
    def paths(settings, prefix=""):
        for setting in settings:
            key = f"{prefix}{setting.key}"
            yield f"{key}." if setting.value is None else key
            yield from paths(setting.group, f"{key}.")

    assert OF_STORED_ROWS <= set(RISKS) <= set(paths(settings_of(TableSettings)))


@pytest.mark.parametrize("setting", ["limits: {object_rows: 20000000}", "partition_by: [country]", "schema: freeze"])
def test_a_changed_table_names_its_quarantined_objects_and_their_verb(setting):
    after = BEFORE.replace("table: crm.user}", f"table: crm.user, {setting}}}")
    plan = planned(BEFORE, after, waiting={"crm.user": ObjectsWaiting(quarantined=2, codes=("a", "b"))})
    assert plan.tables[0].retry
    line = next(line for line in lines_of(plan, refusals=True) if "stay quarantined" in line)
    commands = [f"`sluice quarantine retry --code {code} --table crm.user`" for code in ("a", "b")]
    assert line == f"  stay quarantined: 2 objects; to judge them again: {', '.join(commands)}"


def test_other_types_of_a_table_with_data_name_the_rebuild():
    after = BEFORE.replace("crm.user}", "crm.user, lane: big, types: {day: date}}")
    plan = planned(BEFORE, "lanes: {big: {}}\n" + after, with_data=["crm.user"])
    (risk,) = [setting.risk for setting in plan.tables[0].settings if setting.key == "types"]
    assert "`sluice pause big`, `sluice rebuild table crm.user`, push, `sluice resume big`" in risk
