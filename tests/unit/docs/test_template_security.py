"""The template grants only the listed permissions, over TLS, encrypted, to one source, and retains data."""

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import tomllib
from support.sam_template import RESOURCES, TEMPLATE, of_type, statements

from sluice.ledger.events import BATCH_COMMITTED, SOURCE
from sluice_deploy.release import CODE, ENTRY_POINT, MANIFEST, PREFIX

ROOT = Path(__file__).resolve().parents[3]
KEY = {"Fn::If": ["MakeKey", {"Fn::GetAtt": ["DataKey", "Arn"]}, {"Ref": "KeyArn"}]}
NOTHING = {"Ref": "AWS::NoValue"}

# Sid of a statement that names every resource -> why there is no narrower one.
EVERY_RESOURCE = {
    "Trace": "X-Ray has no resources to name",
    "StandInSubnets": "an interface has no name before it is made, and describing has none at all; only where the "
    "functions stand in a VPC",
    "ReadThePriceList": "the price list has no resources",
    "DeliverLogs": "the actions by which Step Functions has its log delivered have no resource",
    "TraceExecutions": "X-Ray has no resource-level permissions",
    "PoliciesOfTheAccountDecide": "in a key's own policy the key is the only resource there is",
    "NoticesOfBronze": "the same",
    "WhatRulesSend": "the same",
    "Alarms": "the same",
    "WorkersAndTheirLogs": "the same",
    "Logs": "the same",
    "LogsOfExecutions": "the same",
}
# Role -> why nothing says whose behalf it is taken on.
UNCONDITIONAL_TRUST = {
    name: "Lambda sends no source when it takes a function's role; iam:PassRole decides who may make such a function"
    for name in RESOURCES
    if name.endswith("Role") and name != "JobRole" and "lambda.amazonaws.com" in json.dumps(RESOURCES[name])
}


# Statement for a service that sends no source -> where AWS says so.
WITHOUT_SOURCE = {
    "WhatRulesSend": "EventBridge supports no aws:SourceAccount and no aws:SourceArn in the policy of a key",
    "EventsMayPublish": "EventBridge supports no condition in the policy of a topic",
    "LogsOfExecutions": "Step Functions documents no condition of the key by which log delivery reads what it logs",
}

SENDING_NONE = ("events.amazonaws.com", "delivery.logs.amazonaws.com")


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def allowed() -> Iterator[tuple[str, dict[str, Any]]]:
    for name, resource in RESOURCES.items():
        for statement in statements(resource):
            if statement["Effect"] == "Allow":
                yield name, statement


def events_of_functions(*types: str) -> list[dict[str, Any]]:
    held = [resource.get("Properties", {}).get("Events", {}) for resource in RESOURCES.values()]
    return [event for events in held for event in events.values() if event["Type"] in types]


def test_no_statement_names_every_resource_but_those_with_a_reason() -> None:
    broad = {statement["Sid"] for _, statement in allowed() if "*" in listed(statement.get("Resource", []))}
    assert broad == set(EVERY_RESOURCE)


def test_no_statement_allows_every_action_of_a_service_but_the_keys_own() -> None:
    broad = [(name, one["Sid"]) for name, one in allowed() if any("*" in action for action in listed(one["Action"]))]
    assert broad == [("DataKey", "PoliciesOfTheAccountDecide")]


def test_every_service_principal_is_limited_to_this_account_or_one_source() -> None:
    open_doors = []
    for name, statement in allowed():
        if statement.get("Sid") in WITHOUT_SOURCE:
            assert statement["Principal"]["Service"] in SENDING_NONE and "Condition" not in statement
        elif "Service" in statement.get("Principal", {}):
            keys = {key for condition in statement.get("Condition", {}).values() for key in condition}
            if not keys & {"aws:SourceArn", "aws:SourceAccount", "kms:EncryptionContext:aws:logs:arn"}:
                open_doors.append(name)
    assert set(open_doors) == set(UNCONDITIONAL_TRUST)


