"""Random histories of a Hudi table's files: its Iceberg table always shows the same rows, and can be read as of before.

The files, the timeline and what a cleaning or a roll-back does to them are made here, without Hudi: what is tested is
that the Iceberg metadata follows. pyiceberg reads it.
"""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable
from support.extent import WHOLE
from support.workbench import Died, table

from sluice.hudi.timeline import Timeline
from sluice_aws.s3.objects import Objects
from sluice_spark.iceberg import follow as following
from sluice_spark.iceberg.follow import IcebergTable

PLACES = ("A", "B/=ü", None)
DELETED = "__deleted"
HUDIS = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]
NO_S3: Any = Objects(None)

Row = tuple[int, Any, Any, bool]  # id, place, name, whether it is deleted


class World:
    """A copy-on-write table of rows by file group, in a folder, and what it held at each commit."""

    def __init__(self, home: Path, *, partitioned: bool) -> None:
        self.home, self.partitioned = home, partitioned
        self.config = table(iceberg=True, partition_by=("place",) if partitioned else ())
        self.groups: dict[tuple[str, str], dict[int, Row]] = {}
        self.files: dict[str, tuple[str, str]] = {}  # the newest file of a group: its path, by which group it is known
        self.states: dict[str, list[Any]] = {}
        self.written: dict[str, list[str]] = {}  # paths by instant
        self.before: dict[str, Any] = {}
        self.columns = {"id": "int", "place": "string", "name": "string"}
        self.clock = 20260101000000000
        (home / ".hoodie").mkdir(parents=True)

    def now(self) -> str:
        self.clock += 1000
        return str(self.clock)

    def folder(self, place: Any) -> str:
        if not self.partitioned:
            return ""
        return "place=" + (
            "__HIVE_DEFAULT_PARTITION__" if place is None else place.replace("/", "%2F").replace("=", "%3D")
        )

    def commit(self, changes: list[Row], *, replaces: bool = False) -> str:
        """Write changes as Hudi does: a new file for each group that has one of them, or new groups for all rows."""
        instant = self.now()
        self.before[instant] = ({key: dict(rows) for key, rows in self.groups.items()}, dict(self.columns))
        old = set(self.groups)
        rows = {id: row for group in self.groups.values() for id, row in group.items()}
        touched = {key for key, group in self.groups.items() if {row[0] for row in changes} & group.keys()}
        rows.update({row[0]: row for row in changes})
        if replaces:
            self.groups = {}
        for key in touched & self.groups.keys():
            for row in changes:
                self.groups[key].pop(row[0], None)
        for row in rows.values() if replaces else changes:
            folder = self.folder(None if row[3] else row[1])
            key = next((key for key in sorted(self.groups) if key[0] == folder), (folder, f"{uuid.uuid4()}-0"))
            self.groups.setdefault(key, {})[row[0]] = row
            touched.add(key)
        self.written[instant] = [self.write(key, instant) for key in sorted(touched & self.groups.keys())]
        gone: dict[str, list[str]] = {}
        for folder, file_id in (old - self.groups.keys()) if replaces else ():
            gone.setdefault(folder, []).append(file_id)
        body = {"operationType": "CLUSTER" if replaces else "UPSERT", "partitionToReplaceFileIds": gone}
        kind = "replacecommit" if replaces else "commit"
        (self.home / ".hoodie" / f"{instant}.{kind}").write_text(json.dumps(body))
        self.states[instant] = self.shown()
        return instant

    def write(self, key: tuple[str, str], instant: str) -> str:
        folder, file_id = key
        path = self.home / folder / f"{file_id}_0-1-2_{instant}.parquet"
        path.parent.mkdir(exist_ok=True, parents=True)
        kinds = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}
        rows = list(self.groups[key].values())
        values: dict[str, Any] = {name: pa.array(["x"] * len(rows), pa.string()) for name in HUDIS}
        values |= {
            name: pa.array([dict(zip(("id", "place", "name"), row)).get(name) for row in rows], kinds[kind])
            for name, kind in self.columns.items()
        }
        values[DELETED] = pa.array([row[3] for row in rows], pa.bool_())
        pq.write_table(pa.table(values), path, row_group_size=2, store_schema=False)
        return str(path)

    def shown(self) -> list[Any]:
        rows = [row for group in self.groups.values() for row in group.values() if not row[3]]
        return sorted(
            [{**dict.fromkeys(self.columns), "id": row[0], "place": row[1], "name": row[2]} for row in rows], key=str
        )

    def clean(self, iceberg: IcebergTable | None, horizon: str) -> None:
        """Delete the versions of files that no reader as of the horizon or later needs."""
        instant = self.now()
        if iceberg is not None:
            iceberg.before_cleaning(instant, horizon)
        by_group: dict[str, list[Path]] = {}
        for path in sorted(self.home.rglob("*.parquet"), key=lambda path: path.name.rpartition("_")[2]):
            if ".hoodie" not in path.parts:
                by_group.setdefault(path.name.partition("_")[0], []).append(path)
        live = {file_id for _, file_id in self.groups}
        for file_id, paths in by_group.items():
            for path, later in zip(paths, [*paths[1:], None]):
                ended = self.replaced_at(file_id) if later is None else later.name.rpartition("_")[2][:17]
                if ended is not None and ended <= horizon and (later is not None or file_id not in live):
                    path.unlink()
        (self.home / ".hoodie" / f"{instant}.clean").write_text("")

    def replaced_at(self, file_id: str) -> str | None:
        for path in sorted((self.home / ".hoodie").glob("*.replacecommit")):
            gone = json.loads(path.read_text())["partitionToReplaceFileIds"]
            if any(file_id in ids for ids in gone.values()):
                return path.name[:17]
        return None

    @property
    def can_undo(self) -> bool:
        """Whether nothing came after the newest commit, and another one is active."""
        timeline = self.timeline
        return len(timeline.commits) > 1 and timeline.newest == timeline.newest_change

    def undo(self) -> None:
        """Roll back the newest commit, which was completed."""
        instant = max(self.states)
        for path in self.written.pop(instant):
            Path(path).unlink(missing_ok=True)
        for path in (self.home / ".hoodie").glob(f"{instant}.*commit"):
            path.unlink()
        self.groups, self.columns = self.before.pop(instant)
        del self.states[instant]

    def archive(self, count: int) -> None:
        """Take the oldest commits from the active timeline, those that replaced nothing."""
        commits = sorted((self.home / ".hoodie").glob("*commit"))
        for path in commits[: min(count, len(commits) - 1)]:
            if path.suffix == ".commit":
                path.unlink()
            else:
                break

    @property
    def timeline(self) -> Timeline:
        return Timeline.of(path.name for path in (self.home / ".hoodie").iterdir())

    def table(self) -> IcebergTable:
        return IcebergTable(NO_S3, self.home.as_uri(), self.config)

    def follow(self, *, rebuild: bool = False) -> None:
        types = {**self.columns, DELETED: "boolean"}
        self.table().follow(self.timeline, types, now_ms=0, rebuild=rebuild)

    def metadata(self) -> Path | None:
        folder = self.home / ".hoodie" / "iceberg" / "metadata"
        hint = folder / "version-hint.text"
        return folder / f"v{hint.read_text()}.metadata.json" if hint.exists() else None


