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
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeout",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    )
)

_LOGIN = "The session has expired: run `aws sso login`, or get new credentials as you got these"
_PROFILE = "Correct the profile in ~/.aws/config and ~/.aws/credentials, or choose another by AWS_PROFILE"
_KEYS = (
    "`aws sts get-caller-identity` shows whether the credentials are valid (AWS_PROFILE, `aws configure`). "
    "The account must have enabled the Region"
)
_REGION = "Set AWS_REGION to the stack's Region, such as eu-central-1, or correct the Region of the AWS profile"
_CLOCK = "Correct this machine's clock"
# The first class that an error has counts.
_NO_SESSION: tuple[tuple[type[Exception], str], ...] = (
    (aws.NoCredentialsError, "Configure them as for the AWS CLI (AWS_PROFILE, `aws sso login`, `aws configure`)"),
    (
        aws.ProfileNotFound,
        "Set AWS_PROFILE to a profile of `aws configure list-profiles`, or make it with `aws configure`",
    ),
    (aws.SSOError, "Run `aws sso login`, with --profile where AWS_PROFILE is not set"),
    (aws.TokenRetrievalError, "Run `aws sso login`, with --profile where AWS_PROFILE is not set"),
    (aws.LoginError, "Run `aws login`"),
    (
        aws.PartialCredentialsError,
        "Set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or neither and AWS_PROFILE (`aws configure`)",
    ),
    (aws.InvalidConfigError, _PROFILE),
    (aws.ConfigParseError, _PROFILE),
    (aws.ConfigNotFound, _PROFILE),
    (aws.UnknownCredentialError, _PROFILE),
    (aws.CredentialRetrievalError, _PROFILE),
    (aws.RefreshWithMFAUnsupportedError, _LOGIN),
    (aws.InvalidRegionError, _REGION),
    (aws.NoRegionError, _REGION),
    (aws.UnknownRegionError, _REGION),
)
_INVALID_SESSION = {
    **dict.fromkeys(("ExpiredToken", "ExpiredTokenException", "RequestExpired"), _LOGIN),
    **dict.fromkeys(
        (
            "AuthFailure",
            "IncompleteSignature",
            "InvalidAccessKeyId",
            "InvalidClientTokenId",
            "InvalidSignatureException",
            "InvalidToken",
            "MissingAuthenticationToken",
            "SignatureDoesNotMatch",
            "UnrecognizedClientException",
        ),
        _KEYS,
    ),
    "RequestTimeTooSkewed": _CLOCK,
}


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
    for kind, step in _NO_SESSION:
        if isinstance(error, kind):
            summary = "no AWS credentials were found" if kind is aws.NoCredentialsError else str(error)
            return AwsFailure(shortened(summary, LONGEST), step, NO_STACK)
    message = shortened(f"AWS refused: {error}", LONGEST)
    if isinstance(error, ClientError):
        details = error.response.get("Error", {})
        code = details.get("Code", "")
        if code in _INVALID_SESSION:
            return AwsFailure(message, _INVALID_SESSION[code], NO_STACK)
        if code in _DENIED:
            action = _ACTION.search(details.get("Message", ""))
            needed = action[1] if action else f"the call {error.operation_name}"
            return AwsFailure(message, f"Allow {needed} to this user or role", REFUSED)
    return AwsFailure(message, otherwise, REFUSED)


def is_transient(error: BotoCoreError | ClientError) -> bool:
    """True for an error that a later call may not have: no or a broken answer, throttling, a fault of the service."""
    if not isinstance(error, ClientError):
        return isinstance(error, (aws.ConnectionError, aws.HTTPClientError))
    code = error.response.get("Error", {}).get("Code", "")
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return status >= SERVER_FAULT or status == TOO_MANY or code in _THROTTLED


def _unanswered_step(url: str) -> str:
    if (urlsplit(url).hostname or "").endswith(_AWS_HOSTS):
        return "Check AWS_REGION and the network"
    return "If the local stack has stopped, start it with `sluice local up`"
