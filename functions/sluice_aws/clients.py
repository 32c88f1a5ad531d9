"""The one factory of boto3 clients: retries, timeouts, connections, endpoints and addressing style.

Clients are made lazily, once per service and process.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

from sluice_aws.call_times import CallTimes
from sluice_aws.settings import Settings

# An emulator needs no AWS profile: one that AWS_PROFILE names and that doesn't exist must not fail its clients.
_NO_PROFILE = {"profile": (None, None, None, None)}


@dataclass(frozen=True)
class ClientOptions:
    """How clients of one kind of process retry, wait and share connections. Timeouts are seconds of one attempt."""

    attempts: int = 3
    connect_timeout_s: int = 5
    read_timeout_s: int = 60
    connections: int = 32
    #: Off where objects are read in part: a part does not match the checksum of the whole.
    validate_checksums: bool = True


# A call that hangs must end well inside a function's 60 s: 3 attempts of 2 s + 5 s, with pauses, stay under 25 s.
FUNCTION = ClientOptions(connect_timeout_s=2, read_timeout_s=5, validate_checksums=False)
# A driver has more time, and its manifests are larger than anything that a function reads.
DRIVER = ClientOptions(connect_timeout_s=2, read_timeout_s=20, validate_checksums=False)
# A Spark task that fails is run again, with all its objects.
TASK = ClientOptions(attempts=4, read_timeout_s=30)
COMMAND = ClientOptions()


@dataclass(frozen=True)
class Credentials:
    """Static credentials of an emulator. For AWS, botocore's own chain finds them."""

    access_key_id: str
    secret_access_key: str


class Clients:
    """The clients of one process. Safe to ask from several threads."""

    def __init__(
        self,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        emr_endpoint_url: str | None = None,
        options: ClientOptions = FUNCTION,
        credentials: Credentials | None = None,
        call_times: CallTimes | None = None,
        session: Any = None,
    ) -> None:
        """`endpoint_url` is an emulator's address; without it botocore decides, which knows AWS_ENDPOINT_URL_<SERVICE>.

        `call_times` times the calls. `session` is a boto3 Session in place of the one that would be made from `region`
        and `credentials`.
        """
        self._region = region
        self._endpoint_url = endpoint_url
        self._emr_endpoint_url = emr_endpoint_url
        self._options = options
        self._credentials = credentials
        self._call_times = call_times
        self._session = session
        if session is not None and call_times is not None:
            call_times.watch(session.events)
        self._made: dict[str, Any] = {}
        self._lock = threading.RLock()

    @classmethod
    def of(
        cls,
        settings: Settings,
        *,
        options: ClientOptions = FUNCTION,
        call_times: CallTimes | None = None,
        session: Any = None,
    ) -> Clients:
        """The clients that a part of a deployment needs."""
        return cls(
            region=settings.region or None,
            endpoint_url=settings.endpoint_url or None,
            emr_endpoint_url=settings.emr_endpoint_url or None,
            options=options,
            call_times=call_times,
            session=session,
        )

    @property
    def s3(self) -> Any:
        return self.client("s3")

    @property
    def dynamodb(self) -> Any:
        return self.client("dynamodb")

    @property
    def emr_serverless(self) -> Any:
        return self.client("emr-serverless")

    @property
    def events(self) -> Any:
        return self.client("events")

    @property
    def glue(self) -> Any:
        return self.client("glue")

    @property
    def session(self) -> Any:
        """The boto3 Session that the clients share."""
        with self._lock:
            if self._session is None:
                given: dict[str, Any] = {}
                if self._credentials is not None:
                    given["aws_access_key_id"] = self._credentials.access_key_id
                    given["aws_secret_access_key"] = self._credentials.secret_access_key
                    given["botocore_session"] = botocore.session.Session(session_vars=_NO_PROFILE)
                self._session = boto3.Session(region_name=self._region, **given)
                if self._call_times is not None:
                    self._call_times.watch(self._session.events)
            return self._session

    def client(self, service: str) -> Any:
        """The client of a service."""
        with self._lock:  # one session makes clients in one thread at a time
            if service not in self._made:
                self._made[service] = self.session.client(
                    service, endpoint_url=self._endpoint(service), config=self._config(service)
                )
            return self._made[service]

    def _endpoint(self, service: str) -> str | None:
        if service == "emr-serverless" and self._emr_endpoint_url:
            return self._emr_endpoint_url
        return self._endpoint_url

    def _config(self, service: str) -> Config:
        options = self._options
        settings: dict[str, Any] = {
            "retries": {"mode": "standard", "total_max_attempts": options.attempts},
            "connect_timeout": options.connect_timeout_s,
            "read_timeout": options.read_timeout_s,
            "max_pool_connections": options.connections,
        }
        if service == "s3" and self._endpoint_url:  # a bucket is no host name at an emulator's address
            settings["s3"] = {"addressing_style": "path"}
        if service == "dynamodb":  # a third of the processor time of a transaction
            settings["parameter_validation"] = False
        if not options.validate_checksums:
            settings["response_checksum_validation"] = "when_required"
        return Config(**settings)
