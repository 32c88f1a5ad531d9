"""The stack that a command works on: the running local one, or a deployed one found by its CloudFormation outputs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from sluice.errors import NoRegion, NoTarget
from sluice_aws.failures import code_of

if TYPE_CHECKING:  # boto3 takes longer to load than all the rest, and a command's help needs none of it
    from sluice.config.document import Configuration
    from sluice_aws.clients import Clients, Credentials
    from sluice_aws.ledger.ledger import Ledger
    from sluice_aws.s3.configuration import ConfigStore
    from sluice_aws.s3.objects import Objects
    from sluice_aws.s3.past_batches import PastBatches
    from sluice_aws.s3.schemas import SchemaHistory
    from sluice_aws.s3.silver_files import SilverBucket

LOCAL, DEPLOYED = "local", "deployed"
STACK_VARIABLE = "SLUICE_STACK"
HOME_VARIABLE = "SLUICE_HOME"  # the folder that holds local.json
HOME_FOLDER, LOCAL_FILE = ".sluice", "local.json"
NAME_A_DEPLOYED_ONE = f"name a deployed one with --stack NAME or {STACK_VARIABLE}"  # of a command's next step

_REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-[0-9]{1,2}")
_OUTPUTS = ("BronzeBucket", "SilverBucket", "ArtifactBucket", "LedgerTable")

# All of hudi-rs's names for the endpoint: it takes those that are left out from the environment (AWS_ENDPOINT_URL).
_ENDPOINT_OPTIONS = ("aws_endpoint", "aws_endpoint_url", "aws_endpoint_url_s3")


@dataclass(frozen=True)
class Target:
    """One stack: its names and endpoints, and what it stores. `described` is its name in a command's first line."""

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
    home: Path | None = None  # the folder of a local stack

    @property
    def space_left(self) -> int | None:
        """The bytes that are free on the disk with a local stack's folder; None of another stack."""
        return None if self.home is None else shutil.disk_usage(self.home).free

    @property
    def silver_url(self) -> str:
        """The URL under which silver tables lie, in hudi-rs's form."""
        return f"s3://{self.silver}"

    @cached_property
    def clients(self) -> Clients:
        """The clients of this stack: with the emulator's credentials, or by botocore's own chain."""
        from sluice_aws.clients import COMMAND, Clients

        return Clients(
            region=self.region,
            endpoint_url=self.endpoint,
            emr_endpoint_url=self.emr_endpoint,
            options=COMMAND,
            credentials=self.credentials,
        )

    @cached_property
    def outputs(self) -> Mapping[str, str]:
        """All CloudFormation outputs of the stack. Raises NoTarget when the stack does not exist."""
        return _outputs(self.client("cloudformation"), self.stack, self.region)

    @cached_property
    def parameters(self) -> Mapping[str, str]:
        """The parameters that the stack was deployed with."""
        return {one["ParameterKey"]: one.get("ParameterValue", "") for one in self._described.get("Parameters", ())}

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of the stack, which CloudFormation gives to its parts."""
        return {one["Key"]: one["Value"] for one in self._described.get("Tags", ())}

    @cached_property
    def _described(self) -> Mapping[str, Any]:
        (stack,) = self.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        return dict(stack)

    def client(self, service: str) -> Any:
        """The boto3 client of a service, made once."""
        return self.clients.client(service)

    @cached_property
    def ledger(self) -> Ledger:
        """The stack's ledger."""
        from sluice_aws.ledger.ledger import Ledger

        return Ledger(self.client("dynamodb"), self.ledger_table)

    @cached_property
    def objects(self) -> Objects:
        """The objects in the stack's buckets."""
        from sluice_aws.s3.objects import Objects

        return Objects(self.client("s3"))

    @cached_property
    def config_store(self) -> ConfigStore:
        """The store of the configuration, which asks the ledger whether a missing one was pushed."""
        from sluice_aws.s3.configuration import ConfigStore

        return ConfigStore(self.objects, self.artifacts, history=self.ledger.history)

    def configuration(self, *, without_ledger: bool = False) -> Configuration | None:
        """The configuration in force as it is now; None where none was pushed.

        Raises ConfigurationUnreadable, and ConfigurationMissing where a pushed one is gone. `without_ledger`, only S3
        says whether one was pushed: for what goes on without a configuration.
        """
        from sluice_aws.s3.configuration import ConfigStore

        return (ConfigStore(self.objects, self.artifacts) if without_ledger else self.config_store).load()

    @property
    def silver_files(self) -> SilverBucket:
        """The files of the silver tables."""
        from sluice_aws.s3.silver_files import SilverBucket

        return SilverBucket(self.client("s3"), self.silver)

    @property
    def schema_history(self) -> SchemaHistory:
        """The schemas and columns of the tables; each time one that has skipped no document."""
        from sluice_aws.s3.schemas import SchemaHistory

        return SchemaHistory(self.objects, self.silver)

    def past_batches(self, *, remembers: bool = False) -> PastBatches:
        """The batches so far; each time one that has skipped no document."""
        from sluice_aws.s3.past_batches import PastBatches

        return PastBatches(self.objects, self.silver, remembers=remembers)

    def storage_options(self) -> Mapping[str, str]:
        """The options with which hudi-rs reaches silver, by the keys of the object_store crate. Raises NoTarget."""
        credentials = self.clients.session.get_credentials()
        if credentials is None:
            raise NoTarget(
                "No AWS credentials were found",
                next_step="Configure them as for the AWS CLI (AWS_PROFILE, `aws sso login`)",
            )
        frozen = credentials.get_frozen_credentials()
        options = {
            "aws_region": self.region,
            "aws_access_key_id": frozen.access_key,
            "aws_secret_access_key": frozen.secret_key,
        }
        if frozen.token:
            options["aws_session_token"] = frozen.token
        # boto3 writes the endpoint of FIPS in us-east-1 for all Regions, and asks that of the Region.
        endpoint = str(self.client("s3").meta.endpoint_url).replace(".aws-global.", f".{self.region}.")
        # For every Region hudi-rs asks the second; boto3's is the first in us-east-1, and of another domain in China.
        if endpoint not in ("https://s3.amazonaws.com", f"https://s3.{self.region}.amazonaws.com"):
            options.update(dict.fromkeys(_ENDPOINT_OPTIONS, endpoint))
            options["aws_virtual_hosted_style_request"] = "false"
            options["aws_allow_http"] = str(endpoint.startswith("http://")).lower()
        return options


