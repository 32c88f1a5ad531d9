"""An object's way in time, and its drawing."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from sluice.batch.manifest import Manifest, ManifestObject, TablePart
from sluice.batch.outcome import Outcome, RowErrorCount, Stage
from sluice.ledger.records import Decision, ObjectRecord
from sluice.names import shortened
from sluice.objects import ObjectId
from sluice_cli.terminal.guard import visible
from sluice_cli.terminal.words import marked_up
from sluice_cli.trace.stages import TraceFacts, taken_over_at, trace_of
from sluice_cli.trace.trace import describe_trace
from sluice_cli.trace.waterfall import summary, svg, text_lines

T = 1_700_000_000_000
ID = ObjectId("bronze", 'topics/crm.user/<"é"&\x07>+0+1.avro', "v1")
RECORD = ObjectRecord(ID, "committed", T + 400, table="crm.user", lane="main", noticed_at=T + 50, via="s3", batch="b-1")
LISTED = ManifestObject("bronze", ID.key, "v1", 10, None, "avro", "crm.user", 0, 1, T + 400)
MANIFEST = Manifest("b-1", "main", "run-1", T + 9_000, "c", {"crm.user": TablePart({}, (LISTED,))})
INSTANT = "20260101000000000"
STAGES = (
    Stage("table", T + 9_200, 300),
    Stage("schemas", T + 9_500, 100),
    Stage("read", T + 9_700, 1_300),
    Stage("commit", T + 11_000, 1_500),
    Stage("housekeeping", T + 12_500, 500),
)
OUTCOME = Outcome("b-1", "crm.user", "committed", T + 13_000, INSTANT, counts={"read": 3}, stages=STAGES)
FACTS = TraceFacts(
    ID,
    T,
    RECORD,
    manifest=MANIFEST,
    outcome=OUTCOME,
    batch={"committed_at": T + 13_050, "announced_at": T + 13_400},
    part={"settled_at": T + 13_040},
    run={"requested_at": T + 420, "started_at": T + 8_000},
)

DAY = 86_400_000
# The same object, replayed a day later: nothing changed.
AGAIN = (Stage("read", T + DAY + 600, 300),)
REPLAYED = TraceFacts(
    ID,
    T,
    replace(RECORD, batch="b-2", first_batch="b-1", attempt=1, replayed_at=T + DAY),
    manifest=replace(MANIFEST, batch="b-2", run="run-2", created_at=T + DAY + 500),
    outcome=Outcome("b-2", "crm.user", "committed", T + DAY + 900, no_change=True, stages=AGAIN),
    part={"settled_at": T + DAY + 950},
    run={"requested_at": T, "started_at": T},
    first=FACTS,
)


def spans(trace):
    return [(span.name, span.began_at - T, span.ms) for span in trace.spans]


def test_an_object_that_woke_its_lane_waited_for_the_start_of_the_run():
    assert spans(trace_of(FACTS)) == [
        ("notice", 50, 350),
        ("wait", 400, 20),
        ("start", 420, 7_580),
        ("claim", 8_000, 1_000),
        ("open", 9_000, 200),
        ("table", 9_200, 300),
        ("schemas", 9_500, 100),
        ("between", 9_600, 100),
        ("read", 9_700, 1_300),
        ("commit", 11_000, 1_500),
        ("housekeeping", 12_500, 500),
        ("settle", 13_000, 40),
        ("close", 13_040, 10),
        ("announce", 13_050, 350),
    ]


@pytest.mark.parametrize(
    "facts",
    [
        FACTS,
        replace(FACTS, record=replace(RECORD, unparked_at=T + 5_000)),
        replace(FACTS, record=replace(RECORD, replayed_at=T + 6_000), run={}),
        REPLAYED,
        replace(FACTS, outcome=replace(OUTCOME, stages=OUTCOME.stages[3:])),
        replace(FACTS, outcome=replace(OUTCOME, stages=())),
        replace(FACTS, outcome=replace(OUTCOME, stages=OUTCOME.stages[3:4]), run={"ended_at": T + 12_700}),
    ],
    ids=["plain", "parked", "rebuilt", "replayed", "two stages", "no stages", "found committed"],
)
def test_the_stretches_add_up_to_the_whole_way(facts):
    trace = trace_of(facts)
    assert sum(span.ms for span in trace.spans) == trace.spans[-1].ended_at - trace.put_at
    assert all(before.ended_at == after.began_at for before, after in zip(trace.spans, trace.spans[1:], strict=False))


HOLED = replace(OUTCOME, instant=None, no_change=True, quarantined_rows=(RowErrorCount(ID.hash, 3, {}),))


def test_an_object_all_of_whose_rows_were_set_aside_is_not_readable():
    assert trace_of(FACTS).readable_at == T + 12_500
    assert trace_of(replace(FACTS, outcome=HOLED)).readable_at is None
    assert trace_of(replace(FACTS, outcome=replace(HOLED, instant=INSTANT))).readable_at == T + 12_500


def test_rows_that_were_committed_before_a_retry_stay_readable():
    part = TablePart({}, tuple(replace(listed, merged=True) for listed in MANIFEST.objects))
    facts = replace(FACTS, outcome=HOLED, manifest=replace(MANIFEST, tables={"crm.user": part}))
    assert trace_of(facts).readable_at == T + 12_500


def test_an_object_that_met_a_living_run_waited_for_its_next_look():
    expected = [("notice", 50, 350), ("wait", 400, 8_600), ("open", 9_000, 200)]
    assert spans(trace_of(replace(FACTS, run={"requested_at": T - 60_000, "started_at": T - 50_000})))[:3] == expected


def test_a_batch_that_was_taken_over_names_the_wait_and_the_run():
    dead = {"requested_at": T + 420, "started_at": T + 8_000, "ended_at": T + 9_050, "state": "lapsed"}
    trace = trace_of(replace(FACTS, run=dead, finished_by="run-2"))
    assert spans(trace)[4:7] == [("open", 9_000, 50), ("take-over", 9_050, 150), ("table", 9_200, 300)]
    assert trace.spans[5].note == "until run-2 took the batch over"
    committed = {**dead, "ended_at": T + 12_600}  # it died after this table, before another one
    assert spans(trace_of(replace(FACTS, run=committed))) == spans(trace_of(FACTS))


def test_a_commit_that_another_run_found_was_readable_before():
    dead = {"requested_at": T + 420, "started_at": T + 8_000, "ended_at": T + 12_600, "state": "lapsed"}
    changed = replace(OUTCOME, committed_at=T + 43_000, stages=(Stage("commit", T + 11_000, 1_500),))
    later = {"batch": {"committed_at": T + 43_050, "announced_at": T + 43_400}, "part": {"settled_at": T + 43_040}}
    facts = replace(FACTS, outcome=changed, run=dead, finished_by="run-2", **later)
    trace = trace_of(facts)
    taken_over = [("commit", 11_000, 1_500), ("take-over", 12_500, 30_500), ("settle", 43_000, 40)]
    assert spans(trace)[4:8] == [("merge", 9_000, 2_000), *taken_over]
    assert trace.spans[6].note == "its run ended before it recorded the commit, until run-2 found it"
    assert trace.readable_at == T + 12_500
    assert taken_over_at(changed, dead) == T + 12_600 and taken_over_at(OUTCOME, {"ended_at": T + 13_100}) is None


def test_it_is_readable_with_its_commit_and_not_with_the_housekeeping_behind_it():
    trace = trace_of(FACTS)
    assert trace.readable_at == T + 12_500
    assert trace.to_readable_ms == 12_450  # since S3's own notice of it; LastModified has whole seconds
    unannounced = replace(FACTS, record=replace(RECORD, noticed_at=None))
    assert trace_of(unannounced).to_readable_ms == 12_500


def test_a_replay_is_apart_and_the_rows_are_readable_since_the_first_commit():
    trace, first = trace_of(REPLAYED), trace_of(FACTS)
    expected = (first.readable_at, 12_450, "b-1", INSTANT)
    assert (trace.readable_at, trace.to_readable_ms, trace.batch, trace.instant) == expected
    assert trace.spans == first.spans
    replay = trace.replay
    assert (replay.at, replay.batch, replay.run, replay.result) == (T + DAY, "b-2", "run-2", "no change of the table")
    expected = [("wait", 0, 500), ("open", 500, 100), ("read", 600, 300), ("settle", 900, 50)]
    assert [(span.name, span.began_at - T - DAY, span.ms) for span in replay.spans] == expected
    notes = {moment.name: moment.note for moment in trace.moments}
    assert notes["replayed"] == "no change of the table" and "rebuilt" not in " ".join(notes.values())
    assert "replayed 2023-11-15T22:13:20Z" in summary(trace)
    assert describe_trace(trace)["replay"]["spans"][0]["ms"] == 500 and describe_trace(first)["replay"] is None


@pytest.mark.parametrize(
    ("state", "result"),
    [("pending", "it waits to be merged again"), ("claimed", "a run merges it again"), ("quarantined", "quarantined")],
)
def test_an_unfinished_or_failed_replay_leaves_the_rows_readable(state, result):
    record = replace(REPLAYED.record, state=state, batch=None, reason="why" if state == "quarantined" else None)
    trace = trace_of(replace(REPLAYED, record=record, manifest=None, outcome=None))
    assert (trace.state, trace.readable_at, trace.replay.result) == (state, T + 12_500, result)


def test_a_rebuild_is_named_and_begins_the_way_anew():
    trace = trace_of(replace(FACTS, record=replace(RECORD, replayed_at=T + 6_000), run={}))
    assert trace.replay is None and trace.to_readable_ms == 12_450
    assert ("merged before", 400, 5_600) in spans(trace)
    notes = [span.note for span in trace.spans if span.name == "merged before"]
    assert notes == ["until its table was rebuilt"]
    assert "rebuilt" in [moment.name for moment in trace.moments]


def test_an_object_that_is_not_committed_is_not_readable_though_its_batch_is():
    aside = {"state": "quarantined", "code": "corrupt_object", "reason": "a block is damaged"}
    trace = trace_of(replace(FACTS, record=replace(RECORD, listed_at=f"{T + 13_040:013d}", **aside)))
    assert trace.readable_at is None and trace.instant is None and trace.reason == "a block is damaged"
    moments = [moment.name for moment in trace.moments]
    assert "quarantined" in moments and "readable" not in moments


def test_a_stage_that_is_left_to_spark_and_begins_again_is_one_stretch():
    stages = (Stage("read", T + 9_200, 1), Stage("read", T + 9_205, 400), Stage("commit", T + 9_605, 100))
    trace = trace_of(replace(FACTS, outcome=replace(OUTCOME, stages=stages)))
    assert ("read", 9_200, 405) in spans(trace) and [span.name for span in trace.spans].count("read") == 1


def test_an_object_that_the_ledger_has_not_seen_has_its_put_alone():
    trace = trace_of(TraceFacts(ID, T))
    assert trace.state == "unseen" and [moment.name for moment in trace.moments] == ["put"] and trace.spans == ()
    assert text_lines(trace, 100) == [] and ET.fromstring(svg(trace)) is not None


RETRIED_AT = T + 5_000
RETRY = Decision(ID, "retried", RETRIED_AT, "sluice quarantine retry --all", "me", "quarantined", batch="b-0")
IN_QUARANTINE = ("set aside", 2_000, 3_000, "in quarantine")
TRIED = ("wait", 400, 1_600, "until a batch set it aside")
BEFORE = ("merged before", 5_000, 3_000, "retried and merged, until its table was rebuilt")
UNTIL_REBUILT = ("merged before", 400, 600, "until its table was rebuilt")


@pytest.mark.parametrize(
    ("rebuilt", "set_aside_at", "expected"),
    [
        (None, {"b-0": T + 2_000}, [TRIED, IN_QUARANTINE]),
        (None, {}, [("set aside", 400, 4_600, "a wait for a batch, then in quarantine")]),
        (T + 8_000, {"b-0": T + 2_000}, [TRIED, IN_QUARANTINE, BEFORE]),
        (T + 1_000, {"b-0": T + 2_000}, [UNTIL_REBUILT, ("wait", 1_000, 1_000, TRIED[-1]), IN_QUARANTINE]),
    ],
    ids=["retried", "unknown batch", "retried, then rebuilt", "rebuilt, then retried"],
)
def test_quarantine_has_its_true_stretch_beside_a_rebuild(rebuilt, set_aside_at, expected):
    record = replace(RECORD, replayed_at=rebuilt)
    trace = trace_of(replace(FACTS, record=record, decisions=(RETRY,), set_aside_at=set_aside_at, run={}))
    actual = [(span.name, span.began_at - T, span.ms, span.note) for span in trace.spans]
    assert actual[1 : 1 + len(expected)] == expected
    assert sum(span.ms for span in trace.spans) == trace.spans[-1].ended_at - trace.put_at
    assert all(before.ended_at == after.began_at for before, after in zip(trace.spans, trace.spans[1:], strict=False))


def test_an_outcome_without_stages_is_one_stretch():
    trace = trace_of(replace(FACTS, outcome=replace(OUTCOME, stages=())))
    assert ("merge", 9_000, 4_000) in spans(trace)
    assert trace.readable_at == OUTCOME.committed_at


def test_clocks_that_disagree_make_no_negative_times():
    trace = trace_of(replace(FACTS, record=replace(RECORD, noticed_at=T + 900)))
    assert spans(trace)[0] == ("notice", 900, 0)
    assert all(span["ms"] >= 0 for span in describe_trace(trace)["spans"])


def test_the_lines_show_every_period_within_the_width():
    lines = [line.plain for line in text_lines(trace_of(FACTS), 100)]
    assert max(map(len, lines)) <= 100
    periods = [line for line in lines if not line.startswith(" ")]  # others explain the period above
    drawn = [name for name, *_ in spans(trace_of(FACTS)) if name != "between"]
    assert [line.split()[0] for line in periods] == [*drawn, "between", "readable"]
    assert "7.580 s" in periods[2] and periods[2].count("█") > periods[8].count("█") > 0
    assert lines[-1] == f"{'readable':<13}{'12.450 s':>10}  after its put, 2023-11-14T22:13:32Z"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
def test_every_period_has_its_explanation_at_any_width(width):
    lines = [line.plain for line in text_lines(trace_of(FACTS), width)]
    text = " ".join(" ".join(lines).split())
    notes = [span.note for span in trace_of(FACTS).spans if span.note and span.name != "between"]
    assert max(map(len, lines)) <= width and "after its put, 2023-11-14T22:13:32Z" in text
    assert "1 gap between stages" in text
    assert "other tables of the batch" in notes and [note for note in notes if note not in text] == []


def test_the_picture_is_one_document_with_nothing_to_fetch_and_every_name_escaped():
    picture = svg(trace_of(FACTS))
    root = ET.fromstring(picture)  # well-formed, though the key holds what XML can't
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == 'topics/crm.user/<"é"&\\x07>+0+1.avro'
    assert not re.search(r"(?:href|src|url\(|<script)", picture) and "prefers-color-scheme:dark" in picture
    assert len(list(root.iter("{http://www.w3.org/2000/svg}title"))) == len(trace_of(FACTS).spans)


def test_text_that_would_steer_a_terminal_is_shown_instead():
    assert visible("a\x1b[2J\n\u202eb\U000e0001") == "a\\x1b[2J\\n\\u202eb\\U000e0001"
    assert visible("Zürich 東京 ✓") == "Zürich 東京 ✓"
    assert marked_up("<b a='\"'>\x00\ud800") == "&lt;b a=&#x27;&quot;&#x27;&gt;\\x00\\ud800"
    assert shortened("abcdefghij", 7) == "ab…ghij" and len(shortened("abcdefghij", 6)) == 6
