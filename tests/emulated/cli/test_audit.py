"""`sluice audit`: each object version is accounted for, each contradiction is found, unknown objects are admitted."""

import json

import pytest
from builders import avro_object, change, flattened
from emulation.stack import NOW, cloudformation, describe

from sluice.batch.manifest import ManifestObject, TablePart, open_manifest
from sluice.batch.outcome import COMMITTED, ObjectError, Outcome
from sluice.config.table import TableConfig
from sluice.hudi.own_metadata import BATCH_KEY, TABLE_KEY
from sluice.ledger import keys as items
from sluice.silver_keys import manifest_key, outcome_key
from sluice_aws.s3.manifests import ManifestStore
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.timelines import TimelineReader
from sluice_cli.main import run
from sluice_cli.status.past_batches import PastBatches

TABLE = "crm.user"
SILVER = "s-silver"
CONFIG = TableConfig(TABLE, "crm", "user", topic="crm.public.user", record_key=("id",)).to_dict()


def instant(n):
    return f"202405011015{n:05d}"


class Merged:
    """A stack whose batches were merged as runs do it; silver holds their commits' metadata only."""

    def __init__(self, stack):
        self.stack = stack
        stack.ledger.lanes.wake("main")
        stack.ledger.lanes.request_start("main", "run-1", NOW)
        stack.ledger.lanes.hold("main", "run-1", "job-1", 1, NOW)
        self.manifests = ManifestStore(Objects(stack.s3), SILVER)

    def commit_file(self, at, batch, table=TABLE):
        """What Hudi writes when it completes a commit."""
        extra = {"schema": "{}", **({BATCH_KEY: batch, TABLE_KEY: table} if batch else {})}
        body = json.dumps({"operationType": "UPSERT", "extraMetadata": extra}).encode()
        self.stack.s3.put_object(Bucket=SILVER, Key=self.timeline_key(at), Body=body)

    def timeline_key(self, at):
        return f"crm/user/.hoodie/{instant(at)}.commit"

    def opened(self, *ids):
        listed = tuple(
            ManifestObject(one.bucket, one.key, one.version, 1, None, "avro", "crm.public.user", 0, 1, NOW)
            for one in ids
        )
        manifest = open_manifest("main", "run-1", NOW, "c1", {TABLE: TablePart(CONFIG, listed)})
        key = self.manifests.put_manifest(manifest, lambda: True)
        assert self.stack.ledger.batches.open(manifest, key, "run-1", "job-1")
        assert len(self.stack.ledger.batches.claim(manifest)) == len(ids)
        return manifest.batch

    def settled(self, batch, *ids, at=None, bad=()):
        errors = tuple(ObjectError(one.hash, "corrupt", "cut off") for one in bad)
        outcome = Outcome(
            batch,
            TABLE,
            COMMITTED,
            NOW,
            instant=None if at is None else instant(at),
            no_change=at is None,
            counts={"objects": len(ids)},
            quarantined=errors,
        )
        self.manifests.put_outcome(outcome)
        assert self.stack.ledger.batches.settle("main", batch, outcome, ids, "run-1", NOW)
        self.stack.ledger.batches.close("main", batch, "run-1", NOW)

    def merge(self, *keys, at=None, bad=(), archived=False):
        """Objects, and the batch that merged them into the commit `at`; None for a batch that changed nothing."""
        ids = [self.stack.admit(self.stack.write(key)) for key in keys]
        batch = self.opened(*ids)
        if at is not None and not archived:
            self.commit_file(at, batch)
        self.settled(batch, *ids, at=at, bad=[one for one in ids if one.key in bad])
        return batch, ids

    def remove(self, key):
        self.stack.s3.delete_object(Bucket=SILVER, Key=key)

    def remove_version(self, key):
        for version in self.stack.s3.list_object_versions(Bucket="s-bronze", Prefix=key)["Versions"]:
            self.stack.s3.delete_object(Bucket="s-bronze", Key=key, VersionId=version["VersionId"])

    def edit(self, identity, **fields):
        """Change an object's record as no command does."""
        names = {f"#{name}": name for name in fields}
        self.stack.dynamodb.update_item(
            TableName="s-ledger",
            Key={name: {"S": value} for name, value in items.object_key(identity).items()},
            UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in fields),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues={f":{name}": {"S": value} for name, value in fields.items()},
        )

    def lose_record(self, identity):
        self.stack.dynamodb.delete_item(
            TableName="s-ledger", Key={name: {"S": value} for name, value in items.object_key(identity).items()}
        )


