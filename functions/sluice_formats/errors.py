"""Errors of decoding: an object's bytes or its records can't be read or merged."""

from __future__ import annotations

import re
from typing import NamedTuple

from sluice.changes.dialects.wrappers import Wrapper
from sluice.errors import DamagedObject, SluiceError

# The rest of the step that changes a key or partition columns, which a table with data keeps in place.
_PUSHED = "and push it: the push says how a table with data is rebuilt. For one without data, run RETRY"


class OtherFormat(NamedTuple):
    """The format that an object's first bytes show in place of that of its name, and what follows from it."""

    name: str
    next_step: str


_REPLACED = "upload the object again, then `sluice quarantine discard` this version by its id"


def _renamed(format: str) -> str:
    return (
        f"Let the writer end the keys of such objects with .{format}, {_REPLACED}. Where a rule's `key_pattern` finds "
        f"them, set its `format: {format}` instead, push it, then `sluice quarantine retry --code CODE`"
    )


_UNPACKED = (
    "Compress no Avro or Parquet file as a whole, CSV with gzip only, and JSON with gzip or zstd: unpack it and "
    f"{_REPLACED}"
)
_ANSWER = "Look at what wrote the object: a saved answer of a web server is no data. Run `sluice quarantine discard`"
REGISTRY_STEP = (
    "Let the sink decode the messages: value.converter AvroConverter (or JsonSchemaConverter, ProtobufConverter, AWS's "
    "AWSKafkaAvroConverter) with the registry's address, and format.class AvroFormat or ParquetFormat"
)
_WRITABLE = "Let the connector write Avro, JSON, Parquet or CSV"
_PARQUET = OtherFormat("Parquet", _renamed("parquet"))
_BEGINNINGS = (
    (rb"Obj\x01", OtherFormat("an Avro container", _renamed("avro"))),
    (rb"PAR1([\x00-\x08\x0e-\x1f]|\Z)", _PARQUET),  # a header of Thrift follows
    (rb"\x1f\x8b", OtherFormat("gzip", _UNPACKED)),
    (rb"PK\x03\x04", OtherFormat("a zip archive", _UNPACKED)),
    (rb"\x28\xb5\x2f\xfd", OtherFormat("zstd", _UNPACKED)),
    (rb"BZh[1-9]", OtherFormat("bzip2", _UNPACKED)),
    (rb"\x00\x00(?!\x00{3})(?s:...)", OtherFormat("a message in Confluent's wire format", REGISTRY_STEP)),
    (rb"\x03[\x00\x05]", OtherFormat("a message in the wire format of AWS Glue's registry", REGISTRY_STEP)),
    (rb"(?i:(\xef\xbb\xbf)?\s*<(!doctype html|html))", OtherFormat("HTML", _ANSWER)),
    (rb"(\xef\xbb\xbf)?\s*<\?xml", OtherFormat("XML", _ANSWER)),
)
_BEGINNINGS_OF_CSV_TOO = (  # as a name or a value of its first row
    (rb"PAR[1E]", _PARQUET),
    (rb"ORC", OtherFormat("ORC", _WRITABLE)),
    (rb'(\xef\xbb\xbf)?\s*\{\s*["}]', OtherFormat("JSON", _renamed("json"))),
    (
        rb"(\xef\xbb\xbf)?\s*\[",
        OtherFormat(
            "a JSON array",
            "Let the connector write newline-delimited JSON, each record an object (Aiven's S3 sink: "
            "format.output.type=jsonl, format.output.envelope=false)",
        ),
    ),
)


def begins_as(begin: bytes, code: str, *, in_csv: bool = False) -> OtherFormat | None:
    """The other format that the first bytes of an object show, and the step of its error `code`. None: unknown."""
    beginnings = _BEGINNINGS if in_csv else (*_BEGINNINGS, *_BEGINNINGS_OF_CSV_TOO)
    beginning = next((other for pattern, other in beginnings if re.match(pattern, begin)), None)
    return None if beginning is None else beginning._replace(next_step=beginning.next_step.replace("CODE", code))


class NullRecordKey(SluiceError):
    """A record without a value in its key; facts: `column`, `record`."""

    code = "null_record_key"
    next_step = f"Give the table a record_key that every row has, {_PUSHED}"


