"""The IAM policy of one job run: the job role, narrowed to the prefixes of the lane's tables."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluice.config.document import Configuration
from sluice.config.table import HISTORY
from sluice.config.values import PLACEHOLDER
from sluice.lane.trial import TRIALS_PREFIX, scratch_prefix, trial_report_key
from sluice.silver_keys import PREFIX

# EMR Serverless: executionIamPolicy.policy has 1 to 2,048 characters (botocore's model of StartJobRun).
MAX_POLICY_CHARACTERS = 2048
EVERYTHING = ("*",)
_OF_ALL = [f"{PREFIX}/outcomes/*", f"{PREFIX}/schemas/tables/*"]  # the documents of all tables
_PLAIN = re.compile(r"[A-Za-z0-9_.*-]+")


def lane_prefixes(configuration: Configuration, lane: str) -> tuple[str, ...]:
    """The prefixes of a lane's tables and history tables in the silver bucket, sorted, as `database/name`.

    `*` stands for what a rule's pattern fills in. Empty for a lane without tables.
    """
    rules = [rule for rule in configuration.rules if rule.lane == lane]
    tables = (table for rule in rules for table in (rule.table, rule.history_table) if table)
    return tuple(sorted(set(map(_prefix, tables))))


@dataclass(frozen=True)
class Scope:
    """The prefixes of the silver bucket that a run may use.

    `name` identifies the tables that the configuration gives the lane. When it changes, the run may not write all of
    its tables: it ends, and the next run gets the new scope. An empty name fits every configuration.
    """

    name: str = ""
    prefixes: tuple[str, ...] = EVERYTHING


UNSCOPED = Scope()


def scope_of(configuration: Configuration | None, lane: str, also: Iterable[str] = ()) -> Scope:
    """The scope of a lane's tables and of the tables `also` (`database.name`), of which a batch is unfinished.

    Such a batch may write a history table, whatever the configuration says now. Without one it is everything.
    """
    if configuration is None:
        return UNSCOPED
    prefixes = lane_prefixes(configuration, lane)
    name = hashlib.sha256("\n".join(prefixes).encode()).hexdigest()[:16]
    left = {_prefix(table + end) for table in also for end in ("", HISTORY)}
    return Scope(name, tuple(sorted({*prefixes, *left})))


def job_run_policy(prefixes: Iterable[str], *, lane: str, partition: str, silver: str) -> str:
    """The `executionIamPolicy` of a run as JSON of at most 2,048 characters.

    A run may do what both its role and this policy allow, so `s3:*` here widens nothing. The policy names the tables
    if they fit, otherwise their databases, otherwise the whole bucket. It also names the bucket where a pattern fills
    in the database. Of what Sluice keeps beside the tables, it names the lane's manifests, and the documents of its
    tables, of their databases, or of all tables, whichever fits.
    """
    tables = tuple(sorted(set(prefixes)))
    databases = tuple(sorted({f"{prefix.partition('/')[0]}/*" for prefix in tables}))
    own = [f"{PREFIX}/manifests/{lane}/*"]
    by_table = [key for prefix in tables for key in _documents(prefix)]
    by_database = [f"{PREFIX}/*/{prefix.partition('/')[0]}.*" for prefix in databases]
    choices = [(scope, documents) for scope in (tables, databases) for documents in (by_table, by_database, _OF_ALL)]
    for scope, documents in choices:
        if any("*" in prefix.partition("/")[0] for prefix in scope):
            break
        keys = [*own, *documents, *_data(scope)]
        policy = _scoped(keys, partition, silver)
        if len(policy) <= MAX_POLICY_CHARACTERS:
            return policy
    return _scoped(["*"], partition, silver)


def trial_policy(trial: str, *, partition: str, silver: str, artifacts: str) -> str:
    """The `executionIamPolicy` of a trial: only its own prefix and report in silver, no ledger, no bronze."""
    here = scratch_prefix(trial)
    parents = [f"{here[:at]}{end}" for at in (len(PREFIX), len(TRIALS_PREFIX) - 1, len(here) - 1) for end in ("", "/")]
    keys = [*parents, f"{here}*", trial_report_key(trial)]
    own = [
        f"arn:{partition}:s3:::{path}"
        for path in (artifacts, f"{artifacts}/*", silver, *(f"{silver}/{key}" for key in keys))
    ]
    return _policy(
        {"Effect": "Allow", "NotAction": ["s3:*", "dynamodb:*"], "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "Resource": own},
    )


def _data(scope: Sequence[str]) -> list[str]:
    """The keys of tables' data. S3A also probes if a table's or a database's own name is a file."""
    if not scope:
        return []
    databases = sorted({prefix.partition("/")[0] for prefix in scope})
    return ["*/", *databases, *(key for prefix in scope for key in (prefix, f"{prefix}/*"))]  # `*/`: directory markers


def _documents(prefix: str) -> tuple[str, str]:
    """The keys of a table's outcomes, errors, rows and schemas. A `*` of a policy spans slashes."""
    table = prefix.replace("/", ".")
    return f"{PREFIX}/*/{table}.json", f"{PREFIX}/*/{table}/*"


def _scoped(keys: Sequence[str], partition: str, silver: str) -> str:
    objects = f"arn:{partition}:s3:::{silver}/"
    schemas = f"{objects}{PREFIX}/schemas/*.avsc"  # of all lanes, named by the hashes of their contents
    return _policy(
        {"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"},
        {"Effect": "Allow", "Action": "s3:*", "NotResource": f"{objects}*"},
        {"Effect": "Allow", "Action": "s3:*", "Resource": [f"{objects}{key}" for key in keys]},
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": schemas},
    )


def _policy(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _prefix(table: str) -> str:
    """`{1}.order_{name}` -> `*/order_*`. Only characters that a table's name can hold get into a policy."""
    database, _, name = PLACEHOLDER.sub("*", table).partition(".")
    return "/".join(part if _PLAIN.fullmatch(part) else "*" for part in (database, name))
