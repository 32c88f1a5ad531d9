"""Recorded Avro objects, rewritten by parquet-avro, which both sinks use for Parquet, give the same rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from support.shapes import config, item

from sluice.schema.avro import read_writer_schema
from sluice_formats.avro_header import Head, parse_header
from sluice_formats.decode import decode
from sluice_formats.parquet_footer import read_footer
from sluice_spark.merge.plan import plan_read

DATA = Path(__file__).resolve().parents[1] / "data"


def written_by_parquet_avro(spark: Any, avro: Path, into: Path, *, old_lists: bool) -> bytes:
    """Rewrite an Avro object with a writer configured as by Confluent's ParquetRecordWriterProvider.

    `old_lists` is its default layout for lists whose items can't be null.
    """
    java = spark._jvm
    path = java.org.apache.hadoop.fs.Path(into.as_uri())
    reader = java.org.apache.avro.file.DataFileReader(
        java.java.io.File(str(avro)), java.org.apache.avro.generic.GenericDatumReader()
    )
    builder = (
        java.org.apache.parquet.avro.AvroParquetWriter.builder(path)
        .withSchema(reader.getSchema())
        .withDictionaryEncoding(True)
    )
    builder = builder.config("parquet.avro.write-old-list-structure", str(old_lists).lower())
    writer = builder.withCompressionCodec(java.org.apache.parquet.hadoop.metadata.CompressionCodecName.SNAPPY).build()
    while reader.hasNext():
        writer.write(reader.next())
    writer.close()
    reader.close()
    return into.read_bytes()


def rows(body: bytes, format: str, schema: Any, key: tuple[str, ...]) -> list[dict[str, Any]]:
    plan = plan_read(
        replace(config(), record_key=key), batch="b", writers=[read_writer_schema(schema)], stored=None
    ).plan
    decoded = decode(body, replace(item(format), key="x+0+500"), plan)
    assert not decoded.rows, decoded.rows
    return [row for batch in decoded.batches for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("types_flat_precise/bronze/topics/tzflatprecise.public.zoo", "id"),
        ("pagila_env/bronze/topics/pagila.public.film", "film_id"),
    ],
)
def test_what_parquet_avro_writes_of_a_recorded_object_gives_the_rows_of_the_object(
    spark: Any, tmp_path: Path, topic: str, key: str
) -> None:
    objects = sorted((DATA / topic).rglob("*.avro"))
    assert objects
    for at, avro in enumerate(objects):
        body = avro.read_bytes()
        expected = rows(body, "avro", parse_header(Head(body, True)).schema, (key,))
        for old_lists in (False, True):
            try:
                packed = written_by_parquet_avro(
                    spark, avro, tmp_path / f"{at}-{old_lists}.parquet", old_lists=old_lists
                )
            except (
                Py4JJavaError
            ) as error:  # a null in a list, which the old structure can't hold: the sink takes the other one then
                assert old_lists and "null" in str(error).lower()
                continue
            assert json.dumps(
                rows(packed, "parquet", read_footer(packed, True).schema, (key,)), default=repr
            ) == json.dumps(expected, default=repr)
