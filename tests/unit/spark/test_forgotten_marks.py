"""The mark of a forgotten row, which keeps its older changes out."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from sluice.changes.forgotten import marks
from sluice.config.table import TableConfig
from sluice.hudi.own_metadata import FORGOTTEN_PROPERTY
from sluice_spark.hudi.facts import TableFacts
from sluice_spark.services import forgetting

CONFIG = TableConfig("db.t", "db", "t", topic="t", record_key=("id",), history="t_history")


class Table:
    """A table's properties, without files."""

    def __init__(self, config=CONFIG):
        self.config, self.properties, self.jvm, self.spark = config, {}, self, None

    def meta_client(self):
        return None

    def exists(self):
        return True

    def date_anew(self, facts, **clock):
        return facts

    def update_properties(self, meta_client, properties):
        self.properties.update(properties)


@pytest.fixture
def forgotten(monkeypatch):
    """Forget a key whose rows in the history and in the table have these positions; the report and the marks."""
    services = SimpleNamespace(
        tables=SimpleNamespace(take=lambda config: None),
        clock=SimpleNamespace(now_ms=lambda: 0, wait=lambda seconds: None),
        table_path=lambda database, name: name,
        log=SimpleNamespace(event=lambda *given, **facts: None),
    )
    monkeypatch.setattr(forgetting, "F", SimpleNamespace(lit=lambda value: value))
    monkeypatch.setattr(forgetting, "key_hash_column", lambda *given: None)
    monkeypatch.setattr(forgetting, "HudiTable", lambda spark, path, config: Table(config))
    monkeypatch.setattr(forgetting, "recovered_facts", lambda *given: SimpleNamespace(empty=False))

    def forget(of_history, of_table):
        def remove(hudi, *given, mark, **more):
            position = of_table if hudi.config == CONFIG else of_history
            if position is not None:
                mark(position)
            return replace(forgetting._Removed(), rows=int(position is not None), position=position)

        monkeypatch.setattr(forgetting, "_remove", remove)
        table = Table()
        facts = TableFacts("1", None, 1)
        more = {"services": services, "check_held": lambda: None, "arguments": {"key": "k"}}
        done = forgetting.forget(SimpleNamespace(hudi=table, facts=facts, **more))
        return done.report, marks(table.properties.get(FORGOTTEN_PROPERTY))

    return forget


@pytest.mark.parametrize(
    ("of_history", "of_table", "marked"),
    [("0001.5", "0001.5", "0001.5"), ("0001.7", None, "0001.7"), ("0001.7", "0001.5", "0001.7"), (None, None, None)],
    ids=["both", "purged from the table", "deletes are ignored", "nowhere"],
)
def test_a_mark_covers_the_changes_of_the_history_too(forgotten, of_history, of_table, marked):
    report, positions = forgotten(of_history, of_table)
    assert positions == ({} if marked is None else {"k": marked})
    assert report.more["marked"] == int(marked is not None)