def rows_as_of(metadata: Path, snapshot: int | None = None) -> list[Any]:
    rows = StaticTable.from_metadata(str(metadata)).scan(snapshot_id=snapshot).to_arrow()
    return sorted(rows.to_pylist(), key=str)


def check(world: World, *, behind: bool = False) -> None:
    """The newest snapshot shows a commit's rows, and so does every older one that is still there.

    `behind`: the Iceberg table may still show a commit that was undone.
    """
    metadata = world.metadata()
    if metadata is None:
        return
    content = json.loads(metadata.read_text())
    for snapshot in content["snapshots"]:
        instant = str(snapshot["snapshot-id"])
        if behind and instant not in world.states:
            continue
        columns = [
            field["name"]
            for schema in content["schemas"]
            if schema["schema-id"] == snapshot["schema-id"]
            for field in schema["fields"]
        ]
        wanted = [{name: row.get(name) for name in columns} for row in world.states[instant]]
        assert rows_as_of(metadata, snapshot["snapshot-id"]) == sorted(wanted, key=str), instant


STEPS = "change change change cluster clean undo archive rebuild evolve widen die miss off".split()


@pytest.mark.parametrize("partitioned", [False, True])
@settings(max_examples=40 if WHOLE else 10, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_iceberg_shows_what_hudi_shows_at_every_step(tmp_path_factory, partitioned, seed):
    draw = random.Random(seed)
    world = World(tmp_path_factory.mktemp("table"), partitioned=partitioned)
    for _ in range(draw.randint(3, 14)):
        step = draw.choice(STEPS)
        if not world.states or step in ("change", "evolve", "widen", "die", "miss"):
            if step == "evolve":
                world.columns = {**world.columns, f"more_{len(world.columns)}": "string"}
            if step == "widen":
                world.columns = {**world.columns, "id": "bigint"}
            rows = [
                (draw.randint(1, 6), draw.choice(PLACES), draw.choice(("n", "", None)), draw.random() < 0.3)
                for _ in range(3)
            ]
            world.commit([*{row[0]: row for row in rows}.values()])
        elif step == "cluster":
            world.commit([], replaces=True)
        elif step == "clean":
            world.follow()
            world.clean(world.table(), draw.choice(sorted(world.states)))
        elif step == "off":  # the setting is switched off meanwhile
            world.clean(None, draw.choice(sorted(world.states)))
        elif step == "undo" and world.can_undo:
            world.undo()
        elif step == "archive":
            world.archive(draw.randint(1, 3))
        if step == "die":  # between the files of a version and its name, or before the hint
            dying = draw.choice(("write_file", "write_new_file"))
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(following, dying, dies_at(draw.randint(1, 4), getattr(following, dying)))
                try:
                    world.follow()
                except Died:
                    check(world, behind=True)
        if step == "miss" or (step == "undo" and draw.random() < 0.5):
            continue  # the run died before it could follow: the next one makes it good
        world.follow(rebuild=step == "rebuild")
        metadata = world.metadata()
        assert metadata is not None and rows_as_of(metadata) == world.shown()
        check(world)


def dies_at(number: int, real: Any) -> Any:
    """A write that ends the run in place of the call of this number."""
    left = [number]

    def write(*arguments: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            raise Died
        return real(*arguments)

    return write
