"""Everything that is refused, in one batch beside what is good."""

from __future__ import annotations

import dataclasses

from support.bad_input import CASES, LIMITS, good_avro, good_change
from support.workbench import Workbench, table

from sluice.batch.outcome import COMMITTED
from sluice.batch.row_errors import from_lines
from sluice.silver_keys import rows_key


def test_no_damaged_object_stops_its_batch_and_every_row_is_accounted_for(bench: Workbench) -> None:
    config = table(limits=LIMITS)
    good = [bench.put_bytes(good_avro(good_change(id=id, lsn=id)), schema=None) for id in range(1_000, 1_003)]
    assert bench.merge(config, good[:1]).counts["winning"] == 1
    # Admission keeps most of these from a batch; here all of them come through.
    expected, items = {}, []
    for number, case in enumerate(CASES):
        offset = 50_000 + 10_000 * number
        key = f"topics/src.public.t/partition=0/src.public.t+0+{offset:010d}.{case.ending}"
        items.append(bench.put_bytes(case.body, key=key, format=case.ending.partition(".")[0], offset=offset))
        expected[items[-1].id.hash] = case
    manifest = bench.manifest(config, [*good[1:], *items])

    outcome = bench.merge_manifest(manifest, config)

    assert outcome.state == COMMITTED and outcome.instant is not None
    quarantined = {error.object: error.code for error in outcome.quarantined}
    rows = {aside.object: dict(aside.codes) for aside in outcome.quarantined_rows}
    assert {expected[key].name: code for key, code in quarantined.items()} == {
        case.name: case.code for case in expected.values() if not case.rows
    }
    assert {expected[key].name: codes for key, codes in rows.items()} == {
        case.name: {case.code: case.rows} for case in expected.values() if case.rows
    }
    committed = outcome.counts["objects"] - outcome.counts["quarantined_objects"]
    assert len(manifest.objects) == outcome.counts["objects"] == committed + len(quarantined)
    assert committed == 2 + len(rows)
    set_aside = (bench.services.objects.get(bench.silver, rows_key(manifest.batch, config.table, key)) for key in rows)
    rows_aside = sum(len(list(from_lines(document.data.decode()))) for document in set_aside)
    assert outcome.counts["quarantined_rows"] == rows_aside == sum(case.rows for case in expected.values())
    ids = {id for (id,) in bench.rows(config, "id")}
    assert {1_000, 1_001, 1_002, *range(100, 113)} - {102} <= ids, "good objects, and the good rows beside bad ones"
    assert bench.merge(config, [dataclasses.replace(good[2], attempt=1)]).no_change
