"""Rolls back transactions of moto's DynamoDB in a time that doesn't grow with the table.

For a rollback moto copies the whole table with every record of its stream, once for each item of a transaction. With
800 items in the table a transaction of 25 took 3.8 s, and a burst of objects exceeded a client's timeout. Here only
the items of a transaction are copied.
"""

import copy
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table


def undo_by_item() -> None:
    """Patch moto's DynamoDB in this process. Transactions must come one at a time."""
    if not hasattr(DynamoDBBackend.transact_write_items, "__wrapped__"):
        DynamoDBBackend.transact_write_items = _undone_by_item(DynamoDBBackend.transact_write_items)


def _undone_by_item(moto_s: Callable[..., None]) -> Callable[..., None]:
    @wraps(moto_s)
    def transact_write_items(backend: DynamoDBBackend, transact_items: Sequence[Mapping[str, Any]]) -> None:
        operations = [operation for item in transact_items for operation in item.values()]
        tables = {
            name: backend.tables[name]
            for name in {operation["TableName"] for operation in operations}
            if name in backend.tables
        }
        ways_back = [
            _WayBack(table, [item.get("Item") or item["Key"] for item in operations if item["TableName"] == name])
            for name, table in tables.items()
        ]
        try:
            with _copied_by_name(tables.values()):
                moto_s(backend, transact_items)
        except BaseException:
            for way_back in ways_back:
                way_back.take()
            raise

    return transact_write_items


@contextmanager
def _copied_by_name(tables: Collection[Table]) -> Iterator[None]:
    """Make a deep copy of a table return the table itself, so that moto's own rollback changes nothing."""
    for table in tables:
        table.__deepcopy__ = lambda memo, table=table: table
    try:
        yield
    finally:
        for table in tables:
            del table.__deepcopy__


class _WayBack:
    """The previous items of a transaction, and the length of the table's stream."""

    def __init__(self, table: Table, operations: Sequence[Mapping[str, Any]]) -> None:
        self._table = table
        # Moto refuses an item without a key.
        whole = [item for item in operations if all(name in item for name in table.table_key_attrs)]
        keys = [
            (
                DynamoType(item[table.hash_key_attr]),
                DynamoType(item[table.range_key_attr]) if table.range_key_attr else None,
            )
            for item in whole
        ]
        self._had = [(*key, copy.deepcopy(table.get_item(*key))) for key in keys]
        self._records = len(table.stream_shard.items) if table.stream_shard else 0

    def take(self) -> None:
        """Restore the table."""
        for partition, sort, item in self._had:
            of = self._table.items if sort is None else self._table.items[partition]
            key = partition if sort is None else sort
            if item is None:
                of.pop(key, None)
            else:
                of[key] = item
        if self._table.stream_shard:
            del self._table.stream_shard.items[self._records :]
