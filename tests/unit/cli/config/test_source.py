"""Reads tables.yaml: the configuration that it becomes, and every mistake at once with its line."""

import json
from datetime import date
from decimal import Decimal
from pathlib import Path

import jsonschema
import pytest
import yaml

from sluice.changes.hidden_columns import LINEAGE_WORDS
from sluice.config.document import Configuration
from sluice.config.limits import Limits
from sluice.config.rules.columns import ColumnRules
from sluice.config.table import TableConfig
from sluice_cli.config.model import schema_text
from sluice_cli.config.rule_text import configuration_text
from sluice_cli.config.source import read_tables, read_with_warnings
from sluice_cli.config.yaml_lines import ConfigurationMistakes

ROOT = Path(__file__).resolve().parents[4]
FILES = [ROOT / "tables.yaml", *sorted((ROOT / "tests" / "data").glob("*.tables.yaml"))]
SCHEMA = json.loads(schema_text())

RULE = "tables:\n  - {topic: a.b, table: a.b, record_key: id}\n"
BROKEN = """\
defaults: {freshnes: 60s, lane: big}
lanes: {main: {linger: 5, min_executors: 9}, BAD: {}}
bogus: 1
tables:
  - {topic: a.*, table: x.y, freshness: 1.5h, record_key: id}
  - {topic: a.b, topic_regex: x, table: a.b, record_key: id}
  - topic: q.w
    table: Q.w
    topic: q.e
    record_key: _hoodie_x
    hudi: {hoodie.index.type: SIMPLE, spark.x: 1, hoodie.parquet.max.file.size: 5}
    time_travel: 90m
  - {topic: c.*, table: "c.{1}", record_key: "{2}id"}
  - {topic: c.d, table: c.d, record_key: id, generation: -1}
  - {topic_regex: "(", table: c.d}
  - 5
  - {topic: z.z, table: z.z, record_key: [a, a], lane: mian, table_type: mow, paused: "yes"}
  - {topic: c.e, record_key: id}
"""
MISTAKES = (
    "1 defaults.freshnes, 1 defaults.lane, 2 lanes.BAD, 2 lanes.main.linger, 2 lanes.main.min_executors, 3 bogus, "
    "5 tables[0].freshness, 5 tables[0].table, 6 tables[1], 8 tables[2].table, 9 tables[2].topic, "
    "10 tables[2].record_key, 11 tables[2].hudi, 12 tables[2].time_travel, 13 tables[3].record_key, "
    "14 tables[4].generation, 15 tables[5].record_key, 15 tables[5].topic_regex, 16 tables[6], 17 tables[7].lane, "
    "17 tables[7].paused, 17 tables[7].record_key, 17 tables[7].table_type, 18 tables[8].table"
)


def mistakes(text):
    with pytest.raises(ConfigurationMistakes) as raised:
        read_tables(text)
    return {(mistake.line, mistake.where): mistake.message for mistake in raised.value.mistakes}


def rule(**keys):
    return yaml.safe_dump({"tables": [{"topic": "a.b", "table": "a.b", "record_key": "id", **keys}]})


def test_all_mistakes_are_reported_together_with_line_and_place():
    by_place = mistakes(BROKEN)
    assert [f"{line} {where}" for line, where in sorted(by_place)] == MISTAKES.split(", ")
    assert by_place[1, "defaults.freshnes"] == "is unknown; did you mean freshness?"
    assert by_place[17, "tables[7].lane"] == "mian is not under lanes; did you mean main?"
    assert by_place[18, "tables[8].table"] == "is missing"
    assert "hoodie.index.type" in by_place[11, "tables[2].hudi"] and "spark.x" in by_place[11, "tables[2].hudi"]


