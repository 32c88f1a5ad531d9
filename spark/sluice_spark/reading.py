"""Reads change objects by exact version in Spark tasks: each whole, or not at all with its reason in S3."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class ObjectSource:
    """How a task reaches S3. Pickled into tasks: credentials come from the task's own surroundings.

    `endpoint_url` is an emulator's address, None on AWS.
    """

    region: str
    endpoint_url: Optional[str] = None
    silver_bucket: str = ""
