"""Where rows of a small part are written: logs, rewritten files, new files, and what leaves a slice."""

from __future__ import annotations

import pyarrow as pa

from sluice.hudi.file_slices import DataFile, FileSlice
from sluice_spark.merge.by_arrow.keyed_rows import StoredRow
from sluice_spark.merge.by_arrow.placement import Placed, RowsPlace, places_of_rows

FIRST = "20261122205211687"


def slice_of(number: int, partition: str, size: int, *, logs: int = 0) -> FileSlice:
    """A slice with a base file of so many bytes."""
    name = f"f{number}-0"
    files = [DataFile(f"{partition}/{name}.log.{at}", partition, name, FIRST, 10, version=at) for at in range(logs)]
    return FileSlice(partition, name, DataFile(f"{partition}/{name}", partition, name, FIRST, size), tuple(files))


def places(*rows: tuple[int | None, str], slices: list[FileSlice], in_logs: bool = True) -> dict[str, RowsPlace]:
    """The places of rows, each (number of the slice that holds it, its partition now), by the slice or partition."""
    held = [None if number is None else StoredRow("1", None, f"k{at}", number) for at, (number, _) in enumerate(rows)]
    table = pa.table({"id": list(range(len(rows)))})
    placed = Placed(table, held, [partition for _, partition in rows], slices, "s3://silver/db/t")
    texts = [f"n{at}" for at in range(len(rows))]
    by_place = places_of_rows(placed, texts, rows_stored=1_000, in_logs=in_logs)
    return {place.partition if place.number is None else f"f{place.number}": place for place in by_place}


def test_updates_go_into_logs_and_new_rows_into_the_small_file_of_their_partition() -> None:
    slices = [slice_of(0, "a", 900_000), slice_of(1, "a", 5_000), slice_of(2, "b", 6_000, logs=1)]
    by_name = places((0, "a"), (None, "a"), (1, "a"), (2, "b"), (None, "b"), (None, "c"), slices=slices)
    assert {name: (place.logs, place.rows, place.keys) for name, place in by_name.items()} == {
        "f0": (True, [0], ["k0"]),
        "f1": (False, [1, 2], ["n1", "k2"]),  # also what the file holds: a log beside its rewrite would be lost
        "f2": (True, [3], ["k3"]),
        "b": (False, [4], ["n4"]),  # its only file has logs
        "c": (False, [5], ["n5"]),
    }
    assert [name for name, place in by_name.items() if place.starts] == ["c"]
    assert {name: place.updates for name, place in by_name.items()} == {"f0": 1, "f1": 1, "f2": 1, "b": 0, "c": 0}


def test_a_row_that_moves_leaves_its_slice_and_enters_the_other_partition() -> None:
    slices = [slice_of(0, "a", 900_000, logs=1), slice_of(1, "b", 900_000, logs=1)]
    by_name = places((0, "b"), (1, "b"), slices=slices)
    assert (by_name["f0"].logs, by_name["f0"].rows, by_name["f0"].removed) == (True, [], ["k0"])
    entered = by_name["b"]
    assert (entered.logs, entered.rows, entered.keys, entered.updates) == (False, [0], ["k0"], 0)
    assert (by_name["f1"].logs, by_name["f1"].rows, by_name["f1"].removed) == (True, [1], ())


def test_partitions_that_take_new_rows_share_what_is_rewritten() -> None:
    slices = [slice_of(number, f"p{number}", 300_000) for number in range(4)]
    one = places((None, "p0"), slices=slices)
    assert list(one) == ["f0"], "1 MiB for one partition"
    four = places(*((None, f"p{number}") for number in range(4)), slices=slices)
    assert sorted(four) == ["p0", "p1", "p2", "p3"], "256 KiB for each of four"


def test_copy_on_write_rewrites_each_file_that_holds_a_row() -> None:
    slices = [slice_of(0, "a", 900_000), slice_of(1, "a", 5_000)]
    by_name = places((0, "a"), (None, "a"), slices=slices, in_logs=False)
    assert {name: (place.logs, place.rows) for name, place in by_name.items()} == {"f0": (False, [0, 1])}