@pytest.mark.parametrize(
    "text, part",
    [
        ("", "needs the key tables"),
        ("5", "needs the key tables"),
        ("[1]", "needs the key tables"),
        ("a: [", "is not YAML"),
        ("a: !!python/object:os.system x", "is not YAML"),
        ("tables: []\n? [a]\n: b", "is not YAML"),
        ("a: 2024-99-99", "is not YAML"),
        ("tables:", "must be a list of rules"),
        ("tables: {}", "must be a list of rules"),
        ("defaults: 5\n" + RULE, "must be a mapping"),
        ("lanes: [main]\n" + RULE, "must be a mapping"),
        ("lanes: {main: 5}\n" + RULE, "must be a mapping"),
        ("tables:\n  - topic:a.b\n    table:a.b", "must be a mapping of keys to values"),
        ("a: " + "[\n" * 5_000, "nested too deeply"),
        ("tables: &a [*a]", "nested too deeply"),
        ("tables: &a {topic: a.b, <<: *a}", "nested too deeply"),
        ("x" * 1_000_001, "larger than"),
        (
            "a: &a [1,2,3,4,5,6,7,8,9,0]\n"
            "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
            "c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
            "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
            "e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\ntables: [1]",
            "more than 100,000",
        ),
    ],
)
def test_a_file_that_is_no_tables_file_is_reported(text, part):
    assert any(part in message for message in mistakes(text).values())


@pytest.mark.parametrize(
    "keys, place",
    [
        ({"topic": "a b"}, "topic"),
        ({"topic": "a.{1}"}, "topic"),
        ({"table": "nodatabase"}, "table"),
        ({"table": "a.b.c"}, "table"),
        ({"table": "a.{1}"}, "table"),
        ({"table": "a/../b.c"}, "table"),
        ({"record_key": []}, "record_key"),
        ({"record_key": "two words"}, "record_key"),
        ({"partition_by": "__deleted"}, "partition_by"),
        ({"partition_by": "{1}"}, "partition_by"),
        ({"freshness": 60}, "freshness"),
        ({"freshness": True}, "freshness"),
        ({"freshness": "-1s"}, "freshness"),
        ({"time_travel": "0"}, "time_travel"),
        ({"time_travel": 7}, "time_travel"),
        ({"delete_mode": "hard", "index": "record"}, "index"),
        ({"index": "bloom"}, "index"),
        ({"delete_mode": "ignore", "keep_deleted_values": True}, "keep_deleted_values"),
        ({"generation": "1"}, "generation"),
        ({"generation": 10_000}, "generation"),
        ({"hudi": {"hoodie.write.auto.upgrade": True}}, "hudi"),
        ({"hudi": {"hoodie.parquet.x": [1]}}, "hudi"),
        ({"hudi": []}, "hudi"),
        ({"lane": "Main"}, "lane"),
        ({"columns": {"exclude": "id"}}, "record_key"),
        ({"columns": {"mask": "id"}}, "record_key"),
        ({"columns": {"rename": {"id": "no"}}}, "record_key"),
        ({"columns": {"rename": {"a": "x", "b": "X"}}}, "columns.rename"),
        ({"columns": {"rename": {"a": "__deleted"}}}, "columns.rename"),
        ({"columns": {"exclude": ["a"], "rename": {"a": "b"}}}, "columns.rename"),
        ({"columns": {"exclude": ["a"], "mask": ["a"]}}, "columns.mask"),
        ({"columns": {"mask": {"a": 9}}}, "columns.mask"),
        ({"columns": {"hash": ["a"]}}, "columns.key"),
        ({"columns": {"key": "s/k"}}, "columns.key"),
        ({"columns": {"hash": ["a"], "key": "no secret"}}, "columns.key"),
        ({"columns": {"hash": ["at"], "key": "s/k"}, "position": "at"}, "position"),
        ({"columns": {"exclude": ["Op"]}, "delete_when": {"column": "Op", "values": ["D"]}}, "delete_when"),
        ({"columns": {"exclude": ["day"]}, "partition_by": "day"}, "partition_by"),
        ({"expect": {"failures": "drop"}}, "expect.failures"),
        ({"expect": {"columns": {"n": {"least": 1}}}}, "expect.columns"),
        ({"expect": {"columns": {"n": {}}}}, "expect.columns"),
        ({"expect": {"columns": {"n": {"min": [1]}}}}, "expect.columns"),
        ({"expect": {"columns": {"n": {"matches": "("}}}}, "expect.columns"),
        ({"expect": {"columns": {"n": {"matches": "(?=a)"}}}}, "expect.columns"),
        ({"expect": {"columns": {"n": {"matches": r"(a)\1"}}}}, "expect.columns"),
        ({"expect": {"columns": {"n": {"matches": r"a\Z"}}}}, "expect.columns"),
        ({"expect": {"columns": {"n": {"matches": "a{1001}"}}}}, "expect.columns"),
        ({"columns": {"mask": "n"}, "expect": {"columns": {"n": {"min": 1}}}}, "expect.columns"),
        ({"columns": {"rename": {"a": "n"}}, "expect": {"columns": {"a": {"min": 1}}}}, "expect.columns"),
    ],
)
def test_an_unusable_value_is_reported_at_its_key(keys, place):
    assert [where for _, where in mistakes(rule(**keys))] == [f"tables[0].{place}"]


