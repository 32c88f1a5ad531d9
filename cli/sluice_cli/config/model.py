"""The form of tables.yaml: its keys, their types and what they mean, for validation and for editors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from sluice.changes.hidden_columns import LINEAGE_WORDS
from sluice.config.hudi_overrides import refusal
from sluice.config.lane import LaneConfig
from sluice.config.limits import Limits
from sluice.config.placeholders import placeholders
from sluice.names import LANE
from sluice.schema.columns import RAW_ALL
from sluice_cli.config.services import Services
from sluice_cli.config.units import DURATION_SCHEMA, SECONDS, Bytes, Names, Seconds, names, seconds
from sluice_formats.json_schema import TYPE_PATTERN, UnknownType, declared_type


def _lifetime(value: Any) -> int:
    """A run that ended before its first look would be started again for ever, and never claim anything."""
    found = seconds(value)
    if not 60 <= found <= 7 * SECONDS["d"]:
        raise ValueError("is from 1m to 7d")
    return found


def _whole_hours(value: Any) -> int:
    hours, rest = divmod(seconds(value), 3_600)
    if rest or not hours:
        raise ValueError("is at least one hour, and whole hours, such as 24h or 7d")
    return hours


def _raw(value: Any) -> tuple[str, ...]:
    if isinstance(value, bool):
        return (RAW_ALL,) if value else ()
    if not isinstance(value, (str, list)):
        raise ValueError("is true, a column name or a list of column names")
    return names(value)


def _options(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("is a mapping of Hudi options to values")
    found: dict[str, str] = {}
    wrong = []
    for option, setting in value.items():
        why = refusal(str(option))
        if why is not None:
            wrong.append(f"{option} {why}")
        elif isinstance(setting, bool):
            found[str(option)] = "true" if setting else "false"
        elif isinstance(setting, (str, int, float)):
            found[str(option)] = str(setting)
        else:
            wrong.append(f"{option} needs one value")
    if wrong:
        raise ValueError("; ".join(wrong))
    return found


def _json_types(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError("is a mapping of columns to types")
    wrong = []
    for column, kind in value.items():
        try:
            declared_type(str(kind))
        except UnknownType as error:
            wrong.append(f"{column} {error}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return {str(column): str(kind) for column, kind in value.items()}


def _lane_name(value: Any) -> str:
    if not isinstance(value, str) or not LANE.fullmatch(value):
        raise ValueError("is a lane's name: at most 32 of a-z, 0-9 and -")
    return value


def _lineage(value: Any) -> tuple[str, ...]:
    """`on` and `off` are true and false to YAML."""
    if isinstance(value, bool):
        return LINEAGE_WORDS if value else ()
    if value in ("on", "off"):
        return LINEAGE_WORDS if value == "on" else ()
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not set(map(str, listed)) <= set(LINEAGE_WORDS):
        raise ValueError(f"is on, off or a list of {', '.join(LINEAGE_WORDS)}")
    return tuple(word for word in LINEAGE_WORDS if word in listed)


def _coordinates(value: Any) -> tuple[str, ...]:
    if (
        not isinstance(value, list)
        or len(value) != 2
        or not all(isinstance(name, str) and name for name in value)
        or value[0] == value[1]
    ):
        raise ValueError("is a list of two columns: that of the Kafka partition, then that of the offset")
    return tuple(value)


def _placeholder(value: Any) -> str:
    """A short one would be taken for real values."""
    if not isinstance(value, str) or not 8 <= len(value) <= 1_000:
        raise ValueError("is text of 8 to 1,000 characters")
    try:
        placeholders(value)
    except ValueError as error:
        raise ValueError("has hex: and then no hexadecimal digits") from error
    return value


def _catalog(value: Any) -> dict[str, Any]:
    """`off` keeps a table out of the catalog; under `views` it means none. The patterns are looked at with the rule that they make."""
    if value in (False, "off"):
        return {"sync": False}
    if value in (True, "on"):
        return {"sync": True}
    if not isinstance(value, dict) or not set(value) <= {"database", "tables", "views"}:
        raise ValueError("is off, or a mapping of database, tables and views to patterns")
    patterns = {
        str(key): None if key == "views" and pattern in (False, "off") else pattern for key, pattern in value.items()
    }
    wrong = [
        key
        for key, pattern in patterns.items()
        if not isinstance(pattern, str) and not (key == "views" and pattern is None)
    ]
    if wrong:
        raise ValueError(f"has {wrong[0]}, which is a pattern such as {{table}}_all")
    return {"sync": True, **patterns}


def _slice(value: Any) -> int:
    """Too short a slice is all overhead, and ingest waits for a whole one."""
    found = seconds(value)
    if not 5 <= found <= 600:
        raise ValueError("is between 5s and 10m")
    return found


Slice = Annotated[int, BeforeValidator(_slice), DURATION_SCHEMA]
Lifetime = Annotated[int, BeforeValidator(_lifetime), DURATION_SCHEMA]
Hours = Annotated[
    int, BeforeValidator(_whole_hours), WithJsonSchema({"type": "string", "pattern": "^[1-9][0-9]{0,6}[mhds]$"})
]
Raw = Annotated[
    tuple[str, ...],
    BeforeValidator(_raw),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True},
            ]
        }
    ),
]
Coordinates = Annotated[
    tuple[str, ...],
    BeforeValidator(_coordinates),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "minItems": 2,
            "maxItems": 2,
            "uniqueItems": True,
        }
    ),
]
Options = Annotated[
    dict[str, str],
    BeforeValidator(_options),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}),
]
ColumnName = Annotated[str, Field(min_length=1, max_length=255)]
JsonTypes = Annotated[
    dict[str, str],
    BeforeValidator(_json_types),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string", "pattern": TYPE_PATTERN}}),
]
Lineage = Annotated[
    tuple[str, ...],
    BeforeValidator(_lineage),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"enum": ["on", "off", *LINEAGE_WORDS]},
                {"type": "array", "items": {"enum": list(LINEAGE_WORDS)}, "uniqueItems": True},
            ]
        }
    ),
]
_PATTERN_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 255}
Catalog = Annotated[
    dict[str, Any],
    BeforeValidator(_catalog),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"enum": ["on", "off"]},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "database": _PATTERN_SCHEMA,
                        "tables": _PATTERN_SCHEMA,
                        "views": {"anyOf": [_PATTERN_SCHEMA, {"const": False}]},
                    },
                },
            ]
        }
    ),
]
Placeholder = Annotated[
    str, BeforeValidator(_placeholder), WithJsonSchema({"type": "string", "minLength": 8, "maxLength": 1_000})
]
LaneName = Annotated[
    str, BeforeValidator(_lane_name), WithJsonSchema({"type": "string", "pattern": f"^{LANE.pattern}$"})
]
Cores = Literal[1, 2, 4, 8, 16]  # the worker sizes of EMR Serverless
Memory = Annotated[int, Field(strict=True, ge=2, le=108, description="GB, without the overhead that Spark adds")]
Count = Annotated[int, Field(strict=True, ge=1, le=100_000_000)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class LimitsOf(_Strict):
    """How large, deep and wide an object may be before it is quarantined instead of read."""

    object_bytes: Bytes | None = Field(None, description="An object's size as stored; 256MiB unless told")
    decoded_bytes: Bytes | None = Field(
        None, description="What an object may become, decompressed and as rows; 1GiB unless told"
    )
    block_bytes: Bytes | None = Field(None, description="What one block of an object may become; 128MiB unless told")
    object_rows: Count | None = Field(None, description=f"An object's records; {Limits.object_rows:,} unless told")
    schema_columns: Annotated[int, Field(strict=True, ge=1, le=4_096)] | None = Field(
        None, description=f"Fields of one record; {Limits.schema_columns:,} unless told"
    )
    schema_depth: Annotated[int, Field(strict=True, ge=2, le=32)] | None = Field(
        None, description=f"Types within types; {Limits.schema_depth} unless told"
    )
    schema_types: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] | None = Field(
        None, description=f"All types of a schema; {Limits.schema_types:,} unless told"
    )
    quarantined_rows: Annotated[int, Field(strict=True, ge=0, le=100_000)] | None = Field(
        None,
        description=f"Rows of one object that may be set aside while the others are merged; {Limits.quarantined_rows:,} unless told",
    )


class Settings(_Strict):
    """What a rule says of its tables; under `defaults`, what a rule that doesn't say takes over."""

    record_key: Names | None = Field(
        None, description="The columns that identify a row; {1} is the first * of the topic"
    )
    partition_by: Names | None = Field(
        None, description="The columns whose values are the table's folders; [] for none"
    )
    table_type: Literal["cow", "mor"] | None = Field(
        None, description="cow: copy on write, quick to read. mor: merge on read, quick to write"
    )
    delete_mode: Literal["soft", "hard", "ignore"] | None = Field(
        None,
        description="soft: kept as a hidden row. hard: removed later by table services. ignore: a deleted row keeps its values and stays visible",
    )
    keep_deleted_values: Annotated[bool, Field(strict=True)] | None = Field(
        None,
        description="A deleted row keeps the values that its deletion brings, and its partition by them: the source has to send whole rows",
    )
    unavailable_value: Placeholder | None = Field(
        None,
        description="The connector's unavailable.value.placeholder, where it isn't the default: text, or hex: and digits",
    )
    freshness: Seconds | None = Field(
        None, description="The table isn't committed more often than this; 0 for demonstrations"
    )
    time_travel: Hours | None = Field(None, description="How far back the table can be read as it was")
    lane: LaneName | None = Field(None, description="The tables of one lane share Spark runs")
    generation: Annotated[int, Field(strict=True, ge=0, le=9_999)] | None = Field(
        None, description="Raise it when the source's log starts again lower"
    )
    paused: Annotated[bool, Field(strict=True)] | None = Field(None, description="Objects are admitted and wait")
    raw: Raw | None = Field(
        None,
        description="Dates and times are stored as the connector counts them: true for all columns, or their names",
    )
    rewrite_limit: Bytes | None = Field(
        None,
        description="A table larger than this isn't written anew for a decimal's new scale or a list's wider items; what brings the change waits in quarantine",
    )
    position: ColumnName | None = Field(
        None, description="The column that orders a row's changes where a query captured them, such as last_update"
    )
    append_only: Annotated[bool, Field(strict=True)] | None = Field(
        None, description="Rows have no key: each record of each object is a row, however often the object comes"
    )
    coordinates: Coordinates | None = Field(
        None,
        description="Where append_only: the columns in which records carry their Kafka partition and offset; a record is then a row once, whatever objects bring it",
    )
    index: Literal["auto", "simple", "record"] | None = Field(
        None,
        description="What finds a row in the table. auto: simple while it is small, then the record index. simple: reads every key, needs nothing beside the files. record: Hudi's record index in its metadata table",
    )
    json_types: JsonTypes | None = Field(
        None, description="What columns of JSON without a schema are: date, timestamp_micros, decimal(10,2) …"
    )
    hudi: Options | None = Field(None, description="Hudi write options beside those that Sluice decides")
    lineage: Lineage | None = Field(
        None,
        description="What rows tell of where they came from: on, off, or a list; what is off is null in rows written from then on",
    )
    catalog: Catalog | None = Field(
        None,
        description="Names in the Glue catalog, as patterns of {database} and {table}: of the database, the Hudi tables and the views over them; off keeps the table out, views: off makes none",
    )
    limits: LimitsOf | None = Field(None, description="What an object may come to before it is quarantined")
    services: Services | None = Field(None, description="What table services do, and when; off for nothing by itself")


