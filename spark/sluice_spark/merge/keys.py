"""Joins by record key, under column names that neither side has."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice_spark.merge.normalize import quoted
from sluice_spark.merge.working_columns import KEY_PREFIX, NEWEST


def key_names(record_key: Sequence[str]) -> list[str]:
    """The names that `key_columns` gives to a key's columns."""
    return [f"{KEY_PREFIX}{number}" for number in range(len(record_key))]


def key_columns(record_key: Sequence[str]) -> list[SparkColumn]:
    """A key's columns under the names that `same_key` compares."""
    return [quoted(name).alias(alias) for name, alias in zip(record_key, key_names(record_key))]


def keys_of(rows: DataFrame, condition: SparkColumn, *, record_key: Sequence[str]) -> DataFrame:
    """The keys of the newest changes that meet a condition, each once."""
    return rows.where(F.col(NEWEST) & condition).select(*key_columns(record_key))


def same_key(rows: DataFrame, keys: DataFrame, *, record_key: Sequence[str]) -> SparkColumn:
    """The join condition of rows and `key_columns`. A key has no null."""
    return reduce(
        and_,
        (
            rows["`" + name.replace("`", "``") + "`"] == keys[alias]
            for name, alias in zip(record_key, key_names(record_key))
        ),
        F.lit(True),
    )
