"""Deploys the overlaid template through CloudFormation, with a release, on an emulator."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sluice_deploy.release import Release, build_release, source_root, upload_release
from sluice_deploy.template import read_template
from sluice_deploy.wheels import this_host
from sluice_local.errors import DeploymentFailed
from sluice_local.images.jars import Progress
from sluice_local.images.pythons import function_package
from sluice_local.stack.overlay import Surroundings, overlay, state_machines

if TYPE_CHECKING:
    from sluice_aws.clients import Clients

STACK = "sluice"
_DEPLOYMENTS = "sluice-deployments"  # the counterpart of `sam deploy`'s managed bucket, for code and template
_DEADLINE_S = 600.0  # LocalStack took more than three minutes on a busy machine
_POLL_S = 0.1


@dataclass(frozen=True)
class Deployment:
    """A deployed stack."""

    stack: str
    outputs: Mapping[str, str]
    release: Release


@dataclass(frozen=True)
class Timers:
    """The timers of a local stack: parameters of the template."""

    batching_window_s: int = 0  # for low latency; MiniStack doesn't wait for a window anyway
    supervise: str = "rate(1 minute)"
    reconcile: str = "rate(1 minute)"
    reconcile_grace_s: int = 60
    services: str = "rate(1 minute)"
    services_pause_s: int = 3  # each one takes processor time from Spark
    extra: Mapping[str, str] = field(default_factory=dict)


def deploy(
    clients: Clients,
    *,
    emr_endpoint: str,
    hudi_bundle: Path,
    cache: Path,
    stack: str = STACK,
    timers: Timers = Timers(),
    root: Path | None = None,
    progress: Progress = lambda line: None,
) -> Deployment:
    """Create the stack, or update it from the sources. Returns its outputs and its release.

    `clients` are the emulator's, and EMR Serverless's is the stand-in's.
    Raises DeploymentFailed with the first resource's reason, and WheelsUnavailable.
    """
    root = root or source_root()
    s3 = clients.s3
    progress("Packing the functions")
    code = function_package(root, cache)
    progress("Packing the Spark job")
    release = build_release(root, (this_host(),), cache, Path(sys.executable))
    template = read_template(root / "template.yaml")
    definitions = {name: (root / path).read_bytes() for name, path in state_machines(template).items()}
    surroundings = _surroundings(clients.emr_serverless, template, emr_endpoint, stack, code, definitions)
    _make_bucket(s3, surroundings.code_bucket)
    s3.put_object(Bucket=surroundings.code_bucket, Key=surroundings.code_key, Body=code)
    for name, definition in definitions.items():
        s3.put_object(Bucket=surroundings.code_bucket, Key=surroundings.definition_keys[name], Body=definition)
    body = json.dumps(overlay(template, surroundings)).encode()
    key = f"templates/{hashlib.sha256(body).hexdigest()[:20]}.json"
    s3.put_object(Bucket=surroundings.code_bucket, Key=key, Body=body)
    progress("Deploying the stack through CloudFormation")
    cloudformation = clients.client("cloudformation")
    request = {
        "StackName": stack,
        "TemplateURL": f"{s3.meta.endpoint_url}/{surroundings.code_bucket}/{key}",
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        # The release is known before its bucket exists. It is uploaded below, before any job starts.
        "Parameters": [
            {"ParameterKey": name, "ParameterValue": value}
            for name, value in sorted(_parameters(release, hudi_bundle, timers).items())
        ],
    }
    outputs = _settle(cloudformation, stack, _create_or_update(cloudformation, request))
    upload_release(release, s3, outputs["ArtifactBucket"])
    return Deployment(stack, outputs, release)


def _parameters(release: Release, hudi_bundle: Path, timers: Timers) -> dict[str, str]:
    host = this_host()
    return {
        "Release": release.version,
        "Runtime": f"python{sys.version_info.major}.{sys.version_info.minor}",
        "Architecture": host.architecture,
        "SparkArchitecture": host.architecture.upper(),
        "HudiJars": hudi_bundle.as_uri(),
        "BatchingWindow": str(timers.batching_window_s),
        "SuperviseSchedule": timers.supervise,
        "ReconcileSchedule": timers.reconcile,
        "ReconcileGraceSeconds": str(timers.reconcile_grace_s),
        "ServicesSchedule": timers.services,
        "ServicesPauseSeconds": str(timers.services_pause_s),
        **timers.extra,
    }


def _surroundings(
    emr: Any, template: Mapping[str, Any], emr_endpoint: str, stack: str, code: bytes, definitions: Mapping[str, bytes]
) -> Surroundings:
    regions = [
        page["arn"].rsplit("/", 1)[-1] for page in emr.list_applications()["applications"] if page["name"] == stack
    ]
    if regions:
        key = regions[0]
    else:
        release = template["Parameters"]["EmrRelease"]["Default"]
        key = emr.create_application(
            name=stack,
            releaseLabel=release,
            type="SPARK",
            architecture=this_host().architecture.upper(),
            clientToken=stack,
        )["applicationId"]
    arn = emr.get_application(applicationId=key)["application"]["arn"]
    return Surroundings(
        key,
        arn,
        emr_endpoint,
        _DEPLOYMENTS,
        f"functions/{hashlib.sha256(code).hexdigest()[:20]}.zip",
        {
            name: f"definitions/{hashlib.sha256(definition).hexdigest()[:20]}.json"
            for name, definition in definitions.items()
        },
    )


def _make_bucket(s3: Any, name: str) -> None:
    try:
        s3.create_bucket(Bucket=name)
    except s3.exceptions.BucketAlreadyOwnedByYou:
        pass  # kept from the previous deployment


def _create_or_update(cloudformation: Any, request: Mapping[str, Any]) -> str:
    """Start the operation. Returns the status of its success."""
    try:
        cloudformation.create_stack(**request)
        return "CREATE_COMPLETE"
    except cloudformation.exceptions.AlreadyExistsException:
        pass  # update it
    try:
        cloudformation.update_stack(**request)
    except ClientError as error:
        if "No updates are to be performed" not in str(error):
            raise
    return "UPDATE_COMPLETE"


def _settle(cloudformation: Any, stack: str, wanted: str) -> dict[str, str]:
    """Wait for the end of the operation. Returns the stack's outputs."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        description = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]
        status = description["StackStatus"]
        if not status.endswith("_IN_PROGRESS"):
            break
        if time.monotonic() > deadline:
            raise DeploymentFailed(f"The stack {stack} is still {status} after {_DEADLINE_S:.0f} s", events=[])
        time.sleep(_POLL_S)
    if status not in (wanted, "CREATE_COMPLETE", "UPDATE_COMPLETE"):
        events = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
        failed = [
            f"{event['LogicalResourceId']}: {event.get('ResourceStatusReason', '')}"
            for event in reversed(events)
            if event["ResourceStatus"].endswith("_FAILED")
        ]
        raise DeploymentFailed(
            f"The stack {stack} is {status}. {(failed or [description.get('StackStatusReason', '')])[0]}", events=failed
        )
    return {output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", ())}
