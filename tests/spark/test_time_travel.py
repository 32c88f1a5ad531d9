"""Time travel and changes, read without a JVM, equal Spark's own for the same instants.

Covers updates, deletions, moves, compaction, rollbacks, archival and cleaning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest
from hudi import HudiReadOptions, HudiTableBuilder
from pyspark.errors.exceptions.captured import IllegalArgumentException
from support.builders import change
from support.workbench import REGION, Silver, Workbench, table

from sluice.config.services import ServicePolicy
from sluice.config.table import TableConfig
from sluice.hudi import options as hudi_options
from sluice_read.diff import differences
from sluice_read.errors import NotRetained
from sluice_read.moments import Span
from sluice_read.place import find_table, tables_in
from sluice_read.reading import open_table, read_table
from sluice_spark.hudi.jvm import HudiJvm
from sluice_spark.hudi.recovery import roll_back_unfinished

COLUMNS = ("id", "place", "name", "__deleted")
KEPT, MOST = 3, 5
FIXTURES = Path(__file__).resolve().parents[1] / "data" / "hudi_tables" / "silver"
Rows = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def short_timelines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hudi_options, "MIN_COMMITS", KEPT)
    monkeypatch.setattr(hudi_options, "MAX_COMMITS", MOST)
    monkeypatch.setattr(hudi_options, "DELTA_COMMITS_PER_COMPACTION", 3)


def ours(bench: Workbench, config: TableConfig, span: Span) -> Rows:
    return bench.rows_by_sluice(config, *COLUMNS, span=span)


def as_of(bench: Workbench, config: TableConfig, instant: str) -> Rows:
    return bench.rows_as_of(config, instant, *COLUMNS)


def by_hudi_rs(bench: Workbench, config: TableConfig, instant: str) -> Rows:
    reader = HudiTableBuilder.from_base_uri(str(bench.local_path(config))).build()
    rows = pa.Table.from_batches(reader.read(HudiReadOptions().with_as_of_timestamp(instant))).to_pylist()
    return sorted((tuple(row[name] for name in COLUMNS) for row in rows), key=str)


def between(bench: Workbench, config: TableConfig, since: str, until: str, *, whole: bool = False) -> Rows:
    """Spark's incremental read; `whole` also of changes whose commits are archived."""
    read = "hoodie.datasource.read"
    limits = {f"{read}.begin.instanttime": since, f"{read}.end.instanttime": until}
    limits |= {f"{read}.incr.fallback.fulltablescan.enable": "true"} if whole else {}
    return bench.rows(config, *COLUMNS, **{"hoodie.datasource.query.type": "incremental"}, **limits)


def check(bench: Workbench, config: TableConfig, states: dict[str, Rows], changes: dict[tuple[str, str], Rows]) -> None:
    """Compare what Sluice reads with the rows by instant, and with the changes between two instants."""
    assert {instant: ours(bench, config, Span(as_of=instant)) for instant in states} == states
    spans = {pair: Span(since=pair[0], as_of=pair[1], changes=True) for pair in changes}
    assert {pair: ours(bench, config, span) for pair, span in spans.items()} == changes


def merge(bench: Workbench, config: TableConfig, *changes: dict[str, Any]) -> str:
    instant = bench.apply(config, *changes).instant
    assert instant is not None
    return instant


def history(bench: Workbench, config: TableConfig) -> list[str]:
    """Commit an insert, updates, a move, a move to the null partition, and a deletion.

    Then a deletion that a newer insert undoes, and a late change that loses beside one that wins.
    """

    def row(op: str, position: int, id: int, place: str | None = "north", name: str | None = None) -> dict[str, Any]:
        return change(op, position, id=id, place=place, name=name or f"at {position}")

    batches = [
        [row("c", 1, 1), row("c", 2, 2), row("c", 3, 3, "south"), row("c", 4, 4, None)],
        [row("u", 11, 1), row("c", 12, 5, "south")],
        [row("d", 31, 3, None, None), row("u", 32, 2, "south")],
        [row("u", 41, 1, None), row("u", 42, 4, "")],
        [row("c", 51, 3, "east"), row("u", 5, 1, "west")],
        [row("d", 61, 5, None, None), row("u", 62, 2, "south")],
    ]
    return [merge(bench, config, *batch) for batch in batches]


