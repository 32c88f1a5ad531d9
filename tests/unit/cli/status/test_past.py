"""The recent past from manifests and outcomes, and the parts of its page."""

from dataclasses import replace

from sluice.batch.claim import PendingObject
from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import COMMITTED, QUARANTINED, Outcome, Stage
from sluice_aws.s3.past_batches import PastBatch
from sluice_cli.ops.runs import summaries
from sluice_cli.status.html import Node, joined, tag
from sluice_cli.status.past import BINS, Window, backlog, runs, table_pasts

T = 1_700_000_000_000
WINDOW = Window(T, T + 144_000)  # a bin is a second


def batch(name, run, claimed, *admitted, readable=None, read=5, state=COMMITTED, first=None, instant="2026", **counts):
    objects = tuple(
        ManifestObject("b", f"{name}-{at}", "v", 1, None, "avro", "t", 0, 0, T + at, first_batch=first)
        for at in admitted
    )
    manifest = Manifest(name, "main", run, T + claimed, "c", {"crm.user": TablePart({"freshness_s": 60}, objects)})
    if readable is None:
        return PastBatch(manifest, {})
    stages, counts = (
        (Stage("commit", T + claimed, readable - claimed),),
        {"objects": len(objects), "read": read, **counts},
    )
    how = {"no_change": instant is None, "counts": counts, "stages": stages}
    outcome = Outcome(name, "crm.user", state, T + readable + 50, instant, **how)
    return PastBatch(manifest, {"crm.user": outcome})


def waits(at, name="b-9", **more):
    key = f"{name}-{at}"
    return PendingObject("b", key, "v", 1, None, "avro", "t", 0, 0, T + at, table="crm.user", shard=0, **more)


def retried(name, claimed, readable):
    """The batch of an object of b-1 that was quarantined and retried."""
    again = batch("b-1", "r", claimed, 10_000, readable=readable)
    (item,) = again.manifest.objects
    part = replace(again.manifest.tables["crm.user"], objects=(replace(item, attempt=1),))
    return PastBatch(replace(again.manifest, batch=name, tables={"crm.user": part}), again.outcomes)


def test_the_backlog_counts_an_object_from_its_admission_until_it_is_readable():
    bins = backlog([batch("b-1", "r", 20_000, 10_500, 15_500, readable=30_500)], [waits(140_500)], WINDOW)
    assert len(bins) == BINS
    assert [bins[at] for at in (9, 10, 14, 15, 30, 31, 139, 140, 143)] == [0, 1, 1, 2, 2, 0, 0, 1, 1]


def test_what_was_waiting_before_the_window_is_in_its_first_bin():
    bins = backlog([batch("b-1", "r", 1_000, -50_000, readable=5_500)], [waits(-9_000_000)], WINDOW)
    assert bins[0] == 2 and bins[5] == 2 and bins[6] == 1 and bins[-1] == 1


def test_a_retried_object_is_in_the_backlog_once_and_not_while_in_quarantine():
    first = batch("b-1", "r", 20_000, 10_000, readable=30_000, state=QUARANTINED, instant=None)
    again, pending = retried("b-2", 90_000, 99_000), waits(10_000, "b-1", attempt=1)
    times = {pending.id: [T + 80_500]}
    for past, waiting, last in (([again, first], [], 99), ([first], [pending], 143)):
        bins = backlog(past, waiting, WINDOW, times)
        assert max(bins) == 1
        assert [bins[at] for at in (9, 10, 29, 31, 79, 80, 98)] == [0, 1, 1, 0, 0, 1, 1]
        assert [at for at, n in enumerate(bins) if n][-1] == last


def test_a_retry_at_an_unknown_time_counts_an_object_only_once():
    first = batch("b-1", "r", 20_000, 10_000, readable=30_000, state=QUARANTINED, instant=None)
    bins = backlog([retried("b-2", 90_000, 99_000), first], [], WINDOW)
    assert [bins[at] for at in (10, 29, 31, 89, 90, 98, 100)] == [1, 1, 0, 0, 1, 1, 0], "from its claim"
    assert set(backlog([first], [waits(10_000, "b-1", attempt=1)], WINDOW)[10:]) == {1}


def test_an_object_that_is_replayed_is_in_no_backlog():
    waiting = [waits(1_000, first_batch="b-1"), waits(2_000, merged=True)]
    assert sum(backlog([], waiting, WINDOW)) == 0


def test_a_table_shows_how_long_its_oldest_objects_waited():
    (table,) = table_pasts(
        [batch(f"b-{n}", "r", n * 1_000 + 500, n * 1_000, readable=n * 1_000 + 600 + n) for n in range(100)]
    )
    assert (table.table, len(table.commits)) == ("crm.user", 100)
    assert (table.p50_ms, table.p95_ms) == (649, 694)
    assert table_pasts([batch("b-1", "r", 1, 0, readable=9, state=QUARANTINED)]) == ()


