"""The policy under which one run works: the job's role, narrowed to where its lane's tables lie."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.config.document import Configuration
from sluice.config.values import PLACEHOLDER
from sluice.lane.trial import TRIALS_PREFIX, scratch_prefix, trial_report_key
from sluice.silver_keys import PREFIX

# EMR Serverless: executionIamPolicy.policy has 1 to 2,048 characters (botocore's model of StartJobRun).
MAX_POLICY_CHARACTERS = 2048
EVERYTHING = ("*",)
_PLAIN = re.compile(r"[A-Za-z0-9_.*-]+")


def lane_prefixes(configuration: Configuration, lane: str) -> tuple[str, ...]:
    """Where the tables of a lane lie in the silver bucket, as `database/name`; `*` for what a pattern fills in.

    Sorted and without repetitions; empty for a lane without tables.
    """
    return tuple(sorted({_prefix(rule.table) for rule in configuration.rules if rule.lane == lane}))


@dataclass(frozen=True)
class Scope:
    """Where a run may work in the silver bucket.

    `name` stands for what the configuration gives the lane. A run whose lane has a scope of another name by now may
    not write all of its tables: it ends, and the next one may. Empty: any configuration will do.
    """

    name: str = ""
    prefixes: tuple[str, ...] = EVERYTHING


def scope_of(configuration: Configuration | None, lane: str, also: Iterable[str] = ()) -> Scope:
    """The scope of a lane's tables and of the tables `also` (`database.name`), of which a batch is unfinished. Without a configuration, everything."""
    if configuration is None:
        return Scope()
    prefixes = lane_prefixes(configuration, lane)
    name = hashlib.sha256("\n".join(prefixes).encode()).hexdigest()[:16]
    return Scope(name, tuple(sorted({*prefixes, *map(_prefix, also)})))


def execution_policy(prefixes: Iterable[str], *, partition: str, bronze: str, silver: str, artifacts: str) -> str:
    """The inline policy of a run as JSON, at most 2,048 characters.

    What a run may do is what its role and this policy both allow: `s3:*` here widens nothing. Where the tables are
    too many for the characters there are, their databases are named instead, and where those are, or where a pattern
    fills in the database, the bucket.
    """
    for scope in (tuple(sorted(set(prefixes))), _databases(prefixes), EVERYTHING):
        if any("*" in prefix.partition("/")[0] for prefix in scope):
            scope = EVERYTHING
        policy = json.dumps(_document(scope, partition, bronze, silver, artifacts), separators=(",", ":"))
        if len(policy) <= MAX_POLICY_CHARACTERS:
            return policy
    raise AssertionError("three bucket names of at most 63 characters fit")


def trial_policy(trial: str, *, partition: str, silver: str, artifacts: str) -> str:
    """The inline policy of a trial of the engine: its own folder and report in the silver bucket; no ledger, no bronze."""
    here = scratch_prefix(trial)
    parents = [f"{here[:at]}{end}" for at in (len(PREFIX), len(TRIALS_PREFIX) - 1, len(here) - 1) for end in ("", "/")]
    keys = [*parents, f"{here}*", trial_report_key(trial)]
    own = [
        f"arn:{partition}:s3:::{path}"
        for path in (artifacts, f"{artifacts}/*", silver, *(f"{silver}/{key}" for key in keys))
    ]
    return json.dumps(
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "NotAction": ["s3:*", "dynamodb:*"], "Resource": "*"},
                {"Effect": "Allow", "Action": "s3:*", "Resource": own},
            ],
        },
        separators=(",", ":"),
    )


def _document(scope: Sequence[str], partition: str, bronze: str, silver: str, artifacts: str) -> dict[str, Any]:
    def arn(path: str) -> str:
        return f"arn:{partition}:s3:::{path}"

    keys: list[str] = ["_sluice/*"]
    if scope == EVERYTHING:
        keys = ["*"]
    elif scope:
        # A table's own name and its database's are asked for too: S3A looks whether they are files. `*/` are directory markers.
        keys += ["*/", *sorted({prefix.partition("/")[0] for prefix in scope})]
        keys += [key for prefix in scope for key in (prefix, f"{prefix}/*")]
    own = [arn(path) for path in (bronze, f"{bronze}/*", artifacts, f"{artifacts}/*", silver)] + [
        arn(f"{silver}/{key}") for key in keys
    ]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"},
            {"Effect": "Allow", "Action": "s3:*", "Resource": own},
        ],
    }


def _prefix(table: str) -> str:
    """`{1}.order_{name}` -> `*/order_*`. Only what a table's name can hold gets into a policy."""
    database, _, name = PLACEHOLDER.sub("*", table).partition(".")
    return "/".join(part if _PLAIN.fullmatch(part) else "*" for part in (database, name))


def _databases(prefixes: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({f"{prefix.partition('/')[0]}/*" for prefix in prefixes}))
