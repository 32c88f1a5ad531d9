"""The reasons why objects could not be merged, left in S3 beside the batch before it commits."""
from __future__ import annotations

from typing import List

from sluice.manifest import ObjectError, error_key, error_prefix
from sluice_aws.objects import Objects


def leave_error(objects: Objects, silver_bucket: str, *, batch: str, table: str, error: ObjectError) -> None:
    """Put one reason where a take-over finds it. The same error gives the same bytes."""
    objects.put(silver_bucket, error_key(batch, table, error.object), error.to_json().encode("utf-8"), content_type="application/json")


def read_errors(objects: Objects, silver_bucket: str, *, batch: str, table: str) -> List[ObjectError]:
    """Every reason left for one table's part, by this attempt or an earlier one: they don't differ between attempts."""
    found = []
    for key in objects.keys(silver_bucket, error_prefix(batch, table)):
        document = objects.get(silver_bucket, key)
        if document is not None:
            found.append(ObjectError.from_json(document.data.decode("utf-8")))
    return found
