"""Classifies an object by its key: the topic whose changes it holds, or the rule by which it is no change file."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from sluice.config.document import MARKER_FORMAT, Configuration, KeyMatch
from sluice.config.key_pattern import KeyName
from sluice.config.rules.ignore import LEFT_OUT
from sluice.config.table import TableConfig
from sluice.names import TOPIC, TOPIC_REFUSED
from sluice.objects import ObjectId

CHANGE_FILE, IGNORED, UNROUTABLE = "change_file", "ignored", "unroutable"
FIRST, LAST = "first", "last"  # which of an object's offsets its name holds

AVRO, JSON, PARQUET, CSV = "avro", "json", "parquet", "csv"
READABLE_FORMATS = frozenset({AVRO, JSON, PARQUET, CSV})
MARKER = MARKER_FORMAT  # of an object without rows, which says that a full dump is complete
# The extensions that writers append. The codec precedes `.parquet` (topic+0+0.snappy.parquet) and follows the others.
_EXTENSIONS = (
    (".avro", AVRO),
    *(
        (f"{end}{packed}", JSON)
        for end in (".json", ".jsonl", ".ndjson")
        for packed in ("", ".gz", ".gzip", ".zst", ".zstd")
    ),
    *((f".csv{packed}", CSV) for packed in ("", ".gz", ".gzip")),
    *((f"{codec}.parquet", PARQUET) for codec in (".snappy", ".gz", ".gzip", ".zstd", ".lz4", ".brotli", "")),
    (".bin", "bytes"),  # Confluent's ByteArrayFormat: listed, so that such a file doesn't count as stray
    # Lenses' compressed JSON (FileExtensionNamer.scala). Accepted only for a name that a sink made.
    (".gz", JSON),
)

# <topic>+<partition>+<first offset>: Confluent's S3 sink. <topic>(<partition>_<last offset>)<key.suffix>: Lenses'.
_CONFLUENT = re.compile(r"(?P<topic>.+)\+(?P<partition>[0-9]{1,9})\+(?P<offset>[0-9]{1,18})")
_LENSES = re.compile(r"(?P<topic>.+)\((?P<partition>[0-9]{1,9})_(?P<offset>[0-9]{1,18})\)[^()./]{0,64}")
# <topic>/<partition>/<last offset>[_<earliest>_<latest timestamp>]: Lenses' without PARTITIONBY. The offset must be
# padded (8 digits, later 12) or carry timestamps: a bare number in a numbered folder may as well be a day of a month.
# https://github.com/lensesio/stream-reactor, sink/naming/FileNamer.scala: OffsetFileNamer
_LENSES_OFFSET = re.compile(
    r"(?P<offset>[0-9]{8,18}|[0-9]{1,18}(?=_))(_[0-9]{1,19}_[0-9]{1,19}([^0-9()./][^()./]{0,63})?)?"
)
_LENSES_FOLDERS = re.compile(r"(?:.*/)?(?P<topic>[^/]+)/(?P<partition>0*[0-9]{1,5})")  # 202611 is no partition
# `2026/20261121.csv` and `2026/11/20261121.csv` of other writers: a date below folders of years or of parts.
YEAR, MONTH, DAY = "(?:19|20)[0-9]{2}", "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
_DATED = re.compile(f"{YEAR}{MONTH}{DAY}[0-9]*")
_PARTITION = re.compile(r"partition=([0-9]{1,9})")
# After the topic, which a folder above repeats: Confluent's name with another `file.delim`. The default padding of
# ten digits tells it from a date.
# https://docs.confluent.io/kafka-connectors/s3-sink/current/configuration_options.html
_DELIMITED = re.compile(r"(?P<delim>[^0-9A-Za-z]{1,8})(?P<partition>[0-9]{1,9})(?P=delim)(?P<offset>[0-9]{10,18})")
# <schema>/<table>[/<date>]/LOAD0000000A of a full load or 20141029-1134010000 of changes: AWS DMS, without an offset.
# https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html
_DMS_LOAD = r"LOAD[0-9A-F]{8}"
DMS_FILE = rf"{_DMS_LOAD}|[0-9]{{8}}-[0-9]{{6,12}}"
_DMS = re.compile(DMS_FILE)
_FULL_LOAD = re.compile(rf"(?:.*/)?{_DMS_LOAD}(?:\.[^/]*)?")
_DMS_DATE = re.compile(r"[0-9_-]+")
_TOPICS_FOLDER = "topics"
# Folders in which writers work, or keep their logs, wherever they lie.
_WORK_FOLDERS = frozenset({"_temporary", "_delta_log", "_spark_metadata", "_tmp", ".tmp", ".hoodie", "+tmp"})
_STAGING = (".spark-staging", ".hive-staging")
_TOMBSTONE_FOLDER = "tombstone"


@dataclass(frozen=True)
class Route:
    """The class of a key. `kind` is "change_file", "ignored" (by `rule`) or "unroutable" (for `reason`).

    `offset` is the object's first or last Kafka offset, as `offset_is` says.
    """

    kind: str
    topic: str | None = None
    kafka_partition: int | None = None
    offset: int | None = None
    format: str | None = None
    offset_is: str | None = None
    rule: str | None = None
    reason: str | None = None


def is_full_load(key: str) -> bool:
    """True if a key is named as AWS DMS names the files of a full load."""
    return _FULL_LOAD.fullmatch(key) is not None


def route_of(key: str, size: int | None, configuration: Configuration | None) -> Route:
    """Classify a decoded key by the rules in force, if any. What they ignore has the rule LEFT_OUT and the pattern.

    `size` is in bytes, None when unknown.
    """
    if configuration is None:
        return classify(key, size)
    route = classify(key, size, configuration.match_key(key))
    if route.kind == IGNORED:
        return route
    ignore = configuration.ignore
    pattern = ignore.of_key(key) or (ignore.of_topic(route.topic) if route.topic else None)
    return route if pattern is None else replace(route, kind=IGNORED, rule=LEFT_OUT + pattern)


def identities(id: ObjectId, size: int | None, configuration: Configuration | None) -> tuple[ObjectId, ...]:
    """The identities under which the ledger has an object: its own, and one for each table of a rule with `also`."""
    if configuration is None or not any(rule.also for rule in configuration.rules):
        return (id,)
    route = route_of(id.key, size, configuration)
    first = configuration.table_for_topic(route.topic) if route.topic else None
    others = [config for config in configuration.tables_for_topic(route.topic or "") if config != first]
    if route.format == MARKER and first is not None:  # it says nothing to a table that no dump replaces
        others = [config for config in others if config.snapshot == first.snapshot]
    return (id, *(replace(id, also_for=config.table) for config in others))


def classify(key: str, size: int | None, match: KeyMatch | None = None) -> Route:
    """Classify a decoded key. `size` is in bytes, None when unknown; `match` is that of a rule's `key_pattern`.

    Markers, and the keys, headers and tombstones that Kafka Connect's sinks write beside the values, are ignored by a
    named rule, matched or not: so that a rule for `.*` takes no marker. Any other key without a topic is unroutable,
    and its object is parked for an operator.
    """
    folders, _, file = key.rpartition("/")
    if not file:
        if size:
            return Route(UNROUTABLE, reason="the key ends with / and names no file")
        return Route(IGNORED, rule="folder_marker")
    if file.endswith("_$folder$"):
        return Route(IGNORED, rule="folder_marker")
    if match is not None and match.format == MARKER:
        return Route(CHANGE_FILE, match.name.topic, format=MARKER)
    extension, file_format = next(((end, name) for end, name in _EXTENSIONS if file.endswith(end)), ("", None))
    stem = file[: len(file) - len(extension)]
    name = _sink_name(folders, stem) if file_format else None
    topic = (
        name.topic
        if name
        else _topic_folder(folders, by_dms=file_format in (PARQUET, CSV) and bool(_DMS.fullmatch(stem)))
    )
    # The folder of a topic named `tombstone` is not a tombstone folder.
    if match is None and folders.split("/").count(_TOMBSTONE_FOLDER) > (1 if topic == _TOMBSTONE_FOLDER else 0):
        return Route(IGNORED, rule="tombstone_folder")
    for side in ("keys", "headers"):
        if file_format and stem.endswith("." + side):
            return Route(IGNORED, rule=f"{side}_file")
    if name is None and file.startswith(("_", ".")) or file.endswith("._COPYING_"):
        return Route(IGNORED, rule="hidden_file")
    if _in_hidden_folder(folders.split("/"), topic, match, by_sink=name is not None):
        return Route(IGNORED, rule="hidden_folder")
    if match is not None:
        return _matched(match, None if extension == ".gz" else file_format)
    if file.endswith(".orc"):
        return Route(UNROUTABLE, reason="the file is ORC: let the writer write Avro, JSON, Parquet or CSV")
    if file_format is None or extension == ".gz" and not (name and name.is_last):
        return Route(
            UNROUTABLE, reason="the file's extension is not one of .avro, .json, .csv (or .gz of both), .parquet"
        )
    if topic is None:
        return Route(UNROUTABLE, reason="neither the file's name nor a topics/<topic>/ folder names a topic")
    if not TOPIC.fullmatch(topic):
        return Route(UNROUTABLE, reason=TOPIC_REFUSED)
    if name is None:
        return Route(CHANGE_FILE, topic, _folder_partition(folders), None, file_format)
    return Route(CHANGE_FILE, topic, name.partition, name.offset, file_format, LAST if name.is_last else FIRST)


def _in_hidden_folder(folders: list[str], topic: str | None, match: KeyMatch | None, *, by_sink: bool) -> bool:
    """Whether an object lies in a folder that readers of folders pass over, where writers keep unfinished files.

    Spark, Hive and Hudi pass over names that begin with a dot, and over those with an underscore that aren't
    `column=value`. Folders that a rule spells out are the user's own, as are a topic's folder and those above it. A key
    that no rule and no topic claims is left to wait for a rule, but for work folders.
    """
    own = match.name.spelled_out if match is not None else {topic} if by_sink else set()
    if any(folder in _WORK_FOLDERS or folder.startswith(_STAGING) for folder in folders if folder not in own):
        return True
    if match is None:
        if topic is None:
            return False
        folders = folders[folders.index(topic) + 1 :] if topic in folders else []
    others = (folder for folder in folders if folder not in own)
    return any(folder.startswith(".") or folder.startswith("_") and "=" not in folder for folder in others)


def _matched(match: KeyMatch, file_format: str | None) -> Route:
    """The route of a key by a rule. Its format goes before that of the extension, which may name a codec only."""
    name = match.name
    read_as = match.format or file_format or match.otherwise
    if read_as is None:
        return Route(UNROUTABLE, reason="the key's extension names no format: add `format` to the rule that matches it")
    offset_is = None if name.offset is None else LAST if name.is_last else FIRST
    return Route(CHANGE_FILE, name.topic, name.partition, name.offset, read_as, offset_is)


def first_offset(route: Route, records: int) -> int | None:
    """The Kafka offset of the first of an object's `records` records, None when its name holds no offset.

    From a name that holds the last offset, it is counted back. Tombstones that a sink leaves out shift the result, but
    never past the object before: it may serve for order, not for identity.
    """
    if route.offset is None or route.offset_is != LAST:
        return route.offset
    return max(0, route.offset - max(records, 1) + 1)


def by_time(offset: int | None, config: TableConfig | None) -> bool:
    """Whether an object's time in S3 may order its rows: it has no offset in its name, which is `offset`.

    Rows that a log or a column orders need it where they tie. Each record of an append-only table is a row of its own.
    """
    return offset is None and (config is None or not config.append_only and not config.coordinates)


def _sink_name(folders: str, stem: str) -> KeyName | None:
    """What a name tells that a sink made. The offset in one by Lenses is the object's last, in any other the first."""
    for pattern in (_CONFLUENT, _LENSES):
        match = pattern.fullmatch(stem)
        if match:
            return KeyName(match["topic"], int(match["partition"]), int(match["offset"]), pattern is _LENSES)
    counted = _LENSES_OFFSET.fullmatch(stem)
    above = _LENSES_FOLDERS.fullmatch(folders) if counted else None
    if counted and above and not _is_dated(counted["offset"], above["topic"], above["partition"]):
        return KeyName(above["topic"], int(above["partition"]), int(counted["offset"]), True)
    for folder in filter(None, folders.split("/")):
        # A file whose name begins with the name of a folder above: that folder is the topic's.
        delimited = _DELIMITED.fullmatch(stem, len(folder)) if stem.startswith(folder) else None
        if delimited:
            return KeyName(folder, int(delimited["partition"]), int(delimited["offset"]), False)
    return None


def _is_dated(number: str, above: str, folder: str) -> bool:
    """Whether a file's number is a date in the folder of a year, or in one below a folder of a number."""
    return bool(_DATED.fullmatch(number)) and (bool(re.fullmatch(YEAR, folder)) or above.isdigit())


def _topic_folder(folders: str, *, by_dms: bool) -> str | None:
    """The folder below `topics`, or the schema and the table that AWS DMS names with two."""
    _, topics, below = f"/{folders}/".partition(f"/{_TOPICS_FOLDER}/")
    parts = below.rstrip("/").split("/")
    while by_dms and len(parts) > 1 and _DMS_DATE.fullmatch(parts[-1]):
        parts.pop()
    if by_dms and len(parts) == 2 and "=" not in parts[1]:
        return ".".join(parts)
    return parts[0] or None if topics else None


def _folder_partition(folders: str) -> int | None:
    matches = [match for match in map(_PARTITION.fullmatch, folders.split("/")) if match]
    return int(matches[-1][1]) if matches else None
