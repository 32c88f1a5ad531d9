"""The benchmark of bytes written: its changes, and how it counts."""

import io
from collections import Counter

import fastavro

from sluice_bench.data.sale_changes import SaleChanges
from sluice_bench.data.tickit import Dataset
from sluice_bench.data.tickit_rows import Sizes
from sluice_bench.measure.written_bytes import WrittenBytes


def test_batches_have_their_shares_of_rows_that_live_and_none_twice():
    source, living = SaleChanges(Dataset(Sizes(sale=30)), 10), set(range(1, 31))
    for number in range(1, 4):
        records = list(fastavro.reader(io.BytesIO(source.batch())))
        assert Counter(one["__op"] for one in records) == {"u": 7, "c": 2, "d": 1}
        keys = {op: {one["salesid"] for one in records if one["__op"] == op} for op in "ucd"}
        assert len(set.union(*keys.values())) == 10 and keys["u"] | keys["d"] <= living and not keys["c"] & living
        living = (living | keys["c"]) - keys["d"]
        assert source.living == len(living) == 30 + number
    positions = [one["__pos"] for one in records]
    assert positions == sorted(positions)


def test_new_and_changed_files_count_by_kind_and_a_groups_next_file_as_rewritten(tmp_path):
    def write(path, size):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(b"x" * size)

    written = WrittenBytes(tmp_path)
    for path, size in (
        ("a-0_0-1-1_2026.parquet", 10),
        ("p=1/.b-0_2026.log.1_0-1-1", 4),
        (".hoodie/1.deltacommit", 2),
        (".hoodie/metadata/files/x.hfile", 7),
        (".hoodie/.1.deltacommit.crc", 99),
    ):
        write(path, size)
    kinds = {"base_files": 10, "log_files": 4, "timeline": 2, "metadata_table": 7}
    assert written.look() == {**kinds, "files": 4, "deltacommit": 1, "rewritten": 0}
    assert not written.look()
    write("a-0_0-2-2_2027.parquet", 11)
    write("c-0_0-2-2_2027.parquet", 5)
    write(".hoodie/metadata/files/x.hfile", 8)
    assert written.look() == {"base_files": 16, "rewritten": 11, "metadata_table": 8, "files": 3}
    assert written.stored() == 10 + 4 + 2 + 8 + 16