def test_every_rule_keeps_what_it_cannot_deliver_in_a_queue_that_admits_it() -> None:
    targets = [target for rule in of_type("AWS::Events::Rule").values() for target in rule["Properties"]["Targets"]]
    targets += [event["Properties"] for event in events_of_functions("EventBridgeRule", "Schedule")]
    queue = {"Fn::GetAtt": ["Undelivered", "Arn"]}
    assert len(targets) == 9 and all(target["DeadLetterConfig"] == {"Arn": queue} for target in targets)
    (admits,) = [one for _, one in allowed() if one.get("Resource") == queue]
    assert admits["Principal"] == {"Service": "events.amazonaws.com"}
    assert admits["Condition"]["ArnLike"]["aws:SourceArn"]["Fn::Sub"].endswith(":${AWS::AccountId}:rule/*")


def test_a_role_is_passed_to_the_one_service_that_takes_it() -> None:
    passes = [statement for _, statement in allowed() if "iam:PassRole" in listed(statement["Action"])]
    assert passes
    for statement in passes:
        (service,) = statement["Condition"]["StringEquals"].values()
        (role,) = listed(statement["Resource"])
        trust = RESOURCES[role["Fn::GetAtt"][0]]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        assert list(statement["Condition"]["StringEquals"]) == ["iam:PassedToService"]
        assert [one["Principal"]["Service"] for one in trust] == [service]


def test_few_roles_may_start_jobs_and_only_those_that_may_pass_the_jobs_role() -> None:
    starts = {name for name, one in allowed() if "emr-serverless:StartJobRun" in listed(one["Action"])}
    passes = {name for name, one in allowed() if "iam:PassRole" in listed(one["Action"])}
    # admit at once, supervise for all others, plan_services for a service that is due in an idle lane
    assert starts == passes == {"AdmitRole", "SuperviseRole", "PlanServicesRole"}


def test_every_role_can_be_given_a_boundary_and_a_path() -> None:
    for name, role in of_type("AWS::IAM::Role").items():
        boundary = {"Fn::If": ["HasBoundary", {"Ref": "PermissionsBoundaryArn"}, NOTHING]}
        assert role["Properties"]["PermissionsBoundary"] == boundary, name
        assert role["Properties"]["Path"] == {"Ref": "RolePath"}, name
    # SAM makes roles of its own for functions without one, and for rules of its state machines.
    assert all("Role" in one["Properties"] for one in of_type("AWS::Serverless::Function").values())
    assert not of_type("AWS::Serverless::StateMachine")


def test_the_state_machine_is_encrypted_with_the_customers_key_if_given() -> None:
    condition, own, managed = RESOURCES["TableServices"]["Properties"]["EncryptionConfiguration"]["Fn::If"]
    assert (condition, own["KmsKeyId"], managed) == ("UseKey", KEY, {"Type": "AWS_OWNED_KEY"})


@pytest.mark.parametrize("bucket", of_type("AWS::S3::Bucket"))
def test_a_bucket_is_private_encrypted_kept_and_spoken_to_over_tls_only(bucket: str) -> None:
    resource = RESOURCES[bucket]
    properties = resource["Properties"]
    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(properties["PublicAccessBlockConfiguration"]) == 4
    condition, customer, managed = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"][0]["Fn::If"]
    assert (condition, managed["ServerSideEncryptionByDefault"]["SSEAlgorithm"]) == ("UseKey", "AES256")
    by_key = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    assert customer == {"ServerSideEncryptionByDefault": by_key, "BucketKeyEnabled": True}
    policies = of_type("AWS::S3::BucketPolicy").values()
    (policy,) = [one for one in policies if one["Properties"]["Bucket"] == {"Ref": bucket}]
    assert policy["Condition"] == resource["Condition"]
    (denied,) = [one for one in statements(policy) if one["Sid"] == "OnlyOverTls"]
    expected = ("Deny", "*", "s3:*", {"Bool": {"aws:SecureTransport": "false"}})
    assert (denied["Effect"], denied["Principal"], denied["Action"], denied["Condition"]) == expected
    assert denied["Resource"] == [{"Fn::GetAtt": [bucket, "Arn"]}, {"Fn::Sub": f"${{{bucket}.Arn}}/*"}]


