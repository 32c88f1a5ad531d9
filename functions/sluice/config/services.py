"""What tables.yaml says about a table's services: which there are, how often, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

DAY_S = 86_400


@dataclass(frozen=True)
class Pace:
    """When a service is due: after so many commits since the last one, or after `age_s` (seconds) if there was any.

    Without an age the policy's `latest_s` is it. A service that is not `on` is never due by itself.
    """

    on: bool = True
    commits: int = 10
    age_s: int | None = None


@dataclass(frozen=True)
class ServicePolicy:
    """The services that Spark does for one table; the catalog is CatalogRule's business. `interval_s` lies at least between two runs of the same service, `latest_s` is the longest that one with something to do waits.

    Clustering needs columns, `cluster_by`: without them it is never due. `purge_horizon_s` is how long ago a row must have been deleted to be removed.
    """

    on: bool = True
    interval_s: int = 600
    latest_s: int = DAY_S
    compaction: Pace = Pace(commits=10, age_s=3_600)
    clustering: Pace = Pace(commits=50)
    cluster_by: tuple[str, ...] = ()
    cleaning: Pace = Pace(commits=10)
    archival: Pace = Pace(commits=30)
    purge: Pace = Pace(commits=1)
    purge_horizon_s: int = 14 * DAY_S

    def pace(self, service: str) -> Pace:
        """A service's own pace, by its name. Raises ValueError for what is none."""
        found = getattr(self, service, None)
        if not isinstance(found, Pace):
            raise ValueError(f"{service!r} is no service")
        return found

    def age_s(self, service: str) -> int:
        """How long a service that has something to do waits at most, in seconds."""
        own = self.pace(service).age_s
        return self.latest_s if own is None else min(own, self.latest_s)

    def changed(self) -> dict[str, Any]:
        """What differs from the defaults, as plain JSON values; `of` gives the same policy back."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in _difference(asdict(self), asdict(UNTOLD)).items()
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ServicePolicy:
        """A policy from what differs from the defaults, also as written by a release that knew others."""
        taken: dict[str, Any] = {}
        for item in fields(cls):
            if item.name not in values:
                continue
            value, default = values[item.name], getattr(UNTOLD, item.name)
            if isinstance(default, Pace):
                known = {part.name for part in fields(Pace)}
                taken[item.name] = replace(default, **{name: part for name, part in value.items() if name in known})
            else:
                taken[item.name] = tuple(value) if isinstance(default, tuple) else value
        return replace(UNTOLD, **taken)


def _difference(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a tree that differ from another of the same form."""
    summary: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            below = _difference(value, defaults[name])
            if below:
                summary[name] = below
        elif value != defaults[name]:
            summary[name] = value
    return summary


UNTOLD = ServicePolicy()  # where tables.yaml says nothing