class DeleteWithoutKey(SluiceError):
    """A deletion that names its row by another index than the key; facts: `column`, `record`."""

    code = "delete_without_key"
    next_step = (
        "Set REPLICA IDENTITY DEFAULT or FULL for the table in PostgreSQL: an index other than the primary key's "
        "leaves the key out. Take out the row that this deletion's other values name with `sluice forget`, then "
        "`sluice quarantine discard` this one"
    )


class NoCoordinates(SluiceError):
    """A record without the Kafka partition and offset that identify its table's rows; facts: `column`, `record`."""

    code = "no_coordinates"
    next_step = "Let the connector write both with every record, or leave `coordinates` out"


class UnsupportedOperation(SluiceError):
    """A change other than create, update, delete, snapshot read, truncate and message; facts: `op`, `record`."""

    code = "unsupported_operation"
    next_step = "Let the connector skip this operation (skipped.operations)"


class DeletionsUnmarked(SluiceError):
    """Rows with a column of operations, whose rule doesn't say which are deletions; facts: `column`, `values`."""

    code = "deletions_unmarked"
    next_step = (
        "Add `delete_when` with this column and the values that mark deletions to the table's rule, or `delete_when: "
        "off` if the column is data; push it, then RETRY"
    )

    @classmethod
    def nested(cls, wrapper: Wrapper) -> DeletionsUnmarked:
        """The error of records in another product's form, whose own fields would be stored as rows."""
        return cls(
            f"The records are {wrapper.product}, whose row or operation lies in `{wrapper.row}`",
            next_step=f"{wrapper.step}; or set `delete_when: off` if the fields are data, push it, and retry",
            column=wrapper.row,
            values=[],
        )


class NoHashKey(SluiceError):
    """Columns to hash, and no key to hash them with; facts: `table`. A defect: whoever reads objects reads it first."""

    code = "no_hash_key"
    retriable = True
    next_step = "Report it: nothing of the batch was stored"


class ValueOutOfRange(SluiceError):
    """A value that the stored type of its column can't hold; facts: `column`."""

    code = "value_out_of_range"
    next_step = "Correct the value at the source, or change how the connector writes this column"


class UnusableRecordKey(SluiceError):
    """A key that Hudi can't store, or would confuse with the key of another row; facts: `column`, `record`."""

    code = "unusable_record_key"
    next_step = (
        "Give the table a record_key whose texts are not empty and don't contain what joins the parts of a key, "
        f"{_PUSHED}"
    )


class InexactRecordKey(SluiceError):
    """A date or timestamp in a key that its stored type would cut or make null; facts: `column`, `record`."""

    code = "inexact_record_key"
    next_step = "Give the topic a table that has the column in its `raw`, as the connector counts it"


class UnexpectedValue(SluiceError):
    """A row with a value that its table's `expect` excludes; facts: `column`, `record`."""

    code = "unexpected_value"
    next_step = "Correct the row at the source, or the rule's `expect`; push it, then RETRY"


class UnusablePattern(SluiceError):
    """A pattern of `expect` that RE2 doesn't take; facts: `column`. The table's objects wait."""

    code = "unusable_pattern"
    retriable = True
    next_step = "Write the rule's `matches` in the syntax of RE2, and push it"


class UnusablePartitionValue(SluiceError):
    """A value of a partition column that can't name a folder; facts: `column`, `record`."""

    code = "unusable_partition_value"
    next_step = f"Partition the table by a column of shorter values, {_PUSHED}"


class NotAvro(SluiceError):
    """An object that doesn't begin like an Avro container; facts: `begins`, the first bytes in hexadecimal."""

    code = "not_avro"
    next_step = "Configure the connector's format, or narrow the rule's `topic` or `key_pattern` to other keys"

    @classmethod
    def of(cls, begin: bytes) -> NotAvro:
        """The error of an object with these first bytes. Says as which other format it begins."""
        other = begins_as(begin, cls.code)
        return cls(
            "The object is not an Avro container file" + (f" but begins as {other.name}" if other else ""),
            next_step=other and other.next_step,
            begins=begin[:16].hex(),
        )


class CorruptObject(DamagedObject):
    """A damaged Avro container."""

    code = "corrupt_object"


class HeaderCut(SluiceError):
    """The header is longer than the bytes that were read: read more."""

    code = "header_cut"
    retriable = True
    next_step = "None: the caller reads more of the object"


