"""Answers a request to sync one table: finds its configuration, syncs, says what was done."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from sluice.errors import SluiceError
from sluice_aws.catalog import CatalogSync
from sluice_aws.config_store import ConfigStore
from sluice_aws.configured_tables import configured_table
from sluice_aws.ledger import Ledger
from sluice_aws.telemetry import Report


class UnusableCatalogRequest(SluiceError):
    """A request that names no table; facts: `found`."""

    code = "unusable_catalog_request"
    next_step = 'Send {"table": "database.table"}, with "instant" to wait for no newer commit than that'


class CatalogRequests:
    """The requests of one function."""

    def __init__(self, *, sync: CatalogSync, configuration: ConfigStore, ledger: Ledger, report: Report) -> None:
        self._sync = sync
        self._configuration = configuration
        self._ledger = ledger
        self._report = report

    def answer(self, request: Mapping[str, Any]) -> Dict[str, Any]:
        """Sync the table of `table`; the plan that was carried out, as JSON values.

        Raises UnusableCatalogRequest, NotConfigured, and what CatalogSync.sync raises; of those, the retriable are CatalogRaced and NoSuchCommit.
        """
        table, instant = request.get("table"), request.get("instant")
        if not isinstance(table, str) or not table or not (instant is None or isinstance(instant, str)):
            raise UnusableCatalogRequest("The request names no table", found=str(dict(request))[:200])
        config = configured_table(self._configuration.load_or_last(self._report), table, self._ledger)
        plan = self._sync.sync(config, instant)
        report = plan.to_dict()
        self._report.event("catalog_synced" if report["changed"] else "catalog_is_current", **report)
        if report["changed"]:
            self._report.count(
                "CatalogSyncs"
            )  # by table it stands in the event: a metric costs by its dimensions, and tables may be thousands
            added = sum(one["partitions"]["added"] for one in report["tables"])
            if added:
                self._report.count("PartitionsAdded", added)
        return report
