"""The listing of a table: its timeline and files, what was replaced or rolled back, and how far back it can be read."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import fastavro

from sluice.errors import UnreadableCommit
from sluice.hudi.file_slices import Committed, DataFile, FileSlice, Replaced, data_file, slices_as_of
from sluice.hudi.timeline import (
    CLEAN,
    COMPLETED,
    DELTA_COMMIT,
    FOLDER,
    REPLACE_COMMIT,
    REQUESTED,
    ROLLBACK,
    Commit,
    Instant,
    Timeline,
)
from sluice_aws.errors import NoSuchCommit
from sluice_aws.s3.silver_files import StoredFile
from sluice_read.errors import Damaged, FilesMissing, NoCommit, NotRetained, UnsettledMoment
from sluice_read.moments import moment_of
from sluice_read.place import TableFolder, history_folder

AT_ONCE = 16  # commits read at a time
LISTINGS = 3  # of a table of which files seem to be missing


@dataclass(frozen=True)
class RolledBack:
    """A write that failed and was undone at `at`. Its blocks stay in log files until compaction."""

    write: str
    at: str


@dataclass(frozen=True)
class TableListing:
    """A table's timeline and files at one moment. All times are instants.

    From `horizon` on, cleaning keeps every file that a reader needs; None: nothing was cleaned yet. It is
    a commit, unless those until then are archived.
    """

    folder: TableFolder
    timeline: Timeline
    listed: tuple[StoredFile, ...]
    files: tuple[DataFile, ...]
    horizon: str | None
    replaced: tuple[Replaced, ...]
    rolled_back: tuple[RolledBack, ...]

    @property
    def table(self) -> str:
        """`database.table`."""
        return self.folder.table

    @property
    def earliest(self) -> str:
        """The earliest moment as of which the table can be read: the horizon, or its first write. Raises NoCommit."""
        if self.horizon is not None:
            return self.horizon
        committed = Committed.of(self.timeline)
        first = min((file.instant for file in self.files if committed.holds(file.instant)), default=None)
        if first is None:
            newest = self.timeline.newest
            if newest is None:
                raise NoCommit(
                    f"{self.table} has no commit yet",
                    table=self.table,
                    next_step="`sluice wait` until its objects are merged; "
                    f"`sluice quarantine list --table {self.table}` shows those that can't be. Objects without rows "
                    "make no commit. If it had one, `sluice doctor` says what became of it",
                )
            return newest.time
        return first

    def newest_until(self, as_of: str | None) -> str:
        """The instant that a read as of a moment sees: that of the newest commit until then.

        A moment before all active commits is kept as it is. Raises NoCommit, NotRetained, UnsettledMoment.
        """
        earliest = self.earliest
        if as_of is None:
            return self.timeline.newest.time if self.timeline.newest is not None else earliest
        if as_of < earliest:
            why = "older files were cleaned" if self.horizon is not None else "its first commit"
            raise NotRetained(
                f"{self.table} can't be read as of {as_of}. It can from {earliest} ({moment_of(earliest)}) on: {why}",
                table=self.table,
                asked=as_of,
                earliest=earliest,
                next_step=f"Ask for {earliest} or later; {self._beyond}",
            )
        # A named commit hides later writes that were undone. Of archived ones only the log files themselves could tell.
        seen = max((instant.time for instant in self.timeline.commits if instant.time <= as_of), default=as_of)
        for item in self.rolled_back:
            if item.write <= seen < item.at:
                raise UnsettledMoment(
                    f"{self.table} can't be read as of {as_of}: "
                    f"the unfinished write {item.write} was rolled back at {item.at}",
                    table=self.table,
                    asked=as_of,
                    rolled_back=item.write,
                    earliest=item.at,
                    next_step=f"Ask for {item.at} or later, or for a moment before {item.write}",
                )
        return seen

    @property
    def _beyond(self) -> str:
        """What reads earlier states."""
        history = history_folder(self.folder.place, self.table)
        if history is None:
            return "`time_travel` of the table says how long files are kept, and `history: true` keeps every change"
        return f"`sluice query` and `row` with `--as-of` also read earlier states, from {history.table}"

    def slices(self, instant: str) -> tuple[FileSlice, ...]:
        """The file slices as of an instant from `newest_until`."""
        return slices_as_of(self.files, instant, committed=Committed.of(self.timeline), replaced=self.replaced)

    def missing(self, instant: str) -> tuple[str, ...]:
        """The files that hold rows as of an instant by the active commits until then, and that are not there.

        Those of archived commits aren't known. Raises NoSuchCommit, UnreadableCommit.
        """
        commits = [item for item in self.timeline.commits if item.time <= instant]
        written = [
            file for commit in self._contents(commits) for file in commit.files if file.file_bytes
        ]  # 0: no block
        paths = {path for file in written for path in (file.path, file.base)}
        named_files = [file for file in (data_file(path, 0) for path in paths) if file is not None]
        slices = slices_as_of(
            {file.path: file for file in (*self.files, *named_files)}.values(),
            instant,
            committed=Committed.of(self.timeline),
            replaced=self.replaced,
        )
        needed = {file.path for item in slices for file in item.files}
        return tuple(sorted(needed & paths - {file.path for file in self.files}))

    def _contents(self, commits: Sequence[Instant]) -> list[Commit]:
        """The contents of commits; of any but the newest those that are still there and readable."""

        def read(instant: Instant) -> Commit | None:
            try:
                return self.commit(instant)
            except (NoSuchCommit, UnreadableCommit):
                if instant == commits[-1]:
                    raise
                return None

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="commits") as pool:
            return [commit for commit in pool.map(read, commits) if commit is not None]

    def commit(self, instant: Instant) -> Commit:
        """Read a completed commit. Raises UnreadableCommit."""
        return Commit.of(instant, self.folder.content(instant))

    def record(self, instant: Instant) -> dict[str, Any]:
        """Read the file of an instant that writes no rows: a cleaning, a rollback. Raises Damaged."""
        return _record(self.folder, instant)


def readable_listing(folder: TableFolder, as_of: str | None) -> tuple[TableListing, str]:
    """List a table, and find the instant that a read as of a moment sees. Its commit's own files must be there.

    They can be gone from one listing where cleaning ran meanwhile, and then a later listing has a newer commit. Raises
    FilesMissing, NoSuchCommit, and what `newest_until` and `table_listing` do.
    """
    for attempt in range(1, LISTINGS + 1):
        listing = table_listing(folder)
        instant = listing.newest_until(as_of)
        try:
            missing = listing.missing(instant)
        except NoSuchCommit:  # archived since it was listed
            if attempt == LISTINGS:
                raise
            continue
        if not missing:
            return listing, instant
    raise FilesMissing(
        f"{folder.table} is damaged: {missing[0]}{f' and {len(missing) - 1:,} more' if len(missing) > 1 else ''}, "
        f"needed as of its commit {instant}, is gone from silver, and rows with it",
        table=folder.table,
        instant=instant,
        files=missing,
        next_step=f"`sluice rebuild table {folder.table}` writes it again from bronze. Moments before that commit may "
        "be readable",
    )


def table_listing(folder: TableFolder) -> TableListing:
    """List a table's files, then its timeline once more, and read its cleanings and replacements.

    The files come first: a cleaning writes its plan before it deletes, so the second timeline has the plan of whatever
    the listing lacks. Files of a write that completes meanwhile are newer than every commit of the first timeline and
    don't count. Raises Damaged, UnreadableCommit.
    """
    listed = tuple(folder.files())
    in_folder = (item.path.removeprefix(FOLDER) for item in listed if item.path.startswith(FOLDER))
    timeline = Timeline.of(name for name in in_folder if "/" not in name)
    later = folder.timeline()
    files = tuple(file for file in (data_file(item.path, item.size) for item in listed) if file is not None)
    has_logs = any(file.is_log for file in files)
    return TableListing(
        folder=folder,
        timeline=timeline,
        listed=listed,
        files=files,
        horizon=_readable_from(max(_horizons(folder, later), default=None), later),
        replaced=tuple(_replaced(folder, timeline)),
        rolled_back=tuple(_rolled_back(folder, later)) if has_logs else (),
    )


def _replaced(folder: TableFolder, timeline: Timeline) -> Iterator[Replaced]:
    """The file groups that active commits replaced, by clustering or rewriting. One request per commit."""
    instants = [instant for instant in timeline.commits if instant.action == REPLACE_COMMIT]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="replaced") as pool:
        for instant, data in zip(instants, pool.map(folder.content, instants), strict=True):
            yield from (
                Replaced(instant.time, partition, file_id)
                for partition, ids in Commit.of(instant, data).replaced.items()
                for file_id in ids
            )


def _horizons(folder: TableFolder, timeline: Timeline) -> Iterator[str]:
    """The horizons of the newest cleaning and of every planned one, which may have deleted files already."""
    cleanings = [instant for instant in timeline.instants if instant.action == CLEAN]
    done = [instant for instant in cleanings if instant.state == COMPLETED]
    for instant in done[-1:]:
        done_by = _record(folder, instant)
        # A cleaning by number of versions names no commit: then only the newest state is sure to be whole.
        yield str(done_by.get("earliestCommitToRetain") or done_by.get("lastCompletedCommitTimestamp") or instant.time)
    for instant in cleanings:
        if instant.state != COMPLETED:
            plan = _record(folder, Instant(instant.time, CLEAN, REQUESTED))
            yield str(
                (plan.get("earliestInstantToRetain") or {}).get("timestamp")
                or plan.get("lastCompletedCommitTimestamp")
                or instant.time
            )


def _readable_from(horizon: str | None, timeline: Timeline) -> str | None:
    """The newest commit until a cleaning's horizon: nothing changed in between, so the same files hold its rows."""
    return max((commit.time for commit in timeline.commits if horizon and commit.time <= horizon), default=horizon)


def _rolled_back(folder: TableFolder, timeline: Timeline) -> Iterator[RolledBack]:
    for instant in timeline.instants:
        if instant.action == ROLLBACK and instant.state == COMPLETED:
            record = _record(folder, instant)
            # Where nothing was written yet it names no partition. A compaction or clustering leaves no log block: its
            # base files are deleted.
            others = {
                item["commitTime"] for item in record.get("instantsRollback") or () if item["action"] != DELTA_COMMIT
            }
            if record.get("partitionMetadata"):
                yield from (
                    RolledBack(str(write), instant.time)
                    for write in record.get("commitsRollback") or ()
                    if write not in others
                )


def _record(folder: TableFolder, instant: Instant) -> dict[str, Any]:
    """Read the one Avro record of a file of the timeline. Raises Damaged."""
    try:
        record: Any = next(iter(fastavro.reader(io.BytesIO(folder.content(instant)))))
        return dict(record)
    except (ValueError, StopIteration, EOFError, TypeError) as error:
        raise Damaged(
            f"{folder.table}: {FOLDER}{instant.file} can't be read: {error!r}", table=folder.table, file=instant.file
        ) from error
