"""What a batch set aside, as it is read back before the batch is settled."""

from __future__ import annotations

import threading

import pytest

from sluice.batch.outcome import ObjectError, RowErrorCount
from sluice.silver_keys import error_key, row_count_key
from sluice_aws.s3.objects import Document
from sluice_spark.merge.set_aside import READS_AT_ONCE, Aside

HASHES = [f"{n:032x}" for n in range(40)]


class Silver:
    """A bucket that answers nobody before as many ask as are meant to ask at once."""

    def __init__(self, documents: dict[str, bytes], at_once: int) -> None:
        self.documents = documents
        self.most = 0
        self._asking = 0
        self._lock = threading.Lock()
        self._meet = threading.Barrier(at_once)

    def keys(self, bucket: str, prefix: str) -> list[str]:
        return [key for key in sorted(self.documents) if key.startswith(prefix)]

    def get(self, bucket: str, key: str) -> Document | None:
        with self._lock:
            self._asking += 1
            self.most = max(self.most, self._asking)
        if self._meet.parties > 1:
            self._meet.wait(10)
        with self._lock:
            self._asking -= 1
        data = self.documents[key]
        return Document(data, "etag") if data else None


def left(hashes: list[str]) -> dict[str, bytes]:
    return {
        error_key("b", "shop.orders", hash): ObjectError(hash, "corrupt", "bad block").to_json().encode()
        for hash in hashes
    }


def test_everything_that_was_set_aside_is_read_several_at_a_time_and_in_order() -> None:
    hashes = HASHES[: 2 * READS_AT_ONCE]
    silver = Silver(left(hashes), READS_AT_ONCE)
    aside = Aside(silver, "silver", "b", "shop.orders").read()  # type: ignore[arg-type]
    assert [error.object for error in aside.objects] == hashes
    assert silver.most == READS_AT_ONCE


@pytest.mark.parametrize("hashes", [[], HASHES[:1]])
def test_little_is_read_without_threads(hashes: list[str]) -> None:
    before = threading.active_count()
    aside = Aside(Silver(left(hashes), 1), "silver", "b", "shop.orders").read()  # type: ignore[arg-type]
    assert [error.object for error in aside.objects] == hashes and threading.active_count() == before


def test_objects_and_row_counts_are_distinguished_and_deleted_entries_left_out() -> None:
    documents = left(HASHES[:3])
    documents[error_key("b", "shop.orders", HASHES[1])] = b""
    counts = RowErrorCount(HASHES[5], 2, {"null_key": 2}).to_json().encode()
    documents[row_count_key("b", "shop.orders", HASHES[5])] = counts
    aside = Aside(Silver(documents, 1), "silver", "b", "shop.orders").read()  # type: ignore[arg-type]
    assert [error.object for error in aside.objects] == [HASHES[0], HASHES[2]]
    assert [(count.object, count.rows) for count in aside.rows] == [(HASHES[5], 2)]
