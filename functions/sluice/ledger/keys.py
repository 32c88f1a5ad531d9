"""The keys of the ledger's items, the partitions of its index, and the states of an object."""

from __future__ import annotations

from functools import partial

from sluice.objects import ObjectId

PENDING, CLAIMED, COMMITTED, QUARANTINED = "pending", "claimed", "committed", "quarantined"
PARKED, SUPERSEDED, IGNORED = "parked", "superseded", "ignored"
#: The states that the index lists. Pending objects are listed under their lane, claimed ones through their batch.
LISTED_STATES = (QUARANTINED, PARKED, SUPERSEDED, IGNORED)
RETURNED = "returned"  # the state of a batch, or of its part, whose objects are pending again

INDEX = "by_state"
#: A partition takes 1,000 writes a second, so a lane's backlog and a flood of ignored files are spread over several.
SHARDS = 8
UNCOUNTED = "uncounted_commits"  # of a table's totals: a later run found them, and their changes are in no count
LANES_LISTED_AS, TABLES_LISTED_AS, RUNS_LISTED_AS, MESSAGES = "lane", "table", "run", "message"
UNANNOUNCED = "unannounced"  # committed batches that are not announced yet
ROWS = "rows"  # committed objects with quarantined rows
DECISIONS = "decision"  # decisions about objects and rows that were set aside
DISCARDED = "discarded"  # the rule of an ignored object that was discarded from quarantine or parking
DROPPED = "dropped: "  # what the rule of an object of a dropped table begins with; the table follows

Key = dict[str, str]


def shard_of(object_hash: str) -> int:
    """The shard that lists an object, from 0 to SHARDS - 1."""
    return int(object_hash[:8], 16) % SHARDS


def _only_item(kind: str, name: str) -> Key:
    """The item that has a partition for itself, but for the pointers and parts in those of lanes and batches."""
    return {"pk": f"{kind}#{name}", "sk": kind}


BATCH = "batch"
lane_key = partial(_only_item, "lane")
batch_key = partial(_only_item, BATCH)  # its change to `committed` is announced
table_key = partial(_only_item, "table")
run_key = partial(_only_item, "run")
event_key = partial(_only_item, "event")  # says that an event was sent
counter_key = partial(_only_item, "counter")
checkpoint_key = partial(_only_item, "checkpoint")  # where a pass over the bucket resumes
# Until when commits are gathered before table services are planned.
gathering_key = partial(_only_item, "gathering", "services")


def object_partition(bucket: str, key: str) -> str:
    """The partition of every version of one key."""
    return f"object#{bucket}/{key}"


def object_key(identity: ObjectId) -> Key:
    beside = f">{identity.also_for}" if identity.also_for else ""  # no version has this character
    return {"pk": object_partition(identity.bucket, identity.key), "sk": identity.version + beside}


def pending_partition(lane: str, shard: int) -> str:
    """The partition of one shard of a lane's pending objects."""
    return f"pending#{lane}#{shard}"


def pending_key(lane: str, table: str, admitted_at: int, identity: ObjectId) -> Key:
    """A pending object's item, sorted by table and age. `admitted_at` is epoch ms."""
    hash_ = identity.hash
    return {"pk": pending_partition(lane, shard_of(hash_)), "sk": f"{of_table(table)}{admitted_at:013d}#{hash_}"}


def of_table(table: str) -> str:
    """The prefix of the sort keys of a table's pending objects."""
    return f"{table}#"


def after_table(table: str) -> str:
    """A sort key between the pending objects of this table and of the next: "$" sorts after "#", before any letter."""
    return f"{table}$"


def lane_partition(lane: str) -> str:
    """The partition of a lane's item and of the pointers to its unsettled manifests."""
    return f"lane#{lane}"


MANIFEST_PREFIX = "manifest#"


def manifest_pointer_key(lane: str, batch: str) -> Key:
    """The pointer from a lane to a batch that is not settled yet."""
    return {"pk": lane_partition(lane), "sk": f"{MANIFEST_PREFIX}{batch}"}


def batch_partition(batch: str) -> str:
    """The partition of a batch's item and its parts."""
    return f"batch#{batch}"


PART_PREFIX = "table#"


def part_key(batch: str, table: str) -> Key:
    return {"pk": batch_partition(batch), "sk": f"{PART_PREFIX}{table}"}


def services_partition(lane: str) -> str:
    """The partition of a lane's requests for table services."""
    return f"service#{lane}"


def service_key(lane: str, table: str, service: str) -> Key:
    """The open or last request for a service of a table."""
    return {"pk": services_partition(lane), "sk": f"{table}#{service}"}


def message_key(message_id: str, n: int) -> Key:
    """The n-th ignored part of a queue message."""
    return {"pk": f"message#{message_id}", "sk": f"{n:06d}"}


def decisions_partition(identity: ObjectId) -> str:
    """The partition of the decisions about one object that was set aside."""
    return f"decision#{identity.hash}"


def decision_key(identity: ObjectId, now: int, verb: str) -> Key:
    """One decision, sorted by time. `now` is epoch ms."""
    return {"pk": decisions_partition(identity), "sk": f"{now:013d}#{verb}"}


def standstill_key() -> Key:
    """The item that names the lanes which a standstill paused."""
    return {"pk": "standstill", "sk": "standstill"}


def listed_as(state: str, object_hash: str) -> str:
    """The index partition of a listed object or message."""
    return f"{state}#{shard_of(object_hash)}"


def listed_at(now: int) -> str:
    """Epoch ms in the form that the index sorts by."""
    return f"{now:013d}"


def listed_partitions(state: str) -> tuple[str, ...]:
    """The index partitions of a state, one per shard."""
    return tuple(f"{state}#{shard}" for shard in range(SHARDS))
