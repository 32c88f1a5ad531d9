"""Where everything lies in the ledger: the key of every kind of item, and the states of an object."""

from __future__ import annotations

from sluice.objects import ObjectId

PENDING, CLAIMED, COMMITTED, QUARANTINED = "pending", "claimed", "committed", "quarantined"
PARKED, SUPERSEDED, IGNORED = "parked", "superseded", "ignored"
OBJECT_STATES = (PENDING, CLAIMED, COMMITTED, QUARANTINED, PARKED, SUPERSEDED, IGNORED)
#: The states that the index lists; pending objects are found under their lane, claimed ones through their batch.
LISTED_STATES = (QUARANTINED, PARKED, SUPERSEDED, IGNORED)
RETURNED = "returned"  # a batch, or a part of one, whose objects are pending again

INDEX = "by_state"
#: One partition takes 1,000 writes a second: neither a lane's backlog nor a flood of side files may hang on one.
SHARDS = 8
LANES_LISTED_AS, TABLES_LISTED_AS, MESSAGES = "lane", "table", "message"
UNANNOUNCED = "unannounced"  # committed batches that nobody was told of yet
ROWS, DECISIONS = (
    "rows",
    "decision",
)  # committed objects of which rows are quarantined; what was decided about what was set aside
DISCARDED = (
    "discarded"  # the rule by which an object is ignored that was discarded after it had been quarantined or parked
)

Key = dict[str, str]


def shard_of(object_hash: str) -> int:
    """Which of the SHARDS parts an object is listed under."""
    return int(object_hash[:8], 16) % SHARDS


def object_partition(bucket: str, key: str) -> str:
    """The partition that holds every version of one key."""
    return f"object#{bucket}/{key}"


def object_key(identity: ObjectId) -> Key:
    """An object's own item."""
    return {"pk": object_partition(identity.bucket, identity.key), "sk": identity.version}


def pending_partition(lane: str, shard: int) -> str:
    """The partition that lists one shard of a lane's pending objects."""
    return f"pending#{lane}#{shard}"


def pending_key(lane: str, table: str, admitted_at: int, identity: ObjectId) -> Key:
    """A pending object's listing: by table, oldest first. `admitted_at` is epoch ms."""
    named = identity.hash
    return {"pk": pending_partition(lane, shard_of(named)), "sk": f"{of_table(table)}{admitted_at:013d}#{named}"}


def of_table(table: str) -> str:
    """How the sort keys of a table's pending objects begin."""
    return f"{table}#"


def after_table(table: str) -> str:
    """A sort key after every pending object of this table and before any other's: "$" follows "#" and precedes what names hold."""
    return f"{table}$"


def lane_partition(lane: str) -> str:
    """The partition of a lane's item and of the pointers to its unsettled manifests."""
    return f"lane#{lane}"


def lane_key(lane: str) -> Key:
    """The lane's own item."""
    return {"pk": lane_partition(lane), "sk": "lane"}


MANIFEST_PREFIX = "manifest#"


def manifest_pointer_key(lane: str, batch: str) -> Key:
    """The lane's note that a batch is not settled yet."""
    return {"pk": lane_partition(lane), "sk": f"{MANIFEST_PREFIX}{batch}"}


def batch_partition(batch: str) -> str:
    """The partition of a batch's item and its parts."""
    return f"batch#{batch}"


def batch_key(batch: str) -> Key:
    """The batch's own item; its reaching `committed` is what gets announced."""
    return {"pk": batch_partition(batch), "sk": "batch"}


PART_PREFIX = "table#"


def part_key(batch: str, table: str) -> Key:
    """One table's part of a batch."""
    return {"pk": batch_partition(batch), "sk": f"{PART_PREFIX}{table}"}


def table_key(table: str) -> Key:
    """A table's item."""
    return {"pk": f"table#{table}", "sk": "table"}


def services_partition(lane: str) -> str:
    """The partition of a lane's requests for table services."""
    return f"service#{lane}"


def service_key(lane: str, table: str, service: str) -> Key:
    """The open or last request for a service on a table."""
    return {"pk": services_partition(lane), "sk": f"{table}#{service}"}


def gathering_key() -> Key:
    """Until when commits are gathered for the next look at what services are due."""
    return {"pk": "gathering#services", "sk": "gathering"}


def run_key(run_id: str) -> Key:
    """A run's history."""
    return {"pk": f"run#{run_id}", "sk": "run"}


def message_key(message_id: str, n: int) -> Key:
    """The n-th ignored part of a queue message."""
    return {"pk": f"message#{message_id}", "sk": f"{n:06d}"}


def decisions_partition(identity: ObjectId) -> str:
    """The partition of all that was decided about one object that had been set aside."""
    return f"decision#{identity.hash}"


def decision_key(identity: ObjectId, now: int, verb: str) -> Key:
    """One decision: by time (epoch ms)."""
    return {"pk": decisions_partition(identity), "sk": f"{now:013d}#{verb}"}


def standstill_key() -> Key:
    """Which lanes were paused so that Spark rests, until they go on."""
    return {"pk": "standstill", "sk": "standstill"}


def counter_key(name: str) -> Key:
    """A counter."""
    return {"pk": f"counter#{name}", "sk": "counter"}


def checkpoint_key(name: str) -> Key:
    """Where a pass over the bucket goes on."""
    return {"pk": f"checkpoint#{name}", "sk": "checkpoint"}


def listed_as(state: str, object_hash: str) -> str:
    """The index partition of a listed object or message."""
    return f"{state}#{shard_of(object_hash)}"


def listed_at(now: int) -> str:
    """Epoch ms as the index sorts it."""
    return f"{now:013d}"


def listed_partitions(state: str) -> tuple[str, ...]:
    """Every index partition that a state is spread over."""
    return tuple(f"{state}#{shard}" for shard in range(SHARDS))
