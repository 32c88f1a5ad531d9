"""`sluice config discover` on an emulated stack, with objects that real Debezium wrote."""

import shlex
from pathlib import Path

import pytest
from emulation.stack import describe

from sluice.admission.routing import classify
from sluice.ledger import keys as items
from sluice_cli.config.source import read_tables
from sluice_cli.main import run

BRONZE = Path(__file__).resolve().parents[2] / "data" / "tickit_small" / "bronze"
TOPICS = ("tickit.crm.user", "tickit.ems.category", "tickit.ems.venue")


@pytest.fixture
def parked(stack):
    for path in sorted(BRONZE.rglob("*.avro")):
        key = path.relative_to(BRONZE).as_posix()
        route = classify(key, 1)
        if route.topic in TOPICS:
            stack.admit(
                stack.write(key, path.read_bytes()),
                items.PARKED,
                table=None,
                lane=None,
                topic=route.topic,
                offset=route.offset,
                reason="no rule",
            )
    return stack


def test_discover_proposes_rules_for_all_waiting_topics_and_writes_complete_ones(parked, capsys):
    parked.admit(
        parked.write("topics/lone/lone+0+0.avro", b"no Avro"),
        items.PARKED,
        table=None,
        lane=None,
        topic="lone",
        reason="no rule",
    )
    assert run(["config", "discover", "--write", "--json"]) == 1
    found = {each["topic"]: each for each in describe(capsys)["proposals"]}
    assert {topic: (each["record_key"]["value"], each["shape"], each["source"]) for topic, each in found.items()} == {
        "lone": ([], None, None),
        "tickit.crm.user": (["userid"], "flattened", "postgres"),
        "tickit.ems.category": (["catid"], "flattened", "postgres"),
        "tickit.ems.venue": (["venueid"], "flattened", "postgres"),
    }
    assert found["lone"]["open"] == ["table", "record_key"]
    assert "not_avro" in found["lone"]["record_key"]["evidence"][0]
    assert [rule.table for rule in read_tables(Path("tables.yaml").read_text()).rules] == [
        "crm.user",
        "ems.category",
        "ems.venue",
    ]
    assert run(["config", "check", "tables.yaml"]) == 0
    capsys.readouterr()
    assert run(["wait"]) == 0
    assert "`sluice config discover` proposes rules" in capsys.readouterr().err


def test_suggested_commands_name_no_impossible_key_and_quote_file_names(parked, capsys):
    topic = "it's $(id)"
    parked.admit(
        parked.write(f"topics/{topic}/{topic}+0+0.avro", b"no Avro"),
        items.PARKED,
        table=None,
        lane=None,
        topic=topic,
        reason="no rule",
    )
    assert run(["config", "discover", "--write", "--file", "my $(rules).yaml"]) == 0
    out, err = capsys.readouterr()
    assert "$(id)" not in out + err and "1 parked object whose key names no topic" in err
    assert shlex.split(out[out.rindex("`sluice") :].strip().strip("`")) == [
        "sluice",
        "config",
        "push",
        "my $(rules).yaml",
    ]


def test_a_topic_with_a_rule_is_not_proposed_again_and_options_fill_open_choices(parked, capsys):
    Path("tables.yaml").write_text("# mine\ntables:\n- {topic: 'tickit.*.*', table: '{1}.{2}', record_key: id}\n")
    assert run(["config", "discover", "--write"]) == 0
    out, err = capsys.readouterr()
    assert out == "Nothing to add to tables.yaml\n" and "3 topics with a rule in tables.yaml already" in err
    Path("tables.yaml").unlink()
    assert (
        run(
            ["config", "discover", "--write", "--key", "tickit.crm.user=email,phone", "--table", "tickit.ems.venue=a.b"]
        )
        == 0
    )
    assert [(rule.table, rule.record_key) for rule in read_tables(Path("tables.yaml").read_text()).rules][::2] == [
        ("crm.user", ("email", "phone")),
        ("a.b", ("venueid",)),
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--key", "nobody=id"],
        ["--key", "tickit.crm.user"],
        ["--key", "tickit.crm.user=a b"],
        ["--database", "A;"],
        ["--table", "tickit.crm.user=x"],
    ],
)
def test_a_choice_that_can_be_none_is_a_wrong_command_line(parked, arguments):
    assert run(["config", "discover", "--write", *arguments]) == 2
    assert not Path("tables.yaml").exists()