@pytest.fixture
def merged(stack, capsys):
    """Two commits after an archived one, a batch without a change, and objects in other states."""
    found = Merged(stack)
    found.merge("old", at=1, archived=True)
    found.batch, (found.first, found.second, found.bad) = found.merge("a", "b", "bad", at=2, bad=["bad"])
    found.merge("c", at=3)
    found.merge("again")
    found.commit_file(4, None)  # a compaction
    stack.admit(stack.write("waits"))
    stack.admit(stack.write("aside"), items.PARKED, reason="no table takes its topic")
    stack.write("new")  # its notice is on its way
    return found


def codes(capsys):
    return {found["code"] for found in describe(capsys)["contradictions"]}


def test_every_version_is_listed_with_its_commit_or_the_reason_why_not(merged, capsys):
    assert run(["audit", "--objects", "--json"]) == 0
    document = describe(capsys)
    assert document["clean"] and document["contradictions"] == []
    assert document["objects"] == {"committed": 5, "parked": 1, "pending": 1, "quarantined": 1, "too_young": 1}
    assert document["committed"] == {"active": 3, "archived": 1, "no_change": 1}
    found = {entry["key"]: entry for entry in document["object_versions"]}
    assert (found["a"]["table"], found["a"]["batch"], found["a"]["instant"]) == (TABLE, merged.batch, instant(2))
    assert (found["old"]["place"], found["again"]["place"]) == ("archived", "no_change")
    assert (found["bad"]["state"], found["bad"]["reason"]) == ("quarantined", "corrupt")
    assert found["aside"]["reason"] == "no table takes its topic"
    assert run(["audit", "--prefix", "a", "--objects"]) == 0
    out = capsys.readouterr().out
    assert "3 object versions: 2 committed, 1 parked" in out and "no contradiction" in out
    assert f"a\t{merged.first.version}\tcommitted\t{TABLE}\t{merged.batch}\t{instant(2)}\tactive\t-" in out


BREAKAGES = {
    "lost_record": lambda merged: merged.lose_record(merged.first),
    "ledger_behind": lambda merged: merged.edit(merged.first, state="pending"),
    "abandoned_claim": lambda merged: merged.edit(merged.bad, state="claimed"),
    "no_manifest": lambda merged: merged.remove(manifest_key("main", merged.batch)),
    "no_outcome": lambda merged: merged.remove(outcome_key(merged.batch, TABLE)),
    "outcome_disagrees": lambda merged: merged.edit(merged.bad, state="committed"),
    "commit_missing": lambda merged: merged.remove(merged.timeline_key(3)),
    "foreign_commit": lambda merged: merged.commit_file(2, None),
    "extra_commit": lambda merged: merged.commit_file(5, merged.batch),
    "commit_without_outcome": lambda merged: merged.commit_file(5, "b-unknown"),
}


@pytest.mark.parametrize("code", BREAKAGES)
def test_a_contradiction_is_found_with_its_next_step(merged, capsys, code):
    BREAKAGES[code](merged)
    assert run(["audit", "--json"]) == 1
    document = describe(capsys)
    found = [entry for entry in document["contradictions"] if entry["code"] == code]
    assert found and all(entry["next_step"] for entry in found) and not document["clean"]
    assert run(["audit"]) == 1
    assert f"{code}: {len(found)}: " in capsys.readouterr().out


def test_an_object_in_two_batches_is_found(merged, capsys):
    merged.edit(merged.first, state="pending")
    stray = merged.stack.ledger.objects.get([merged.first])[merged.first]
    listed = ManifestObject("s-bronze", "a", stray.id.version, 1, None, "avro", "crm.public.user", 0, 1, NOW)
    manifest = open_manifest("main", "run-1", NOW + 1, "c1", {TABLE: TablePart(CONFIG, (listed,))})
    merged.manifests.put_manifest(manifest, lambda: True)
    merged.manifests.put_outcome(
        Outcome(manifest.batch, TABLE, COMMITTED, NOW, instant=instant(5), counts={"objects": 1})
    )
    merged.commit_file(5, manifest.batch)
    merged.edit(merged.first, state="committed", batch=manifest.batch)
    assert run(["audit", "--json"]) == 1
    assert codes(capsys) == {"two_batches"}