def test_a_rule_that_is_never_reached_is_reported():
    every = "tables:\n  - {topic: a.*, table: 'a.{1}', record_key: id}\n"
    by_place = mistakes(every + "  - {topic: a.b, table: a.c, record_key: id}\n")
    assert by_place == {(3, "tables[1].topic"): "is never reached: tables[0] takes a.b first"}


def test_two_topics_cannot_be_sent_into_one_table():
    assert "already" in mistakes(RULE + "  - {topic: a.c, table: a.b, record_key: id}\n")[3, "tables[1].table"]
    by_place = mistakes("tables:\n  - {topic: '*.b.*', table: 'b.{2}', record_key: id}\n")
    assert "without merged, one topic feeds a table" in by_place[2, "tables[0].table"]


@pytest.mark.parametrize(("topic", "table"), [("a.b", "a.b"), ("a.*", "a.{1}")])
def test_no_table_may_be_the_history_table_of_another(topic, table):
    taken = "  - {topic: x, table: a.b_history, record_key: id}\n"
    by_place = mistakes(f"tables:\n  - {{topic: {topic}, table: '{table}', record_key: id, history: true}}\n{taken}")
    why = f"a.b_history may be a history table of the rule for {topic}"
    assert by_place == {(3, "tables[1].table"): why}
    read_tables(f"tables:\n  - {{topic: {topic}, table: '{table}', record_key: id}}\n{taken}")


@pytest.mark.parametrize("name", ["'1log'", "Log", "a.log", "''", "7", "'{9}_log'", "b"])
def test_a_history_tables_name_is_that_of_a_table_and_of_no_other(name):
    by_place = mistakes(f"tables:\n  - {{topic: a.b, table: a.b, record_key: id, history: {name}}}\n")
    assert [where for _, where in by_place] == [f"tables[0].{'table' if name == 'b' else 'history'}"]


def test_a_history_tables_name_tells_all_tables_of_its_rule_apart():
    text = "tables:\n  - {topic: '*.*', table: '{1}.{2}', record_key: id, history: NAME}\n"
    assert "must use {2}" in mistakes(text.replace("NAME", "log"))[2, "tables[0].history"]
    read_tables(text.replace("NAME", "'{2}_log'"))
    both = [f"  - {{topic: {at}, table: a.{at}, record_key: id, history: log}}\n" for at in ("x", "y")]
    assert [where for _, where in mistakes("tables:\n" + "".join(both))] == ["tables[0].history", "tables[1].history"]


def test_a_rule_takes_over_what_it_does_not_say():
    table = read_tables("""
defaults: {record_key: id, table_type: mor, freshness: 90s, hudi: {hoodie.parquet.a: 1, hoodie.parquet.b: true}}
lanes: {big: {linger: 2m, batch_bytes: 1GiB, max_executors: 3}}
tables:
  - topic: a.b
    table: a.b
    lane: big
    time_travel: 24h
    delete_mode: hard
    keep_deleted_values: true
    generation: 2
    hudi: {hoodie.parquet.a: 2}
""").table_for_topic("a.b")
    expected = (("id",), "mor", 90, 24, "hard")
    assert (table.record_key, table.table_type, table.freshness_s, table.time_travel_h, table.delete_mode) == expected
    expected = ({"hoodie.parquet.a": "2", "hoodie.parquet.b": "true"}, True, 2, "big")
    assert (table.hudi, table.keep_deleted_values, table.generation, table.lane) == expected


