"""A burst of notices is admitted invocation by invocation: none fails or nears its time limit, and nothing piles up."""

import resource
import time

import pytest

from sluice.config.document import Configuration
from sluice.config.rules.table_rule import TableRule
from sluice.ledger.keys import PENDING
from sluice.objects import ObjectId
from sluice_aws.admission.admit import open_admission
from sluice_aws.clock import epoch_ms
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.objects import Objects
from sluice_bench.data.debezium_objects import SOURCES, object_bytes, object_key, record
from sluice_bench.data.tickit_rows import Sizes, row
from sluice_bench.pipeline.admit import BRONZE, LEDGER, PER_INVOCATION, SILVER, Calls, FakeDynamoDB, FakeS3, Notice

pytestmark = pytest.mark.long

TABLE = "listing"
SECONDS = 45  # of admit's 60, what it gives to the objects
GROWTH_KIB = 64 * 1024


@pytest.mark.parametrize("notices", [2_000, pytest.param(100_000, marks=pytest.mark.whole)])
def test_a_burst_is_admitted_in_time_and_in_constant_memory(notices):
    body = object_bytes(TABLE, [record(TABLE, row(TABLE, 1, seed=1, sizes=Sizes.scaled(0.01)), op="u", change=1)])
    calls = Calls()
    ledger = Ledger(FakeDynamoDB(calls), LEDGER)
    admission = open_admission(Objects(FakeS3(body, calls)), ledger=ledger, silver_bucket=SILVER, now=epoch_ms)
    source = SOURCES[TABLE]
    configuration = Configuration((TableRule(f"bench.{TABLE}", (source.key,), topic=source.topic),))

    def invocation(first):
        begun = time.monotonic()
        given = [
            Notice(ObjectId(BRONZE, object_key(TABLE, number), "v1"), len(body), "e", None, None, "Put", "s3")
            for number in range(first, first + PER_INVOCATION)
        ]
        admitted = admission.admit_all(given, configuration, seconds=SECONDS)
        assert not admitted.failed and {written.written.state for written in admitted.done.values()} == {PENDING}
        assert time.monotonic() - begun < SECONDS / 2
        return len(admitted.done)

    admitted = invocation(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    admitted += sum(map(invocation, range(PER_INVOCATION, notices, PER_INVOCATION)))
    assert admitted == notices
    assert sum(calls.counts.values()) < 3.01 * notices
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < GROWTH_KIB
