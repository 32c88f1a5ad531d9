"""The ledger's DynamoDB table: typed calls, strongly consistent reads, and retries of transient errors.

A failed condition is a Refusal and no error.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, TypeVar

from botocore.exceptions import ClientError

from sluice.ledger.keys import INDEX, Key
from sluice_aws.errors import LedgerBusy
from sluice_aws.ledger import expressions as codec
from sluice_aws.ledger.expressions import Condition, Expression

Values = dict[str, Any]
Argument = TypeVar("Argument")
Answer = TypeVar("Answer")

ATTEMPTS = 9  # about eight seconds in all, well within a function's timeout
FIRST_WAIT_S, LONGEST_WAIT_S = 0.03, 2.0
GET_LIMIT = 100  # keys in one BatchGetItem
REFUSED = "ConditionalCheckFailed"
#: Transient reasons: another transaction on the item, or too many requests.
TRANSIENT_REASONS = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
TRANSIENT_ERRORS = frozenset(
    (
        "TransactionConflictException TransactionInProgressException ThrottlingException ThrottlingError "
        "ProvisionedThroughputExceededException RequestLimitExceeded InternalServerError"
    ).split()
)


@dataclass(frozen=True)
class Refusal:
    """A failed condition, with the item that it failed on; None if there is no such item."""

    item: Values | None


class TransactionRefused(Exception):
    """A transaction with failed conditions, by the position of the action. Nothing of it was written."""

    def __init__(self, refusals: Mapping[int, Refusal]) -> None:
        super().__init__(f"refused at {sorted(refusals)}")
        self.refusals = refusals


class LedgerTable:
    """Calls on one table. `client` is a low-level DynamoDB client, which threads may share."""

    def __init__(
        self, client: Any, name: str, *, threads: int = 8, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._client = client
        self._name = name
        self._sleep = sleep
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="ledger")  # starts its threads lazily

    def map(self, function: Callable[[Argument], Answer], arguments: Iterable[Argument]) -> list[Answer]:
        """Call a function in parallel, and give the answers in order. Calls must not be nested."""
        todo = list(arguments)
        return [function(argument) for argument in todo] if len(todo) < 2 else list(self._threads.map(function, todo))

    def get(self, key: Key) -> Values | None:
        """One item; None when there is none."""
        item = self._call("get_item", Key=codec.item(key), ConsistentRead=True).get("Item")
        return None if item is None else codec.values(item)

    def get_many(self, keys: Sequence[Key]) -> list[Values]:
        """The items that exist of these keys, in no order."""
        chunks = [keys[start : start + GET_LIMIT] for start in range(0, len(keys), GET_LIMIT)]
        return [values for answer in self.map(self._get_chunk, chunks) for values in answer]

    def put(self, values: Mapping[str, Any], condition: Condition | None = None) -> Refusal | None:
        """Write an item; a Refusal when the condition fails."""
        arguments = self._put(values, condition)
        return self._write("put_item", {"pk": values["pk"], "sk": values["sk"]}, arguments)[1]

    def update(
        self,
        key: Key,
        set: Mapping[str, Any],
        *,
        add: Mapping[str, int] | None = None,
        condition: Condition | None = None,
    ) -> tuple[Values, Refusal | None]:
        """Change an item and give it after the change; a Refusal when the condition fails."""
        return self._write("update_item", key, {**self._update(key, set, add, condition), "ReturnValues": "ALL_NEW"})

    def change(self, key: Key, set: Mapping[str, Any], condition: Condition) -> bool:
        """Change an item; False when the condition fails."""
        return self.update(key, set, condition=condition)[1] is None

    def query(
        self,
        pk: str,
        *,
        after: str | None = None,
        prefix: str | None = None,
        limit: int | None = None,
        fields: Sequence[str] = (),
    ) -> Iterator[list[Values]]:
        """Pages of a partition in sort order: behind `after`, or those that begin with `prefix`."""
        expression = Expression()
        text = f"{expression.name('pk')} = {expression.value(pk)}"
        if after is not None:
            text += f" AND {expression.name('sk')} > {expression.value(after)}"
        elif prefix is not None:
            text += f" AND begins_with({expression.name('sk')}, {expression.value(prefix)})"
        arguments: Values = {"KeyConditionExpression": text, "ConsistentRead": True}
        if fields:
            arguments["ProjectionExpression"] = ", ".join(expression.name(name) for name in fields)
        if limit is not None:
            arguments["Limit"] = limit
        yield from self._pages({**arguments, **expression.arguments()})

    def count(self, pk: str, first: str, last: str) -> int:
        """The number of a partition's items from one sort key to another, both included. No item is sent."""
        expression = Expression()
        text = f"{expression.name('pk')} = {expression.value(pk)}"
        text += f" AND {expression.name('sk')} BETWEEN {expression.value(first)} AND {expression.value(last)}"
        arguments = {"KeyConditionExpression": text, "ConsistentRead": True, "Select": "COUNT"}
        return sum(int(answer["Count"]) for answer in self._answers({**arguments, **expression.arguments()}))

    def query_index(
        self, listed_as: str, *, since: str | None = None, newest_first: bool = False
    ) -> Iterator[list[Key]]:
        """Pages of keys from the index, in the order of `listed_at`. The index may lag: read the items themselves."""
        expression = Expression()
        text = f"{expression.name('listed_as')} = {expression.value(listed_as)}"
        if since is not None:
            text += f" AND {expression.name('listed_at')} >= {expression.value(since)}"
        fields = ", ".join(expression.name(name) for name in ("pk", "sk"))
        arguments = {
            "IndexName": INDEX,
            "KeyConditionExpression": text,
            "ProjectionExpression": fields,
            "ScanIndexForward": not newest_first,
        }
        yield from self._pages({**arguments, **expression.arguments()})

    def transact(self, actions: Sequence[Values]) -> None:
        """Write all of the actions or none. Raises TransactionRefused when conditions fail, and LedgerBusy."""
        if len(actions) == 0:
            return
        self._call("transact_write_items", TransactItems=list(actions))

    def transacted(self, actions: Sequence[Values]) -> bool:
        """`transact`; False when conditions fail."""
        try:
            self.transact(actions)
        except TransactionRefused:
            return False
        return True

    def put_action(self, values: Mapping[str, Any], condition: Condition | None = None) -> Values:
        """A put for `transact`."""
        return {"Put": {"TableName": self._name, **self._put(values, condition)}}

    def update_action(
        self,
        key: Key,
        set: Mapping[str, Any],
        *,
        add: Mapping[str, int] | None = None,
        condition: Condition | None = None,
    ) -> Values:
        """An update for `transact`."""
        return {"Update": {"TableName": self._name, **self._update(key, set, add, condition)}}

    def delete_action(self, key: Key) -> Values:
        """A delete for `transact`; the item need not exist."""
        return {"Delete": {"TableName": self._name, "Key": codec.item(key)}}

    def check_action(self, key: Key, condition: Condition) -> Values:
        """A condition for `transact` on an item that it does not change."""
        return {"ConditionCheck": {"TableName": self._name, "Key": codec.item(key), **self._conditional(condition)}}

    def delete(self, key: Key, condition: Condition) -> Refusal | None:
        """Delete an item; a Refusal when the condition fails."""
        arguments = {"Key": codec.item(key), **self._conditional(condition)}
        return self._write("delete_item", key, arguments)[1]

    def _put(self, values: Mapping[str, Any], condition: Condition | None) -> Values:
        return {"Item": codec.item(values), **self._conditional(condition)}

    def _update(
        self, key: Key, set: Mapping[str, Any], add: Mapping[str, int] | None, condition: Condition | None
    ) -> Values:
        expression = Expression()
        arguments: Values = {"Key": codec.item(key), "UpdateExpression": expression.update(set, add=add)}
        return {**arguments, **self._conditional(condition, expression)}

    @staticmethod
    def _conditional(condition: Condition | None, expression: Expression | None = None) -> Values:
        expression = expression or Expression()
        if condition is None:
            return expression.arguments()
        text = expression.condition(condition)
        return {"ConditionExpression": text, "ReturnValuesOnConditionCheckFailure": "ALL_OLD", **expression.arguments()}

    def _write(self, operation: str, key: Key, arguments: Values) -> tuple[Values, Refusal | None]:
        try:
            answer = self._call(operation, **arguments)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            return {}, Refusal(self._found(error.response, key))
        return codec.values(answer.get("Attributes") or {}), None

    def _found(self, described: Mapping[str, Any], key: Key) -> Values | None:
        return codec.values(described["Item"]) if described.get("Item") else self.get(key)

    def _pages(self, arguments: Values) -> Iterator[list[Values]]:
        for answer in self._answers(arguments):
            yield [codec.values(item) for item in answer["Items"]]

    def _answers(self, arguments: Values) -> Iterator[Values]:
        start: Values = {}
        while True:
            answer = self._call("query", **arguments, **start)
            yield answer
            if not answer.get("LastEvaluatedKey"):
                return
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def _get_chunk(self, keys: Sequence[Key]) -> list[Values]:
        wanted: Values = {self._name: {"Keys": [codec.item(key) for key in keys], "ConsistentRead": True}}
        values: list[Values] = []
        for attempt in range(ATTEMPTS):
            answer = self._call("batch_get_item", RequestItems=wanted)
            values.extend(codec.values(item) for item in answer["Responses"].get(self._name, ()))
            wanted = answer.get("UnprocessedKeys") or {}
            if not wanted:
                return values
            self._wait(attempt)
        raise LedgerBusy("The ledger left keys unread", operation="batch_get_item", cause="UnprocessedKeys")

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """One call, repeated after transient errors. Raises LedgerBusy when they persist."""
        if operation not in ("batch_get_item", "transact_write_items"):
            arguments["TableName"] = self._name
        attempt = 0
        while True:
            try:
                answer: dict[str, Any] = getattr(self._client, operation)(**arguments)
                return answer
            except ClientError as error:
                cause = _transient_cause(error)
                if cause is None:
                    self._raise_refusals(error, arguments)
                    raise
                if attempt == ATTEMPTS - 1:
                    raise LedgerBusy("The ledger stayed busy", operation=operation, cause=cause) from error
            self._wait(attempt)
            attempt += 1

    def _raise_refusals(self, error: ClientError, arguments: Values) -> None:
        refusals = {}
        for position, reason in enumerate(error.response.get("CancellationReasons") or ()):
            if reason.get("Code") == REFUSED:
                (action,) = arguments["TransactItems"][position].values()
                sent = codec.values(action.get("Key") or {name: action["Item"][name] for name in ("pk", "sk")})
                refusals[position] = Refusal(self._found(reason, {"pk": sent["pk"], "sk": sent["sk"]}))
        if refusals:
            raise TransactionRefused(refusals) from error

    def _wait(self, attempt: int) -> None:
        """Full jitter: concurrent transactions on one item must not meet again."""
        self._sleep(random.uniform(0, min(FIRST_WAIT_S * 2**attempt, LONGEST_WAIT_S)))


def _transient_cause(error: ClientError) -> str | None:
    """The transient cause of an error; None for other errors and for failed conditions, even beside transient ones."""
    code = error.response["Error"]["Code"]
    if code in TRANSIENT_ERRORS:
        return code
    reasons = [reason.get("Code") for reason in error.response.get("CancellationReasons") or ()]
    described = [reason for reason in reasons if reason not in (None, "None")]
    if described and all(reason in TRANSIENT_REASONS for reason in described):
        return described[0]
    return None
