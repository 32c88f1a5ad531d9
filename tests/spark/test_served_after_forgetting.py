"""`sluice serve` keeps no answer of a state that a service has removed."""

from __future__ import annotations

from dataclasses import replace

from fastapi.testclient import TestClient
from support.workbench import COW, Silver, Workbench, row, table

from sluice.changes.forgotten import key_hash
from sluice.services.requests import FORGETTING, PURGE
from sluice_bench.measure.ledger_times import await_until
from sluice_read.serve.api import api


@COW
def test_a_forgotten_row_that_only_older_files_hold_is_not_served_from_memory(
    bench: Workbench, table_type: str
) -> None:
    config = table("kept", delete_mode="hard", table_type=table_type)
    config = replace(config, services=replace(config.services, purge_horizon_s=0))
    first = bench.apply(config, row("c", 1, 1, name="secret"), row("c", 2, 2))
    bench.apply(config, row("d", 3, 1))

    deleted_ms = bench.services.clock.now_ms()
    await_until(lambda: bench.services.clock.now_ms() > deleted_ms, timeout_s=1, what="the next millisecond")
    bench.serve(config, PURGE)
    client = TestClient(api(Silver(bench.services.tables_uri)))
    url = f"/tables/{config.table}/rows?as_of={first.instant}"
    before = client.get(url)
    assert "secret" in before.text
    bench.serve(config, FORGETTING, arguments={"key": key_hash(config.table, ["1"])})
    after = client.get(url)
    assert (after.status_code, "secret" in after.text) == (410, False)
    assert client.get(url, headers={"If-None-Match": before.headers["etag"]}).status_code == 410
