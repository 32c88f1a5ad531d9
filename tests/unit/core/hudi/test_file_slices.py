"""Which files hold a table's rows as of an instant, from names and timeline alone."""

from sluice.hudi.file_slices import Committed, Replaced, data_file, slices_as_of
from sluice.hudi.timeline import Timeline

GROUP, OTHER = "3560b200-1e71-43eb-9ecc-0d7e7daad1f0-0", "c67b49e5-7a86-4d58-9c20-9cad602605e4-1"


def at(number):
    return f"202605011015{number:02d}000"


def base(number, group=GROUP, partition="p=a/", token="0-1-2"):
    return data_file(f"{partition}{group}_{token}_{at(number)}.parquet", 100)


def log(number, version, group=GROUP, partition="p=a/"):
    return data_file(f"{partition}.{group}_{at(number)}.log.{version}_0-1-2", 10)


def committed(*names):
    return Committed.of(Timeline.of(names))


def describe(slices):
    return [
        (item.file_id, item.base and item.base.instant, [(log.instant, log.version) for log in item.logs])
        for item in slices
    ]


def test_only_base_and_log_files_hold_rows():
    assert (base(1).partition, base(1).file_id, base(1).instant, base(1).is_log) == ("p=a", GROUP, at(1), False)
    assert (log(1, 12).version, log(1, 12).instant, log(1, 12).is_log) == (12, at(1), True)
    others = [
        ".hoodie/x_0-1-2_20260501101501000.parquet",
        "p=a/.hoodie_partition_metadata",
        f"p=a/{GROUP}_0-1-2_{at(1)}.parquet.crc",
        "p=a/notes.txt",
        f".hoodie/.{GROUP}_{at(1)}.log.1_0-1-2",
    ]
    assert [data_file(path, 1) for path in others] == [None] * len(others)


def test_a_moment_sees_the_newest_base_file_until_then():
    files = [base(1), base(3), base(5), base(2, OTHER)]
    seen = committed(*(f"{at(number)}.commit" for number in (1, 2, 3, 5)))
    assert describe(slices_as_of(files, at(4), committed=seen)) == [(GROUP, at(3), []), (OTHER, at(2), [])]
    assert describe(slices_as_of(files, at(1), committed=seen)) == [(GROUP, at(1), [])]
    assert describe(slices_as_of(files, at(0), committed=seen)) == []


def test_what_is_not_completed_is_not_seen_and_what_was_archived_is():
    files = [base(1), base(3), base(5)]
    pending = committed(f"{at(3)}.commit", f"{at(5)}.commit.requested", f"{at(5)}.inflight")
    assert describe(slices_as_of(files, at(9), committed=pending)) == [(GROUP, at(3), [])]
    assert describe(slices_as_of(files, at(2), committed=pending)) == [(GROUP, at(1), [])]
    failed_first = committed(f"{at(1)}.commit.requested", f"{at(1)}.inflight", f"{at(3)}.commit")
    assert describe(slices_as_of(files, at(2), committed=failed_first)) == []


def test_logs_belong_to_the_base_file_that_counts_in_the_order_they_were_written():
    files = [base(1), log(1, 10), log(1, 2), log(1, 1), base(4), log(4, 1)]
    seen = committed(f"{at(1)}.deltacommit", f"{at(2)}.deltacommit", f"{at(4)}.commit", f"{at(5)}.deltacommit")
    assert describe(slices_as_of(files, at(3), committed=seen)) == [
        (GROUP, at(1), [(at(1), 1), (at(1), 2), (at(1), 10)])
    ]
    assert describe(slices_as_of(files, at(5), committed=seen)) == [(GROUP, at(4), [(at(4), 1)])]


def test_logs_named_after_a_planned_compaction_belong_to_the_base_file_before_it():
    files = [base(1), log(1, 1), log(4, 1)]
    seen = committed(
        f"{at(1)}.deltacommit", f"{at(2)}.deltacommit", f"{at(4)}.compaction.requested", f"{at(5)}.deltacommit"
    )
    assert describe(slices_as_of(files, at(5), committed=seen)) == [(GROUP, at(1), [(at(1), 1), (at(4), 1)])]
    running = [*files, base(4)]  # written, and not committed
    assert describe(slices_as_of(running, at(5), committed=seen)) == [(GROUP, at(1), [(at(1), 1), (at(4), 1)])]


def test_a_replaced_file_group_is_seen_until_it_was_replaced():
    files = [base(1), base(3, OTHER)]
    seen = committed(f"{at(1)}.commit", f"{at(3)}.replacecommit")
    replaced = [Replaced(at(3), "p=a", GROUP)]
    assert describe(slices_as_of(files, at(2), committed=seen, replaced=replaced)) == [(GROUP, at(1), [])]
    assert describe(slices_as_of(files, at(3), committed=seen, replaced=replaced)) == [(OTHER, at(3), [])]


def test_one_file_id_in_two_partitions_is_two_file_groups():
    files = [base(1), base(2, partition="")]
    seen = committed(f"{at(1)}.commit", f"{at(2)}.commit")
    assert [item.partition for item in slices_as_of(files, at(2), committed=seen)] == ["", "p=a"]
