"""What a decoded object says of its place in Kafka and in its source's log, gathered chunk by chunk."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Set

import pyarrow as pa
import pyarrow.compute as pc

from sluice import hidden_columns as hidden
from sluice.avro_schema import ENVELOPE, WriterSchema
from sluice.log_restart import SeenObject
from sluice.manifest import ManifestObject
from sluice.position import MYSQL, OFFSET_ONLY, binlog_base
from sluice_spark.records import Record

_SERVER_IDS = ("server_id", "__server_id", "__source_server_id")
MOST_NAMES = 16  # of binlogs and of servers that one object tells


class ObjectView:
    """One object's. `offset` is the Kafka offset of its first record, None where its name tells none."""

    def __init__(self, item: ManifestObject, offset: Optional[int]) -> None:
        self._item = item
        self._offset = offset
        self._kind = OFFSET_ONLY
        self._highest: Optional[str] = None
        self._newest: Optional[int] = None
        self._logs: Set[str] = set()
        self._servers: Set[str] = set()

    def take(self, records: Sequence[Record], writer: WriterSchema, batch: Optional[pa.RecordBatch]) -> None:
        """One chunk of it, and the batch of those records that can be merged."""
        if batch is None or self._offset is None:
            return
        self._kind = writer.meta.position.kind
        highest = pc.max(batch.column(batch.schema.get_field_index(hidden.POSITION))).as_py()
        newest = (
            pc.max(batch.column(batch.schema.get_field_index(hidden.SOURCE_TS_MS))).as_py()
            if _of_source(writer)
            else None
        )
        self._highest = max(filter(None, (self._highest, highest)), default=None)
        self._newest = max((each for each in (self._newest, newest) if each is not None), default=None)
        if self._kind == MYSQL:
            self._take_server([record for record in records if isinstance(record, dict)], writer)

    def seen(self, records: int) -> SeenObject:
        """The whole, of so many records."""
        item, offset = self._item, self._offset
        partition = item.kafka_partition if offset is not None else None
        first = offset or 0
        return SeenObject(
            item.id.hash,
            item.key,
            partition,
            first,
            first + max(records - 1, 0),
            self._kind,
            self._highest,
            self._newest,
            tuple(sorted(self._logs)[:MOST_NAMES]),
            tuple(sorted(self._servers)[:MOST_NAMES]),
        )

    def _take_server(self, records: List[Dict[str, Any]], writer: WriterSchema) -> None:
        sources: Sequence[Any] = [record.get("source") for record in records] if writer.shape == ENVELOPE else records
        file = writer.meta.position.names[0]
        found = [source for source in sources if isinstance(source, dict)]
        names = {name for name in (source.get(file) for source in found) if isinstance(name, str)}
        self._logs.update(binlog_base(name)[:200] for name in names if "." in name)
        for id_name in _SERVER_IDS:
            # 0 is what a snapshot's rows have: they were read from no log.
            numbers = {number for number in (source.get(id_name) for source in found) if isinstance(number, (int, str))}
            self._servers.update(str(number)[:40] for number in numbers if number)


def _of_source(writer: WriterSchema) -> bool:
    """Whether its time is the source's: under a bare prefix it is the connector's own clock, which is later for what comes again."""
    name = writer.meta.source_ts_ms
    return name is not None and (writer.shape == ENVELOPE or name.endswith("source_ts_ms"))
