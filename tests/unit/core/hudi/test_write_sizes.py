"""The sizes of the pieces of a write."""

from sluice.hudi.write_sizes import shuffle_tasks


def test_a_shuffle_has_a_task_per_64_mib_and_bounds() -> None:
    assert [shuffle_tasks(size, 2) for size in (0, 1, 64 * 1024**2 + 1, 10**12)] == [1, 1, 2, 8]
