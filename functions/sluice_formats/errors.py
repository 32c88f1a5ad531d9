"""Errors of decoding: what is wrong with an object's bytes or its records."""

from __future__ import annotations

from sluice.errors import SluiceError


class NullRecordKey(SluiceError):
    """A record without a value in its key; facts: `column`, `record`."""

    code = "null_record_key"
    next_step = "Give the table a record_key that every row has"


class NoCoordinates(SluiceError):
    """A record without the Kafka partition and offset that its table knows rows by; facts: `column`, `record`."""

    code = "no_coordinates"
    next_step = "Let the connector write both with every record, or leave `coordinates` out"


class UnsupportedOperation(SluiceError):
    """A change that is none of create, update, delete, snapshot read, truncate and message; facts: `op`, `record`."""

    code = "unsupported_operation"
    next_step = "Let the connector skip this operation (skipped.operations)"


class ValueOutOfRange(SluiceError):
    """A value that its column's stored type can't hold; facts: `column`."""

    code = "value_out_of_range"
    next_step = "Correct the value at the source, or change how the connector writes this column"


class UnusableRecordKey(SluiceError):
    """A key that Hudi can't hold, or would take for the key of another row; facts: `column`, `record`."""

    code = "unusable_record_key"
    next_step = "Give the table a record_key whose texts are not empty and don't hold what joins the parts of a key"


class InexactRecordKey(SluiceError):
    """A date or timestamp in a key that its stored type doesn't hold: stored as null or cut, it would be another row's key; facts: `column`, `record`."""

    code = "inexact_record_key"
    next_step = "Give the topic a table that has the column in its `raw`, as the connector counts it"


class UnusablePartitionValue(SluiceError):
    """A value of a partition column that can't be the name of a folder; facts: `column`, `record`."""

    code = "unusable_partition_value"
    next_step = "Partition the table by a column of shorter values"


class NotAvro(SluiceError):
    """The object does not begin as an Avro container file; facts: `begins`, the first bytes in hexadecimal."""

    code = "not_avro"
    next_step = "Configure the connector's format, or let the table's rule leave these keys out"


class CorruptObject(SluiceError):
    """An Avro container whose header can't be read, however much of it there is."""

    code = "corrupt_object"
    next_step = "Have the writer put the object again"


class HeaderCut(SluiceError):
    """The header is longer than the bytes at hand: read more."""

    code = "header_cut"
    retriable = True


class UnsupportedFormat(SluiceError):
    """An object in a format that this release doesn't read."""

    code = "unsupported_format"
    next_step = "Let the connector write Avro, JSON or Parquet"


class UnreadableObject(SluiceError):
    """An object that a reader stumbles over in a way that nobody has thought of; facts: `cause`."""

    code = "unreadable_object"
    next_step = "Have the writer put the object again, or `sluice quarantine retry` with a release that reads it; tell its maintainers the cause"


class NotJsonLines(SluiceError):
    """An object that isn't one JSON object per line; facts: `record` (from 0), `begins`."""

    code = "not_json_lines"
    next_step = "Let the connector write newline-delimited JSON, each record an object"


class TooManySchemas(SluiceError):
    """An object whose records carry more schemas than any source has changes; facts: none."""

    code = "too_many_schemas"
    next_step = "Let the connector write one table's changes to a topic"


class SchemaNotInferred(SluiceError):
    """Records without a schema whose schema was not inferred before they were read: a mistake of the program."""

    code = "schema_not_inferred"


class DamagedJson(SluiceError):
    """Text that is not JSON, or JSON that can't be kept: too deep, or with half of a surrogate pair."""

    code = "damaged_json"
    next_step = "Have the writer put the object again"


class DamagedGzip(SluiceError):
    """Bytes that begin as gzip and don't go on or end as gzip; facts: `bytes`."""

    code = "damaged_gzip"
    next_step = "Have the writer put the object again"


class NotParquet(SluiceError):
    """The object doesn't end as a Parquet file; facts: `ends`, the last bytes in hexadecimal."""

    code = "not_parquet"
    next_step = "Configure the connector's format, or let the table's rule leave these keys out"


class DamagedParquet(SluiceError):
    """A Parquet file whose footer or data can't be read."""

    code = "damaged_parquet"
    next_step = "Have the writer put the object again"


class UnsupportedParquet(SluiceError):
    """A Parquet file that is sound and can't be read here: encrypted, a codec that nothing here has, a footer too long."""

    code = "unsupported_parquet"
    next_step = "Let the connector write Parquet with snappy, gzip or zstd, unencrypted, in smaller objects"


class UndecodableValue(SluiceError):
    """A record of which a value is not what its schema says; facts: `record`, `cause`."""

    code = "undecodable_value"
    next_step = "Correct the value at the source; the record's bytes are kept with it"


class TooManyBadRows(SluiceError):
    """An object of which more records than the limit can't be merged; facts: `limit`, `last_code`."""

    code = "too_many_bad_rows"
    next_step = "Mend what the message says, then `sluice quarantine retry`; the table's limit is quarantined_rows"
