"""Calls the Glue Data Catalog in as few calls as possible, and names the races and refusals that can occur."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from botocore.exceptions import ClientError

from sluice.catalog.partitions import CREATE_BATCH, DELETE_BATCH, GET_BATCH, UPDATE_BATCH, Values, batches
from sluice.catalog.tables import TableInput
from sluice_aws.errors import CatalogDenied, CatalogRaced, CatalogRefused
from sluice_aws.failures import code_of

AT_ONCE = 4  # parallel calls; the quotas of a whole account are 10 to 20 calls a second
_NOT_FOUND, _EXISTS = "EntityNotFoundException", "AlreadyExistsException"
_DENIED = ("AccessDeniedException", "AccessDenied")
_RACES = (_NOT_FOUND, _EXISTS, "ConcurrentModificationException", "VersionMismatchException")


class GlueCatalog:
    """The catalog of one account. The client retries throttled calls; other errors are botocore's own."""

    def __init__(self, glue: Any) -> None:
        self._glue = glue

    def tables(self, database: str, names: Sequence[str], *, sure: bool = True) -> dict[str, Mapping[str, Any]] | None:
        """The named tables and views that exist, by name, in one call if all do; None if the database doesn't exist.

        Glue documents the filter only as a "regular expression". So results are checked by name, and each missing name
        is asked for by itself. If nothing was found and `sure` is not set, only the first name is: if it doesn't exist
        either, the others are assumed not to, and creating them shows the opposite.
        """
        tables_by_name: dict[str, Mapping[str, Any]] = {}
        try:
            for page in self._glue.get_paginator("get_tables").paginate(
                DatabaseName=database, Expression="|".join(names)
            ):
                tables_by_name.update({table["Name"]: table for table in page["TableList"] if table["Name"] in names})
        except ClientError as error:
            if code_of(error) == _NOT_FOUND:
                return None
            raise _explained(database, error) from error
        for name in [name for name in names if name not in tables_by_name]:
            alone = self._table(database, name)
            if alone is not None:
                tables_by_name[name] = alone
            elif not (tables_by_name or sure):
                break
        return tables_by_name

    def create_database(self, database: str) -> None:
        """Create a database. An existing one is no error."""
        try:
            self._glue.create_database(
                DatabaseInput={"Name": database, "Description": "Tables that Sluice merges changes into"}
            )
        except ClientError as error:
            if code_of(error) != _EXISTS:
                raise _explained(database, error) from error

    def create_table(self, database: str, table: TableInput) -> None:
        """Create a table or view, and its database if missing. Raises CatalogRaced if somebody else just created it."""

        def create() -> None:
            self._glue.create_table(DatabaseName=database, TableInput=table)

        try:
            self._asked(table["Name"], create)
        except CatalogRaced as error:
            if error.facts["cause"] != _NOT_FOUND:
                raise
            self.create_database(database)
            self._asked(table["Name"], create)

    def update_table(self, database: str, table: TableInput, *, version: str | None = None) -> None:
        """Update a table or view. Raises CatalogRaced if somebody else just changed or dropped it.

        With `version`, Glue's number of the definition that was read, that is so whatever they changed. The old version
        isn't archived: the last commit changes with every sync, and versions count against a quota.
        """
        of_version = {} if version is None else {"VersionId": version}
        self._asked(
            table["Name"],
            lambda: self._glue.update_table(DatabaseName=database, TableInput=table, SkipArchive=True, **of_version),
        )

    def partitions(self, database: str, table: str, *, columns: bool = False) -> list[Mapping[str, Any]]:
        """All partitions of a table, a thousand per call, with or without their columns."""
        pages = self._glue.get_paginator("get_partitions").paginate(
            DatabaseName=database,
            TableName=table,
            ExcludeColumnSchema=not columns,
            PaginationConfig={"PageSize": GET_BATCH},
        )
        listed: list[Mapping[str, Any]] = self._asked(
            table, lambda: [partition for page in pages for partition in page["Partitions"]]
        )
        return listed

    def partitions_of(self, database: str, table: str, wanted: Sequence[Values]) -> list[Mapping[str, Any]]:
        """The partitions with these values that exist, a thousand per call."""

        def get(batch: Sequence[Values]) -> list[Mapping[str, Any]]:
            partitions: list[Mapping[str, Any]] = []
            unread = [{"Values": list(values)} for values in batch]
            while unread:
                answer = self._glue.batch_get_partition(DatabaseName=database, TableName=table, PartitionsToGet=unread)
                partitions += answer.get("Partitions", [])
                left = answer.get("UnprocessedKeys", [])
                unread = left if len(left) < len(unread) else []  # an emulator lists missing partitions here
            return partitions

        parts = self._asked(table, lambda: self._at_once(get, batches(list(wanted), GET_BATCH)))
        return [partition for part in parts for partition in part]

    def add_partitions(self, database: str, table: str, partitions: Sequence[Mapping[str, Any]]) -> None:
        """Add partitions. An existing one counts as added. Raises CatalogRefused and CatalogRaced."""
        self._in_batches(
            table,
            partitions,
            CREATE_BATCH,
            _EXISTS,
            lambda batch: self._glue.batch_create_partition(
                DatabaseName=database, TableName=table, PartitionInputList=list(batch)
            ),
        )

    def update_partitions(self, database: str, table: str, partitions: Sequence[Mapping[str, Any]]) -> None:
        """Update partitions. A missing one is left to the next sync. Raises CatalogRefused and CatalogRaced."""

        def update(batch: Sequence[Mapping[str, Any]]) -> Any:
            entries = [
                {"PartitionValueList": partition["Values"], "PartitionInput": dict(partition)} for partition in batch
            ]
            return self._glue.batch_update_partition(DatabaseName=database, TableName=table, Entries=entries)

        self._in_batches(table, partitions, UPDATE_BATCH, _NOT_FOUND, update)

    def drop_partitions(self, database: str, table: str, values: Sequence[Values]) -> None:
        """Drop partitions from the catalog, never data. A missing one counts as dropped.

        Raises CatalogRefused and CatalogRaced.
        """

        def drop(batch: Sequence[Values]) -> Any:
            return self._glue.batch_delete_partition(
                DatabaseName=database, TableName=table, PartitionsToDelete=[{"Values": list(one)} for one in batch]
            )

        self._in_batches(table, values, DELETE_BATCH, _NOT_FOUND, drop)

    def _table(self, database: str, name: str) -> Mapping[str, Any] | None:
        try:
            table: Mapping[str, Any] = self._glue.get_table(DatabaseName=database, Name=name)["Table"]
            return table
        except ClientError as error:
            if code_of(error) == _NOT_FOUND:
                return None
            raise _explained(name, error) from error

    def _in_batches(
        self,
        table: str,
        items: Sequence[Any],
        size: int,
        harmless: str,
        call: Callable[[Sequence[Any]], Mapping[str, Any]],
    ) -> None:
        for answer in self._at_once(lambda batch: self._asked(table, lambda: call(batch)), batches(list(items), size)):
            for failed in (answer or {}).get("Errors", []):
                detail = failed.get("ErrorDetail", {})
                if detail.get("ErrorCode") != harmless:
                    values = failed.get("PartitionValues") or failed.get("PartitionValueList")
                    reason = detail.get("ErrorMessage") or detail.get("ErrorCode")
                    raise CatalogRefused(
                        f"Glue refused partition {values} of {table}: {reason}",
                        name=table,
                        cause=detail.get("ErrorCode"),
                        values=values,
                    )

    def _at_once(self, call: Callable[[Any], Any], parts: Iterable[Any]) -> tuple[Any, ...]:
        listed = list(parts)
        if len(listed) < 2:
            return tuple(call(part) for part in listed)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return tuple(threads.map(call, listed))

    def _asked(self, name: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except ClientError as error:
            raise _explained(name, error) from error


def _explained(name: str, error: ClientError) -> Exception:
    """The error by its meaning, or the error itself if that is unknown."""
    if code_of(error) in _RACES:
        return CatalogRaced(
            f"Somebody else changed {name} in the catalog: {code_of(error)}", name=name, cause=code_of(error)
        )
    if code_of(error) in _DENIED:
        return CatalogDenied(
            f"{name} can't be written to the catalog: {error.response['Error'].get('Message') or code_of(error)}",
            name=name,
            cause=code_of(error),
        )
    return error
