"""Answers a request to sync one table: finds its configuration, syncs it, and reports what changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.config.pinned_topic import config_in_force
from sluice.config.table import TableConfig
from sluice.ports import Report
from sluice_aws.catalog.sync import CatalogSync
from sluice_aws.errors import UnusableCatalogRequest
from sluice_aws.ledger.tables import TableLedger
from sluice_aws.s3.configuration import ConfigStore


class CatalogRequests:
    """Answers the requests of one function."""

    def __init__(self, *, sync: CatalogSync, configuration: ConfigStore, tables: TableLedger, report: Report) -> None:
        self._sync = sync
        self._configuration = configuration
        self._tables = tables
        self._report = report

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Sync the table named by `table`, and return the applied plan as JSON values.

        With `instant`, a catalog that already shows that commit is left alone. Raises UnusableCatalogRequest,
        NotConfigured and the errors of CatalogSync.sync, of which CatalogRaced, NoSuchCommit and IcebergBehind are
        retriable.
        """
        table, instant = request.get("table"), request.get("instant")
        if not isinstance(table, str) or not table or not (instant is None or isinstance(instant, str)):
            raise UnusableCatalogRequest("The request names no table", found=str(dict(request))[:200])
        configuration = self._configuration.load_or_last(self._report)
        config = config_in_force(configuration, table, self._tables.get(table).pinned)
        if config.history:
            self._applied(config.history_table, None)
        return self._applied(config, instant)

    def _applied(self, config: TableConfig, instant: str | None) -> dict[str, Any]:
        """Sync one table, and report what changed."""
        plan = self._sync.sync(config, instant)
        report = plan.to_dict()
        self._report.event("catalog_synced" if report["changed"] else "catalog_is_current", **report)
        if report["changed"]:
            # Without the table as a dimension: each value would be a metric to pay for. The event names the table.
            self._report.count("CatalogSyncs")
            added = sum(one["partitions"]["added"] for one in report["tables"])
            if added:
                self._report.count("PartitionsAdded", added)
        return report
