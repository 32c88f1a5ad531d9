"""When a table is due for the run's own housekeeping: archival, cleaning, and a compaction that no service does."""

from __future__ import annotations

from sluice.config.table import MOR, TableConfig

# A table whose compaction is a service's work is compacted some ten commits after the last time. One that got so far isn't
# served at all: then the run does it beside its housekeeping, since nothing of a timeline is archived without compaction.
UNSERVED_DELTA_COMMITS = 100

# Archival looks at the whole timeline and cleaning at every partition that changed, so they come with
# every twentieth commit; until then only a few more instants and old files are kept.
COMMITS_PER_HOUSEKEEPING = 20
# A window's files go in so many steps: what is stored beyond the window is a twenty-fourth of it at most.
CLEANINGS_PER_WINDOW = 24
HOUR_MS = 3_600_000


def housekeeping_due(config: TableConfig, commits: int) -> bool:
    """Whether archival, and a look at what to clean, come after a commit, by the number of commits in the active timeline.

    Not by when something was last done: what finds nothing to do leaves no trace, and would be due for
    ever. In merge-on-read two numbers, since a delta commit and its compaction count twice.
    """
    return commits >= COMMITS_PER_HOUSEKEEPING and commits % COMMITS_PER_HOUSEKEEPING in (
        (0, 1) if config.table_type == MOR else (0,)
    )


def cleaning_due(config: TableConfig, *, last_cleaned_ms: int | None, now_ms: int) -> bool:
    """Whether enough of the window has passed since the last cleaning (epoch ms; None when there was none)."""
    return last_cleaned_ms is None or now_ms - last_cleaned_ms >= config.time_travel_h * HOUR_MS // CLEANINGS_PER_WINDOW


def cleaning_horizon_ms(config: TableConfig, now_ms: int) -> int:
    """The moment (epoch ms) from which on a table must be readable as it was."""
    return now_ms - config.time_travel_h * HOUR_MS


def served(config: TableConfig) -> bool:
    """Whether compaction is a table service's work, and not each write's own."""
    return config.services.on and config.services.compaction.on