def find_target(stack: str | None, environment: Mapping[str, str], folder: Path) -> Target:
    """The stack named by `--stack`, else by SLUICE_STACK, else the local one found from `folder` upwards.

    Raises NoTarget when there is none.
    """
    if stack is not None and not stack.strip():
        raise NoTarget(
            "The name of the stack is empty",
            next_step="Is a variable unset? Name a stack, or leave the option out for the one of SLUICE_STACK or "
            "of this folder",
        )
    name = stack or environment.get(STACK_VARIABLE)
    if name:
        return deployed_target(name, environment)
    file = local_file(environment, folder)
    if file is None:
        raise NoTarget(
            "No stack to work on",
            next_step=f"Start one with `sluice local up`, or {NAME_A_DEPLOYED_ONE}",
        )
    return local_target(file)


def local_file(environment: Mapping[str, str], folder: Path) -> Path | None:
    """The file of a running local stack: in SLUICE_HOME, else in `.sluice` of `folder` or of the nearest parent."""
    places = (home / LOCAL_FILE for home in _homes(environment, folder))
    return next((place for place in places if place.is_file()), None)


def _homes(environment: Mapping[str, str], folder: Path) -> list[Path]:
    home = environment.get(HOME_VARIABLE)
    if home:
        return [Path(home), Path(home) / HOME_FOLDER]
    return [parent / HOME_FOLDER for parent in (folder, *folder.parents)]


