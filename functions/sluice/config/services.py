"""The table services of a table: which of them run, and how often."""

from __future__ import annotations

from dataclasses import dataclass, field

from sluice.config.setting import setting
from sluice.config.values import ANY_COLUMNS, DAY_S, DURATION, HOUR_S, MINUTE_S, SWITCH, duration, whole

_AGE = duration(MINUTE_S)
_HORIZON = duration(HOUR_S, why=", and longer than any replay reaches back")  # a replay must not find a purged row


@dataclass(frozen=True)
class Pace:
    """When a service is due: after a number of commits since its last run, or `age_s` after it if there was a commit.

    Without an age of its own, a service has the policy's `latest_s`. A service that is off runs only on request.
    """

    on: bool = field(
        default=True, metadata=setting(SWITCH, "`off`: the service runs only when asked for by hand.", key="enabled")
    )
    commits: int = field(
        default=10, metadata=setting(whole(1, 1_000_000), "Due after this many commits since its last run.")
    )
    age_s: int | None = field(
        default=None,
        metadata=setting(
            _AGE,
            "Due this long after its last run, if there was a commit since. Without an age, `latest` counts.",
            key="age",
        ),
    )


@dataclass(frozen=True)
class ServicePolicy:
    """The services that Spark does for one table. The catalog sync follows CatalogRule instead.

    Clustering is due only if `cluster_by` names columns. Purge removes rows deleted more than `purge_horizon_s` ago.
    """

    on: bool = field(default=True, metadata=setting(SWITCH, "`off`: no service is due by itself.", key="enabled"))
    interval_s: int = field(
        default=600,
        metadata=setting(DURATION, "Least time between two runs of the same service on a table.", key="interval"),
    )
    latest_s: int = field(
        default=DAY_S, metadata=setting(_AGE, "Longest time that a service with work to do waits.", key="latest")
    )
    compaction: Pace = field(
        default=Pace(commits=10, age_s=HOUR_S),
        metadata=setting(None, "Merges log files into base files (merge-on-read)."),
    )
    clustering: Pace = field(
        default=Pace(commits=50), metadata=setting(None, "Sorts files by the columns that queries filter by.")
    )
    cluster_by: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            ANY_COLUMNS,
            "The columns that queries filter by. Without any there is no clustering.",
            key="clustering.by",
            template=True,
        ),
    )
    cleaning: Pace = field(
        default=Pace(commits=10), metadata=setting(None, "Removes files that `time_travel` no longer needs.")
    )
    archival: Pace = field(
        default=Pace(commits=30), metadata=setting(None, "Shortens the timeline, far behind cleaning.")
    )
    purge: Pace = field(
        default=Pace(commits=1), metadata=setting(None, "Removes deleted rows permanently, if `delete_mode` is `hard`.")
    )
    purge_horizon_s: int = field(
        default=14 * DAY_S,
        metadata=setting(_HORIZON, "Rows deleted longer ago than this are removed.", key="purge.horizon"),
    )

    def pace(self, service: str) -> Pace:
        """Return the pace of a service. Raises ValueError for an unknown name."""
        pace = getattr(self, service, None)
        if not isinstance(pace, Pace):
            raise ValueError(f"{service!r} is not a service")
        return pace

    def age_s(self, service: str) -> int:
        """Return how long a service with work to do waits at most, in seconds."""
        own = self.pace(service).age_s
        return self.latest_s if own is None else min(own, self.latest_s)
