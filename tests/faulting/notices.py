"""Faults between bronze and admit: notices that are lost, repeated, late or dead, and objects that change meanwhile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote_plus

from faulting.fault import Fault
from faulting.scene import Scene
from faulting.world import Put
from sluice.ledger.keys import QUARANTINED
from sluice.objects import ObjectId

LOST = "lost_before_read"
DAYS_AGO = "2026-11-01T10:00:00.000Z"


def notices_dropped(scene: Scene) -> None:
    """The bucket announces nothing while a round is put; reconcile lists it."""
    with unannounced(scene):
        scene.world.put_round()
        scene.struck()


def notices_repeated(scene: Scene) -> None:
    """Each notice of a round comes a hundred times more, before its objects are merged and after."""
    scene.struck()
    puts = scene.world.put_round()
    announce(scene, puts, times=50)
    scene.wait_settled()
    announce(scene, puts, times=50)


def notices_late(scene: Scene) -> None:
    """Notices of three weeks ago come for objects that were merged, and for objects that reconcile has not found."""
    earlier = list(scene.world.puts)
    with unannounced(scene):
        puts = scene.world.put_round()
    scene.struck()
    announce(scene, [*earlier, *puts], event_time=DAYS_AGO)


def notices_redriven(scene: Scene) -> None:
    """A round's notices are dead letters, and are redriven."""
    with unannounced(scene):
        puts = scene.world.put_round()
    announce(scene, puts, queue="DeadLetterQueueUrl")
    scene.struck()
    scene.stack.sluice("ops", "dlq", "redrive", "notices")


@contextmanager
def unannounced(scene: Scene) -> Iterator[None]:
    """Have the bucket send no notices for the length of a block."""
    s3, bucket = scene.stack.target.client("s3"), scene.stack.target.bronze
    configuration = s3.get_bucket_notification_configuration(Bucket=bucket)
    before = {name: value for name, value in configuration.items() if name != "ResponseMetadata"}
    assert before, "the bucket announces nothing anyway"
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={})
    try:
        yield
    finally:
        s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=before)


def announce(
    scene: Scene,
    puts: Sequence[Put],
    *,
    times: int = 1,
    event_time: str = "2026-11-22T10:00:00.000Z",
    queue: str = "QueueUrl",
) -> None:
    """Send S3's notices of objects to a queue, one message each."""
    sqs = scene.stack.target.client("sqs")
    identities = [ObjectId(scene.stack.target.bronze, put.key, put.version) for put in puts]
    bodies = [notice(identity, event_time=event_time) for identity in identities for _ in range(times)]
    for start in range(0, len(bodies), 10):
        entries = [{"Id": str(n), "MessageBody": body} for n, body in enumerate(bodies[start : start + 10])]
        sqs.send_message_batch(QueueUrl=scene.stack.target.outputs[queue], Entries=entries)


def notice(*identities: ObjectId, event_time: str) -> str:
    """S3's notice of object versions."""
    about = {"eventVersion": "2.6", "eventSource": "aws:s3", "eventName": "ObjectCreated:Put", "eventTime": event_time}
    records = [
        {**about, "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": one.bucket}, "object": _stored(one)}}
        for one in identities
    ]
    return json.dumps({"Records": records})


def _stored(identity: ObjectId) -> dict[str, Any]:
    key = quote_plus(identity.key, safe="/")
    return {"key": key, "versionId": identity.version, "size": 1000, "sequencer": "0055AED6DCD9"}


def deleted_before_read(scene: Scene) -> None:
    """One object version of a round is deleted for good between its admission and its batch."""
    scene.end_run()
    puts = scene.world.put_round()
    scene.until(lambda: scene.in_state(puts, "pending"), "the admitted round")
    gone = puts[0]
    place = {"Bucket": scene.stack.target.bronze, "Key": gone.key, "VersionId": gone.version}
    scene.stack.target.client("s3").delete_object(**place)
    scene.world.puts.remove(gone)
    scene.expected_codes = frozenset({LOST})
    scene.struck()
    scene.stack.sluice("resume", scene.world.lane)
    scene.until(lambda: scene.in_state([gone], QUARANTINED), "the object that is known as lost")


def overwritten_before_read(scene: Scene) -> None:
    """Each key of a round gets another object between its admission and its batch: both versions count."""
    scene.end_run()
    first = scene.world.put_round()
    scene.until(lambda: scene.in_state(first, "pending"), "the admitted round")
    for put, made in zip(first, scene.world.next_round(), strict=True):
        scene.world.put(made, key=put.key)
    scene.struck()
    scene.stack.sluice("resume", scene.world.lane)


NOTICES: tuple[Fault, ...] = (
    Fault("notices_dropped", "the bucket sends no notice of a round", notices_dropped),
    Fault(
        "notices_repeated",
        "each notice of a round comes 100 times more, half of them after its merge",
        notices_repeated,
    ),
    Fault(
        "notices_days_late",
        "a round's notices come dated three weeks ago, with those of rounds that were merged",
        notices_late,
        nearest="the notices' own time is three weeks ago; the queue they wait in is younger",
    ),
    Fault("notices_redriven", "a round's notices are dead letters and are redriven", notices_redriven),
    Fault(
        "object_deleted_before_read",
        "an object is deleted for good after its notice and before its batch: lost at its source, and quarantined",
        deleted_before_read,
    ),
    Fault(
        "objects_overwritten_before_read",
        "every key of a round is overwritten after its notice and before its batch: both versions are merged",
        overwritten_before_read,
    ),
)
