"""What a command says of an error of AWS: whether credentials, the Region, a permission or the network is at fault."""

import pytest
from botocore import exceptions as aws
from botocore.exceptions import BotoCoreError, ClientError

from sluice_aws.failures import LONGEST, NO_STACK, REFUSED, AwsFailure, failure_of
from sluice_cli.main import run
from sluice_cli.ops.doctor import _checked

DENIED = "User: arn:aws:iam::1:user/me is not authorized to perform: {} on resource: arn:aws:s3:::b/k"


def refused(code: str, message: str = "no", operation: str = "DescribeStacks") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@pytest.mark.parametrize(
    "error",
    [
        aws.ProfileNotFound(profile="me"),
        aws.NoCredentialsError(),
        aws.UnauthorizedSSOTokenError(),
        aws.TokenRetrievalError(provider="sso", error_msg="Token has expired"),
        aws.LoginRefreshRequired(),
        aws.InfiniteLoopConfigError(source_profile="a", visited_profiles=["a"]),
        aws.CredentialRetrievalError(provider="custom-process", error_msg="no"),
        aws.NoRegionError(),
        refused("ExpiredToken"),
        refused("RequestTimeTooSkewed"),
    ],
    ids=lambda given: given.response["Error"]["Code"] if isinstance(given, ClientError) else type(given).__name__,
)
def test_credentials_and_region_are_no_refusal_of_the_stack(error: BotoCoreError | ClientError) -> None:
    failure = failure_of(error)
    assert "AWS_PROFILE" in failure.next_step and "sluice doctor" not in failure.next_step
    assert failure.exit_code == NO_STACK


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (refused("AccessDenied", DENIED.format("s3:GetObject"), "GetObject"), "s3:GetObject"),
        (refused("AccessDeniedException", DENIED.format("kms:Decrypt") + " because no policy"), "kms:Decrypt"),
        (refused("AccessDenied", "Access Denied", "ListObjectsV2"), "the call ListObjectsV2"),
        (refused("403", "Forbidden", "HeadObject"), "the call HeadObject"),
        (refused("AccessDenied", DENIED.format("`rm`:\x1b[31m"), "GetObject"), "the call GetObject"),
    ],
)
def test_a_refused_action_is_named(error: ClientError, action: str) -> None:
    failure = failure_of(error)
    assert (failure.next_step, failure.exit_code) == (f"Allow {action} to this user or role", REFUSED)


@pytest.mark.parametrize("kind", [aws.EndpointConnectionError, aws.ConnectTimeoutError])
@pytest.mark.parametrize(
    ("url", "step"),
    [
        ("https://cloudformation.eu-centrl-1.amazonaws.com/", "Check AWS_REGION and the network"),
        ("https://s3.cn-north-1.amazonaws.com.cn/", "Check AWS_REGION and the network"),
        ("https://lambda.eu-west-1.api.aws/", "Check AWS_REGION and the network"),
        ("http://127.0.0.1:4566/", "If the local stack has stopped, start it with `sluice local up`"),
        ("http://amazonaws.com.example.org/", "If the local stack has stopped, start it with `sluice local up`"),
    ],
)
def test_only_a_stopped_emulator_is_to_be_started(kind: type[BotoCoreError], url: str, step: str) -> None:
    assert failure_of(kind(endpoint_url=url)) == AwsFailure(f"nothing answers at {url}", step, REFUSED)


def test_any_other_refusal_is_shown_as_aws_wrote_it_within_bounds() -> None:
    failure = failure_of(refused("Throttling", "x" * 10_000), otherwise="Wait")
    assert (failure.next_step, failure.exit_code) == ("Wait", REFUSED)
    assert failure.message.startswith("AWS refused: An error occurred (Throttling)") and len(failure.message) <= LONGEST


def test_a_check_of_doctor_names_the_action_that_it_lacks():
    def check(target):
        raise refused("AccessDenied", DENIED.format("s3:GetBucketVersioning"))

    (finding,) = _checked("bronze bucket", check, None)
    assert finding.advice == "Allow s3:GetBucketVersioning to this user or role"


def test_a_wrong_endpoint_or_a_removed_folder_is_an_error_and_no_traceback(monkeypatch, capsys, tmp_path) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "rubbish")
    assert run(["status", "--stack", "x"]) == 1
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(["status"]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert [line.partition(":")[0] for line in errors] == ["error", "next step"] * 2
