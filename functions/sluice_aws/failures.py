"""Maps an error of AWS to a message, the next step and the exit code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from botocore import exceptions as aws
from botocore.exceptions import BotoCoreError, ClientError

from sluice.names import shortened

NO_STACK, REFUSED = 5, 6  # exit codes: no stack, Region or valid credentials; AWS refused, or nothing answered
LONGEST = 1_000  # characters of a message
SEE_DOCTOR = "`sluice doctor` checks the stack's parts"
SEE_STACK = "Check that the stack is up and what the credentials allow"  # for doctor itself
_AWS_HOSTS = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
_UNANSWERED = (aws.EndpointConnectionError, aws.ConnectTimeoutError)
_ACTION = re.compile(r"not authorized to perform: ([a-z0-9-]{1,40}:[A-Za-z0-9]{1,80})(?![^\s.,])")
_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"})

SERVER_FAULT, TOO_MANY = 500, 429  # HTTP status codes
_THROTTLED = frozenset(
    (
        "ProvisionedThroughputExceededException RequestLimitExceeded RequestThrottled RequestTimeout SlowDown "
        "ThrottledException Throttling ThrottlingException TooManyRequestsException"
    ).split()
)

_SESSION = (
    "Configure credentials and Region as for the AWS CLI (AWS_PROFILE, `aws sso login`, `aws configure`, AWS_REGION); "
    "`aws sts get-caller-identity` shows whether they are valid"
)
_NO_SESSION = (
    aws.NoCredentialsError,
    aws.ProfileNotFound,
    aws.SSOError,
    aws.TokenRetrievalError,
    aws.LoginError,
    aws.PartialCredentialsError,
    aws.InvalidConfigError,
    aws.ConfigParseError,
    aws.ConfigNotFound,
    aws.UnknownCredentialError,
    aws.CredentialRetrievalError,
    aws.RefreshWithMFAUnsupportedError,
    aws.InvalidRegionError,
    aws.NoRegionError,
    aws.UnknownRegionError,
)
_INVALID_SESSION = frozenset(
    (
        "AuthFailure ExpiredToken ExpiredTokenException IncompleteSignature InvalidAccessKeyId "
        "InvalidClientTokenId InvalidSignatureException InvalidToken MissingAuthenticationToken RequestExpired "
        "RequestTimeTooSkewed SignatureDoesNotMatch UnrecognizedClientException"
    ).split()
)


@dataclass(frozen=True)
class AwsFailure:
    """A failed call of AWS: the message, the next step and the exit code."""

    message: str
    next_step: str
    exit_code: int

    @property
    def sentence(self) -> str:
        """The message as the beginning of a text; within one it is as it stands."""
        return self.message[:1].upper() + self.message[1:]


def failure_of(error: BotoCoreError | ClientError, *, otherwise: str = SEE_DOCTOR) -> AwsFailure:
    """The failure that an error means; `otherwise` is the next step where AWS refused for a reason not known here."""
    if isinstance(error, _UNANSWERED):
        url = str(error.kwargs.get("endpoint_url"))
        return AwsFailure(f"nothing answers at {shortened(url, LONGEST // 2)}", _unanswered_step(url), REFUSED)
    if isinstance(error, _NO_SESSION):
        return AwsFailure(shortened(str(error), LONGEST), _SESSION, NO_STACK)
    message = shortened(f"AWS refused: {error}", LONGEST)
    if isinstance(error, ClientError):
        details = error.response.get("Error", {})
        code = details.get("Code", "")
        if code in _INVALID_SESSION:
            return AwsFailure(message, _SESSION, NO_STACK)
        if code in _DENIED:
            action = _ACTION.search(details.get("Message", ""))
            needed = action[1] if action else f"the call {error.operation_name}"
            return AwsFailure(message, f"Allow {needed} to this user or role", REFUSED)
    return AwsFailure(message, otherwise, REFUSED)


def code_of(error: ClientError) -> str:
    """The code of an error; empty where the answer has none."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_transient(error: BotoCoreError | ClientError) -> bool:
    """True for an error that a later call may not have: no or a broken answer, throttling, a fault of the service."""
    if not isinstance(error, ClientError):
        return isinstance(error, (aws.ConnectionError, aws.HTTPClientError))
    code = code_of(error)
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return status >= SERVER_FAULT or status == TOO_MANY or code in _THROTTLED


def _unanswered_step(url: str) -> str:
    if (urlsplit(url).hostname or "").endswith(_AWS_HOSTS):
        return "Check AWS_REGION and the network"
    return "If the local stack has stopped, start it with `sluice local up`"
