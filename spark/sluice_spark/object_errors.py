"""What could not be merged of a batch and why, left in S3 beside it before it commits: whole objects, and rows of others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from sluice.outcome import ObjectError, RowErrorCount
from sluice.row_errors import RowError, counted, to_lines
from sluice.silver_keys import (
    PARKED_SUFFIX,
    ROW_COUNT_SUFFIX,
    error_key,
    error_prefix,
    parked_key,
    row_count_key,
    rows_key,
)
from sluice_aws.objects import Document, Objects

READS_AT_ONCE = 16  # of one table's part; two tables at a time share the driver's 32 connections


@dataclass(frozen=True)
class SetAside:
    """What one table's part has set aside: whole objects with their reasons, how many rows of others, and objects to be parked."""

    objects: Tuple[ObjectError, ...] = ()
    rows: Tuple[RowErrorCount, ...] = ()
    parked: Tuple[ObjectError, ...] = ()


def leave_error(objects: Objects, silver_bucket: str, *, batch: str, table: str, error: ObjectError) -> None:
    """Put one object's reason where a take-over finds it. The same error gives the same bytes."""
    objects.put(
        silver_bucket,
        error_key(batch, table, error.object),
        error.to_json().encode("utf-8"),
        content_type="application/json",
    )


def leave_parked(objects: Objects, silver_bucket: str, *, batch: str, table: str, error: ObjectError) -> None:
    """Put why one object is to be parked where a take-over finds it."""
    objects.put(
        silver_bucket,
        parked_key(batch, table, error.object),
        error.to_json().encode("utf-8"),
        content_type="application/json",
    )


def leave_rows(
    objects: Objects, silver_bucket: str, *, batch: str, table: str, object_hash: str, rows: Sequence[RowError]
) -> None:
    """Put one object's rows that can't be merged, then their number: who finds the number finds the rows."""
    objects.put(
        silver_bucket,
        rows_key(batch, table, object_hash),
        to_lines(rows).encode("utf-8"),
        content_type="application/jsonl",
    )
    count = counted(object_hash, rows).to_json().encode("utf-8")
    objects.put(silver_bucket, row_count_key(batch, table, object_hash), count, content_type="application/json")


def read_set_aside(objects: Objects, silver_bucket: str, *, batch: str, table: str) -> SetAside:
    """All that was left for one table's part, by this attempt or an earlier one: they don't differ between attempts."""
    errors: List[ObjectError] = []
    rows: List[RowErrorCount] = []
    parked: List[ObjectError] = []
    keys = list(objects.keys(silver_bucket, error_prefix(batch, table)))
    for key, document in zip(keys, _documents(objects, silver_bucket, keys)):
        if document is None:
            continue
        text = document.data.decode("utf-8")
        if key.endswith(ROW_COUNT_SUFFIX):
            rows.append(RowErrorCount.from_json(text))
        elif key.endswith(PARKED_SUFFIX):
            parked.append(ObjectError.from_json(text))
        else:
            errors.append(ObjectError.from_json(text))
    elsewhere = {error.object for error in (*errors, *parked)}  # an object that goes nowhere has no rows of its own
    return SetAside(tuple(errors), tuple(found for found in rows if found.object not in elsewhere), tuple(parked))


def _documents(objects: Objects, silver_bucket: str, keys: Sequence[str]) -> List[Optional[Document]]:
    """In the order of the keys, several at a time: a batch may have set every one of its objects aside."""
    if len(keys) < 2:
        return [objects.get(silver_bucket, key) for key in keys]
    with ThreadPoolExecutor(min(READS_AT_ONCE, len(keys)), thread_name_prefix="set-aside") as pool:
        return list(pool.map(lambda key: objects.get(silver_bucket, key), keys))
