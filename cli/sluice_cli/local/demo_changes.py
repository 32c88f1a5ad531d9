"""Change objects for the demonstration, in the form that the connector writes."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sluice.admission.routing import classify

POSITION_STEP = 1_000  # between the binlog positions of two changes


class ChangeWriter:
    """Writes objects of one change each, later than the bundled changes and than each other.

    The records have the schema, columns and metadata of real ones.
    """

    def __init__(self, folder: Path, topic: str, key: str) -> None:
        """`folder` holds the bundled objects under their keys; `key` is the topic's record key, one column."""
        import fastavro

        self._topic = topic
        self._rows: dict[Any, Mapping[str, Any]] = {}
        self._schema: Any = None
        self._place = ""
        self._position = self._offset = 0
        for path in sorted(folder.rglob(f"{topic}+*.avro")):
            with path.open("rb") as opened:
                reader = fastavro.reader(opened)
                self._schema, self._place = reader.writer_schema, path.parent.relative_to(folder).as_posix()
                offset = classify(path.relative_to(folder).as_posix(), None).offset or 0
                records: Iterator[Any] = reader
                for number, record in enumerate(records):
                    self._rows[record[key]] = record
                    self._offset = max(self._offset, offset + number + 1)
                    self._position = max(self._position, record["__pos"])

    def living_row(self) -> Mapping[str, Any]:
        """The newest bundled change of a row that was never changed since its snapshot or creation."""
        return next(record for record in self._rows.values() if record["__op"] in ("r", "c"))

    def change(self, record: Mapping[str, Any], *, op: str, **columns: Any) -> tuple[str, bytes]:
        """Key and bytes of an object with a row's next change: update ("u") that sets `columns`, or delete ("d")."""
        self._position += POSITION_STEP
        key = f"{self._place}/{self._topic}+0+{self._offset:010d}.avro"
        self._offset += 1
        values = {
            **record,
            **columns,
            "__op": op,
            "__deleted": "true" if op == "d" else "false",
            "__pos": self._position,
            "__row": 0,
            "__source_ts_ms": int(time.time() * 1000),
        }
        import fastavro

        into = io.BytesIO()
        fastavro.writer(into, self._schema, [values])
        return key, into.getvalue()
