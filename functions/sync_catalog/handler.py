"""sync_catalog: brings the Glue catalog up to a table's newest commit.

Takes `{"table": "moma.artists"}`, optionally with the `instant` that is enough, and returns a report.
"""

from __future__ import annotations

import functools
import os
from typing import Any

from sluice_aws.catalog.glue import GlueCatalog
from sluice_aws.catalog.requests import CatalogRequests
from sluice_aws.catalog.sync import CatalogSync
from sluice_aws.clients import Clients
from sluice_aws.ledger.ledger import Ledger
from sluice_aws.s3.configuration import ConfigStore
from sluice_aws.s3.objects import Objects
from sluice_aws.s3.schemas import CommentStore
from sluice_aws.s3.silver_files import SilverBucket
from sluice_aws.s3.timelines import TimelineReader
from sluice_aws.settings import Settings
from sluice_aws.telemetry import Telemetry, observed

NEEDED = ("region", "ledger_table", "silver_bucket", "artifact_bucket")


@observed("sync_catalog")
def handler(event: dict[str, Any], context: Any, telemetry: Telemetry) -> dict[str, Any]:
    """Lambda entry: syncs one table. Errors keep their class name, by which the state machine distinguishes them."""
    return requests_of(telemetry).answer(event)


@functools.lru_cache(maxsize=1)
def requests_of(telemetry: Telemetry) -> CatalogRequests:
    """Make the adapters from the environment, once per process."""
    settings = Settings.from_env(os.environ, needed=NEEDED)
    clients = Clients.of(settings, call_times=telemetry.call_times)
    silver = settings.silver_bucket
    timelines, comments = TimelineReader(SilverBucket(clients.s3, silver)), CommentStore(clients.s3, silver)
    sync = CatalogSync(catalog=GlueCatalog(clients.glue), timelines=timelines, comments=comments, silver_bucket=silver)
    configuration = ConfigStore(Objects(clients.s3), settings.artifact_bucket)
    return CatalogRequests(
        sync=sync,
        configuration=configuration,
        tables=Ledger(clients.dynamodb, settings.ledger_table).tables,
        report=telemetry,
    )
