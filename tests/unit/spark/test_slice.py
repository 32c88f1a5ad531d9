"""How large a plan a slice of a table service gets."""

from sluice.config.table import TableConfig
from sluice.services.requests import ServiceReport
from sluice_spark.services.slice import FIRST_BYTES_PER_S_AND_CORE, SLOWEST_BYTES_PER_S, SliceRates

CONFIG, MIB = TableConfig("db.t", "db", "t", topic="t", record_key=("id",)), 1024**2


def report(mib: int, ms: int) -> ServiceReport:
    return ServiceReport(bytes_before=mib * MIB, ms=ms)


def test_a_long_slice_shrinks_the_next_plan_and_short_slices_grow_it_slowly() -> None:
    rates = SliceRates(cores=2)
    first = rates.budget_bytes(CONFIG, "compaction", 20)
    assert first == 20 * 2 * FIRST_BYTES_PER_S_AND_CORE
    rates.saw(CONFIG, "compaction", report(160, 80_000), 20)
    assert rates.budget_bytes(CONFIG, "compaction", 20) == 20 * 2 * MIB, "as fast as it was seen to go"
    rates.saw(CONFIG, "compaction", report(1, 3_000), 20)
    assert rates.budget_bytes(CONFIG, "compaction", 20) == 20 * 2 * MIB, "few bytes say how long starting takes"
    for _ in range(2):
        rates.saw(CONFIG, "compaction", report(400, 4_000), 20)
    assert rates.budget_bytes(CONFIG, "compaction", 20) == 20 * 8 * MIB, "at most twice as much each time"
    assert rates.budget_bytes(CONFIG, "clustering", 20) == first


def test_a_plan_never_becomes_so_small_that_a_slice_is_all_overhead() -> None:
    rates = SliceRates(cores=1)
    rates.saw(CONFIG, "purge", report(1, 600_000), 20)
    rates.saw(CONFIG, "purge", ServiceReport(ms=10), 20)
    assert rates.budget_bytes(CONFIG, "purge", 20) == 20 * SLOWEST_BYTES_PER_S
