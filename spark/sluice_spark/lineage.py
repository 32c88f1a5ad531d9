"""What a table's rows tell of where they came from, as its configuration wants it, at the moment they are written."""

from __future__ import annotations

from typing import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sluice import hidden_columns as hidden
from sluice_spark.normalizing import quoted


def with_lineage(rows: DataFrame, *, words: Collection[str], batch: str) -> DataFrame:
    """The rows to be written by `batch`, with the lineage that `words` (of `hidden_columns.LINEAGE`) name; the other is null.

    Here and not earlier: merging goes by some of these columns whether or not they are kept.
    """
    off = {column for word, column in hidden.LINEAGE.items() if word not in words}
    chosen = []
    for field in rows.schema.fields:
        value = F.lit(None) if field.name in off else F.lit(batch) if field.name == hidden.BATCH else quoted(field.name)
        chosen.append(value.cast(field.dataType).alias(field.name))
    return rows.select(*chosen)