@pytest.mark.whole
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param({"table_type": "cow", "partition_by": ("place",)}, id="cow", marks=pytest.mark.whole),
        pytest.param({"table_type": "mor", "partition_by": ("place",), "services": ServicePolicy(on=False)}, id="mor"),
    ],
)
def test_states_and_changes_equal_those_of_spark_before_and_after_archival(
    bench: Workbench, layout: dict[str, Any]
) -> None:
    config = table(time_travel_h=1, **layout)
    instants = history(bench, config)
    pairs = [(instants[0], instants[3]), (instants[2], instants[5]), (instants[4], instants[5]), ("0", instants[1])]

    states = {instant: as_of(bench, config, instant) for instant in instants}
    changes = {pair: between(bench, config, *pair) for pair in pairs}

    assert len({str(state) for state in states.values()}) == len(instants)
    check(bench, config, states, changes)
    assert ours(bench, config, Span()) == states[instants[-1]]

    kept_whole = bench.keep_house(config, horizon=instants[0])

    assert (kept_whole.cleaning, kept_whole.files) == (None, 0) and kept_whole.archived
    assert not [name for name in bench.timeline(config) if name.startswith(instants[2])]
    check(bench, config, states, changes)  # Spark leaves out changes that were archived; what it gave before is right
    assert {instant: as_of(bench, config, instant) for instant in instants} == states
    assert {instant: by_hudi_rs(bench, config, instant) for instant in instants} == states
    assert between(bench, config, *pairs[2]) == changes[pairs[2]]
    since, until = instants[0], instants[-1]
    archived = ours(bench, config, Span(since=since, as_of=until, changes=True))
    if config.table_type == "mor":  # a copy-on-write file may have its older changes from a commit that is active
        assert between(bench, config, since, until) != archived
    assert between(bench, config, since, until, whole=True) == archived
    silver = Silver(bench.services.tables_uri)
    early, late = (open_table(silver, config.table, span=Span(as_of=instants[number])) for number in (1, 4))
    with differences(early, late) as changed:
        kinds = {item.key[0]: (item.kind, item.columns if item.kind == "changed" else ()) for item in changed}
    assert kinds == {number: ("changed", ("place", "name")) for number in (1, 2, 3, 4)}

    assert bench.keep_house(config, horizon=instants[3]).files

    in_window = {instant: states[instant] for instant in instants[3:]}
    check(bench, config, in_window, {})
    assert {instant: as_of(bench, config, instant) for instant in in_window} == in_window
    assert {instant: by_hudi_rs(bench, config, instant) for instant in in_window} == in_window
    with pytest.raises(NotRetained, match=instants[3]):
        open_table(silver, config.table, span=Span(as_of=instants[1]))
    with pytest.raises(IllegalArgumentException, match="Cleaner cleaned up"):
        as_of(bench, config, instants[1])


@pytest.mark.whole
def test_a_planned_compaction_hides_nothing_and_base_files_wait_for_it(bench: Workbench) -> None:
    config = table(table_type="mor", hudi={"hoodie.compact.inline": "false"})
    instants = [
        merge(bench, config, *(change("c", 1 + id, id=id, place="north", name="old") for id in (1, 2))),
        merge(bench, config, change("u", 11, id=1, place="north", name="logged")),
    ]
    client = bench.hudi(config).client(hudi_options.compaction_options())
    planned = client.scheduleCompaction(HudiJvm(bench.spark).none()).get()
    client.close()
    bench.new_run()
    instants += [
        merge(bench, config, change("u", 21, id=2, place="south", name="after the plan")),
        merge(bench, config, change("u", 31, id=1, place="south", name="last")),
    ]

    states = {instant: as_of(bench, config, instant) for instant in instants}
    pairs = [(instants[0], instants[1]), (instants[1], instants[2]), (instants[0], instants[3])]
    changes = {pair: between(bench, config, *pair) for pair in pairs}

    def optimized() -> list[tuple[int, str]]:
        rows = read_table(Silver(bench.services.tables_uri), "db.t_ro").to_pylist()
        return sorted((row["id"], row["name"]) for row in rows)

    assert f"{planned}.commit" not in bench.timeline(config)
    check(bench, config, states, changes)
    assert optimized() == [(1, "old"), (2, "old")]
    bench.hudi(config).compact_all()  # what was planned, and then the rest
    assert f"{planned}.commit" in bench.timeline(config)
    check(bench, config, states, changes)
    assert optimized() == [(1, "last"), (2, "after the plan")]