def test_columns_are_named_as_the_source_and_the_rest_of_a_rule_names_the_tables():
    written = {"exclude": "note", "rename": {"eml": "email"}, "hash": "eml", "mask": ["card"], "key": "shop/customers"}
    (parsed,) = read_tables(rule(record_key="email", columns=written)).rules
    assert parsed.columns == ColumnRules(("note",), {"eml": "email"}, ("eml",), "shop/customers", {"card": 0})
    assert Configuration.from_json(Configuration((parsed,)).to_json()).rules == (parsed,)
    (masked,) = read_tables(rule(columns={"mask": {"card": 4}})).rules
    assert masked.columns.mask == {"card": 4}


def test_expectations_are_numbers_dates_values_and_patterns_by_column():
    numbers, days = {"min": 0, "max": 1.5, "not_null": True}, {"min": date(2024, 1, 1)}
    written = {"n": numbers, "day": days, "s": {"in": ["a", 1, True], "matches": "a+?|(?i:b)"}}
    (parsed,) = read_tables(rule(expect={"failures": "report", "columns": written})).rules
    expected = {expectation.column: expectation for expectation in parsed.expect.all()}
    assert (expected["n"].least, expected["n"].most, expected["n"].not_null) == (Decimal(0), Decimal("1.5"), True)
    assert expected["day"].least == "2024-01-01"
    assert (expected["s"].among, expected["s"].pattern) == (("a", "1", "true"), "a+?|(?i:b)")
    assert Configuration.from_json(Configuration((parsed,)).to_json()).rules == (parsed,)


def test_limits_are_inherited_one_by_one_and_defaults_are_not_written():
    text = (
        "lanes: {main: {executor_memory_gb: 12}}\n"
        "defaults: {record_key: id, limits: {object_bytes: 1GiB, quarantined_rows: 5}}\n"
        "tables:\n  - {topic: a.b, table: a.b, limits: {quarantined_rows: 0, schema_depth: 8}}\n"
    )
    configuration = read_tables(text)
    (parsed,) = configuration.rules
    assert parsed.limits == Limits(object_bytes=1024**3, quarantined_rows=0, schema_depth=8)
    assert Configuration.from_json(configuration.to_json()) == configuration
    assert parsed.apply("a.b").limits == parsed.limits
    assert TableConfig.from_dict(parsed.apply("a.b").to_dict()) == parsed.apply("a.b")
    assert "limits" not in read_tables(rule()).to_json()
    assert [where for _, where in mistakes(rule(limits={"schema_depth": 500}))] == ["tables[0].limits.schema_depth"]


@pytest.mark.parametrize("worker", ["driver", "executor"])
@pytest.mark.parametrize("cores, most", [(1, 8), (2, 16), (4, 30), (8, 60), (16, 120)])
def test_a_worker_larger_than_emr_serverless_has_is_a_mistake(worker, cores, most):
    def lanes(gb):
        return f"lanes: {{big: {{{worker}_cores: {cores}, {worker}_memory_gb: {gb}}}}}\n{rule()}"

    read_tables(lanes(most))
    assert [where for _, where in mistakes(lanes(most + 1))] == [f"lanes.big.{worker}_memory_gb"]


def test_limits_that_a_task_of_the_lane_has_no_memory_for_are_a_mistake():
    large = "tables:\n  - {topic: a.b, table: a.b, record_key: id, limits: {object_bytes: 1GiB}}\n"
    assert [where for _, where in mistakes(large)] == ["tables[0].limits"]
    read_tables("lanes: {main: {executor_memory_gb: 12}}\n" + large)
    read_tables(rule())  # the defaults of limits and lanes fit


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (True, LINEAGE_WORDS),
        ("on", LINEAGE_WORDS),
        (False, ()),
        ("off", ()),
        ([], ()),
        ("offset", ("offset",)),
        (["batch", "object"], ("object", "batch")),
    ],
)
def test_lineage_is_on_off_or_a_list(written, words):
    (parsed,) = read_tables(rule(lineage=written)).rules
    assert parsed.lineage == words == TableConfig.from_dict(parsed.apply("a.b").to_dict()).lineage
    configuration = read_tables(rule(lineage=written))
    assert Configuration.from_json(configuration.to_json()) == configuration


