"""When a run does housekeeping on a table: archival, cleaning, and compaction where no table service compacts."""

from __future__ import annotations

from sluice.config.table import MOR, TableConfig

# A table service compacts some ten commits after its last compaction. A table with this many delta commits isn't
# served: the run compacts it, since without compaction nothing of a timeline is archived.
UNSERVED_DELTA_COMMITS = 100

# Archival reads the whole timeline and cleaning every partition that changed, so they follow every twentieth commit.
# Until then a few more instants and old files are kept.
COMMITS_PER_HOUSEKEEPING = 20
# Cleanings per time-travel window: files are kept for at most a twenty-fourth of the window beyond it.
CLEANINGS_PER_WINDOW = 24
HOUR_MS = 3_600_000


def housekeeping_due(config: TableConfig, commits: int) -> bool:
    """Whether archival and cleaning follow a commit, by the number of commits in the active timeline.

    Not by the time of the last one: housekeeping that finds nothing to do leaves no trace, and would be due forever.
    Two numbers in merge-on-read, where a delta commit and its compaction count twice.
    """
    return commits >= COMMITS_PER_HOUSEKEEPING and commits % COMMITS_PER_HOUSEKEEPING in (
        (0, 1) if config.table_type == MOR else (0,)
    )


def cleaning_due(config: TableConfig, *, last_cleaned_ms: int | None, now_ms: int) -> bool:
    """Whether enough of the window has passed since the last cleaning (epoch ms; None: there was none)."""
    return last_cleaned_ms is None or now_ms - last_cleaned_ms >= config.time_travel_h * HOUR_MS // CLEANINGS_PER_WINDOW


def cleaning_horizon_ms(config: TableConfig, now_ms: int) -> int:
    """The moment (epoch ms) from which time travel must work."""
    return now_ms - config.time_travel_h * HOUR_MS


def served(config: TableConfig) -> bool:
    """Whether a table service compacts, and not each write."""
    return config.services.on and config.services.compaction.on