@pytest.fixture
def unannounced(merged, tmp_path, capsys):
    """A change object that no notice announced, and one that the ledger lost though a batch merged it."""
    path = tmp_path / "tables.yaml"
    path.write_text("tables:\n  - {topic: crm.public.user, table: crm.user, record_key: id}\n")
    assert run(["config", "push", str(path)]) == 0
    merged.lose_record(merged.first)
    body = avro_object(flattened({"id": "long"}), [change(id=1)])
    key = "topics/crm.public.user/partition=0/crm.public.user+0+0000000001.avro"
    cloudformation().parameters = {"ReconcileGraceSeconds": "0"}
    merged.remove_version("new")
    capsys.readouterr()
    return merged.stack.write(key, body)


def test_repair_admits_what_no_notice_announced_and_leaves_what_a_batch_merged(merged, unannounced, invoked, capsys):
    assert run(["audit", "--json"]) == 1
    assert codes(capsys) == {"unknown_object", "lost_record"} and invoked == []
    ledger = merged.stack.ledger
    arrivals = ledger.lanes.get("main").arrivals
    assert run(["audit", "--repair"]) == 1
    out = capsys.readouterr().out
    assert f"repaired: {unannounced.key} was admitted as pending" in out
    assert "lost_record: 1: " in out and "unknown_object" not in out
    assert merged.first not in ledger.objects.get([merged.first])
    assert ledger.lanes.get("main").arrivals == arrivals + 1 and invoked == [("s-supervise", "Event")]
    assert run(["audit", "--repair", "--json"]) == 1
    assert describe(capsys)["repaired"] == [] and len(invoked) == 1


def test_an_object_that_cannot_be_admitted_stays_a_contradiction(merged, unannounced, invoked, monkeypatch, capsys):
    def refuse(self, id, limit):
        raise ConnectionError("no route")

    monkeypatch.setattr(Objects, "head_bytes", refuse)
    assert run(["audit", "--repair", "--json"]) == 1
    assert codes(capsys) == {"unknown_object", "lost_record"} and invoked == []


def test_a_batch_that_is_merged_during_the_audit_contradicts_nothing(merged, monkeypatch, capsys):
    newest, timeline, page = PastBatches.newest, TimelineReader.timeline, Objects.version_page
    begun, listed = [], []

    def then_opened(self, **how):
        yield from newest(self, **how)
        identity = merged.stack.admit(merged.stack.write("late"))
        begun.append((merged.opened(identity), identity))

    def then_committed(self, table, **how):
        found = timeline(self, table, **how)
        listed.append(len(found.commits))
        while begun:
            batch, identity = begun.pop()
            merged.commit_file(5, batch)
            merged.settled(batch, identity, at=5)
        return found

    monkeypatch.setattr(PastBatches, "newest", then_opened)
    monkeypatch.setattr(TimelineReader, "timeline", then_committed)
    monkeypatch.setattr(
        Objects, "version_page", lambda self, bucket, marker, prefix: page(self, bucket, marker, page_size=2)
    )
    assert run(["audit", "--json"]) == 0
    assert describe(capsys)["committed"]["active"] == 4
    assert listed == [3, 4]  # the timeline is read again for the batch that came after it


def test_a_batch_that_is_opened_between_two_pages_contradicts_nothing(merged, monkeypatch, capsys):
    page = Objects.version_page
    opened = []

    def then_opened(self, bucket, marker, prefix):
        found = page(self, bucket, marker, page_size=2)
        if marker is not None and not opened:
            opened.append(merged.opened(merged.stack.admit(merged.stack.write("zz"))))
        return found

    monkeypatch.setattr(Objects, "version_page", then_opened)
    assert run(["audit", "--json"]) == 0
    assert describe(capsys)["objects"]["claimed"] == 1
