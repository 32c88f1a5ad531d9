"""One object becomes committed rows on the second emulator: another S3, SQS, Lambda, CloudFormation and DynamoDB than the local stack's."""
import pytest

from judging.cases import ONE_GO, Case
from judging.fixture_sets import find_set
from judging.readers import RustReader
from judging.running_stack import RunningStack

pytestmark = [pytest.mark.localstack, pytest.mark.spark, pytest.mark.timeout(900)]
TOPIC = "tickit.ems.category"


def test_an_object_put_into_bronze_becomes_committed_rows_in_silver(stack: RunningStack, tmp_path):
    case = Case("tickit_small", "in_order", ONE_GO, "cow")
    fixtures = find_set(case.set_name, {})
    recorded = next(each for each in fixtures.delivery(case.order) if f"/{TOPIC}/" in each.key)
    stack.configure(case.rules({TOPIC: fixtures.plan.topics[TOPIC]}))

    stack.put(case.key(recorded.key), recorded.file)
    stack.wait(240.0)

    rows = tmp_path / "rows.jsonl"
    RustReader(stack.target).write_rows({case.table(TOPIC): rows})
    expected = fixtures.folder / "expected" / "00_snapshot" / "category.jsonl"
    assert len(rows.read_text().splitlines()) == len(expected.read_text().splitlines()) == 11
    (item,) = stack.ledger_objects(stack.target.bronze, prefix=case.key(recorded.key))
    assert item["state"] == "committed" and item["table"] == case.table(TOPIC)
