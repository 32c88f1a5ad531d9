"""reconcile's audit: a round over many short invocations finds what `sluice audit` finds, and says how old it is."""

import pytest
from emulation.deployment import Recorder, context
from emulation.merged_stack import BREAKAGES, merged_stack
from reconcile.handler import handler

from sluice.ledger.audit_round import BATCHES, DONE, ROUND_MS
from sluice_aws.audit import rounds
from sluice_aws.audit.facts import AuditFacts
from sluice_aws.audit.rounds import CHECKPOINT, Auditor
from sluice_aws.clock import epoch_ms
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader

pytestmark = pytest.mark.long


class Audited:
    """A merged stack, and rounds over it at a time that a test moves."""

    def __init__(self, stack):
        self.merged = merged_stack(stack)
        self.stack = stack
        self.now = epoch_ms()
        self.report = Recorder()

    def run(self, pages=1000):
        """One invocation with time for so many pages."""
        self.report = Recorder()
        left = iter([1.0] * pages)
        auditor = Auditor(
            ledger=self.stack.ledger,
            objects=Objects(self.stack.s3),
            timelines=TimelineReader(SilverBucket(self.stack.s3, "s-silver")),
            report=self.report,
            bronze="s-bronze",
            silver="s-silver",
            grace_ms=0,
            now=lambda: self.now,
        )
        return auditor.run(lambda: next(left, 0.0), lambda versions: 0)

    def codes(self):
        return sorted(fields["code"] for name, fields in self.report.events if name == "contradiction")


@pytest.fixture
def audited(stack):
    return Audited(stack)


def test_a_stack_without_a_contradiction_says_so_in_its_gauge(audited):
    reached = audited.run()
    assert (reached.phase, reached.ended_at, reached.contradictions()) == (DONE, audited.now, {})
    assert audited.report.metrics == {"Contradictions": 0, "AuditAgeSeconds": 0}
    assert audited.codes() == []


@pytest.mark.parametrize("code", BREAKAGES)
def test_a_round_finds_each_contradiction_once(audited, code):
    BREAKAGES[code](audited.merged)
    counts = audited.run().contradictions()
    assert counts[code] == audited.codes().count(code) >= 1
    told = [fields for name, fields in audited.report.events if fields.get("code") == code]
    assert all(fields["next_step"] and fields["meaning"] for fields in told)
    assert len({(fields["key"], fields["batch"], fields["instant"]) for fields in told}) == len(told)
    assert set(counts) - {code} <= ({"commit_without_outcome"} if code == "no_outcome" else set())


def test_objects_of_a_batch_of_several_tables_have_their_own_outcomes(audited):
    merged, stack, names = audited.merged, audited.stack, ("crm.a", "crm.b", "crm.c")
    ids = {name: [stack.admit(stack.write(f"{name}{n}"), table=name) for n in range(2)] for name in names}
    batch = merged.opened_together(ids)
    for name in names:
        merged.settled(batch, *ids[name], table=name, close=name == names[-1])
    assert audited.run().contradictions() == {}


def test_pages_give_what_one_pass_gives(audited, monkeypatch):
    for code in ("two_batches", "commit_missing", "abandoned_claim"):
        BREAKAGES[code](audited.merged)
    at_once = audited.run().contradictions()
    audited.stack.ledger.history.put_checkpoint({}, 0, CHECKPOINT)
    monkeypatch.setattr(rounds, "PAGE_VERSIONS", 2)
    monkeypatch.setattr(rounds, "PAGE_MANIFESTS", 1)
    phases = [audited.run(pages=1).phase]
    while phases[-1] != DONE:
        phases.append(audited.run(pages=1).phase)
        assert len(phases) < 50
    assert phases.count("bronze") >= 4 and phases.count(BATCHES) >= 3
    assert audited.run().contradictions() == at_once


