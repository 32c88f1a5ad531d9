"""The properties of a table whose file is lost: as Hudi wrote them, with what Sluice keeps there beside."""

import pytest

from sluice.config.table import TableConfig
from sluice.hudi.java_properties import parse_properties, properties_text
from sluice.hudi.own_metadata import kept_in_commits, purge_metadata
from sluice.hudi.table_properties import restored_properties

# As Hudi 1.0.2 wrote it for a partitioned merge-on-read table of version 6.
WRITTEN = """\
hoodie.compaction.payload.class=org.apache.hudi.common.model.DefaultHoodieRecordPayload
hoodie.table.keygenerator.type=CUSTOM
hoodie.table.type=MERGE_ON_READ
hoodie.table.precombine.field=_sluice_position
hoodie.table.partition.fields=p
hoodie.archivelog.folder=archived
hoodie.timeline.layout.version=1
hoodie.timeline.history.path=history
hoodie.table.checksum=1127698910
hoodie.bootstrap.index.enable=false
hoodie.datasource.write.drop.partition.columns=false
hoodie.table.timeline.timezone=UTC
hoodie.record.merge.strategy.id=eeb8d96f-b1e4-49fd-bbf8-28ac514178e5
hoodie.table.name=t_mor
hoodie.table.recordkey.fields=id
hoodie.timeline.path=timeline
hoodie.table.ordering.fields=_sluice_position
hoodie.datasource.write.hive_style_partitioning=true
hoodie.populate.meta.fields=true
hoodie.database.name=s18
hoodie.datasource.write.partitionpath.urlencode=true
hoodie.table.version=6
"""
FILE = parse_properties(WRITTEN)
CONFIG = TableConfig("s18.t_mor", "s18", "t_mor", "x", ("id",), ("p",), table_type="mor")


def restored(backup=None, **given):
    return restored_properties(CONFIG, **{"own": {}, "metadata": (), "backup": backup or {}, **given})


def test_a_lost_file_is_restored_as_hudi_wrote_it():
    assert restored() == FILE
    plain = restored_properties(TableConfig("s23.t", "s23", "t", "x", ("id",)), own={}, metadata=("files",), backup={})
    assert (plain["hoodie.table.checksum"], plain["hoodie.table.keygenerator.type"]) == ("1479588584", "NON_PARTITION")
    assert plain["hoodie.table.metadata.partitions"] == "files" and plain["hoodie.table.type"] == "COPY_ON_WRITE"


def test_a_backup_adds_what_is_not_known_and_never_lowers_a_floor():
    own = {"sluice.truncated_at": "5", "sluice.forgotten": '{"a":"3"}', "sluice.widened": '{"x":"2"}'}
    before = {**FILE, "sluice.truncated_at": "4", "sluice.forgotten": '{"a":"1","b":"1"}', "hoodie.table.new": "1"}
    properties = restored(before, own=own)
    assert properties == {
        **FILE,
        "hoodie.table.new": "1",
        "sluice.truncated_at": "5",
        "sluice.widened": '{"x":"2"}',
        "sluice.forgotten": '{"a": "3", "b": "1"}',
    }


@pytest.mark.parametrize("change", [{"hoodie.table.name": "other"}, {"hoodie.table.recordkey.fields": "key"}])
def test_a_backup_of_another_table_or_of_an_earlier_key_is_left_out(change):
    assert restored({**FILE, **change, "sluice.truncated_at": "9"}) == FILE
    assert restored({"hoodie.table.name": "t_mor"}) == FILE


def test_what_sluice_keeps_is_read_from_the_commits_and_the_ledger():
    purged = {"sluice.purged_below": "0000.5", "sluice.purged_partition": "3"}
    commits = [
        {"sluice.batch": "b", "sluice.truncated_at": "0000.7", "sluice.widened": "{}", "sluice.forgotten": '{"a":"2"}'},
        {**purge_metadata("t", {0: "0000.5"}), **purged},
        {"sluice.batch": "c", "sluice.truncated_at": "0000.6", "sluice.widened": '{"n":"1"}', "sluice.run": "r"},
    ]
    properties = kept_in_commits(commits, {"0": "0000.4"})
    assert properties == {
        **purged,
        "sluice.truncated_at": "0000.7",
        "sluice.widened": '{"n":"1"}',
        "sluice.forgotten": '{"a": "2"}',
    }
    higher = kept_in_commits(commits, {"0": "0000.4", "1": "0001.1"})
    assert higher["sluice.purged_below"] == "0001.1" and "sluice.purged_partition" not in higher
    assert kept_in_commits([], {}) == {}


def test_the_text_of_properties_is_read_back():
    entries = {"a.b": 'x=1:2 # \\ "é"\n', "c": ""}
    assert parse_properties(properties_text(entries)) == entries
    assert properties_text(entries).isascii()
