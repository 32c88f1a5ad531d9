"""Small objects that ask for much memory or time of a read task, and honest ones near the limits.

As a program, decodes one kind as a task does, and prints what became of it, the most memory and the processor time.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import time
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from sluice.batch.manifest import ManifestObject
from sluice.config.limits import DEFAULTS
from sluice.config.table import TableConfig
from sluice.errors import SluiceError
from sluice.schema.avro import read_writer_schema
from sluice_formats.decode import decode, schemas_of
from sluice_formats.parquet_footer import read_footer
from sluice_formats.records import ReaderPlan
from support.avro_containers import encoded_varint
from support.hostile_objects import most_memory

MIB = 1024**2


def parquet(table: pa.Table, **options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, compression="zstd", write_statistics=False, store_schema=False, **options)
    return out.getvalue()


def understated(body: bytes, numbers: Callable[[pq.ColumnChunkMetaData], dict[int, int]]) -> bytes:
    """A file whose footer says less of its second column than its pages: `numbers` maps true to written ones."""
    length = int.from_bytes(body[-8:-4], "little")
    head, footer = body[: -8 - length], body[-8 - length : -8]
    for true, written in numbers(pq.read_metadata(io.BytesIO(body)).row_group(0).column(1)).items():
        old = encoded_varint(true << 1)
        assert old in footer, true
        footer = footer.replace(old, _padded(written << 1, len(old)))
    return head + footer + body[-8:]


def _padded(number: int, size: int) -> bytes:
    """A number in so many bytes: useless continuations are allowed."""
    out = bytearray(encoded_varint(number))
    while len(out) < size:
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


def one_page(size: int) -> bytes:
    """A binary value of so many zeros in a page of its own. The footer counts 900 bytes."""
    table = pa.table({"id": pa.array([1], pa.int64()), "v": pa.array([bytes(size)], pa.binary())})
    body = parquet(table, use_dictionary=False, data_page_size=2**31 - 1)
    group = pq.read_metadata(io.BytesIO(body)).row_group(0)
    return understated(body, lambda column: {column.total_uncompressed_size: 900, group.total_byte_size: 1_000})


def long_list(items: int) -> bytes:
    """A row with a list of so many nulls. The footer counts ten of them."""
    column = pa.ListArray.from_arrays(pa.array([0, items], pa.int32()), pa.nulls(items, pa.int32()))
    table = pa.table({"id": pa.array([1], pa.int64()), "v": column})
    return understated(parquet(table, use_dictionary=False), lambda column: {column.num_values: 10})


def repeated_fixed(rows: int, width: int) -> bytes:
    """One value of fixed length that every row refers to."""
    values = pa.DictionaryArray.from_arrays(
        pa.array([0] * rows, pa.int32()), pa.array([bytes(width)], pa.binary(width))
    )
    return parquet(pa.table({"id": pa.array(range(rows), pa.int64()), "v": values}))


def blank_lines(size: int) -> bytes:
    """A record and so many line ends, compressed."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=9) as file:
        file.write(b'{"id":1}\n')
        for _ in range(size // MIB):
            file.write(b"\n" * MIB)
    return out.getvalue()


def rows_of_json(size: int) -> bytes:
    """Honest rows of so many bytes of text, compressed."""
    row = b'{"id":%d,"name":"somebody","city":"somewhere","amount":12.5,"note":"' + b"a" * 200 + b'"}\n'
    return gzip.compress(b"".join(row % number for number in range(size // len(row))), 1)


def one_record(item: bytes, size: int) -> bytes:
    """A JSON record with an array of so many bytes of the same item."""
    return b'{"id":1,"v":[' + b",".join([item] * (size // (len(item) + 1))) + b"]}\n"


CHAIN = b'{"a":' * 90 + b"1" + b"}" * 90
KINDS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "parquet_page": ("parquet", lambda: one_page(1_200_000_000)),
    "parquet_list": ("parquet", lambda: long_list(150_000_000)),
    "parquet_fixed": ("parquet", lambda: repeated_fixed(10_000, 1_000_000)),
    "blank_lines": ("json", lambda: blank_lines(400 * MIB)),
    "blank_lines_beyond": ("json", lambda: blank_lines(1024 * MIB)),
    "json_rows": ("json", lambda: rows_of_json(450 * MIB)),
    "json_objects": ("json", lambda: one_record(b"{}", 16_000_000)),
    "json_chains": ("json", lambda: one_record(CHAIN, 16_000_000)),
    "json_numbers": ("json", lambda: one_record(b"1.5", 16_000_000)),
}


def decoded(body: bytes, format: str) -> str:
    """What becomes of an object: its number of rows, or the code of its error."""
    config = TableConfig("db.t", "db", "t", "t", ("id",))
    item = ManifestObject("bronze", f"t+0+0.{format}", "v", len(body), None, format, "t", 0, 0, 0)
    try:
        if format == "parquet":
            schemas, inferred = [read_footer(body, True).schema], {}
        else:
            schemas, _ = schemas_of(body, format, config)
            inferred = {item.id.hash: json.dumps(schemas[0])}
        columns = read_writer_schema(schemas[0]).row.columns
        rows = decode(body, item, ReaderPlan(config, batch="b", columns=columns, inferred=inferred))
    except SluiceError as error:
        return error.code
    return f"{sum(batch.num_rows for batch in rows.batches)} rows"


if __name__ == "__main__":
    kind, path = sys.argv[1:]
    if path == "make":
        sys.stdout.buffer.write(KINDS[kind][1]())
    else:
        with open(path, "rb") as file:
            content = file.read()
        assert len(content) <= DEFAULTS.object_bytes
        began = time.process_time()
        become = decoded(content, KINDS[kind][0])
        seconds = time.process_time() - began
        print(json.dumps({"become": become, "megabytes": most_memory() // MIB, "seconds": round(seconds, 1)}))
