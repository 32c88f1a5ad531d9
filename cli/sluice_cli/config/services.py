"""The form of `services:` in tables.yaml, and the core's policy that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from sluice.config.services import ServicePolicy
from sluice_cli.config.units import DURATION_SCHEMA, Names, Seconds, seconds

LEAST_LATEST_S = 60
LEAST_HORIZON_S = 3_600  # a replay of an hour must not find a purged row


def _switch(value: Any) -> Any:
    """`off` and `on` stand for a whole mapping; they are false and true to YAML."""
    if isinstance(value, bool):
        return {"enabled": value}
    return {"enabled": value == "on"} if value in ("on", "off") else value


def _latest(value: Any) -> int:
    found = seconds(value)
    if found < LEAST_LATEST_S:
        raise ValueError("is at least 1m")
    return found


def _horizon(value: Any) -> int:
    found = seconds(value)
    if found < LEAST_HORIZON_S:
        raise ValueError("is at least 1h, and longer than any replay reaches back")
    return found


Switch = Annotated[bool, Field(strict=True)]
Commits = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Latest = Annotated[int, BeforeValidator(_latest), DURATION_SCHEMA]
Horizon = Annotated[int, BeforeValidator(_horizon), DURATION_SCHEMA]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _or_switch(model: type[BaseModel]) -> WithJsonSchema:
    """What an editor is told of a mapping that `on` and `off` may stand for."""
    return WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": ["on", "off"]}, model.model_json_schema()]})


class PaceOf(_Strict):
    """When a service is due."""

    enabled: Switch | None = Field(None, description="off: never by itself, only when asked for by hand")
    commits: Commits | None = Field(None, description="After so many commits since the last one")
    age: Latest | None = Field(None, description="This long after the last one, if there was any commit since")


class ClusteringOf(PaceOf):
    """When files are sorted anew, and by what."""

    by: Names | None = Field(None, description="The columns that queries filter by; without any there is no clustering")


class PurgeOf(PaceOf):
    """When deleted rows are removed for good: tables with delete_mode hard."""

    horizon: Horizon | None = Field(None, description="Rows deleted longer ago than this are removed; 14d unless told")


Pace = Annotated[PaceOf | None, BeforeValidator(_switch), _or_switch(PaceOf)]
Clustering = Annotated[ClusteringOf | None, BeforeValidator(_switch), _or_switch(ClusteringOf)]
Purge = Annotated[PurgeOf | None, BeforeValidator(_switch), _or_switch(PurgeOf)]


class ServicesOf(_Strict):
    """What table services do with a table, and when."""

    enabled: Switch | None = Field(None, description="off: none is ever due by itself")
    interval: Seconds | None = Field(
        None, description="Between two runs of a service on a table lies at least this; 10m unless told"
    )
    latest: Latest | None = Field(None, description="What has something to do waits no longer; 24h unless told")
    compaction: Pace = Field(None, description="Merge-on-read: logs become base files")
    clustering: Clustering = Field(None, description="Files sorted by the columns that queries filter by")
    cleaning: Pace = Field(None, description="Files that time_travel no longer needs are removed")
    archival: Pace = Field(None, description="The timeline is shortened, far behind cleaning")
    purge: Purge = Field(None, description="Rows deleted longer ago than the horizon are removed")


Services = Annotated[ServicesOf, BeforeValidator(_switch), _or_switch(ServicesOf)]


def policy(*written: ServicesOf | None) -> ServicePolicy:
    """The core's policy of what is written, each key by the last that says it."""
    said: dict[str, Any] = {}
    for each in written:
        if each is not None:
            _lay_over(said, each.model_dump(exclude_none=True))
    return ServicePolicy.of(_core_names(said))


def _lay_over(said: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict):
            _lay_over(said.setdefault(key, {}), value)
        else:
            said[key] = value


_CORE_NAMES = {"enabled": "on", "interval": "interval_s", "latest": "latest_s", "age": "age_s"}


def _core_names(said: Mapping[str, Any]) -> dict[str, Any]:
    """The words of the file as the fields of ServicePolicy."""
    named = {
        _CORE_NAMES.get(key, key): _core_names(value) if isinstance(value, dict) else value
        for key, value in said.items()
    }
    for service, key, field in (("clustering", "by", "cluster_by"), ("purge", "horizon", "purge_horizon_s")):
        if isinstance(named.get(service), dict) and key in named[service]:
            named[field] = named[service].pop(key)
    return named
