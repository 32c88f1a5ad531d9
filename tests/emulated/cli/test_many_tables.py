"""A stack with 200 tables: the commands ask AWS no question once per table that can be asked once for all."""

from collections import Counter

import pytest
from emulation.aws import observing
from support.builders import avro_object
from support.silver_tables import table_files

from sluice.config.rules.table_rule import TableRule
from sluice_cli.main import run

pytestmark = pytest.mark.long

TABLES = {f"shop.public.t{number:03d}": f"many.t{number:03d}" for number in range(200)}
NEW = [f"shop.public.new{number}" for number in range(40)]
KEY = "topics/{0}/partition=0/{0}+0+0000000001.avro"
SCHEMA = {"type": "record", "name": "V", "fields": [{"name": "id", "type": "long"}, {"name": "__lsn", "type": "long"}]}


@pytest.fixture
def many(stack, tmp_path, invoked):
    """200 tables with data, 40 of which have objects waiting, and 40 topics that wait for a rule."""
    configuration = stack.configure(*(TableRule(table, ("id",), topic=topic) for topic, table in TABLES.items()))
    for topic, table in TABLES.items():
        stack.ledger.tables.pin(table, configuration.table_for_topic(topic).pinned)
    body = avro_object(SCHEMA, [{"id": 1, "__lsn": 1}])
    for (topic, table), new in zip(TABLES.items(), NEW, strict=False):
        stack.admit(stack.write(KEY.format(topic), body), table=table, topic=topic)
        stack.park(stack.write(KEY.format(new), body), new, reason="no rule takes it")
    stack.ledger.lanes.wake("main")
    written = {**TABLES, **{topic: topic.replace("shop.public", "many") for topic in NEW}}
    listed = (f"  - {{topic: {topic}, table: {table}, record_key: id}}\n" for topic, table in written.items())
    (tmp_path / "tables.yaml").write_text("tables:\n" + "".join(listed))
    return stack


@pytest.fixture
def asked():
    """Runs a command, and gives the number of its calls of AWS by operation."""

    def runs(*words, ends=0):
        counts = Counter()
        with observing(lambda model, _: counts.update([model.name])):
            assert run([*words]) == ends
        return counts

    return runs


@pytest.mark.long
def test_looking_at_200_tables_and_40_new_topics_takes_few_calls(many, asked, capsys):
    assert asked("status").total() < 100
    assert asked("top", "--once").total() < 100
    assert capsys.readouterr().out.count("many.t") >= 2 * len(TABLES)
    assert asked("config", "discover", "--file", "new.yaml", ends=1).total() < 4 * len(NEW)
    assert sum(line.startswith("open: ") for line in capsys.readouterr().err.splitlines()) == len(NEW)
    assert asked("config", "plan", "tables.yaml", ends=3).total() < 20 * len(NEW)
    assert asked("config", "push", "tables.yaml").total() < 60 * len(NEW)
    assert f"{len(NEW)} parked objects now pending" in capsys.readouterr().out


def test_a_sync_reads_the_configuration_once_and_each_commit_once(many, asked, capsys):
    timeline = {key: data for key, data in table_files().items() if key.startswith("crm/user/.hoodie/")}
    for table in TABLES.values():
        for key, data in timeline.items():
            many.s3.put_object(Bucket="s-silver", Key=key.replace("crm/user", table.replace(".", "/")), Body=data)
    document = asked("ops", "catalog", "sync", "--dry-run")
    assert f"{len(TABLES)} tables would change" in capsys.readouterr().err
    assert document["GetObject"] <= len(TABLES) + 1 and document["GetTables"] <= len(TABLES) and not document["GetItem"]
