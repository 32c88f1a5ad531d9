"""The stack a command works on: the running local one, or a deployed one by its CloudFormation outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from sluice.errors import NoTarget

LOCAL, DEPLOYED = "local", "deployed"
STACK_VARIABLE = "SLUICE_STACK"
HOME_VARIABLE = "SLUICE_HOME"  # the folder that holds local.json
HOME_FOLDER, LOCAL_FILE = ".sluice", "local.json"

_OUTPUTS = {"bronze": "BronzeBucket", "silver": "SilverBucket", "artifacts": "ArtifactBucket", "ledger": "LedgerTable"}
_POOL = 32  # connections: uploads and ledger reads run in threads
ATTEMPTS = 3  # of a call


@dataclass(frozen=True)
class Credentials:
    """Static credentials of an emulator. Never of AWS: those stay in botocore's own chain."""

    access_key_id: str
    secret_access_key: str


@dataclass(frozen=True)
class Target:
    """One stack: its names, and how its endpoints are reached. `described` is what the first line says of it."""

    kind: str
    stack: str
    region: str
    bronze: str
    silver: str
    artifacts: str
    ledger_table: str
    described: str
    endpoint: str | None = None
    emr_endpoint: str | None = None
    credentials: Credentials | None = None
    _clients: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def silver_url(self) -> str:
        """Where silver tables are, as hudi-rs names it."""
        return f"s3://{self.silver}"

    @cached_property
    def session(self) -> boto3.Session:
        """The boto3 session: the emulator's credentials, or botocore's own chain for a deployed stack."""
        return _session(self.region, self.credentials)

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """All CloudFormation outputs of the stack. Raises NoTarget when it is gone."""
        return _outputs(self.client("cloudformation"), self.stack, self.region)

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """The parameters that the stack was deployed with."""
        (stack,) = self.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        return {one["ParameterKey"]: one.get("ParameterValue", "") for one in stack.get("Parameters", ())}

    def client(self, service: str) -> Any:
        """A boto3 client, made once. Ask for it before threads share it."""
        if service not in self._clients:
            endpoint = self.emr_endpoint if service == "emr-serverless" and self.emr_endpoint else self.endpoint
            self._clients[service] = _client(self.session, service, endpoint)
        return self._clients[service]

    def storage_options(self) -> Mapping[str, str]:
        """What hudi-rs needs to reach silver, in the words of the object_store crate."""
        found = self.session.get_credentials()
        if found is None:
            raise NoTarget(
                "No AWS credentials were found",
                next_step="Configure them as for the AWS CLI (AWS_PROFILE, `aws sso login`)",
            )
        frozen = found.get_frozen_credentials()
        options = {
            "aws_region": self.region,
            "aws_access_key_id": frozen.access_key,
            "aws_secret_access_key": frozen.secret_key,
        }
        if frozen.token:
            options["aws_session_token"] = frozen.token
        if self.endpoint:
            options["aws_endpoint"] = self.endpoint
            options["aws_virtual_hosted_style_request"] = "false"
            options["aws_allow_http"] = str(self.endpoint.startswith("http://")).lower()
        return options


def find_target(stack: str | None, environment: Mapping[str, str], folder: Path) -> Target:
    """The stack to work on: `--stack`, else SLUICE_STACK, else the local one found from `folder` upwards.

    Raises NoTarget with what to do when there is none.
    """
    named = stack or environment.get(STACK_VARIABLE)
    if named:
        return deployed_target(named, environment)
    file = local_file(environment, folder)
    if file is None:
        raise NoTarget(
            "No stack to work on",
            next_step="Start one with `sluice local up`, or name a deployed one with --stack NAME or SLUICE_STACK",
        )
    return local_target(file)


def local_file(environment: Mapping[str, str], folder: Path) -> Path | None:
    """The file that a running local stack wrote: in SLUICE_HOME, else in `.sluice` from `folder` upwards."""
    home = environment.get(HOME_VARIABLE)
    if home:
        places = [Path(home) / LOCAL_FILE, Path(home) / HOME_FOLDER / LOCAL_FILE]
    else:
        places = [parent / HOME_FOLDER / LOCAL_FILE for parent in (folder, *folder.parents)]
    return next((place for place in places if place.is_file()), None)


def local_target(file: Path) -> Target:
    """Read what `sluice local up` wrote. Raises NoTarget when it is not that."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        buckets, credentials = content["buckets"], content["credentials"]
        return Target(
            kind=LOCAL,
            stack=content["stack"],
            region=content["region"],
            endpoint=content["endpoint"],
            emr_endpoint=content.get("emr_endpoint"),
            bronze=buckets["bronze"],
            silver=buckets["silver"],
            artifacts=buckets["artifacts"],
            ledger_table=content["ledger"],
            credentials=Credentials(credentials["access_key_id"], credentials["secret_access_key"]),
            described=f"local stack {content['stack']} at {content['endpoint']}",
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoTarget(
            f"{file} doesn't describe a local stack ({error!r})",
            next_step="Run `sluice local down`, then `sluice local up`",
        ) from error


def deployed_target(stack: str, environment: Mapping[str, str]) -> Target:
    """Find a deployed stack by its CloudFormation outputs. Raises NoTarget when it isn't there or isn't Sluice's."""
    session = _session(environment.get("AWS_REGION"), None)
    region = session.region_name
    if not region:
        raise NoTarget("No AWS region is configured", next_step="Set AWS_REGION, or a region in the AWS profile")
    endpoint = environment.get("AWS_ENDPOINT_URL") or None
    cloudformation = _client(session, "cloudformation", endpoint)
    outputs = _outputs(cloudformation, stack, region)
    missing = [name for name in _OUTPUTS.values() if name not in outputs]
    if missing:
        raise NoTarget(
            f"The stack {stack} has no output {', '.join(missing)}",
            next_step="Name a stack that was deployed from Sluice's template.yaml",
        )
    names = {field_name: outputs[name] for field_name, name in _OUTPUTS.items()}
    target = Target(
        kind=DEPLOYED,
        stack=stack,
        region=region,
        endpoint=endpoint,
        emr_endpoint=environment.get("AWS_ENDPOINT_URL_EMR_SERVERLESS"),
        bronze=names["bronze"],
        silver=names["silver"],
        artifacts=names["artifacts"],
        ledger_table=names["ledger"],
        described=f"stack {stack} in {region}",
        _clients={"cloudformation": cloudformation},
    )
    vars(target).update(session=session, outputs=outputs)  # known already: neither is made or asked for a second time
    return target


def _session(region: str | None, credentials: Credentials | None) -> boto3.Session:
    if credentials is None:
        return boto3.Session(region_name=region)
    return boto3.Session(
        region_name=region,
        aws_access_key_id=credentials.access_key_id,
        aws_secret_access_key=credentials.secret_access_key,
    )


def _client(session: boto3.Session, service: str, endpoint: str | None) -> Any:
    # Buckets are not host names at an emulator's address.
    s3 = {"addressing_style": "path"} if service == "s3" and endpoint else None
    config = Config(
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        connect_timeout=5,
        max_pool_connections=_POOL,
        s3=s3,
    )
    return session.client(service, endpoint_url=endpoint, config=config)


def _outputs(cloudformation: Any, stack: str, region: str) -> dict[str, str]:
    try:
        found = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "ValidationError":
            raise
        raise NoTarget(
            f"There is no stack {stack} in {region}",
            next_step="Check the name and AWS_REGION, or deploy with `make deploy`",
        ) from error
    return {output["OutputKey"]: output["OutputValue"] for output in found[0].get("Outputs", ())}
