"""Errors of the AWS adapters."""

from __future__ import annotations

from sluice.errors import SluiceError


class AnnouncementRefused(SluiceError):
    """The event bus didn't take the event; facts: `batch`, `bus`, and its own error code and message."""

    code = "announcement_refused"
    retriable = True


class CatalogRaced(SluiceError):
    """Somebody else changed the same table meanwhile; facts: `name`, `cause`. Looking again is all it takes."""

    code = "catalog_raced"
    retriable = True
    next_step = "Sync again"


class CatalogRefused(SluiceError):
    """Glue refused partitions; facts: `name`, `cause`, `values`."""

    code = "catalog_refused"
    next_step = "Look at what Glue says; a missing permission of Lake Formation is refused like this, too"


class CatalogDenied(SluiceError):
    """Glue or Lake Formation doesn't allow a call; facts: `name`, `cause`."""

    code = "catalog_denied"
    next_step = "Give the role what docs/catalog.md names; where Lake Formation governs the catalog, there too"


class UnusableCatalogRequest(SluiceError):
    """A request that names no table; facts: `found`."""

    code = "unusable_catalog_request"
    next_step = 'Send {"table": "database.table"}, with "instant" to wait for no newer commit than that'


class LanesFailed(SluiceError):
    """Some lanes could not be looked after; the others were. Facts: `lanes`."""

    code = "lanes_failed"
    retriable = True


class BatchTaken(SluiceError):
    """A batch of this id is there already and not this run's to open; facts: `batch`, and its `state` and `run` where known."""

    code = "batch_taken"
    next_step = (
        "Run `sluice doctor`: objects that are pending are in a batch that somebody else opened, or that is committed"
    )


class ForeignObjects(SluiceError):
    """Objects of a part are claimed by another batch or by none; facts: `batch`, `objects`."""

    code = "foreign_objects"
    next_step = "Run `sluice doctor`: the manifest and the ledger disagree about who has these objects"


class UnsettledParts(SluiceError):
    """A batch can't be closed while a part of it is claimed; facts: `batch`, `tables`."""

    code = "unsettled_parts"


class LedgerBusy(SluiceError):
    """The ledger kept refusing for reasons that pass; facts: `operation`, `cause`."""

    code = "ledger_busy"
    retriable = True


class LaneNotPaused(SluiceError):
    """The lane of a table that is being rebuilt could start a run; facts: `lane`, `table`."""

    code = "lane_not_paused"


class ConfigurationUnreadable(SluiceError):
    """What lies under the configuration's key is not a configuration. A corrected push mends it."""

    code = "configuration_unreadable"
    retriable = True
    next_step = "Run `sluice config push` with a correct file; notices wait in the queue until then"


class ConfigurationMissing(ConfigurationUnreadable):
    """There is no configuration any more, though one was pushed: not the same as one that takes no topic."""

    code = "configuration_missing"
    next_step = "Run `sluice config push tables.yaml`, or restore the object from its versions; notices wait in the queue until then"


class MoveIncomplete(SluiceError):
    """Objects were not copied, or not deleted; nothing is lost. Facts: `source`, `to`, `left`."""

    code = "move_incomplete"
    retriable = True
    next_step = "Run the command again: it goes on where it stopped"


class ObjectGone(SluiceError):
    """The version was deleted or overwritten before it could be read; facts: bucket, key, version."""

    code = "lost_before_read"
    next_step = "Upload the object again; if a lifecycle rule removed it, give it more days than an outage lasts"


class ObjectArchived(SluiceError):
    """The version lies in an archive, from which nothing reads it before somebody restores it; facts: bucket, key, version, `storage_class`."""

    code = "object_archived"
    next_step = "Restore the object in S3, then `sluice quarantine retry`; let a lifecycle rule archive only what is older than an outage lasts"


class Unchanged(SluiceError):
    """The object still is what the caller has."""

    code = "unchanged"


class NoSuchCommit(SluiceError):
    """An instant's file is gone: it was archived, or rolled back, since the timeline was listed; facts: `table`, `instant`."""

    code = "no_such_commit"
    retriable = True
    next_step = "List the timeline again"


class SettingsMissing(SluiceError):
    """The deployment left something out; facts: `variables`, all of them at once."""

    code = "settings_missing"
    next_step = "Deploy the template again; it sets these variables on every function"
