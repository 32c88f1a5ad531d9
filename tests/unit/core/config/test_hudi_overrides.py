"""Hudi options that the design owns can't be overridden; the others can."""

import pytest

from sluice.config.hudi_overrides import PREFIX, refusal


@pytest.mark.parametrize(
    "option",
    [
        "hoodie.datasource.write.recordkey.field",
        "hoodie.table.recordkey.fields",
        "hoodie.datasource.write.precombine.field",
        "hoodie.table.precombine.field",
        "hoodie.table.ordering.fields",
        "hoodie.datasource.write.partitionpath.field",
        "hoodie.datasource.write.keygenerator.class",
        "hoodie.table.keygenerator.type",
        "hoodie.write.table.version",
        "hoodie.table.version",
        "hoodie.write.auto.upgrade",
        "hoodie.timeline.timezone",
        "hoodie.table.timeline.timezone",
        "hoodie.datasource.write.payload.class",
        "hoodie.compaction.payload.class",
        "hoodie.record.merge.mode",
        "hoodie.write.record.merge.mode",
        "hoodie.index.type",
        "hoodie.index.class",
        "hoodie.simple.index.update.partition.path",
        "hoodie.datasource.write.table.type",
        "hoodie.datasource.write.operation",
        "hoodie.cleaner.hours.retained",
        "hoodie.clean.policy",
        "hoodie.clean.async.enabled",
        "hoodie.keep.max.commits",
        "hoodie.archive.automatic",
        "hoodie.compact.inline",
        "hoodie.clustering.inline",
        "hoodie.write.lock.provider",
        "hoodie.metadata.index.async",
    ],
)
def test_an_option_that_the_design_owns_is_refused_with_its_owner(option):
    assert refusal(option)


@pytest.mark.parametrize(
    "option",
    [
        "hoodie.parquet.max.file.size",
        "hoodie.parquet.compression.codec",
        "hoodie.upsert.shuffle.parallelism",
        "hoodie.memory.merge.fraction",
        "hoodie.simple.index.parallelism",
        "hoodie.metadata.enable",
    ],
)
def test_an_option_of_size_and_speed_is_allowed(option):
    assert refusal(option) is None


@pytest.mark.parametrize("option", ["spark.executor.memory", "hoodie", PREFIX, "", "fs.s3.impl"])
def test_what_is_no_hudi_option_is_refused(option):
    assert refusal(option)