def test_no_file_of_a_release_can_be_overwritten() -> None:
    (once,) = [one for one in statements(RESOURCES["ArtifactPolicy"]) if one["Sid"] == "ReleasesAreWrittenOnce"]
    expected = ("Deny", "*", "s3:PutObject", {"Null": {"s3:if-none-match": "true"}})
    assert (once["Effect"], once["Principal"], once["Action"], once["Condition"]) == expected
    patterns = [one["Fn::Sub"].partition("}/")[2] for one in once["Resource"]]
    files = (ENTRY_POINT, CODE, "environment-arm64.tar.gz", "environment-x86_64.tar.gz", MANIFEST)
    assert all(any(fnmatch(f"{PREFIX}/abc/{name}", pattern) for pattern in patterns) for name in files)
    assert not any(fnmatch(f"{PREFIX}/hudi-bundle.jar", pattern) for pattern in patterns), "people upload that one"


def test_what_holds_or_protects_data_outlives_the_stack_but_not_a_failed_creation() -> None:
    holders = of_type("AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::DynamoDB::Table", "AWS::KMS::Key").values()
    policies = {(resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")) for resource in holders}
    assert len(holders) == 8 and policies == {("RetainExceptOnCreate", "Retain")}


def test_the_ledger_is_protected_from_deletion_once_the_stack_has_a_release() -> None:
    # From its creation on, the protection would refuse the deletion that undoes a failed creation.
    assert RESOURCES["Ledger"]["Properties"]["DeletionProtectionEnabled"] == {"Fn::If": ["HasRelease", True, False]}


def test_a_failed_deployment_is_rolled_back_and_its_stack_not_deleted() -> None:
    # CloudFormation deletes what RetainExceptOnCreate names when it rolls a creation back. When a stack is deleted, as
    # SAM's `on_failure = "DELETE"` does with a failed one, it keeps it.
    settings = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
    deployments = [settings[name]["deploy"]["parameters"] for name in ("default", "dev", "prod")]
    assert not {"on_failure", "disable_rollback"} & {name for given in deployments for name in given}


@pytest.mark.parametrize("name", [*of_type("AWS::SQS::Queue"), *of_type("AWS::Logs::LogGroup"), "Ledger", "Alerts"])
def test_all_stored_data_is_encrypted_with_the_customers_key_if_given(name: str) -> None:
    properties = RESOURCES[name]["Properties"]
    records = properties.get("SSESpecification", properties)
    chosen = next(records[key] for key in ("KmsMasterKeyId", "KMSMasterKeyId", "KmsKeyId") if key in records)
    assert chosen == {"Fn::If": ["UseKey", KEY, NOTHING]}


def test_queues_are_encrypted_without_a_key_too_and_take_nothing_in_the_clear() -> None:
    queues = of_type("AWS::SQS::Queue")
    without_key = {"Fn::If": ["UseKey", NOTHING, True]}
    assert all(queue["Properties"]["SqsManagedSseEnabled"] == without_key for queue in queues.values())
    covered, in_the_clear = set(), ("Deny", {"Bool": {"aws:SecureTransport": "false"}})
    for policy in of_type("AWS::SQS::QueuePolicy").values():
        if any((one["Effect"], one.get("Condition")) == in_the_clear for one in statements(policy)):
            covered.update(queue["Ref"] for queue in policy["Properties"]["Queues"])
    assert covered == set(queues)


def test_whoever_works_with_encrypted_data_may_use_the_key_and_no_other() -> None:
    for name, role in of_type("AWS::IAM::Role").items():
        uses = [one for one in statements(role) if "kms:" in str(listed(one.get("Action", [])))]
        if uses:
            own, *of_buckets = uses
            assert own["Resource"] == KEY and {"kms:Decrypt", "kms:GenerateDataKey"} <= set(own["Action"]), name
            assert of_buckets == [BUCKET_KEYS] * (name in UNCONDITIONAL_TRUST or name == "JobRole"), name


# What a role may do with the keys of existing buckets.
BUCKET_KEYS = {
    "Sid": "UseTheKeysOfBuckets",
    "Effect": "Allow",
    "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
    "Resource": {"Fn::Split": [",", {"Ref": "BucketKeyArns"}]},
    "Condition": {"StringEquals": {"kms:ViaService": {"Fn::Sub": "s3.${AWS::Region}.${AWS::URLSuffix}"}}},
}


def test_every_role_that_reads_or_writes_a_bucket_may_use_the_keys_of_existing_ones() -> None:
    for name, role in of_type("AWS::IAM::Role").items():
        uses_s3 = any(action.startswith("s3:") for one in statements(role) for action in listed(one["Action"]))
        keys = [one for one in statements(role) if one.get("Sid") == "UseTheKeysOfBuckets"]
        assert keys == [BUCKET_KEYS] if uses_s3 else len(keys) <= 1, name
    of_job = RESOURCES["JobRole"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    assert of_job[-1]["Fn::If"][::2] == ["UseBucketKeys", NOTHING]


def test_the_stacks_own_key_encrypts_disks_and_logs_of_its_application_only() -> None:
    (grant,) = [one for one in statements(RESOURCES["DataKey"]) if one["Sid"] == "WorkersAndTheirLogs"]
    expected = ({"Service": "emr-serverless.amazonaws.com"}, {"kms:GenerateDataKey", "kms:Decrypt"})
    assert (grant["Principal"], set(grant["Action"])) == expected
    assert grant["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    pattern, values = grant["Condition"]["ArnLike"]["aws:SourceArn"]["Fn::Sub"]
    assert pattern.endswith(":/applications/${Id}") and values["Id"]["Fn::If"][0] == "MakeApplication"
    variables = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["KEY_ARN"] == {"Fn::If": ["UseKey", KEY, ""]}


def test_the_stacks_own_key_lets_its_state_machines_logs_be_delivered() -> None:
    machine = RESOURCES["TableServices"]["Properties"]
    assert machine["EncryptionConfiguration"]["Fn::If"][1]["Type"] == "CUSTOMER_MANAGED_KMS_KEY"
    assert machine["LoggingConfiguration"]["Level"] != "OFF"
    (grant,) = [
        one
        for one in statements(RESOURCES["DataKey"])
        if one["Principal"] == {"Service": "delivery.logs.amazonaws.com"}
    ]
    assert listed(grant["Action"]) == ["kms:Decrypt"] and "Condition" not in grant


def test_an_own_key_must_admit_what_the_stacks_key_admits() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8").partition("## Your own key")[2]
    stated = {
        who: set(re.findall(r"`(kms:\w+)`", actions))
        for who, actions in re.findall(r"^\| `(\S+\.amazonaws\.com)` \| ([^|]+) \|", text, re.M)
    }
    admitted = {
        json.dumps(one["Principal"]["Service"]): set(one["Action"])
        for one in statements(RESOURCES["DataKey"])
        if "Service" in one["Principal"]
    }
    assert len(stated) == len(admitted) == 6
    for who, actions in admitted.items():
        (service,) = [name for name in stated if f'"{name.split(".")[0]}.' in who]
        assert stated[service] == actions, service


def test_expired_logs_of_jobs_leave_no_noncurrent_versions() -> None:
    bucket = RESOURCES["ArtifactBucket"]["Properties"]
    (logs,) = [rule for rule in bucket["LifecycleConfiguration"]["Rules"] if rule.get("Prefix") == "logs/"]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    assert (logs["ExpirationInDays"], logs["NoncurrentVersionExpiration"]) == (30, {"NoncurrentDays": 1})


def test_the_application_carries_the_stacks_name_as_a_tag() -> None:
    tags = RESOURCES["SparkApplication"]["Properties"]["Tags"]
    assert tags == [{"Key": "sluice:stack", "Value": {"Ref": "AWS::StackName"}}]


def test_a_rule_on_a_shared_bus_hears_the_events_of_its_own_stack_only() -> None:
    patterns = [event["Properties"]["Pattern"] for event in events_of_functions("EventBridgeRule")]
    rules = [one["Properties"] for one in of_type("AWS::Events::Rule").values()]
    patterns += [one["EventPattern"] for one in rules if one.get("EventPattern", {}).get("source") == [SOURCE]]
    ours = [pattern for pattern in patterns if pattern["source"] == [SOURCE]]
    assert [BATCH_COMMITTED] in [one["detail-type"] for one in ours]
    assert [one["detail"] for one in ours] == [{"stack": [{"Ref": "AWS::StackName"}]}] * 2
    assert all("applicationId" in pattern["detail"] for pattern in patterns if pattern not in ours)
    variables = TEMPLATE["Globals"]["Function"]["Environment"]["Variables"]
    assert variables["STACK_NAME"] == {"Ref": "AWS::StackName"}


def test_the_stacks_own_key_lets_s3_encrypt_notices_of_this_bucket() -> None:
    grant = next(one for one in statements(RESOURCES["DataKey"]) if one["Sid"] == "NoticesOfBronze")
    expected = ({"Service": "s3.amazonaws.com"}, {"kms:GenerateDataKey", "kms:Decrypt"})
    assert (grant["Principal"], set(grant["Action"])) == expected
    assert {"aws:SourceAccount"} == set(grant["Condition"]["StringEquals"])
    assert {"aws:SourceArn"} == set(grant["Condition"]["ArnLike"])
    assert RESOURCES["DataKey"]["Properties"]["EnableKeyRotation"] is True


def test_functions_and_workers_can_run_in_subnets() -> None:
    assert TEMPLATE["Globals"]["Function"]["VpcConfig"]["Fn::If"][0] == "FunctionsHaveVpc"
    assert RESOURCES["SparkApplication"]["Properties"]["NetworkConfiguration"]["Fn::If"][0] == "HasVpc"


def test_an_application_that_exists_is_used_wherever_one_is_named() -> None:
    text = json.dumps(TEMPLATE)
    places = re.findall(r'"Fn::If": \[[^\]]*\]|\{"Ref": "SparkApplication"\}', text)
    uses = [place for place in places if "SparkApplication" in place]
    chosen = '"Fn::If": ["MakeApplication", {"Ref": "SparkApplication"}, {"Ref": "ApplicationId"}]'
    assert uses and all(place.startswith(chosen) for place in uses)
    assert "${SparkApplication" not in text


def test_every_fixed_name_begins_with_the_stacks() -> None:
    kinds = ("", *"Bucket Dashboard Function Role Queue Table Topic Alarm LogGroup StateMachine".split())
    fixed = {f"{kind}Name" for kind in kinds}
    properties = [resource.get("Properties", {}) for resource in RESOURCES.values()]
    names = [value for given in properties for key, value in given.items() if key in fixed]
    assert names and all(
        name == {"Ref": "AWS::StackName"}
        or name["Fn::Sub"].removeprefix("/aws/vendedlogs/states/").startswith("${AWS::StackName}-")
        for name in names
    )


def test_nothing_is_open_to_the_public() -> None:
    for name, statement in allowed():
        principal = statement.get("Principal", {})
        by_account = principal.get("AWS", "") if isinstance(principal, dict) else principal
        assert "*" not in listed(by_account), name
    assert not re.search(
        r"PublicRead|AuthenticatedRead|FunctionUrlConfig|AWS::Serverless::(?:Http)?Api|AWS::Lambda::Url|"
        r"PubliclyAccessible|AssignPublicIp|0\.0\.0\.0/0",
        json.dumps(TEMPLATE),
    )


def test_no_account_and_no_secret_is_written_into_what_is_deployed() -> None:
    patterns = ("template.yaml", "samconfig.toml", "functions/**/*.py", "spark/**/*.py", "statemachines/*.json")
    for path in (path for pattern in patterns for path in ROOT.glob(pattern)):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\b\d{12}\b(?!Z)|AKIA[0-9A-Z]{12}|aws_secret_access_key\s*=\s*[\"']", text), path


def test_what_a_scanner_skips_has_a_reason() -> None:
    for name in ("checkov.yaml", "bandit.yaml"):
        skips = re.findall(r"^  - \S+(.*)$", (ROOT / "scan" / name).read_text(encoding="utf-8"), re.MULTILINE)
        assert skips and all(re.match(r"  # \S.{15,}", reason) for reason in skips)
