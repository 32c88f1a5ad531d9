"""One table's part of a batch, whole: from its objects to its commit, or to the reason why there is none."""
from __future__ import annotations

from typing import Callable, Optional

from pyspark.sql import SparkSession

from sluice.manifest import Manifest, Outcome
from sluice_spark.merge_services import MergeServices


def merge_part(spark: SparkSession, *, manifest: Manifest, table: str, services: MergeServices, still_held: Callable[[], bool]) -> Outcome:
    """Read, merge and commit one table's part.

    `still_held` is asked immediately before the commit; LaneLost is raised when it says no. An object
    that can't be merged is in the outcome with its reason, and the rest goes on. Any other exception
    leaves open whether the commit is there: call `resolve_part` before anything else (rule 4).
    """
    raise NotImplementedError


def resolve_part(spark: SparkSession, *, manifest: Manifest, table: str, services: MergeServices, still_held: Callable[[], bool]) -> Optional[Outcome]:
    """Undo what is unfinished, then look for the batch on the table's timeline (rule 4).

    The outcome when it was committed, else None: the part has to be merged again. Raises LaneLost,
    before anything is undone, when `still_held` says no.
    """
    raise NotImplementedError