def test_a_round_begins_a_day_after_the_last_and_the_age_grows_until_it_ends(audited):
    audited.now += 5_000
    audited.run(pages=1)
    audited.now += 60_000
    assert audited.run(pages=0).phase == BATCHES
    assert audited.report.metrics["AuditAgeSeconds"] == 60  # since the first round began
    ended = audited.run().ended_at
    audited.now += ROUND_MS - 60_001
    assert audited.run().ended_at == ended
    audited.now += 1
    assert audited.run().ended_at == audited.now


def test_what_was_mended_counts_until_a_whole_round_finds_it_no_more(audited):
    audited.merged.edit(audited.merged.bad, state="claimed")
    audited.merged.remove_version("new")
    assert audited.run().contradictions() == {"abandoned_claim": 1}
    audited.merged.edit(audited.merged.bad, state="quarantined")
    audited.now += ROUND_MS
    audited.run(pages=1)
    assert audited.report.metrics["Contradictions"] >= 1
    audited.run()
    assert audited.report.metrics["Contradictions"] == 0


def test_an_object_that_reconcile_does_not_admit_within_a_day_is_unknown(audited):
    assert audited.run().contradictions() == {}
    audited.now += ROUND_MS + 1_000
    assert audited.run().contradictions() == {"unknown_object": 1}
    (told,) = [fields for name, fields in audited.report.events if name == "contradiction"]
    assert (told["bucket"], told["key"]) == ("s-bronze", "new") and told["version"]


def test_a_dropped_record_of_an_object_that_is_gone_contradicts_nothing(audited):
    audited.merged.lose_record(audited.merged.first)
    audited.merged.remove_version("a")
    assert audited.run().contradictions() == {}


def test_a_commit_that_is_rolled_back_meanwhile_contradicts_nothing(audited, monkeypatch):
    audited.merged.commit_file(5, audited.merged.batch)
    timeline = TimelineReader.timeline

    def then_gone(self, table, **how):
        listed = timeline(self, table, **how)
        if listed.newest and listed.newest.time == "20240501101500005":
            audited.merged.remove(audited.merged.timeline_key(5))
        return listed

    monkeypatch.setattr(TimelineReader, "timeline", then_gone)
    assert audited.run().contradictions() == {}


def test_gauges_are_written_where_a_page_fails(audited, monkeypatch):
    audited.run()
    audited.now += 3 * ROUND_MS
    monkeypatch.setattr(Objects, "version_page", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        audited.run()
    assert audited.report.metrics["AuditAgeSeconds"] == 3 * ROUND_MS // 1000


def test_an_unreadable_document_is_named_and_holds_nothing_up(audited):
    audited.stack.s3.put_object(Bucket="s-silver", Key="_sluice/manifests/main/b-x.json", Body=b"{")
    assert audited.run().phase == DONE
    (skipped,) = [fields for name, fields in audited.report.events if name == "document_skipped"]
    assert skipped["key"].endswith("b-x.json")


def test_of_batches_only_what_concerns_a_page_is_kept(audited):
    objects, timelines = Objects(audited.stack.s3), TimelineReader(SilverBucket(audited.stack.s3, "s-silver"))
    facts = AuditFacts(audited.stack.ledger, objects, "s-silver", timelines, only={audited.merged.first})
    facts.read_batches(lambda *_: None)
    assert [part.batch for part in facts.parts] == [audited.merged.batch]


def test_the_function_audits_on_its_own_schedule_and_does_nothing_else_then(deployment):
    deployment.configure()
    deployment.calls.clear()
    result = handler({"duty": "audit"}, context(400_000))
    assert (result["phase"], result["contradictions"]) == (DONE, {})
    assert deployment.ledger.history.checkpoint(CHECKPOINT)["ended_at"] == result["ended_at"]
    assert not {"Scan", "TransactWriteItems", "PutEvents", "StartJobRun"} & set(deployment.calls)
    assert handler({}, context(400_000))["complete"]