def local_target(file: Path) -> Target:
    """The local stack that `sluice local up` wrote to a file. Raises NoTarget when the file is not one of these."""
    from sluice_aws.clients import Credentials

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
            home=file.parent,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoTarget(
            f"{file} doesn't describe a local stack, or can't be read",
            next_step="Run `sluice local down`, then `sluice local up`",
        ) from error


def deployed_target(stack: str, environment: Mapping[str, str]) -> Target:
    """The deployed stack of a name, by its CloudFormation outputs.

    Raises NoTarget when it does not exist or is not Sluice's, NoRegion when no region, or none of AWS, is configured.
    """
    endpoint = environment.get("AWS_ENDPOINT_URL") or None
    emr_endpoint = environment.get("AWS_ENDPOINT_URL_EMR_SERVERLESS")
    clients = _clients(environment)
    region = clients.session.region_name
    if not region:
        raise NoRegion("No AWS region is configured")
    if not endpoint and not _REGION.fullmatch(region):
        raise NoRegion(
            f"{region!r} is not the name of an AWS Region",
            next_step="Set AWS_REGION, or the region of the AWS profile, to the stack's, such as eu-central-1",
        )
    outputs = _outputs(clients.client("cloudformation"), stack, region)
    missing = [name for name in _OUTPUTS if name not in outputs]
    if missing:
        raise NoTarget(
            f"The stack {stack} has no output {', '.join(missing)}",
            next_step="Name a stack that was deployed from Sluice's template.yaml",
        )
    target = Target(
        kind=DEPLOYED,
        stack=stack,
        region=region,
        endpoint=endpoint,
        emr_endpoint=emr_endpoint,
        bronze=outputs["BronzeBucket"],
        silver=outputs["SilverBucket"],
        artifacts=outputs["ArtifactBucket"],
        ledger_table=outputs["LedgerTable"],
        described=f"stack {stack} in {region}",
    )
    vars(target).update(clients=clients, outputs=outputs)  # fill the cached properties: both are known already
    return target


def remove_failed_creation(stack: str, environment: Mapping[str, str], *, poll_s: int = 5) -> bool:
    """Delete a stack whose creation was rolled back, and wait for its end. Returns whether there was one.

    CloudFormation can neither update nor create such a stack. Its resources are gone already.
    """
    cloudformation = _clients(environment).client("cloudformation")
    described = _described(cloudformation, stack)
    if described is None or described["StackStatus"] != "ROLLBACK_COMPLETE":
        return False
    cloudformation.delete_stack(StackName=stack)
    cloudformation.get_waiter("stack_delete_complete").wait(
        StackName=described["StackId"], WaiterConfig={"Delay": poll_s, "MaxAttempts": 120}
    )
    return True


def _clients(environment: Mapping[str, str]) -> Clients:
    from sluice_aws.clients import COMMAND, Clients

    return Clients(
        region=environment.get("AWS_REGION"),
        endpoint_url=environment.get("AWS_ENDPOINT_URL") or None,
        emr_endpoint_url=environment.get("AWS_ENDPOINT_URL_EMR_SERVERLESS"),
        options=COMMAND,
    )


def _outputs(cloudformation: Any, stack: str, region: str) -> dict[str, str]:
    described = _described(cloudformation, stack)
    if described is None:
        raise NoTarget(
            f"There is no stack {stack} in {region}",
            next_step="Check the name and AWS_REGION, or deploy with `make deploy`",
        )
    if described.get("StackStatus") == "REVIEW_IN_PROGRESS":  # CloudFormation holds its name and a changeset
        raise NoTarget(
            f"There is no stack {stack} in {region} yet: its first changeset was not carried out",
            next_step="Deploy again, and confirm the changeset",
        )
    return {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", ())}


def _described(cloudformation: Any, stack: str) -> Mapping[str, Any] | None:
    """What CloudFormation says of a stack; None without one."""
    try:
        return dict(cloudformation.describe_stacks(StackName=stack)["Stacks"][0])
    except ClientError as error:
        if code_of(error) != "ValidationError":
            raise
        return None
