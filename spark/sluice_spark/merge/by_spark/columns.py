"""Columns of frames, by their exact names and in the types that the table stores."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import StructType


def quoted(name: str) -> SparkColumn:
    """A column by its exact name, which may hold dots or backticks."""
    return F.col("`" + name.replace("`", "``") + "`")


def table_columns(
    target: StructType, present: Collection[str], own: Mapping[str, SparkColumn] = MappingProxyType({})
) -> list[SparkColumn]:
    """A table's columns in their types: as in `own`, else those of a frame that has the `present` ones, else null."""
    chosen = {**{name: quoted(name) for name in present}, **own}
    return [chosen.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in target.fields]
