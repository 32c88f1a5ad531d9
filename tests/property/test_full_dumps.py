"""Random full dumps in any order, grouping and repetition: the table is the newest dump, and lacks no row before."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.batch.claim import PendingObject
from sluice.batch.dumps import DumpFile, complete_folder
from sluice.changes.position import encode_arrival, encode_floor, place_of_object
from sluice.changes.row_history import NEVER, Change, Row, row_after
from sluice.config.rules.snapshot import FOLDER, SnapshotRule
from sluice.config.table import TableConfig

SECOND, DAY = 1_764_000_000_000, 86_400_000
CONFIG = TableConfig(
    "s3.p", "s3", "p", "p", ("id",), key_pattern="drop/.*", snapshot=SnapshotRule(FOLDER, most_deleted=100)
)
Content = dict[int, float]


def waiting(key: str, at: int, admitted_at: int, content: Content) -> tuple[PendingObject, Content]:
    form = "marker" if key.endswith("_SUCCESS") else "csv"
    item = PendingObject("b", key, str(at), 9, None, form, "p", None, None, admitted_at, modified_at=at, table="s3.p")
    return item, content


class Table:
    """A stored table that merges objects as a run does, and a bucket that lists them."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self.floor = NEVER
        self.merged: set[PendingObject] = set()

    def merge(self, batch: list[tuple[PendingObject, Content]], listed: list[PendingObject]) -> list[PendingObject]:
        """Merge what can be; the markers that wait."""
        claimed = {item.id for item, _ in batch}
        waits, floors, changes = [], [self.floor], dict[int, list[Change]]()
        for item, content in batch:
            if item.format == "marker":
                folder = item.key.rpartition("/")[0] + "/"
                files = [
                    DumpFile(file.id, file.modified_at or 0, file in self.merged)
                    for file in listed
                    if file.key.startswith(folder) and file.format != "marker"
                ]
                end = complete_folder(item, files, CONFIG, claimed=claimed)
                if end.replaces is None:
                    waits.append(item)
                else:
                    floors.append(encode_floor(0, end.replaces))
            for number, (id, price) in enumerate(content.items()):
                position = encode_arrival(0, place_of_object(item.key, item.modified_at or 0), number)
                changes.setdefault(id, []).append(Change(position, None, False, {"price": price}))
        self.floor = max(floors)
        for id in {*self.rows, *changes}:
            row = row_after(self.rows.get(id), changes.get(id, []), columns=["price"], floor=self.floor)
            if row is not None:
                self.rows[id] = row
        self.merged |= {item for item, _ in batch if item not in waits}
        return waits

    @property
    def alive(self) -> Content:
        return {id: row.values["price"] for id, row in self.rows.items() if not row.deleted}


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**48))
def test_full_dumps_leave_the_newest_one_and_hide_no_row_of_it_before(seed: int) -> None:
    draw = random.Random(seed)
    objects: list[tuple[PendingObject, Content]] = []
    dumps: list[Content] = []
    for day in range(draw.randint(1, 4)):
        began, content = SECOND + day * DAY, {id: day * 100.0 + id for id in draw.sample(range(8), draw.randint(0, 8))}
        ids = list(content)
        cut = draw.randint(0, len(ids))
        for name, part in (("a", ids[:cut]), ("b", ids[cut:])):
            at = began + draw.randint(0, 5_000)
            objects.append(waiting(f"drop/{day}/{name}", at, draw.randint(0, 99), {id: content[id] for id in part}))
        objects.append(waiting(f"drop/{day}/_SUCCESS", began + 9_000, draw.randint(0, 99), {}))
        dumps.append(content)
    listed = [item for item, _ in objects]
    table, pending, done = Table(), list(objects), list[tuple[PendingObject, Content]]()
    draw.shuffle(pending)
    while pending:
        batch = pending[: draw.randint(1, 4)]
        again = draw.sample(done, min(len(done), draw.randint(0, 2)))  # a take-over or a replay
        before = table.floor
        waits = set(table.merge([*batch, *again], listed))
        if draw.random() < 0.3:  # the run dies before it settles
            table.merge([*batch, *again], listed)
        done += [change for change in batch if change[0] not in waits]
        pending = pending[len(batch) :] + [change for change in batch if change[0] in waits]
        if table.floor != before:
            day = max(
                number for number in range(len(dumps)) if f"t{(SECOND + number * DAY) // 1000:011d}" <= table.floor[5:]
            )
            own = [content for item, content in objects if item.key.startswith(f"drop/{day}/")]
            assert {id for content in own for id in content} <= set(table.alive)
    assert table.alive == dumps[-1]
