"""The table services of a table: which of them run, and how often."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.config.setting import setting
from sluice.config.values import ANY_COLUMNS, DAY_S, DURATION, HOUR_S, MINUTE_S, SWITCH, duration, whole

_AGE = duration(MINUTE_S)
_HORIZON = duration(HOUR_S, why=", and longer than any replay reaches back")  # a replay must not find a purged row


@dataclass(frozen=True)
class Pace:
    """When a service is due: after a number of commits since its last run, or `age_s` after it if there was a commit.

    Without an age of its own, a service has the policy's `latest_s`. A service that is off runs only on request.
    """

    on: bool = setting(True, SWITCH, "`off`: the service runs only when asked for by hand.", key="enabled")
    commits: int = setting(10, whole(1, 1_000_000), "Due after this many commits since its last run.")
    age_s: int | None = setting(
        None,
        _AGE,
        "Due this long after its last run, if there was a commit since. Without an age, `latest` counts.",
        key="age",
    )


@dataclass(frozen=True)
class ServicePolicy:
    """The services that Spark does for one table. The catalog sync follows CatalogRule instead.

    Clustering is due only if `cluster_by` names columns. Purge removes rows deleted more than `purge_horizon_s` ago.
    """

    on: bool = setting(True, SWITCH, "`off`: no service is due by itself.", key="enabled")
    interval_s: int = setting(
        600, DURATION, "Least time between two runs of the same service on a table.", key="interval"
    )
    latest_s: int = setting(DAY_S, _AGE, "Longest time that a service with work to do waits.", key="latest")
    compaction: Pace = setting(
        Pace(commits=10, age_s=HOUR_S), None, "Merges log files into base files (merge-on-read)."
    )
    clustering: Pace = setting(Pace(commits=50), None, "Sorts files by the columns that queries filter by.")
    cluster_by: tuple[str, ...] = setting(
        (),
        ANY_COLUMNS,
        "The columns that queries filter by. Without any there is no clustering.",
        key="clustering.by",
        template=True,
    )
    cleaning: Pace = setting(Pace(commits=10), None, "Removes files that `time_travel` no longer needs.")
    archival: Pace = setting(Pace(commits=30), None, "Shortens the timeline, far behind cleaning.")
    purge: Pace = setting(Pace(commits=1), None, "Removes deleted rows permanently, if `delete_mode` is `hard`.")
    purge_horizon_s: int = setting(
        14 * DAY_S, _HORIZON, "Rows deleted longer ago than this are removed.", key="purge.horizon"
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
