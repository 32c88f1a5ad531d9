"""Moves all objects below a prefix to another prefix: copies all, then deletes. Resumes after an interruption."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable

from sluice_aws.errors import MoveIncomplete

AT_ONCE = 16
DELETED_AT_ONCE = 1_000  # limit of DeleteObjects


@dataclass(frozen=True)
class Moved:
    """Number of objects at the new place, and their bytes."""

    objects: int
    bytes: int


class Mover:
    """Moves prefixes within one bucket. `s3` is a boto3 client, which threads may share."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def sizes(self, prefix: str) -> dict[str, int]:
        """Sizes in bytes, by the part of the key after the prefix."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        return {entry["Key"][len(prefix) :]: entry["Size"] for page in pages for entry in page.get("Contents", ())}

    def move(self, source: str, to: str, *, first: Sequence[str] = (), tick: Callable[[int, int], None]) -> Moved:
        """Move `source` to `to` (prefixes that end with /). `tick` gets the number of copied objects, and of all.

        `first` are names whose source is deleted first, such as the file by which readers recognize a table. Nobody
        else may write there meanwhile: an object of the same name and size at the new place counts as copied. Raises
        MoveIncomplete.
        """
        left, there = self.sizes(source), self.sizes(to)
        copies = [name for name, size in sorted(left.items()) if there.get(name) != size]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="copy") as pool:
            for done, _ in enumerate(pool.map(lambda name: self._copy(source + name, to + name), copies), 1):
                tick(done, len(copies))
        there = self.sizes(to)
        missing = [name for name, size in left.items() if there.get(name) != size]
        if missing:
            raise MoveIncomplete(
                f"{len(missing)} objects of {source} are not at {to}", source=source, to=to, left=missing[:20]
            )
        marks = [name for name in first if name in left]
        self._delete([source + name for name in marks])
        self._delete([source + name for name in left if name not in marks])
        return Moved(len(there), sum(there.values()))

    def remove(self, source: str, *, first: Sequence[str] = ()) -> None:
        """Delete all below `source`, a prefix that ends with /; `first` as in `move`. Raises MoveIncomplete."""
        names = self.sizes(source)
        self._delete([source + name for name in first if name in names])
        self._delete([source + name for name in names if name not in first])

    def _copy(self, source: str, to: str) -> None:
        self._s3.copy({"Bucket": self._bucket, "Key": source}, self._bucket, to)  # a large object in parts

    def _delete(self, keys: list[str]) -> None:
        for start in range(0, len(keys), DELETED_AT_ONCE):
            chunk = keys[start : start + DELETED_AT_ONCE]
            answer = self._s3.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in chunk], "Quiet": True}
            )
            if answer.get("Errors"):
                error = answer["Errors"][0]
                raise MoveIncomplete(
                    f"{len(answer['Errors'])} objects could not be deleted: {error.get('Code')}",
                    source=error.get("Key"),
                    to="",
                    left=[entry.get("Key") for entry in answer["Errors"][:20]],
                )
