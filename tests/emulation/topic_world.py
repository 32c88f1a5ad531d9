"""Objects of a topic on an emulated stack, its commands, and runs that merge the objects into recorded commits."""

from driving.lane import LANE, SimulatedLane
from support.builders import avro_object, flattened

from sluice.silver_keys import outcome_key
from sluice_cli.config.source import read_tables

RAW = "tables:\n  - {topic: crm.*, table: 'crm.{1}', record_key: id, freshness: 0}\n"
BOTH = RAW + RAW.partition("\n")[2].replace("'crm.{1}'", "'masked.{1}', also: true, columns: {mask: [name]}")
BODY = avro_object(flattened({"id": "long"}), [{"id": 1, "__lsn": 1}])


class TopicWorld:
    """Objects of a topic, and runs of the lane, whose documents are put where a driver puts them."""

    def __init__(self, stack, tmp_path, sluice):
        self.stack, self.tmp_path = stack, tmp_path
        self.command = sluice.json
        self.lane = None

    def push(self, text):
        (self.tmp_path / "tables.yaml").write_text(text)
        pushed = self.command("config", "push", "tables.yaml", "--yes")
        if self.lane is None:
            self.lane = SimulatedLane(self.stack.dynamodb, read_tables(text), ledger_table="s-ledger")
        self.lane.file.content = read_tables(text)
        return pushed

    def write(self, n=2):
        return [self.stack.write(f"topics/crm.user/crm.user+0+{number}.avro", BODY) for number in range(n)]

    def merge(self):
        self.lane.ledger.lanes.wake(LANE)
        ended = self.lane.run()
        for key, text in self.lane.documents.stored.items():
            if "/manifests/" not in key:
                batch, _, table = key.partition("/")
                key = outcome_key(batch, table)
            self.stack.s3.put_object(Bucket="s-silver", Key=key, Body=text.encode())
        return ended

    def merged(self, n=2):
        """Objects that backfill admitted and a run has merged."""
        objects = self.write(n)
        self.command("backfill", "--yes")
        self.merge()
        return objects

    def records(self, identity):
        records = self.stack.ledger.objects.versions(identity.bucket, identity.key)
        return {record.table: record for record in records}

    def states(self, *identities):
        return [{table: record.state for table, record in self.records(one).items()} for one in identities]
