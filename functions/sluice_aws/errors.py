"""Errors of the AWS adapters."""

from __future__ import annotations

from sluice.errors import ObjectTooLarge, SluiceError, UsageError
from sluice.objects import ObjectId


class AnnouncementRefused(SluiceError):
    """The event bus did not accept an event; facts: `batch`, `bus`, and the bus's error code and message."""

    code = "announcement_refused"
    retriable = True
    next_step = (
        "It is sent again. If it is refused each time, check that the bus exists and takes events of this account"
    )


class CatalogRaced(SluiceError):
    """The same table was changed in the catalog meanwhile; facts: `name`, `cause`. A second sync succeeds."""

    code = "catalog_raced"
    retriable = True
    next_step = "Sync again"


class CatalogRefused(SluiceError):
    """Glue refused partitions; facts: `name`, `cause`, `values`."""

    code = "catalog_refused"
    next_step = "Read the cause: a missing Lake Formation permission is reported like this, too"


class CatalogDenied(SluiceError):
    """Glue or Lake Formation does not allow a call; facts: `name`, `cause`."""

    code = "catalog_denied"
    next_step = (
        "Grant the role the permissions listed in docs/catalog.md, in Lake Formation too if it governs the catalog"
    )


class UnusableCatalogRequest(SluiceError):
    """A request that names no table; facts: `found`."""

    code = "unusable_catalog_request"
    next_step = 'Send {"table": "database.table"}, optionally with the "instant" of the commit to sync'


class HashKeyUnusable(SluiceError):
    """The secret with the key of hashed columns can't be read, or is too short; facts: `secret`, `cause`."""

    code = "hash_key_unusable"
    retriable = True
    next_step = (
        "Create the secret in Secrets Manager under this name, which begins with the stack's name and a slash, with at"
        " least 32 random characters; grant `secretsmanager:GetSecretValue` on it to whoever runs the command"
    )


class HashKeyChanged(SluiceError):
    """The secret of a table's hashed columns has another value than before: hashes would differ; facts: `secret`."""

    code = "hash_key_changed"
    retriable = True
    next_step = (
        "Restore the secret's value. For another key, create a secret of another name, name it in the rule's `columns`,"
        " and rebuild the table: `sluice pause LANE`, `sluice rebuild table TABLE`, `sluice resume LANE`"
    )


class LanesFailed(SluiceError):
    """Supervision failed for some lanes; the others were supervised. Facts: `lanes`."""

    code = "lanes_failed"
    retriable = True
    next_step = (
        "The next supervision tries these lanes again. If they fail each time, the events lane_failed in the log of "
        "Supervise say why"
    )


class BatchTaken(SluiceError):
    """The batch exists already and this run may not open it; facts: `batch`, and its `state` and `run` if known."""

    code = "batch_taken"
    next_step = "Run `sluice doctor`: pending objects are in a batch that is committed or that another run opened"


class ForeignObjects(SluiceError):
    """Objects of a part are claimed by another batch or by none; facts: `batch`, `objects`."""

    code = "foreign_objects"
    next_step = "Run `sluice doctor`: the manifest and the ledger disagree about the batch of these objects"


class UnsettledParts(SluiceError):
    """A batch cannot be closed while a part of it is claimed; facts: `batch`, `tables`."""

    code = "unsettled_parts"
    next_step = "`sluice ops batch show` shows the batch: its lane's next run settles the parts, then closes it"


class LedgerBusy(SluiceError):
    """The ledger kept refusing a call for a transient reason; facts: `operation`, `cause`."""

    code = "ledger_busy"
    retriable = True
    next_step = (
        "Repeat the command; functions and runs repeat theirs. If it persists, look for throttled requests of the "
        "ledger's table in CloudWatch"
    )


class LaneNotPaused(SluiceError):
    """A table cannot be rebuilt while its lane may start a run; facts: `lane`, `table`."""

    code = "lane_not_paused"
    next_step = "`sluice pause LANE`, and once `sluice status` says paused, repeat the command"


class ConfigurationUnreadable(SluiceError):
    """The object under the configuration's key is not a valid configuration."""

    code = "configuration_unreadable"
    retriable = True
    next_step = "Run `sluice config push` with a valid file; notices wait in the queue until then"


class ConfigurationMissing(ConfigurationUnreadable):
    """A configuration was pushed, but its object is gone."""

    code = "configuration_missing"
    next_step = (
        "Run `sluice config push tables.yaml`, of which `sluice config show --earlier 1` prints the last one;"
        " notices wait in the queue until then"
    )


class MoveIncomplete(SluiceError):
    """Some objects were not copied or not deleted; nothing is lost. Facts: `source`, `to`, `left`."""

    code = "move_incomplete"
    retriable = True
    next_step = "Run the command again: it continues where it stopped"


class ObjectGone(SluiceError):
    """The version was deleted or overwritten before it could be read; facts: bucket, key, version."""

    code = "lost_before_read"
    next_step = "Upload the object again; if a lifecycle rule removed it, give it more days than an outage lasts"


class ObjectArchived(SluiceError):
    """The version is archived and cannot be read until it is restored; facts: bucket, key, version, `storage_class`."""

    code = "object_archived"
    next_step = (
        "Restore the object in S3, then run `sluice quarantine retry --code object_archived`;"
        " let lifecycle rules archive only objects older than an outage lasts"
    )


class Unchanged(SluiceError):
    """The object has not changed since the caller read it."""

    code = "unchanged"
    next_step = "None: what the caller read before is still right"


class NoSuchCommit(SluiceError):
    """An instant was archived or rolled back since the timeline was listed; facts: `table`, `instant`."""

    code = "no_such_commit"
    retriable = True
    next_step = "List the timeline again"


class IcebergBehind(SluiceError):
    """The Iceberg table beside a table lacks a commit: its write failed; facts: `table`, `instant`, `shown`."""

    code = "iceberg_behind"
    retriable = True
    next_step = "Run `sluice ops services run TABLE --service iceberg --wait 5m`, which says why it can't be written"


class SettingsMissing(SluiceError):
    """Settings are missing or not valid; facts: `variables`, all of them."""

    code = "settings_missing"
    next_step = "Deploy the template again: it sets these variables on every function"


class NoSuchBucket(UsageError):
    """S3 has no bucket of this name; facts: `bucket`."""

    code = "no_such_bucket"
    next_step = "Check the name: `aws s3 ls` lists your buckets"


def too_large(size: int, limit: int) -> ObjectTooLarge:
    """The error of an object with more than `limit` bytes."""
    return ObjectTooLarge(f"The object has {size:,} bytes, and the limit is {limit:,}", bytes=size, limit=limit)


def facts_of(id: ObjectId) -> dict[str, str]:
    """The facts that name an object."""
    return {"bucket": id.bucket, "key": id.key, "version": id.version}
