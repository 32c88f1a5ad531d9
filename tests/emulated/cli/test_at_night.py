"""`sluice ops runs`, `logs` and `dlq` on an emulated stack."""

import gzip
import json
from dataclasses import replace

import pytest
from emulation.deployment import s3_body
from emulation.stack import NOW, SHARED, cloudformation

from sluice.batch.outcome import COMMITTED, Outcome
from sluice.config.table import TableConfig
from sluice.ledger import keys as items
from sluice.silver_keys import manifest_key
from sluice_aws.ledger import expressions as codec
from sluice_aws.s3.objects import Objects
from sluice_read.moments import iso

CONFIG = TableConfig("crm.user", "crm", "user", "crm.public.user", ("id",))


@pytest.fixture
def queues(stack):
    """The URLs of the queues by their output."""
    sqs = SHARED.client("sqs")
    names = ("QueueUrl", "UnannouncedQueueUrl", "UnreconciledQueueUrl", "UndeliveredQueueUrl")
    made = {output: sqs.create_queue(QueueName=output)["QueueUrl"] for output in names}
    outputs = {**cloudformation().outputs, **made, "ReconcileFunction": "s-reconcile", "ApplicationId": "00a"}
    cloudformation().outputs = outputs
    return outputs


def send(url, *bodies):
    for body in bodies:
        SHARED.client("sqs").send_message(QueueUrl=url, MessageBody=body)


def held(url):
    """The bodies of a queue's messages."""
    answer = SHARED.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return sorted(message["Body"] for message in answer.get("Messages", ()))


def given_up(until):
    about = {"requestId": "r", "condition": "RetryAttemptsExhausted"}
    batch = {"batchSize": 2, "approximateArrivalOfLastRecord": until}
    return json.dumps({"requestContext": about, "DDBStreamBatchInfo": batch})


class TestRuns:
    @pytest.fixture
    def three(self, stack):
        history = stack.ledger.history
        history.run_started("run-1", "main", NOW)
        history.run_started("run-1", "main", NOW + 60_000, "job-1")
        history.run_ended("run-1", "released", None, 1, NOW + 100_000)
        history.run_started("run-2", "side", NOW + 200_000, "job-2")
        history.run_ended("run-2", "lapsed", "the job run is FAILED: no memory", 0, NOW + 230_000)
        history.run_started("run-3", "main", NOW + 300_000)
        item = stack.listed(stack.write("a"))
        manifest = stack.batch(CONFIG, item, at=NOW + 70_000)
        counts = {"objects": 1, "read": 42}
        outcome = Outcome(manifest.batch, "crm.user", COMMITTED, NOW + 90_000, "1", counts=counts, quarantined=())
        stack.put_documents(manifest, outcome)
        return stack

    @pytest.mark.parametrize(
        ("since", "before", "runs"),
        [
            (90, 250, ["run-2", "run-1"]),
            (210, 220, ["run-2"]),
            (50, 60, ["run-1"]),
            (400, None, ["run-3"]),
            (None, 200, ["run-1"]),
        ],
        ids=["overlapping", "within one", "while it starts", "still under way", "begun before"],
    )
    def test_runs_are_found_by_the_time_at_which_they_were_under_way(self, three, sluice, since, before, runs):
        times = (("--since", since), ("--before", before))
        given = [word for name, at in times if at is not None for word in (name, iso(NOW + at * 1000))]
        assert [one["run"] for one in sluice.json("ops runs", *given)["runs"]] == runs

    def test_the_batches_of_runs_long_ago_are_counted_behind_any_number_of_newer_ones(self, stack, monkeypatch, sluice):
        monkeypatch.setattr("sluice_cli.ops.runs.MANIFESTS_READ", 1)
        put_at = {}
        for name, began in (("run-1", NOW), ("run-2", NOW + 3_600_000)):
            stack.ledger.history.run_started(name, "main", began, name)
            item = stack.listed(stack.write(name), admitted_at=began)
            manifest = replace(stack.batch(CONFIG, item, at=began), run=name)
            stack.put_documents(manifest)
            stack.ledger.history.run_ended(name, "released", None, 0, began + 1_000)
            put_at[manifest_key("main", manifest.batch)] = began
        listed = Objects.documents

        def documents(*given):
            return (replace(batch, put_at=put_at[batch.key]) for batch in listed(*given))

        monkeypatch.setattr(Objects, "documents", documents)
        document = sluice.json("ops runs --before", iso(NOW + 60_000))
        assert [(one["run"], one["batches"]) for one in document["runs"]] == [("run-1", 1)]
        assert document["batches_unread"] == 0


