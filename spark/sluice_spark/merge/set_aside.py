"""Keeps what can't be merged of a batch, with the reason, in S3 beside the batch, before it commits.

Set aside are whole objects (refused or parked), records that can't be read, and changes at or below the purge floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sluice.batch.outcome import ObjectError, RowErrorCount
from sluice.batch.row_errors import RowError, counted, to_lines
from sluice.silver_keys import (
    PARKED_SUFFIX,
    ROW_COUNT_SUFFIX,
    error_key,
    error_prefix,
    parked_key,
    row_count_key,
    rows_key,
)
from sluice_aws.s3.objects import Document, Objects

READS_AT_ONCE = 16  # of one table's part; two tables at a time share the driver's 32 connections


@dataclass(frozen=True)
class SetAside:
    """What one table's part has set aside: refused objects, the number of rows of others, and parked objects."""

    objects: tuple[ObjectError, ...] = ()
    rows: tuple[RowErrorCount, ...] = ()
    parked: tuple[ObjectError, ...] = ()


@dataclass(frozen=True)
class Aside:
    """Where one merge of a table's part sets aside what it can't merge, and where a take-over finds it.

    `attempt` names the merge, and its commit has the name too.
    """

    objects: Objects
    silver_bucket: str
    batch: str
    table: str
    attempt: str | None = None

    def refuse(self, error: ObjectError) -> None:
        """Put the reason why one object is refused. The same error gives the same bytes."""
        self._put(error_key(self.batch, self.table, error.object, self.attempt), error.to_json())

    def park(self, error: ObjectError) -> None:
        """Put the reason why one object is parked."""
        self._put(parked_key(self.batch, self.table, error.object, self.attempt), error.to_json())

    def keep_rows(self, object_hash: str, rows: Sequence[RowError]) -> None:
        """Put one object's rows that can't be merged, then their number: a number is never without its rows."""
        self._put(rows_key(self.batch, self.table, object_hash), to_lines(rows), content_type="application/jsonl")
        count = counted(object_hash, rows).to_json()
        self._put(row_count_key(self.batch, self.table, object_hash, self.attempt), count)

    def _put(self, key: str, text: str, *, content_type: str = "application/json") -> None:
        self.objects.put(self.silver_bucket, key, text.encode("utf-8"), content_type=content_type)

    def read(self) -> SetAside:
        """All that was set aside."""
        errors: list[ObjectError] = []
        rows: list[RowErrorCount] = []
        parked: list[ObjectError] = []
        prefix = error_prefix(self.batch, self.table, self.attempt)
        keys = [key for key in self.objects.keys(self.silver_bucket, prefix) if "/" not in key[len(prefix) :]]
        for key, document in zip(keys, _documents(self.objects, self.silver_bucket, keys)):
            if document is None:
                continue
            text = document.data.decode("utf-8")
            if key.endswith(ROW_COUNT_SUFFIX):
                rows.append(RowErrorCount.from_json(text))
            elif key.endswith(PARKED_SUFFIX):
                parked.append(ObjectError.from_json(text))
            else:
                errors.append(ObjectError.from_json(text))
        whole = {error.object for error in (*errors, *parked)}
        return SetAside(tuple(errors), tuple(row for row in rows if row.object not in whole), tuple(parked))


def _documents(objects: Objects, silver_bucket: str, keys: Sequence[str]) -> list[Document | None]:
    """The documents in the order of their keys. Several at a time: a batch may have set all of its objects aside."""
    if len(keys) < 2:
        return [objects.get(silver_bucket, key) for key in keys]
    with ThreadPoolExecutor(min(READS_AT_ONCE, len(keys)), thread_name_prefix="set-aside") as pool:
        return list(pool.map(lambda key: objects.get(silver_bucket, key), keys))
