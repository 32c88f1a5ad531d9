"""Faults of what surrounds a run: configuration, ledger, clocks, and a deployment in the middle of a batch."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from faulting.clock import shifted
from faulting.fault import Fault
from faulting.scene import Scene
from faulting.world import Put
from sluice_aws.clients import COMMAND, Clients
from sluice_aws.s3.configuration import CONFIGURATION_KEY
from sluice_deploy.release import source_root
from sluice_local.cache import cache_directory
from sluice_local.images.jars import ensure_jars, hudi_bundle
from sluice_local.stack.deploy import deploy


def broken_configuration(scene: Scene) -> None:
    """tables.yaml is broken in the artifact bucket while a round arrives, and gone while another does.

    A function or driver that knows the last one goes on with it; with others notices wait.
    """
    s3, bucket = scene.stack.target.client("s3"), scene.stack.target.artifacts
    valid = s3.get_object(Bucket=bucket, Key=CONFIGURATION_KEY)["Body"].read()
    scene.struck()
    try:
        s3.put_object(Bucket=bucket, Key=CONFIGURATION_KEY, Body=b'{"tables": [')
        received(scene, scene.world.put_round())
        s3.delete_object(Bucket=bucket, Key=CONFIGURATION_KEY)
        received(scene, scene.world.put_round())
    finally:
        s3.put_object(Bucket=bucket, Key=CONFIGURATION_KEY, Body=valid)
    scene.ended()


def received(scene: Scene, puts: list[Put]) -> None:
    """Wait until admit got the notices of objects: they are in the ledger, or wait for their next delivery."""
    counted = "ApproximateNumberOfMessagesNotVisible"

    def waiting() -> bool:
        attributes = scene.stack.target.client("sqs").get_queue_attributes(
            QueueUrl=scene.stack.target.outputs["QueueUrl"], AttributeNames=[counted]
        )
        return int(attributes["Attributes"][counted]) > 0

    scene.until(
        lambda: scene.in_state(puts, "pending") or scene.in_state(puts, "committed") or waiting(), "the notices"
    )


# ---------------------------------------------------------------------- the ledger
def ledger_lost(scene: Scene) -> None:
    """Every item is gone. A round arrives, the lane pauses itself, and an operator rebuilds the ledger."""
    scene.end_run()
    replace_items(scene, [])
    scene.struck()
    scene.world.put_round()
    scene.until(lambda: scene.lane().state == "paused", "a lane that pauses itself")
    rebuild_ledger(scene)


def ledger_restored(scene: Scene) -> None:
    """The ledger is as it was while a run held the lane, two rounds ago; an operator rebuilds it."""
    before = items(scene)
    for _ in range(2):
        scene.world.put_round()
        scene.wait_settled()
    scene.end_run()
    replace_items(scene, before)
    scene.struck()
    scene.world.put_round()
    scene.stack.sluice("pause", scene.world.lane)
    scene.until(lambda: scene.lane().state == "paused", "a paused lane")
    rebuild_ledger(scene)


def rebuild_ledger(scene: Scene) -> None:
    """As docs/disasters.md says."""
    scene.stack.sluice("rebuild", "ledger", "--yes")
    scene.stack.sluice("resume", scene.world.lane)


def items(scene: Scene) -> list[dict[str, Any]]:
    """Every item of the ledger."""
    pages = (
        scene.stack.target.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=scene.stack.target.ledger_table, ConsistentRead=True)
    )
    return [item for page in pages for item in page["Items"]]


def replace_items(scene: Scene, wanted: list[dict[str, Any]]) -> None:
    """Delete what the ledger has, and put these items."""
    table = scene.stack.target.ledger_table
    requests = [{"DeleteRequest": {"Key": {name: item[name] for name in ("pk", "sk")}}} for item in items(scene)]
    for some in (requests, [{"PutRequest": {"Item": item}} for item in wanted]):
        for start in range(0, len(some), 25):
            answer = scene.stack.target.client("dynamodb").batch_write_item(
                RequestItems={table: some[start : start + 25]}
            )
            assert not answer.get("UnprocessedItems")


# ---------------------------------------------------------------------- clocks
def driver_clock(shift_s: int) -> Callable[[Scene], None]:
    """Have the next run's clock differ."""

    def before(scene: Scene) -> None:
        scene.behave(environment=shifted(shift_s))
        scene.fresh_run()

    return before