@pytest.mark.whole
def test_a_losing_row_in_a_later_log_is_no_change_and_an_undone_write_is_never_seen(bench: Workbench) -> None:
    config = table(table_type="mor", hudi={"hoodie.compact.inline": "false"})
    first = merge(bench, config, *(change("c", 100 + id, id=id, place="north", name="newest") for id in (1, 2)))
    second = merge(bench, config, change("u", 111, id=1, place="north", name="newer"))
    hudi = bench.hudi(config)
    facts = hudi.look()
    # As another writer would: a row that is older than the stored one, straight into a log.
    from pyspark.sql import functions as F

    stored = hudi.stored(facts, *facts.schema.names).where("id = 1")
    loser = stored.withColumn("name", F.lit("late loser")).withColumn(
        "_sluice_position", F.lit("0000.00000000000000000001.00000000000000000001")
    )
    lost = hudi.write(
        loser, operation=hudi_options.UPSERT, batch="b-late", run="run-1", facts=facts, size_bytes=0
    ).instant
    bench.new_run()

    unchanged = as_of(bench, config, lost)
    assert ours(bench, config, Span(as_of=lost)) == ours(bench, config, Span(as_of=second)) == unchanged
    # Spark's own changes of such a table hold the loser: it leaves the stored row out before it merges.
    assert ours(bench, config, Span(since=second, as_of=lost, changes=True)) == []
    assert ours(bench, config, Span(since=first, as_of=lost, changes=True)) == between(bench, config, first, lost)

    # The newest write loses its completion, and with it becomes what a dead driver leaves.
    third = merge(bench, config, change("u", 121, id=2, place="north", name="never committed"))
    (bench.local_path(config) / ".hoodie" / f"{third}.deltacommit").unlink()
    bench.new_run()
    assert ours(bench, config, Span()) == as_of(bench, config, lost)
    assert roll_back_unfinished(bench.hudi(config)) == (third,)
    fourth = merge(bench, config, change("u", 131, id=1, place="north", name="after it"))

    for moment in (lost, third, fourth):
        assert ours(bench, config, Span(as_of=moment)) == as_of(bench, config, moment)
    assert "never committed" not in str(ours(bench, config, Span()))


@pytest.mark.whole
def test_a_table_that_was_rewritten_whole_is_read_before_and_after_it(bench: Workbench) -> None:
    config = table(time_travel_h=1)
    first = merge(bench, config, *(change("c", 1 + id, id=id, place="north", name="old") for id in (1, 2)))
    rewritten = bench.rewrite(config)
    bench.new_run()
    last = merge(bench, config, change("d", 21, id=1, place=None, name=None))
    for instant in (first, rewritten, last):
        assert ours(bench, config, Span(as_of=instant)) == as_of(bench, config, instant)
        assert len(ours(bench, config, Span(as_of=instant))) == 2
    assert ours(bench, config, Span(since=first, as_of=last, changes=True)) == between(bench, config, first, last)


def test_tables_in_a_bucket_are_read_like_those_on_disk(s3_endpoint: str) -> None:
    class Bucket:
        silver_url = "s3://past"

        def storage_options(self) -> dict[str, str]:
            return {
                "aws_region": REGION,
                "aws_access_key_id": "test",
                "aws_secret_access_key": "test",
                "aws_endpoint": s3_endpoint,
                "aws_allow_http": "true",
                "aws_virtual_hosted_style_request": "false",
            }

        def client(self, service: str) -> Any:
            return s3

    s3 = boto3.client(
        "s3", endpoint_url=s3_endpoint, region_name=REGION, aws_access_key_id="test", aws_secret_access_key="test"
    )
    disk = Silver(FIXTURES.as_uri())
    s3.create_bucket(Bucket="past")
    for path in (item for item in FIXTURES.rglob("*") if item.is_file()):
        s3.put_object(Bucket="past", Key=path.relative_to(FIXTURES).as_posix(), Body=path.read_bytes())

    assert tables_in(Bucket()) == tables_in(disk) and len(tables_in(disk)) == 4
    for name, moment in [
        ("moma.artists", "20261121080005027"),
        ("moma.works", "20261121080012602"),
        ("moma.works_ro", None),
        ("crm.user", None),
        ("ecomm.date", None),
    ]:
        # Partitions are called as their values are, percent signs and letters of any language included.
        span = Span(as_of=moment)
        assert read_table(Bucket(), name, span=span).equals(read_table(disk, name, span=span))
    in_bucket, on_disk = (
        sorted((item.path, item.size) for item in find_table(place, "moma.works")[0].files())
        for place in (Bucket(), disk)
    )
    assert in_bucket == on_disk
