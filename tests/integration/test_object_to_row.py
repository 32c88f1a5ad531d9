"""The pipeline's purpose alone: an object becomes a row, an update changes it, a deletion removes it."""

import json
import secrets
from typing import Any

import pytest
from judging.running_stack import RunningStack

from sluice_bench.data.tickit import Dataset, change_object
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure.stack import table_rule
from sluice_read.reading import read_table

pytestmark = pytest.mark.timeout(600)

TABLE = "category"


class Category:
    """A table of its own on the stack: category 2 stays as it was put first, category 1 is changed."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.database = f"way{secrets.token_hex(3)}"
        self.dataset = Dataset(Sizes(*[2] * 7), prefix=f"{self.database}.")
        self.table = f"{self.database}.{TABLE}"
        self.changes = 0
        self.keys: list[str] = []
        stack.configure([table_rule(self.dataset.prefix, self.database, TABLE)])

    def put(self, number: int, op: str, **values: Any) -> None:
        """Put an object of one change."""
        self.changes += 1
        key, body = change_object(
            self.dataset, TABLE, number, change=self.changes, op=op, ts_ms=1_795_300_000_000 + self.changes, **values
        )
        self.stack.put(key, body)
        self.keys.append(key)

    def rows(self) -> list[tuple[int, str]]:
        """What readers see once all that was put is committed."""
        self.stack.wait(240)
        return sorted((row["catid"], row["catdesc"]) for row in read_table(self.stack.target, self.table).to_pylist())


@pytest.mark.whole  # test_judge.py does more of the same; `make test-localstack` runs this one
def test_an_object_becomes_a_row_an_update_changes_it_and_a_deletion_takes_it_away(stack: RunningStack) -> None:
    category = Category(stack)
    category.put(2, "c", catdesc="stays")
    category.put(1, "c", catdesc="as it came")
    assert category.rows() == [(1, "as it came"), (2, "stays")]

    category.put(1, "u", catdesc="as it was changed")
    assert category.rows() == [(1, "as it was changed"), (2, "stays")]

    category.put(1, "d")
    assert category.rows() == [(2, "stays")]
    lines = stack.sluice("query", "--json", f"select catid, catdesc from {category.table}").splitlines()
    assert [json.loads(line) for line in lines] == [{"catid": 2, "catdesc": "stays"}]

    items = stack.ledger_objects(stack.target.bronze, prefix=f"topics/{category.database}.")
    assert {item["key"]: (item["state"], item["table"]) for item in items} == dict.fromkeys(
        category.keys, ("committed", category.table)
    )
    audit = stack.describe("audit", "--prefix", f"topics/{category.database}.")
    assert audit["contradictions"] == []
    assert stack.describe("verify", category.table)["disagreements"] == []
