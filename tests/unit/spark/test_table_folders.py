"""Data files of Delta and Iceberg tables, which are no changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.shapes import config

from sluice.batch.manifest import ManifestObject
from sluice.config.delete_when import DeleteWhen
from sluice_spark.merge.table_folders import refused_files

ITEM = ManifestObject("bronze", "", "v1", 1, None, "parquet", "t", None, None, 0)
LOG, METADATA = "lake/t/_delta_log/00000000000000000000.json", "lake/t/metadata/00000-a.metadata.json"
listed: list[str] = []


def refused(key: str, beside: str, *, first: bool = True, **settings: Any) -> list[str]:
    class Bucket:
        def keys(self, bucket: str, prefix: str) -> Iterator[str]:
            listed.append(prefix)
            return (key for key in (beside,) if bucket == "bronze" and key.startswith(prefix))

    listed.clear()
    s3: Any = Bucket()
    item = replace(ITEM, key=key, format=key.rpartition(".")[2])
    return [error.code for error in refused_files(s3, [item], config(**settings), first=first)]


@pytest.mark.parametrize(
    "key, beside",
    [
        ("lake/t/part-00000-c000.snappy.parquet", LOG),
        ("lake/t/day=2026-11-30/hour=3/part-00000-c000.snappy.parquet", LOG),
        ("day=2026-11-30/part-0.parquet", "_delta_log/0.json"),
        ("data/part-0.parquet", "metadata/0.metadata.json"),
        ("lake/t/data/00000-0-a.parquet", METADATA),
        ("lake/t/data/day=2026-11-30/00000-0-a.parquet", METADATA),
    ],
)
def test_a_data_file_of_a_table_is_refused_unless_the_rule_speaks_of_deletions(key: str, beside: str) -> None:
    assert refused(key, beside) == ["deletions_unmarked"]
    assert refused(key, beside, append_only=True) == []
    assert refused(key, beside, delete_when=DeleteWhen(on=False)) == []
    assert refused(key, beside, delete_when=DeleteWhen(column="op", values=("D",))) == []


@pytest.mark.parametrize(
    "key, beside",
    [
        ("lake/t/part-0.parquet", "lake/other/_delta_log/0.json"),
        ("lake/t/part-0.parquet", "lake/t/_delta_logs.parquet"),
        ("lake/t/part-0.parquet", "lake/metadata/0.metadata.json"),
        ("lake/t/data/part-0.parquet", "lake/t/metadata/part-0.parquet"),
        ("lake/t/part-0.json", LOG),
        ("part-0.parquet", LOG),
    ],
)
def test_a_file_of_another_folder_is_taken(key: str, beside: str) -> None:
    assert refused(key, beside) == []


@pytest.mark.parametrize(
    "name",
    [
        "part-00000-7e6a4a3c-1f0b-4a5e-9d43-0a9b6d0f1c2e-c000.snappy.parquet",
        "00000-0-7E6A4A3C-1F0B-4A5E-9D43-0A9B6D0F1C2E-00001.parquet",
    ],
)
@pytest.mark.parametrize("folder, beside", [("lake/t/", LOG), ("lake/t/data/day=2026-11-30/", METADATA)])
def test_a_data_file_is_refused_where_the_folder_became_a_table_later(folder: str, beside: str, name: str) -> None:
    assert refused(folder + name, beside, first=False) == ["deletions_unmarked"]
    assert refused(folder + name, "lake/t/other", first=False) == []
    assert refused(folder + "part-0.parquet", beside, first=False) == [] and not listed