class TestLogs:
    @pytest.fixture
    def logged(self, stack, queues):
        stack.ledger.history.run_started("run-1", "main", NOW, "job-1")
        events = [
            {"at": NOW, "event": "held", "run": "run-1", "lane": "main", "arrivals": 2},
            {"at": NOW + 1_500, "event": "part_failed", "level": "error", "table": "a b", "trace": "one\ntwo\x1b[2J"},
        ]
        folder = "logs/applications/00a/jobs/job-1/SPARK_DRIVER/"
        text = "".join(json.dumps(event) + "\n" for event in events) + "no event\n"
        for name, body in (("stdout.gz", text), ("stderr.gz", "26/05/01 WARN of Spark\n")):
            stack.s3.put_object(Bucket="s-artifacts", Key=folder + name, Body=gzip.compress(body.encode()))
        return text

    @pytest.mark.parametrize(
        "name", [[], ["run-1"], ["job-1"], ["run-"]], ids=["newest", "run", "job run", "beginning"]
    )
    def test_a_runs_events_are_readable_and_have_times(self, logged, name, sluice):
        assert sluice("ops logs", *name).out.splitlines() == [
            "-- 2023-11-14 UTC, run run-1",
            "22:13:20.000 held arrivals=2",
            '22:13:21.500 ERROR part_failed table="a b"',
            "    one",
            "    two\\x1b[2J",
            "no event",
        ]


class TestDeadLetters:
    def test_notices_are_listed_with_keys_and_the_state_of_each_object(self, stack, queues, sluice):
        admitted, unknown = stack.admit(stack.write("a")), stack.write("b")
        send(queues["DeadLetterQueueUrl"], s3_body(admitted), s3_body(unknown), "{}")
        answer = sluice.json("ops dlq list notices", code=1)["notices"]
        assert answer["messages"] == 3
        expected = {"a": items.PENDING, "b": None}
        assert {one["key"]: one["state"] for letter in answer["shown"] for one in letter["objects"]} == expected
        assert [letter["text"] for letter in answer["shown"] if not letter["objects"]] == ["unknown_message: {}"]
        assert "unknown\tb" in sluice("ops dlq list", code=1).out
        assert len(held(queues["DeadLetterQueueUrl"])) == 3, "listing leaves the messages"

    def test_notices_go_back_to_the_queue_that_admit_reads(self, stack, queues, sluice):
        bodies = [s3_body(stack.write(key)) for key in ("a", "b", "c")]
        send(queues["DeadLetterQueueUrl"], *bodies)
        said = sluice("ops dlq redrive notices --dry-run").out
        assert "3 messages of notices would be redriven, at 50 a second" in said
        assert held(queues["QueueUrl"]) == []
        done = sluice.json("ops dlq redrive notices --count 2 --rate 1000")
        assert done == {"queue": "notices", "messages": 3, "wanted": 2, "redriven": 2, "left": 1}
        sluice("ops dlq redrive notices")
        assert held(queues["QueueUrl"]) == sorted(bodies) and held(queues["DeadLetterQueueUrl"]) == []

    def test_events_are_removed_once_their_batches_are_announced(self, stack, queues, invoked, sluice):
        batch = {"pk": "batch#b", "sk": "batch", "batch": "b", "state": "committed", "committed_at": NOW}
        listed = {"listed_as": items.UNANNOUNCED, "listed_at": items.listed_at(NOW)}
        stack.dynamodb.put_item(TableName="s-ledger", Item=codec.item({**batch, **listed}))
        before, after = given_up("2023-11-14T22:00:00Z"), given_up("2023-11-14T22:30:00Z")
        send(queues["UnannouncedQueueUrl"], before, after)
        said = sluice("ops dlq list events", code=1).out
        assert "2 records until 2023-11-14T22:00:00Z: RetryAttemptsExhausted" in said
        assert (sluice.json("ops dlq redrive events")["redriven"], invoked) == (1, [("s-reconcile", "Event")])
        SHARED.client("sqs").purge_queue(QueueUrl=queues["UnannouncedQueueUrl"])
        send(queues["UnannouncedQueueUrl"], after)
        assert stack.ledger.batches.mark_announced("b", NOW)
        assert (sluice.json("ops dlq redrive events")["redriven"], len(invoked)) == (1, 1)
