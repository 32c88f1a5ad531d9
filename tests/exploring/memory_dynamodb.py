"""A DynamoDB client in memory, for the requests that the ledger makes: fast enough to run thousands of schedules.

Pages hold few items, and an eventually consistent read answers as of before the last write, so that code which reads
one page, or reads weakly, is found out. tests/emulated/aws/test_memory_dynamodb.py compares it with the emulator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from botocore.exceptions import ClientError

Item = dict[str, Any]
Place = tuple[str, str]
INDEX_KEYS = ("listed_as", "listed_at")
_TEST = re.compile(r"(#\w+) (=|>|>=) (:v\d+)|attribute_not_exists\((#\w+)\)|begins_with\((#\w+), (:v\d+)\)")
_CLAUSE = re.compile(r"(SET|REMOVE|ADD) (.*?)(?= (?:SET|REMOVE|ADD) |$)")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda value, wanted: bool(value == wanted),
    ">": lambda value, wanted: value is not None and _plain(value) > _plain(wanted),
    ">=": lambda value, wanted: value is not None and _plain(value) >= _plain(wanted),
}


class MemoryDynamoDb:
    """One table. Not safe from several threads: the explorer lets one thread act at a time."""

    def __init__(self, page: int = 2) -> None:
        """`page` is the number of items of a query's page."""
        self._page = page
        self._items: dict[Place, Item] = {}
        self._before: dict[Place, Item] = {}
        self._hashes: dict[Place, int] = {}

    def fingerprint(self) -> int:
        """A hash of all items."""
        return hash(frozenset(self._hashes.items()))

    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool = False) -> Item:
        records = (self._items if ConsistentRead else self._before).get(_place(Key))
        return {} if records is None else {"Item": dict(records)}

    def batch_get_item(self, *, RequestItems: Mapping[str, Any]) -> Item:
        ((table, wanted),) = RequestItems.items()
        source = self._items if wanted.get("ConsistentRead") else self._before
        keys = [dict(source[_place(key)]) for key in wanted["Keys"] if _place(key) in source]
        return {"Responses": {table: keys}, "UnprocessedKeys": {}}

    def put_item(self, *, TableName: str, Item: Item, **condition: Any) -> Item:
        self._write("PutItem", _place(Item), lambda _: dict(Item), condition)
        return {}

    def update_item(self, *, TableName: str, Key: Item, **given: Any) -> Item:
        written = self._write("UpdateItem", _place(Key), lambda item: _updated(item or dict(Key), given), given)
        return {"Attributes": dict(written or {})}

    def delete_item(self, *, TableName: str, Key: Item, **condition: Any) -> Item:
        self._write("DeleteItem", _place(Key), lambda _: None, condition)
        return {}

    def query(self, *, TableName: str, KeyConditionExpression: str, **given: Any) -> Item:
        by_index = "IndexName" in given
        source = self._items if given.get("ConsistentRead") or by_index else self._before
        order = INDEX_KEYS if by_index else ("pk", "sk")
        matching = [
            item for item in source.values() if order[0] in item and _holds(KeyConditionExpression, item, given)
        ]
        matching.sort(key=lambda item: (_plain(item[order[1]]), *_place(item)))
        start = given.get("ExclusiveStartKey")
        if start is not None:
            behind = [at for at, item in enumerate(matching) if _place(item) == _place(start)]
            matching = matching[behind[0] + 1 :] if behind else matching
        size = min(self._page, given.get("Limit", self._page))
        page, more = matching[:size], len(matching) > size
        names = given.get("ExpressionAttributeNames", {})
        wanted = [names[name.strip()] for name in given.get("ProjectionExpression", "").split(",") if name]
        items = [{name: item[name] for name in wanted if name in item} if wanted else dict(item) for item in page]
        last = {"LastEvaluatedKey": {name: page[-1][name] for name in ("pk", "sk")}} if more else {}
        return {"Items": items, **last}

    def transact_write_items(self, *, TransactItems: list[Mapping[str, Any]]) -> Item:
        reasons: list[Item] = []
        for action in TransactItems:
            ((_, given),) = action.items()
            records = self._items.get(_place(given.get("Key") or given["Item"]))
            if _permits(records, given):
                reasons.append({"Code": "None"})
            else:
                reasons.append({"Code": "ConditionalCheckFailed", **({"Item": dict(records)} if records else {})})
        if any(reason["Code"] != "None" for reason in reasons):
            error = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
            raise ClientError(error, "TransactWriteItems")  # type: ignore[arg-type]
        before = dict(self._items)
        for action in TransactItems:
            ((kind, given),) = action.items()
            place = _place(given.get("Key") or given["Item"])
            if kind == "Put":
                self._set(place, dict(given["Item"]))
            elif kind == "Update":
                self._set(place, _updated(self._items.get(place) or dict(given["Key"]), given))
            elif kind == "Delete":
                self._set(place, None)
        self._before = before
        return {}

    def _write(
        self, operation: str, place: Place, change: Callable[[Item | None], Item | None], given: Mapping[str, Any]
    ) -> Item | None:
        records = self._items.get(place)
        if not _permits(records, given):
            error: Item = {"Error": {"Code": "ConditionalCheckFailedException"}}
            raise ClientError({**error, **({"Item": dict(records)} if records else {})}, operation)  # type: ignore[arg-type]
        self._before = dict(self._items)
        self._set(place, change(records))
        return self._items.get(place)

    def _set(self, place: Place, item: Item | None) -> None:
        if item is None:
            self._items.pop(place, None)
            self._hashes.pop(place, None)
        else:
            self._items[place] = item
            self._hashes[place] = hash(repr(sorted(item.items())))


def _place(item: Mapping[str, Any]) -> Place:
    return item["pk"]["S"], item["sk"]["S"]


def _plain(attribute: Mapping[str, Any]) -> Any:
    ((kind, value),) = attribute.items()
    return int(value) if kind == "N" else value


def _permits(stored: Item | None, given: Mapping[str, Any]) -> bool:
    text = given.get("ConditionExpression")
    return text is None or any(_holds(group, stored or {}, given) for group in text.split(" OR "))


def _holds(text: str, item: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """True if every test of `text`, joined by AND, holds for the item. Raises ValueError for an unknown test."""
    bare = text[1:-1] if text.startswith("(") else text
    return all(_test(part, item, given) for part in bare.split(" AND "))


def _test(text: str, item: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    parsed = _TEST.fullmatch(text)
    if parsed is None:
        raise ValueError(f"unknown test {text!r}")
    compared, by, value, absent, begins, prefix = parsed.groups()
    names, values = given["ExpressionAttributeNames"], given.get("ExpressionAttributeValues", {})
    if absent:
        return names[absent] not in item
    if begins:
        return str(_plain(item[names[begins]])).startswith(_plain(values[prefix]))
    return _COMPARE[by](item.get(names[compared]), values[value])


def _updated(item: Mapping[str, Any], given: Mapping[str, Any]) -> Item:
    changed = dict(item)
    names, values = given["ExpressionAttributeNames"], given.get("ExpressionAttributeValues", {})
    for clause in _CLAUSE.finditer(given["UpdateExpression"]):
        for part in clause[2].split(", "):
            if clause[1] == "SET":
                name, _, value = part.partition(" = ")
                changed[names[name]] = values[value]
            elif clause[1] == "REMOVE":
                changed.pop(names[part], None)
            else:
                name, _, value = part.partition(" ")
                sum_of = int(changed.get(names[name], {"N": "0"})["N"]) + int(values[value]["N"])
                changed[names[name]] = {"N": str(sum_of)}
    return changed