def clock_behind(scene: Scene) -> None:
    """A driver a quarter of an hour behind the one before it commits nothing, until one with a right clock comes.

    To it the last commits are in the future, so that the next ones are not due.
    """
    driver_clock(-900)(scene)
    scene.struck()
    puts = scene.world.put_round()
    scene.until(lambda: scene.in_state(puts, "pending"), "the admitted round")
    arrivals = scene.lane().arrivals
    scene.until(lambda: scene.looked_at(arrivals), "a look of the driver that finds nothing to claim")
    assert scene.in_state(puts, "pending"), "a driver whose clock is behind claimed them"
    scene.behave()
    scene.fresh_run()
    scene.ended()


def clock_ahead(scene: Scene) -> None:
    """A driver two minutes ahead commits; the next one, whose clock is right, waits until those commits are past."""
    driver_clock(120)(scene)
    scene.world.put_round()
    scene.stack.wait(300, strict=False)
    scene.struck()
    scene.behave()
    scene.fresh_run()


# ---------------------------------------------------------------------- deployments
def deployed(scene: Scene) -> None:
    """Another release of job and functions is deployed while a batch is written; its driver is killed then."""
    with scene.trap(scene.data_put(), after=False) as trap:
        scene.world.put_round()
        scene.caught(trap)
        old = scene.release()
        deploy_changed(scene)
        assert scene.release() != old, "the same release"
        scene.kill_driver()


def deployed_beside(scene: Scene) -> None:
    """Another release of job and functions is deployed while a run lives: it goes on, and the next has the new one."""
    scene.struck()
    scene.world.put_round()
    deploy_changed(scene)
    scene.world.put_round()
    scene.wait_settled()
    scene.fresh_run()


def deploy_changed(scene: Scene) -> None:
    """Deploy the sources with another comment in a module of the functions and of the job."""
    target, root = scene.stack.target, source_root()
    with tempfile.TemporaryDirectory(prefix="sluice-changed-") as folder:
        changed = Path(folder)
        for name in ("functions", "spark", "statemachines"):
            shutil.copytree(root / name, changed / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(root / "template.yaml", changed)
        for module in ("functions/sluice/errors.py", "spark/sluice_spark/errors.py"):
            with (changed / module).open("a") as source:
                source.write(f"# {scene.world.database}\n")
        assert target.endpoint is not None and target.emr_endpoint is not None
        clients = Clients(
            region=target.region,
            endpoint_url=target.endpoint,
            emr_endpoint_url=target.emr_endpoint,
            options=COMMAND,
            credentials=target.credentials,
        )
        environment: Mapping[str, str] = os.environ
        deploy(
            clients,
            emr_endpoint=target.emr_endpoint,
            hudi_bundle=hudi_bundle(ensure_jars()),
            cache=cache_directory(environment),
            stack=target.stack,
            root=changed,
        )


STATE: tuple[Fault, ...] = (
    Fault(
        "configuration_broken",
        "tables.yaml is broken in the artifact bucket while a round arrives, and gone while another does",
        broken_configuration,
    ),
    Fault(
        "clock_behind",
        "a driver's clock is a quarter of an hour behind the one before it: it commits nothing while it lives",
        clock_behind,
    ),
    Fault("clock_ahead", "a driver's clock is two minutes ahead of the next one's", clock_ahead),
    Fault(
        "release_changed",
        "another release of functions and job is deployed while a driver lives, and another round arrives",
        deployed_beside,
    ),
    Fault(
        "release_changed_in_a_batch",
        "another release is deployed while a data file is written, and the driver is killed: the new one takes over",
        deployed,
    ),
    Fault(
        "ledger_restored",
        "the ledger is restored to where it was two rounds ago, held by a run that is over, and rebuilt",
        ledger_restored,
        nearest="items are put back, where point-in-time recovery makes another table",
    ),
    Fault(
        "ledger_lost",
        "every item of the ledger is lost behind real tables; the lane pauses itself, and the ledger is rebuilt",
        ledger_lost,
    ),
)