def test_lineage_is_on_by_default_and_takes_only_known_words():
    assert read_tables(rule()).rules[0].lineage == LINEAGE_WORDS and "lineage" not in read_tables(rule()).to_json()
    for wrong in ("some", ["object", "x"], 5, {"object": True}):
        assert [where for _, where in mistakes(rule(lineage=wrong))] == ["tables[0].lineage"]


def test_a_lane_keeps_the_defaults_of_what_it_does_not_say():
    lane = read_tables("lanes: {big: {linger: 2m, batch_bytes: 512MiB}, small: }\n" + RULE).lane("big")
    assert (lane.linger_s, lane.batch_bytes, lane.max_age_s, lane.batch_objects) == (120, 512 * 1024**2, 14_400, 10_000)


def test_defaults_given_from_outside_replace_those_of_the_file():
    configuration = read_tables("defaults: {table_type: cow}\n" + RULE, defaults={"table_type": "mor"})
    assert configuration.table_for_topic("a.b").table_type == "mor"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_tables_file_of_the_repository_is_right_and_fits_the_schema(path):
    text = path.read_text()
    configuration = read_tables(text)
    assert Configuration.from_json(configuration.to_json()) == configuration
    jsonschema.validate(yaml.safe_load(text), SCHEMA)


WRITTEN = """\
lanes:
  main: {linger: 30s}
  side: {}
tables:
  - topic: crm.*
    table: crm.{1}
    record_key: id
    partition_by: [country, city]
    delete_when: off
    freshness: 5m
    raw: true
    lineage: off
    csv: {null_text: 'NULL', delimiter: '|'}
    columns:
      hash: email
      key: s/k
      mask: {card: 4, ssn: 0}
    expect:
      columns:
        amount: {min: 0, max: 9.5}
        status:
          in: [new, paid]
    services:
      clustering: {by: country}
      purge: off
    catalog: {views: 'off'}
  - topic: log
    table: app.log
    freshness: 0
    lane: side
    append_only: true
    catalog: off
"""


def test_a_configuration_is_written_as_the_file_that_makes_it():
    assert configuration_text(read_tables(WRITTEN)) == WRITTEN


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_written_of_every_file_makes_the_same_configuration(path):
    configuration = read_tables(path.read_text())
    assert read_tables(configuration_text(configuration)).version == configuration.version


def test_words_that_yaml_reads_otherwise_and_control_characters_stay_text():
    columns = {"hash": ["on"], "key": "s/k", "mask": ["no"]}
    text = rule(columns=columns, csv={"null_text": "off"}, unavailable_value="\x1b[31mwhatever")
    configuration = read_tables(text)
    written = configuration_text(configuration)
    assert read_tables(written).version == configuration.version and "\x1b" not in written


@pytest.mark.parametrize("name", ["tables.yaml", "tests/data/tickit_small.tables.yaml"])
def test_the_seven_bundled_topics_become_seven_tables_with_their_keys(name):
    configuration = read_tables((ROOT / name).read_text())
    topics = sorted(path.name for path in (ROOT / "tests/data/tickit_small/bronze/topics").iterdir())
    tables = [configuration.table_for_topic(topic) for topic in topics]
    expected = "crm.user=userid ecomm.date=dateid ecomm.listing=listid ecomm.sale=salesid ems.category=catid"
    expected += " ems.event=eventid ems.venue=venueid"
    assert sorted(f"{table.table}={','.join(table.record_key)}" for table in tables) == expected.split()


def test_the_schema_for_editors_is_a_json_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_finds_mistakes_of_form():
    errors = jsonschema.Draft202012Validator(SCHEMA).iter_errors(yaml.safe_load(BROKEN))
    places = {".".join(map(str, error.absolute_path)) for error in errors}
    assert {"defaults", "tables.0.freshness", "tables.4.generation", "tables.6"} <= places


