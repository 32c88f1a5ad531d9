"""Records of applications and job runs, and the state changes that the service allows."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sluice_local.emr.submission import Submission

TERMINAL = ("SUCCESS", "FAILED", "CANCELLED")
LONGEST_DETAILS = 256  # characters of stateDetails, by the service's model
_ALPHABET = "0123456789abcdefghijklmnopqrstuv"


def new_id(seed: str = "") -> str:
    """An id in the service's form: 16 of [0-9a-z], starting 00f. The same for the same seed, if there is one."""
    digits = hashlib.sha256(seed.encode()).digest() if seed else secrets.token_bytes(13)
    return "00f" + "".join(_ALPHABET[digit % len(_ALPHABET)] for digit in digits[:13])


@dataclass
class Application:
    """An EMR Serverless application; times in epoch seconds."""

    id: str
    arn: str
    name: str
    release: str
    architecture: str
    created_at: float
    updated_at: float
    state: str = "CREATED"
    tags: Mapping[str, str] = field(default_factory=dict)
    request: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """As GetApplication and UpdateApplication answer."""
        given = (
            "initialCapacity",
            "maximumCapacity",
            "autoStartConfiguration",
            "autoStopConfiguration",
            "schedulerConfiguration",
        )
        return {
            "applicationId": self.id,
            **self._common(),
            "tags": dict(self.tags),
            **{key: self.request[key] for key in given if key in self.request},
        }

    def summarize(self) -> dict[str, Any]:
        """As ListApplications answers."""
        return {"id": self.id, **self._common()}

    def _common(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "arn": self.arn,
            "releaseLabel": self.release,
            "type": "Spark",
            "state": self.state,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "architecture": self.architecture,
        }


@dataclass
class LocalJobRun:
    """One job run; times in epoch seconds."""

    id: str
    arn: str
    application: Application
    request: Mapping[str, Any]
    submission: Submission
    created_by: str
    created_at: float
    updated_at: float
    state: str = "SUBMITTED"
    details: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    cancel_grace: float | None = None  # set on cancellation

    @property
    def name(self) -> str:
        """The name in the request, or an empty text."""
        return str(self.request.get("name") or "")

    @property
    def ended(self) -> bool:
        """Whether the state is terminal."""
        return self.state in TERMINAL

    def describe(self) -> dict[str, Any]:
        """As GetJobRun answers."""
        request = self.request
        given = ("configurationOverrides", "executionIamPolicy", "retryPolicy")
        times = {
            key: value
            for key, value in (("startedAt", self.started_at), ("endedAt", self.ended_at))
            if value is not None
        }
        return {
            **self._common(),
            "jobRunId": self.id,
            "jobDriver": request["jobDriver"],
            "tags": request.get("tags") or {},
            "executionTimeoutMinutes": request.get("executionTimeoutMinutes", 720),
            "totalExecutionDurationSeconds": int(
                (self.ended_at or self.updated_at) - (self.started_at or self.updated_at)
            ),
            **times,
            **{key: request[key] for key in given if key in request},
        }

    def summarize(self) -> dict[str, Any]:
        """As ListJobRuns answers."""
        return {**self._common(), "id": self.id, "type": "SPARK"}

    def _common(self) -> dict[str, Any]:
        return {
            "applicationId": self.application.id,
            "name": self.name,
            "mode": self.request.get("mode", "BATCH"),
            "arn": self.arn,
            "createdBy": self.created_by,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "executionRole": self.request.get("executionRoleArn", ""),
            "state": self.state,
            "stateDetails": self.details[:LONGEST_DETAILS] or f"The job run is {self.state}",
            "releaseLabel": self.application.release,
            "attempt": 1,
            "attemptCreatedAt": self.created_at,
            "attemptUpdatedAt": self.updated_at,
        }