class Rule(Settings):
    """Topics and the table each goes to. The first rule that takes a topic counts."""

    topic: str | None = Field(
        None, description="A topic, or a pattern in which each * stands for one part without dots"
    )
    topic_regex: str | None = Field(
        None, description="A regular expression for the whole topic, with groups", max_length=500
    )
    table: str = Field(
        description="database.table, with {1}, {2} for the parts that * matched, or {name} for a named group"
    )


class Lane(_Strict):
    """How the runs of a lane are sized and when they end."""

    linger: Seconds = Field(
        f"{LaneConfig.linger_s}s",
        validate_default=True,
        description="A run with nothing pending waits this long for more",
    )
    max_age: Lifetime = Field(
        f"{LaneConfig.max_age_s // 3600}h", validate_default=True, description="A run ends after this long"
    )
    batch_objects: Annotated[Count, Field(description="A batch takes at most so many objects")] = (
        LaneConfig.batch_objects
    )
    batch_bytes: Bytes = Field(
        f"{LaneConfig.batch_bytes // 1024**3}GiB",
        validate_default=True,
        description="A batch takes objects of at most so many bytes as stored, or one that is larger",
    )
    batch_rows: Annotated[
        Count,
        Field(
            description="A batch takes objects of about so many rows, estimated from what objects of their tables held so far"
        ),
    ] = LaneConfig.batch_rows
    driver_cores: Cores = LaneConfig.driver_cores
    driver_memory_gb: Memory = LaneConfig.driver_memory_gb
    executor_cores: Cores = LaneConfig.executor_cores
    executor_memory_gb: Memory = LaneConfig.executor_memory_gb
    min_executors: Annotated[int, Field(strict=True, ge=0, le=1_000)] = LaneConfig.min_executors
    max_executors: Annotated[int, Field(strict=True, ge=1, le=1_000)] = LaneConfig.max_executors
    service_slice: Slice = Field(
        f"{LaneConfig.service_slice_s}s",
        validate_default=True,
        description="A table service works about this long before ingest gets its turn",
    )


class TablesFile(_Strict):
    """tables.yaml: which topics become which tables, and how."""

    defaults: Settings = Field(default_factory=Settings)
    lanes: dict[LaneName, Lane] = Field(default_factory=dict)
    tables: list[Rule] = Field(default_factory=list)