REPLAY = {"first": "b-1", "instant": None, "objects_again": 2, "read_again": 5}


def test_a_replay_that_changes_nothing_counts_no_commit_object_or_change():
    past = [
        batch("b-1", "r", 20_000, 10_000, 15_000, readable=30_000),
        batch("b-2", "r", 90_000, 10_000, 15_000, readable=99_000, **REPLAY),
    ]
    (table,) = table_pasts(past)
    expected = [(2, 5, False), (0, 0, True)]
    assert [(commit.objects, commit.changes, commit.no_change) for commit in table.commits] == expected
    assert [commit.waited_ms for commit in table.commits] == [20_000, None]
    assert (table.p50_ms, table.p95_ms, table.slowest) == (20_000, 20_000, "b-1-10000")
    assert backlog(past, [], WINDOW) == backlog(past[:1], [], WINDOW)
    (run,) = runs(past, {}, T + 99_000)
    assert run.commits == (T + 30_000,) and run.changes == 10, "it read them twice"


def test_objects_of_a_rebuilt_table_came_once_and_wait_again_since_the_rebuild():
    first = batch("b-1", "r", 20_000, 10_000, 15_000, readable=30_000)
    again = batch("b-2", "r", 90_000, 10_000, 15_000, readable=99_000, objects_again=2, read_rebuilt=5)
    part = again.manifest.tables["crm.user"]
    objects = tuple(replace(item, rebuilt_at=T + 60_500) for item in part.objects)
    manifest = replace(again.manifest, tables={"crm.user": replace(part, objects=objects)})
    past = [first, PastBatch(manifest, again.outcomes)]
    (table,) = table_pasts(past)
    expected = [(2, 5, 20_000), (0, 0, None)]
    assert [(commit.objects, commit.changes, commit.waited_ms) for commit in table.commits] == expected
    assert (table.p95_ms, table.slowest) == (20_000, "b-1-10000")
    bins = backlog(past, [], WINDOW)
    assert [bins[at] for at in (9, 20, 31, 59, 61, 98, 100)] == [0, 2, 0, 0, 2, 2, 0]


def test_new_objects_of_a_batch_with_a_replay_count_and_waited():
    replayed = batch("b-2", "r", 90_000, 10_000, readable=99_000, first="b-1").manifest.tables["crm.user"].objects
    mixed = batch("b-3", "r", 90_000, 80_000, readable=99_000, read=9, objects=2, objects_again=1, read_again=4)
    part = mixed.manifest.tables["crm.user"]
    manifest = replace(mixed.manifest, tables={"crm.user": replace(part, objects=replayed + part.objects)})
    (table,) = table_pasts([PastBatch(manifest, mixed.outcomes)])
    (commit,) = table.commits
    assert (commit.objects, commit.changes, commit.waited_ms, commit.oldest_key) == (1, 5, 19_000, "b-3-80000")


def test_a_run_is_described_from_its_item_or_later_from_its_batches():
    batches = [
        batch("b-1", "run-1", 2_000, 1_000, readable=3_000),
        batch("b-2", "run-0", -9_000, -9_500, readable=-8_000),
    ]
    items = {"run-1": {"lane": "main", "requested_at": T + 1_100, "started_at": T + 1_900, "state": "running"}}
    old, new = runs(batches, items, T + 9_000)
    assert (old.run, old.began_at, old.ended_at, old.state) == ("run-0", T - 9_000, T - 8_000, "ended")
    expected = ("run-1", T + 1_100, T + 1_900, None, 1, 5)
    assert (new.run, new.requested_at, new.began_at, new.ended_at, new.batches, new.changes) == expected


def test_changes_count_with_the_run_that_took_the_batch_over():
    batches = [batch("b-1", "run-1", 2_000, 1_000, readable=6_000)]
    items = [
        {"run": "run-2", "lane": "main", "started_at": T + 4_000, "state": "running"},
        {"run": "run-1", "lane": "main", "started_at": T + 1_900, "ended_at": T + 2_500, "state": "lapsed"},
    ]
    page = runs(batches, {item["run"]: item for item in items}, T + 9_000)
    assert [(run.run, run.batches, run.changes) for run in page] == [("run-1", 1, 0), ("run-2", 1, 5)]
    newer, older = summaries(items, batches, T + 9_000)
    expected = [[1, 1, 5], [1, 0, 0]]
    assert [[run[name] for name in ("batches", "objects", "changes")] for run in (newer, older)] == expected
    (only_failed,) = summaries(items[1:], batches, T + 9_000)
    assert only_failed["changes"] == 0


def test_text_outside_nodes_is_escaped():
    assert tag("p", "<b>&\"'", class_='x"y') == '<p class="x&quot;y">&lt;b&gt;&amp;&quot;&#x27;</p>'
    assert joined(tag("i", 1), "<", None) == "<i>1</i>&lt;" and isinstance(joined("a"), Node)
