"""Calls the Glue Data Catalog: as few as can be, in batches, and by name of what can happen between two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

from botocore.exceptions import ClientError

from sluice.catalog.partitions import CREATE_BATCH, DELETE_BATCH, GET_BATCH, UPDATE_BATCH, Values, batches
from sluice.catalog.tables import TableInput
from sluice_aws.errors import CatalogDenied, CatalogRaced, CatalogRefused

AT_ONCE = 4  # calls: the quotas of an account are 10 to 20 a second, for everybody in it
_NOT_FOUND, _EXISTS = "EntityNotFoundException", "AlreadyExistsException"
_DENIED = ("AccessDeniedException", "AccessDenied")
_RACES = (_NOT_FOUND, _EXISTS, "ConcurrentModificationException", "VersionMismatchException")


class GlueCatalog:
    """The catalog of one account. Throttling is retried by the client; other errors are botocore's own."""

    def __init__(self, glue: Any) -> None:
        self._glue = glue

    def tables(self, database: str, names: Sequence[str], *, sure: bool = True) -> dict[str, Mapping[str, Any]] | None:
        """Those of the named tables and views that are there, in one call if all are; None where there is no such database.

        The expression is a help only, since its language isn't documented further than "regular expression": what it lets
        through is looked at by name, and a name that it kept back is asked for alone. Unless `sure`, only the first of them is where
        none was found: is that one really not there, the others are taken not to be either, and making them tells.
        """
        found: dict[str, Mapping[str, Any]] = {}
        try:
            for page in self._glue.get_paginator("get_tables").paginate(
                DatabaseName=database, Expression="|".join(names)
            ):
                found.update({table["Name"]: table for table in page["TableList"] if table["Name"] in names})
        except ClientError as error:
            if _code(error) == _NOT_FOUND:
                return None
            raise _explained(database, error) from error
        for name in [name for name in names if name not in found]:
            alone = self._table(database, name)
            if alone is not None:
                found[name] = alone
            elif not (found or sure):
                break
        return found

    def create_database(self, database: str) -> None:
        """Make a database, unless somebody else just did."""
        try:
            self._glue.create_database(
                DatabaseInput={"Name": database, "Description": "Tables that Sluice merges change files into"}
            )
        except ClientError as error:
            if _code(error) != _EXISTS:
                raise _explained(database, error) from error

    def create_table(self, database: str, table: TableInput) -> None:
        """Make a table or view, and its database where that isn't there. Raises CatalogRaced when the name is taken meanwhile."""

        def create() -> None:
            self._glue.create_table(DatabaseName=database, TableInput=table)

        try:
            self._asked(table["Name"], create)
        except CatalogRaced as error:
            if error.facts["cause"] != _NOT_FOUND:
                raise
            self.create_database(database)
            self._asked(table["Name"], create)

    def update_table(self, database: str, table: TableInput) -> None:
        """Change a table or view. Raises CatalogRaced when somebody else just did, or dropped it.

        The old version isn't archived: the commit that is told changes with every sync, and versions are a quota.
        """
        self._asked(
            table["Name"], lambda: self._glue.update_table(DatabaseName=database, TableInput=table, SkipArchive=True)
        )

    def partitions(self, database: str, table: str) -> list[Mapping[str, Any]]:
        """Every partition of a table, without its columns: a thousand to a call."""
        pages = self._glue.get_paginator("get_partitions").paginate(
            DatabaseName=database, TableName=table, ExcludeColumnSchema=True, PaginationConfig={"PageSize": GET_BATCH}
        )
        listed: list[Mapping[str, Any]] = self._asked(
            table, lambda: [partition for page in pages for partition in page["Partitions"]]
        )
        return listed

    def whole_partitions(self, database: str, table: str) -> list[Mapping[str, Any]]:
        """Every partition of a table, with all that is told of it."""
        pages = self._glue.get_paginator("get_partitions").paginate(
            DatabaseName=database, TableName=table, PaginationConfig={"PageSize": GET_BATCH}
        )
        listed: list[Mapping[str, Any]] = self._asked(
            table, lambda: [partition for page in pages for partition in page["Partitions"]]
        )
        return listed

    def partitions_of(self, database: str, table: str, wanted: Sequence[Values]) -> list[Mapping[str, Any]]:
        """Those of the named partitions that are there: a thousand to a call."""

        def get(batch: Sequence[Values]) -> list[Mapping[str, Any]]:
            found: list[Mapping[str, Any]] = []
            asked = [{"Values": list(values)} for values in batch]
            while asked:
                answer = self._glue.batch_get_partition(DatabaseName=database, TableName=table, PartitionsToGet=asked)
                found += answer.get("Partitions", [])
                left = answer.get("UnprocessedKeys", [])
                asked = left if len(left) < len(asked) else []  # an emulator names here what it doesn't have
            return found

        parts = self._asked(table, lambda: self._at_once(get, batches(list(wanted), GET_BATCH)))
        return [partition for part in parts for partition in part]

    def add_partitions(self, database: str, table: str, partitions: Sequence[Mapping[str, Any]]) -> None:
        """Add partitions; one that is there already counts as added. Raises CatalogRefused, CatalogRaced."""
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
        """Change partitions that are there; one that is gone counts as done, the next sync finds it. Raises CatalogRefused, CatalogRaced."""

        def update(batch: Sequence[Mapping[str, Any]]) -> Any:
            entries = [
                {"PartitionValueList": partition["Values"], "PartitionInput": dict(partition)} for partition in batch
            ]
            return self._glue.batch_update_partition(DatabaseName=database, TableName=table, Entries=entries)

        self._in_batches(table, partitions, UPDATE_BATCH, _NOT_FOUND, update)

    def drop_partitions(self, database: str, table: str, values: Sequence[Values]) -> None:
        """Drop partitions of the catalog, never data; one that is gone already counts as dropped. Raises CatalogRefused, CatalogRaced."""

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
            if _code(error) == _NOT_FOUND:
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
                    raise CatalogRefused(
                        f"Glue refused partition {values} of {table}: {detail.get('ErrorMessage') or detail.get('ErrorCode')}",
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
    """What a refusal means where that is known, else the refusal itself."""
    if _code(error) in _RACES:
        return CatalogRaced(
            f"{name} was changed in the catalog meanwhile: {_code(error)}", name=name, cause=_code(error)
        )
    if _code(error) in _DENIED:
        return CatalogDenied(
            f"{name} can't be kept in the catalog: {error.response['Error'].get('Message') or _code(error)}",
            name=name,
            cause=_code(error),
        )
    return error


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
