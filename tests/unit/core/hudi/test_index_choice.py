"""The choice of a table's index."""

from sluice.config.table import TableConfig
from sluice.hudi.index_choice import RECORD_INDEX_ROWS, has_record_index, wants_record_index


def table(**settings) -> TableConfig:
    return TableConfig(
        **{"table": "db.t", "database": "db", "name": "t", "topic": "x", "record_key": ("id",), **settings}
    )


def test_the_record_index_starts_at_a_size_stays_and_excludes_purged_tables() -> None:
    many, few = RECORD_INDEX_ROWS, RECORD_INDEX_ROWS - 1
    assert [
        wants_record_index(table(), has=has, rows=rows)
        for has, rows in ((False, few), (False, None), (False, many), (True, few))
    ] == [False, False, True, True]
    assert wants_record_index(table(index="record"), has=False, rows=0) and not wants_record_index(
        table(index="simple"), has=True, rows=many
    )
    assert not any(
        wants_record_index(table(index=index, delete_mode="hard"), has=True, rows=many) for index in ("auto", "record")
    )
    assert [has_record_index(text) for text in (None, "", "files", "files,record_index")] == [False, False, False, True]
