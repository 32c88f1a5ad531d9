"""How large a plan a slice of a table service gets."""

from sluice.config.table import TableConfig
from sluice.services.requests import ServiceReport
from sluice_spark.services.slice import FIRST_BYTES_PER_S_AND_CORE, SLOWEST_BYTES_PER_S, Pace

CONFIG, MIB = TableConfig("db.t", "db", "t", topic="t", record_key=("id",)), 1024**2


def report(mib: int, ms: int) -> ServiceReport:
    return ServiceReport(bytes_before=mib * MIB, ms=ms)


def test_a_long_slice_shrinks_the_next_plan_and_short_slices_grow_it_slowly() -> None:
    pace = Pace(cores=2)
    first = pace.budget_bytes(CONFIG, "compaction", 20)
    assert first == 20 * 2 * FIRST_BYTES_PER_S_AND_CORE
    pace.saw(CONFIG, "compaction", report(160, 80_000), 20)
    assert pace.budget_bytes(CONFIG, "compaction", 20) == 20 * 2 * MIB, "as fast as it was seen to go"
    pace.saw(CONFIG, "compaction", report(1, 3_000), 20)
    assert pace.budget_bytes(CONFIG, "compaction", 20) == 20 * 2 * MIB, "few bytes say how long starting takes"
    for _ in range(2):
        pace.saw(CONFIG, "compaction", report(400, 4_000), 20)
    assert pace.budget_bytes(CONFIG, "compaction", 20) == 20 * 8 * MIB, "at most twice as much each time"
    assert pace.budget_bytes(CONFIG, "clustering", 20) == first


def test_a_plan_never_becomes_so_small_that_a_slice_is_all_overhead() -> None:
    pace = Pace(cores=1)
    pace.saw(CONFIG, "purge", report(1, 600_000), 20)
    pace.saw(CONFIG, "purge", ServiceReport(ms=10), 20)
    assert pace.budget_bytes(CONFIG, "purge", 20) == 20 * SLOWEST_BYTES_PER_S