class UnsupportedFormat(SluiceError):
    """An object in a format that this release can't read; facts: `format`."""

    code = "unsupported_format"
    next_step = _WRITABLE


class UnreadableObject(SluiceError):
    """An object on which a reader raised an unexpected error; facts: `cause`."""

    code = "unreadable_object"
    next_step = "Upload the object again, or report the cause and RETRY with a release that reads it"


class NotJsonLines(SluiceError):
    """An object that isn't one JSON object per line; facts: `record` (from 0), `begins`."""

    code = "not_json_lines"
    next_step = "Let the connector write newline-delimited JSON, each record an object"


class NotCsv(SluiceError):
    """An object that isn't CSV in UTF-8; facts: `begins`, the first bytes in hexadecimal, or `row` (from 1)."""

    code = "not_csv"
    next_step = "Let the writer write CSV by RFC 4180, in UTF-8, one file per object"


class CsvWithoutHeader(SluiceError):
    """A CSV object whose first row doesn't name the columns; facts: `names`."""

    code = "csv_without_header"
    next_step = (
        "Let the writer put the names of the columns into the first row (AWS DMS: AddColumnName=true), or list them in"
        " the rule's `csv: {columns: [...]}`; push it, then RETRY"
    )


class RaggedCsv(SluiceError):
    """A CSV object with a row of more or fewer values than columns; facts: `row` (from 1), `expected`, `found`."""

    code = "ragged_csv"
    next_step = (
        "Correct the row and upload the object again. If `csv: {columns: [...]}` or `delimiter` of the table's rule "
        "don't fit the object, correct them and RETRY"
    )


class TooManySchemas(SluiceError):
    """An object whose records carry too many different schemas."""

    code = "too_many_schemas"
    next_step = "Let the connector write each table's changes to a separate topic"


class SchemaNotInferred(SluiceError):
    """Records without a schema, read before their schema was inferred: a defect in Sluice."""

    code = "schema_not_inferred"
    next_step = "Report it with the object's key. With a release that corrects it: RETRY"


class DamagedJson(DamagedObject):
    """Text that is not JSON, or JSON that can't be stored: too deep, or with half of a surrogate pair."""

    code = "damaged_json"


class DamagedGzip(DamagedObject):
    """A damaged gzip file; facts: `bytes`."""

    code = "damaged_gzip"


class DamagedZstd(DamagedObject):
    """A damaged zstd file; facts: `bytes`."""

    code = "damaged_zstd"


class NotParquet(SluiceError):
    """An object that doesn't end like a Parquet file; facts: `ends`, the last bytes in hexadecimal."""

    code = "not_parquet"
    next_step = "Configure the connector's format, or narrow the rule's `topic` or `key_pattern` to other keys"

    @classmethod
    def of(cls, begin: bytes, end: bytes) -> NotParquet:
        """The error of an object with these first and last bytes. Says as which other format it begins."""
        other = begins_as(begin, cls.code)
        message = "The object is not a Parquet file" + (f" but begins as {other.name}" if other else "")
        if begin.startswith(b"PAR1"):
            message, other = "The Parquet file ends early", OtherFormat("Parquet", DamagedObject.next_step)
        return cls(message, next_step=other and other.next_step, ends=end[-16:].hex(), empty=not end)


class DamagedParquet(DamagedObject):
    """A Parquet file whose footer or data can't be read."""

    code = "damaged_parquet"


class UnsupportedParquet(SluiceError):
    """A sound Parquet file that can't be read: encrypted, an unsupported codec, or a footer that is too large."""

    code = "unsupported_parquet"
    next_step = (
        "Let the connector write Parquet with snappy, gzip or zstd, unencrypted, in smaller objects with fewer columns"
        " and row groups"
    )


class UndecodableValue(SluiceError):
    """A record with a value that doesn't match its schema; facts: `record`, `cause`."""

    code = "undecodable_value"
    next_step = (
        "Correct the value at the source, or the type that the rule's `types` gives its column; push that, then RETRY"
    )


class TooManyBadRows(SluiceError):
    """An object with more unmergeable records than the limit; facts: `limit`, `last_code`."""

    code = "too_many_bad_rows"
    next_step = "Correct the cause in the message, then RETRY; the table's limit is quarantined_rows"
