"""Makes the boto3 clients, each once and only when it is first asked for."""

from __future__ import annotations

import threading
from typing import Any

import boto3
from botocore.config import Config

from sluice_aws.settings import Settings

# A call that hangs must end well inside a function's 60 s: 3 attempts x (2 s + 5 s) and pauses stay under 25 s.
CONNECT_TIMEOUT_S = 2
READ_TIMEOUT_S = 5
ATTEMPTS = 3


class Clients:
    """The clients of one process for one set of settings. Safe to ask from several threads."""

    def __init__(
        self, settings: Settings, *, pool: int = 32, read_timeout_s: int = READ_TIMEOUT_S, session: Any = None
    ) -> None:
        """`pool` is the number of threads that will share a client; `session` a boto3 Session with credentials of its own."""
        self._settings = settings
        self._pool = pool
        self._read_timeout_s = read_timeout_s
        self._session = session
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    @property
    def s3(self) -> Any:
        return self._client("s3")

    @property
    def dynamodb(self) -> Any:
        return self._client("dynamodb")

    @property
    def emr_serverless(self) -> Any:
        return self._client("emr-serverless")

    @property
    def events(self) -> Any:
        return self._client("events")

    @property
    def glue(self) -> Any:
        return self._client("glue")

    def _client(self, service: str) -> Any:
        with self._lock:  # making a client is not safe in two threads of one session
            if service not in self._made:
                if self._session is None:
                    self._session = boto3.Session(region_name=self._settings.region or None)
                self._made[service] = self._session.client(
                    service, endpoint_url=self._endpoint(service), config=self._config(service)
                )
            return self._made[service]

    def _endpoint(self, service: str) -> Any:
        """An emulator's address. None leaves it to botocore, which also knows AWS_ENDPOINT_URL_<SERVICE>."""
        if service == "emr-serverless" and self._settings.emr_endpoint_url:
            return self._settings.emr_endpoint_url
        return self._settings.endpoint_url or None

    def _config(self, service: str) -> Config:
        # Buckets are not host names at an emulator's address.
        s3 = {"addressing_style": "path"} if service == "s3" and self._settings.endpoint_url else None
        return Config(
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=self._read_timeout_s,
            max_pool_connections=self._pool,
            s3=s3,
            # Heads are read in part, and no checksum of the whole fits a part.
            response_checksum_validation="when_required",
        )
