"""Deploys the product on a running LocalStack, with the stand-in for EMR Serverless beside it, as the local stack does on its own emulator."""
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from judging.running_stack import RunningStack
from localstack_environment import Pythons
from localstack_server import ACCESS_KEY, ACCOUNT, REGION, running_localstack
from sluice_local.cache import cache_directory
from sluice_local.deploy import STACK, deploy
from sluice_local.emr.spark_command import Cloud, Machine
from sluice_local.emr.spark_runner import RunnerSettings
from sluice_local.emr.stand_in import start_stand_in
from sluice_local.home import Description, Home
from sluice_local.jars import ensure_jars, hudi_bundle
from sluice_local.java import find_java
from sluice_local.spark_image import build_image

SPARK_MEMORY = 3 << 30


@contextmanager
def stack_on_localstack(pythons: Pythons, folder: Path) -> Iterator[RunningStack]:
    """The product, deployed from the template by CloudFormation on LocalStack, for the length of a block."""
    home = Home(folder)
    with ExitStack() as undo:
        server = undo.enter_context(running_localstack(pythons, folder / "localstack"))
        jars = ensure_jars()
        image = build_image(folder / "image", find_java(os.environ), jars)
        endpoints = {"": server.endpoint}
        clients = _clients(endpoints)
        settings = RunnerSettings(home.runs, cache_directory(os.environ), image, Cloud(server.endpoint, REGION, ACCESS_KEY, ACCESS_KEY),
                                  Machine(cores=2, memory_bytes=SPARK_MEMORY))
        stand_in = start_stand_in(settings, s3=clients("s3"), events=clients("events"), functions=clients("lambda"), account=ACCOUNT)
        undo.callback(stand_in.stop)
        endpoints["emr-serverless"] = stand_in.endpoint
        deployed = deploy(clients, emr_endpoint=stand_in.endpoint, hudi_bundle=hudi_bundle(jars), cache=cache_directory(os.environ), stack=STACK)
        outputs = deployed.outputs
        home.describe(Description(
            stack=deployed.stack, region=REGION, endpoint=server.endpoint, emr_endpoint=stand_in.endpoint, ledger=outputs["LedgerTable"],
            buckets={"bronze": outputs["BronzeBucket"], "silver": outputs["SilverBucket"], "artifacts": outputs["ArtifactBucket"]},
            credentials={"access_key_id": ACCESS_KEY, "secret_access_key": ACCESS_KEY}, application_id=outputs["ApplicationId"],
            release=deployed.release.version, pids={"owner": os.getpid()}, outputs=dict(outputs)))
        yield RunningStack(folder)


def _clients(endpoints: dict[str, str]) -> Any:
    session = boto3.Session(region_name=REGION, aws_access_key_id=ACCESS_KEY, aws_secret_access_key=ACCESS_KEY)
    config = Config(retries={"mode": "standard", "total_max_attempts": 3}, s3={"addressing_style": "path"})
    return lambda service: session.client(service, endpoint_url=endpoints.get(service, endpoints[""]), config=config)
