"""What one merge of a part sets aside is reported of that merge alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.workbench import COW, SCHEMA, Workbench, row, table

from sluice.config.limits import Limits
from sluice.silver_keys import error_prefix
from sluice_aws.s3.objects import Objects
from sluice_spark.merge.by_arrow import attempt as by_arrow
from sluice_spark.merge.by_spark import attempt as by_spark


class Denied(Exception):
    pass


def denied(*given: Any, **more: Any) -> Any:
    raise Denied


@pytest.mark.parametrize("in_tasks", [False, pytest.param(True, marks=pytest.mark.whole)])
@COW
def test_what_another_attempt_set_aside_is_not_of_the_one_that_merged(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch, table_type: str, in_tasks: bool
) -> None:
    """A commit fails, the objects are pending again, the rule is mended: the same objects are the same batch."""
    strict = table("aside", table_type=table_type, limits=replace(Limits(), object_rows=1))
    bench.apply(strict, row("c", 1, 1))
    if in_tasks:
        bench.in_tasks()
    broken = bench.put_bytes(b"Obj\x01 cut off")
    items = [bench.put([row("c", 2, 2), row("c", 3, 3)], SCHEMA), bench.put([row("c", 4, 4)], SCHEMA), broken]
    with monkeypatch.context() as unwritable:
        unwritable.setattr(by_arrow, "commit", denied)
        unwritable.setattr(by_spark, "commit", denied)
        first = bench.manifest(strict, items)
        with pytest.raises(Denied):
            bench.merge_manifest(first, strict)
    assert bench.resolve(first, strict) is None
    wide = table("aside", table_type=table_type)
    second = bench.manifest(wide, items)
    assert second.batch == first.batch
    merged = bench.merge_manifest(second, wide)
    assert [id for (id,) in bench.rows(wide, "id")] == [1, 2, 3, 4]
    assert [error.object for error in merged.quarantined] == [broken.id.hash]

    bench.new_run()  # as a take-over finds it
    resolved = bench.resolve(second, wide)
    assert resolved is not None and resolved.quarantined == merged.quarantined


def test_a_commit_of_a_release_without_names_of_attempts_has_its_own_set_aside(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table("before")
    broken = bench.put_bytes(b"Obj\x01 cut off")
    manifest = bench.manifest(config, [bench.put([row("c", 1, 1)], SCHEMA), broken])
    merged = bench.merge_manifest(manifest, config)
    prefix, objects = error_prefix(manifest.batch, config.table), Objects(bench.s3)
    for key in list(objects.keys(bench.silver, prefix)):  # as that release leaves it
        document = objects.get(bench.silver, key)
        assert document is not None
        objects.put(bench.silver, prefix + key.rpartition("/")[2], document.data)
    (commit,) = (bench.local_path(config) / ".hoodie").glob("*.commit")
    text = commit.read_text()
    assert '"sluice.attempt"' in text
    commit.write_text(text.replace('"sluice.attempt"', '"sluice.no_name_"'))
    (commit.parent / f".{commit.name}.crc").unlink(missing_ok=True)
    bench.new_run()
    resolved = bench.resolve(manifest, config)
    assert resolved is not None and resolved.quarantined == merged.quarantined
