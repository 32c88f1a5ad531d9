"""A stack whose objects were merged as runs do it, and ways to break what its audit compares."""

from __future__ import annotations

import json

from emulation.aws import set_fields
from emulation.stack import NOW, RESTORES, restore_state, saved_state
from sluice.batch.manifest import TablePart, open_manifest
from sluice.batch.outcome import COMMITTED, ObjectError, Outcome
from sluice.config.table import TableConfig
from sluice.hudi.own_metadata import BATCH_KEY, TABLE_KEY
from sluice.ledger import keys as items
from sluice.silver_keys import manifest_key, outcome_key
from sluice_aws.s3.manifests import ManifestStore
from sluice_aws.s3.objects import Objects

TABLE = "crm.user"
SILVER = "s-silver"
CONFIG = TableConfig(TABLE, "crm", "user", topic="crm.public.user", record_key=("id",)).to_dict()


def instant(n):
    return f"202405011015{n:05d}"


class Merged:
    """A stack whose batches were merged as runs do it; silver holds their commits' metadata only."""

    def __init__(self, stack):
        self.stack = stack
        stack.hold()
        self.manifests = ManifestStore(Objects(stack.s3), SILVER)

    def commit_file(self, at, batch, table=TABLE):
        """What Hudi writes when it completes a commit."""
        extra = {"schema": "{}", **({BATCH_KEY: batch, TABLE_KEY: table} if batch else {})}
        body = json.dumps({"operationType": "UPSERT", "extraMetadata": extra}).encode()
        self.stack.s3.put_object(Bucket=SILVER, Key=self.timeline_key(at), Body=body)

    def timeline_key(self, at):
        return f"crm/user/.hoodie/{instant(at)}.commit"

    def opened(self, *ids, attempt=0):
        """The batch that claimed the objects."""
        return self.opened_together({TABLE: ids}, attempt=attempt)

    def opened_together(self, ids_by_table, *, attempt=0):
        """The batch that claimed objects of several tables."""
        parts = {
            table: TablePart(CONFIG, tuple(self.stack.listed(one, offset=1, attempt=attempt) for one in ids))
            for table, ids in ids_by_table.items()
        }
        manifest = open_manifest("main", "run-1", NOW, "c1", parts)
        self.manifests.put_manifest(manifest, lambda: True)
        self.stack.claim(manifest)
        return manifest.batch

    def settled(self, batch, *ids, at=None, bad=(), table=TABLE, close=True):
        errors = tuple(ObjectError(one.hash, "corrupt", "cut off") for one in bad)
        committed = {"no_change": True} if at is None else {"instant": instant(at)}
        counts = {"objects": len(ids)}
        outcome = Outcome(batch, table, COMMITTED, NOW, **committed, counts=counts, quarantined=errors)
        self.manifests.put_outcome(outcome)
        assert self.stack.ledger.batches.settle("main", batch, outcome, ids, "run-1", NOW)
        if close:
            self.stack.ledger.batches.close("main", batch, "run-1", NOW)

    def merge(self, *keys, at=None, bad=(), archived=False):
        """Objects, and the batch that merged them into the commit `at`; None for a batch that changed nothing."""
        ids = [self.stack.admit(self.stack.write(key)) for key in keys]
        batch = self.opened(*ids)
        if at is not None and not archived:
            self.commit_file(at, batch)
        self.settled(batch, *ids, at=at, bad=[one for one in ids if one.key in bad])
        return batch, ids

    def commit_again(self, identity):
        """A second batch that committed the object, as only two runs at once could."""
        part = TablePart(CONFIG, (self.stack.listed(identity, offset=1),))
        manifest = open_manifest("main", "run-1", NOW + 1, "c1", {TABLE: part})
        outcome = Outcome(manifest.batch, TABLE, COMMITTED, NOW, instant=instant(5), counts={"objects": 1})
        self.stack.put_documents(manifest, outcome)
        self.commit_file(5, manifest.batch)
        self.edit(identity, state="committed", batch=manifest.batch)

    def remove(self, key):
        self.stack.s3.delete_object(Bucket=SILVER, Key=key)

    def remove_version(self, key):
        for version in self.stack.s3.list_object_versions(Bucket="s-bronze", Prefix=key)["Versions"]:
            self.stack.s3.delete_object(Bucket="s-bronze", Key=key, VersionId=version["VersionId"])

    def edit(self, identity, **fields):
        """Change an object's record as no command does."""
        set_fields(self.stack.ledger, items.object_key(identity), **fields)

    def lose_listing(self, identity):
        """Take a pending object out of its lane's list."""
        record = self.stack.record(identity)
        self.lose_item(items.pending_key(record.lane, record.table, record.admitted_at, identity))

    def lose_record(self, identity):
        self.lose_item(items.object_key(identity))

    def lose_item(self, key):
        self.stack.dynamodb.delete_item(TableName="s-ledger", Key={name: {"S": value} for name, value in key.items()})


#: What `merged_stack` made first in this process: the emulators' state, and what tests name of it.
_made: list[tuple[bytes, dict]] = []


def merged_stack(stack):
    """What `merged_into` makes of a new stack."""
    if not RESTORES:
        return merged_into(stack)
    if not _made:
        made = merged_into(stack)
        _made.append((saved_state(), {name: vars(made)[name] for name in ("batch", "first", "second", "bad", "waits")}))
    state, names = _made[0]
    restore_state(state)
    merged = Merged.__new__(Merged)
    vars(merged).update(names, stack=stack, manifests=ManifestStore(Objects(stack.s3), SILVER))
    return merged


def merged_into(stack):
    """Two commits after an archived one, a batch without a change, and objects in other states."""
    merged = Merged(stack)
    merged.merge("old", at=1, archived=True)
    merged.batch, (merged.first, merged.second, merged.bad) = merged.merge("a", "b", "bad", at=2, bad=["bad"])
    merged.merge("c", at=3)
    merged.merge("again")
    merged.commit_file(4, None)  # a compaction
    merged.waits = stack.admit(stack.write("waits"))
    stack.admit(stack.write("aside"), items.PARKED, reason="no table takes its topic")
    stack.write("new")  # its notice is on its way
    return merged


BREAKAGES = {
    "two_batches": lambda merged: merged.commit_again(merged.first),
    "lost_record": lambda merged: merged.lose_record(merged.first),
    "ledger_behind": lambda merged: merged.edit(merged.first, state="pending"),
    "abandoned_claim": lambda merged: merged.edit(merged.bad, state="claimed"),
    "unlisted": lambda merged: merged.lose_listing(merged.waits),
    "no_manifest": lambda merged: merged.remove(manifest_key("main", merged.batch)),
    "no_outcome": lambda merged: merged.remove(outcome_key(merged.batch, TABLE)),
    "outcome_disagrees": lambda merged: merged.edit(merged.bad, state="committed"),
    "commit_missing": lambda merged: merged.remove(merged.timeline_key(3)),
    "foreign_commit": lambda merged: merged.commit_file(2, None),
    "extra_commit": lambda merged: merged.commit_file(5, merged.batch),
    "commit_without_outcome": lambda merged: merged.commit_file(5, "b-unknown"),
}
