"""Which topic an object's key says it holds, or the rule by which it is no change file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sluice.names import TOPIC

CHANGE_FILE, IGNORED, UNROUTABLE = "change_file", "ignored", "unroutable"
FIRST, LAST = "first", "last"  # which of an object's offsets its name tells

AVRO, JSON, PARQUET = "avro", "json", "parquet"
READABLE_FORMATS = frozenset({AVRO, JSON, PARQUET})
# What the sinks append: Parquet's codec stands in the name (Confluent: topic+0+0.snappy.parquet), JSON's behind it.
_EXTENSIONS = (
    (".avro", AVRO),
    *((f"{end}{packed}", JSON) for end in (".json", ".jsonl", ".ndjson") for packed in ("", ".gz", ".gzip")),
    *((f"{codec}.parquet", PARQUET) for codec in (".snappy", ".gz", ".gzip", ".zstd", ".lz4", ".brotli", "")),
    (".bin", "bytes"),  # Confluent's ByteArrayFormat: named, so that it isn't taken for a stray file
    (
        ".gz",
        JSON,
    ),  # Lenses' JSON when it is packed (FileExtensionNamer.scala); of a file that no sink has named it says too little
)

# <topic>+<partition>+<first offset>: Confluent's S3 sink. <topic>(<partition>_<last offset>)<key.suffix>: Lenses'.
_CONFLUENT = re.compile(r"(?P<topic>.+)\+(?P<partition>[0-9]{1,9})\+(?P<offset>[0-9]{1,18})")
_LENSES = re.compile(r"(?P<topic>.+)\((?P<partition>[0-9]{1,9})_(?P<offset>[0-9]{1,18})\)[^()./]{0,64}")
# <topic>/<partition>/<last offset>[_<earliest>_<latest timestamp>]: Lenses' without PARTITIONBY. The offset is padded (8 digits, later 12)
# or has its timestamps: a bare number in a folder called by a number is as well a day in a month.
# https://github.com/lensesio/stream-reactor, sink/naming/FileNamer.scala: OffsetFileNamer
_LENSES_OFFSET = re.compile(
    r"(?P<offset>[0-9]{8,18}|[0-9]{1,18}(?=_))(_[0-9]{1,19}_[0-9]{1,19}([^0-9()./][^()./]{0,63})?)?"
)
_LENSES_FOLDERS = re.compile(r"(?:.*/)?(?P<topic>[^/]+)/(?P<partition>[0-9]{1,12})")
_PARTITION = re.compile(r"partition=([0-9]{1,9})")
# Behind the topic of a folder above: Confluent's name with another `file.delim`. By the default padding of ten digits it is no date.
# https://docs.confluent.io/kafka-connectors/s3-sink/current/configuration_options.html
_DELIMITED = re.compile(r"(?P<delim>[^0-9A-Za-z]{1,8})(?P<partition>[0-9]{1,9})(?P=delim)(?P<offset>[0-9]{10,18})")
_TOPICS_FOLDER = "topics"
_TOMBSTONE_FOLDER = "tombstone"


@dataclass(frozen=True)
class Route:
    """Where a key leads. `kind` is "change_file", "ignored" (by `rule`) or "unroutable" (for `reason`).

    `offset` is the first or the last Kafka offset of the object, by `offset_is`.
    """

    kind: str
    topic: str | None = None
    kafka_partition: int | None = None
    offset: int | None = None
    format: str | None = None
    offset_is: str | None = None
    rule: str | None = None
    reason: str | None = None


def classify(key: str, size: int | None) -> Route:
    """Route a decoded key (`size` in bytes, None when not known).

    What Kafka Connect's sinks write beside the values (keys, headers, tombstones) and markers are
    ignored by a named rule; everything else that names no topic is unroutable, which an operator sees.
    """
    folders, _, file = key.rpartition("/")
    if not file:
        if size:
            return Route(UNROUTABLE, reason="the key ends with / and names no file")
        return Route(IGNORED, rule="folder_marker")
    if file.endswith("_$folder$"):
        return Route(IGNORED, rule="folder_marker")
    extension, file_format = next(((end, name) for end, name in _EXTENSIONS if file.endswith(end)), ("", None))
    stem = file[: len(file) - len(extension)]
    named = _CONFLUENT.fullmatch(stem) or _LENSES.fullmatch(stem) if file_format else None
    counted = _LENSES_OFFSET.fullmatch(stem) if file_format else None
    above = _LENSES_FOLDERS.fullmatch(folders) if counted else None
    delimited = _below_topic(folders, stem) if file_format and not named and not above else None
    topic = (
        named["topic"] if named else above["topic"] if above else delimited[0] if delimited else _topic_folder(folders)
    )
    # A topic may be called tombstone itself: its own folder is then no tombstone folder.
    if folders.split("/").count(_TOMBSTONE_FOLDER) > (1 if topic == _TOMBSTONE_FOLDER else 0):
        return Route(IGNORED, rule="tombstone_folder")
    for side in ("keys", "headers"):
        if file_format and stem.endswith("." + side):
            return Route(IGNORED, rule=f"{side}_file")
    if named is None and delimited is None and file.startswith(("_", ".")):
        return Route(IGNORED, rule="hidden_file")
    if file_format is None or extension == ".gz" and not (above or named and named.re is _LENSES):
        return Route(
            UNROUTABLE, reason="the file's extension is none that holds changes (.avro, .json, .json.gz, .parquet)"
        )
    if topic is None:
        return Route(UNROUTABLE, reason="neither the file's name nor a topics/<topic>/ folder tells a topic")
    if not TOPIC.fullmatch(topic):
        return Route(UNROUTABLE, reason="the topic's name is not one that Kafka allows")
    if counted is not None and above is not None:
        return Route(CHANGE_FILE, topic, int(above["partition"]), int(counted["offset"]), file_format, LAST)
    if delimited is not None:
        return Route(
            CHANGE_FILE, topic, int(delimited[1]["partition"]), int(delimited[1]["offset"]), file_format, FIRST
        )
    if named is None:
        return Route(CHANGE_FILE, topic, _folder_partition(folders), None, file_format)
    offset_is = FIRST if named.re is _CONFLUENT else LAST
    return Route(CHANGE_FILE, topic, int(named["partition"]), int(named["offset"]), file_format, offset_is)


def first_offset(route: Route, records: int) -> int | None:
    """The Kafka offset to give an object's first of `records` records; None when the name tells none.

    Counted back from the last one where the name tells that. Tombstones that a sink leaves out shift
    the count, but never past the object before: fit for order, not for identity.
    """
    if route.offset is None or route.offset_is != LAST:
        return route.offset
    return max(0, route.offset - max(records, 1) + 1)


def _topic_folder(folders: str) -> str | None:
    parts = folders.split("/")
    if _TOPICS_FOLDER in parts:
        at = parts.index(_TOPICS_FOLDER) + 1
        return parts[at] if at < len(parts) and parts[at] else None
    return None


def _below_topic(folders: str, stem: str) -> tuple[str, re.Match[str]] | None:
    """The folder that a file is named by, with what follows: the topic's, whatever is above and below it."""
    for folder in folders.split("/"):
        found = _DELIMITED.fullmatch(stem, len(folder)) if folder and stem.startswith(folder) else None
        if found is not None:
            return folder, found
    return None


def _folder_partition(folders: str) -> int | None:
    found = [match for match in map(_PARTITION.fullmatch, folders.split("/")) if match]
    return int(found[-1][1]) if found else None