@pytest.mark.parametrize("max_age", ["0", "30s", "8d"])
def test_a_run_lives_long_enough_to_claim_and_not_for_ever(max_age):
    text = f"lanes: {{main: {{max_age: {max_age}}}}}\n" + rule()
    assert [where for _, where in mistakes(text)] == ["lanes.main.max_age"]


@pytest.mark.parametrize("table", ["_sluice.manifests", "shop._orders", "_{1}.orders"])
def test_names_that_begin_with_an_underscore_are_reserved(table):
    with pytest.raises(ConfigurationMistakes, match="each part a lower-case letter"):
        read_tables(f"tables: [{{topic: x.*, table: '{table}', record_key: id}}]")


def test_an_unknown_hudi_option_is_warned_of_with_its_line_and_its_table():
    text = """defaults:
  hudi: {hoodie.some.default: 1}
tables:
  - {topic: a.b, table: a.b, record_key: id}
  - topic: c.d
    table: c.d
    record_key: id
    hudi:
      hoodie.parquet.max.file.size: 1000000
      hoodie.foo.bar: 1
"""
    says = "is not an option that Sluice knows, and may have no effect"
    expected = (f"line 2: defaults: hudi: hoodie.some.default {says}", f"line 10: c.d: hudi: hoodie.foo.bar {says}")
    assert read_with_warnings(text)[1] == expected


def delete_when(written, defaults=""):
    text = f"{defaults}tables:\n  - {{topic: a.b, table: a.b, record_key: id, delete_when: {written}}}"
    return read_tables(text).rules[0].delete_when


def test_a_deletion_may_be_marked_by_null_or_by_any_other_value():
    for written, null in (("not null", False), ("null", True), ('"null"', True)):
        marks = delete_when(f"{{column: gone_at, is: {written}}}")
        assert (marks.column, marks.values, marks.is_null) == ("gone_at", (), null)
        assert marks.is_deletion(None) is null and marks.is_deletion(0) is not null
        text = f"tables: [{{topic: a.b, table: a.b, record_key: id, delete_when: {{column: gone_at, is: {written}}}}}]"
        configuration = read_tables(text)
        assert Configuration.from_json(configuration.to_json()) == configuration
        assert read_tables(configuration_text(configuration)) == configuration
    jsonschema.validate(yaml.safe_load(rule(delete_when={"column": "c", "is": "null"})), SCHEMA)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{column: a, is: empty}", "'empty' is not one of null, not null"),
        ("{column: a, is: not null, values: [x]}", "has values and is: one of them"),
        ("{is: not null}", "needs column too"),
        ("{column: a}", "needs values too"),
    ],
)
def test_a_mark_of_deletions_that_says_nothing_or_two_things_is_a_mistake(written, said):
    with pytest.raises(ConfigurationMistakes) as raised:
        delete_when(written)
    assert said in str(raised.value)


def test_a_rules_own_mark_of_deletions_replaces_that_of_the_defaults():
    defaults = "defaults: {delete_when: {column: Op, values: [D]}}\n"
    assert delete_when("{column: gone_at, is: not null}", defaults).values == ()


@pytest.mark.parametrize(
    ("settings", "mistake"),
    [
        ("change: {before: b}", "needs row too"),
        ("change: {row: a..b}", "not a path of names"),
        ("change: {row: a, order: [b, c, d]}", "up to 2"),
        ("change: {row: a}, position: b", "no effect beside change"),
        ("change: {row: a}, shape: plain", "no effect beside change"),
        ("change: {row: a}, format: maxwell", "no effect beside change"),
        ("delete_when: {column: a.b, values: [D]}", "only a rule with change"),
    ],
)
def test_paths_of_a_change_are_checked_with_what_else_a_rule_says(settings: str, mistake: str) -> None:
    with pytest.raises(ConfigurationMistakes, match=mistake):
        read_tables(f"tables:\n  - {{topic: x.y, table: d.t, record_key: id, {settings}}}\n")
