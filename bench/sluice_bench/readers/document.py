"""Writes docs/evidence/readers.md from docs/evidence/readers.json: which reader sees what in whose tables.

python -m sluice_bench.readers.document
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EVIDENCE = Path(__file__).resolve().parents[3] / "docs" / "evidence"
RESULTS, DOCUMENT = EVIDENCE / "readers.json", EVIDENCE / "readers.md"
EQUAL = "equal"

Cell = Mapping[str, Any]


@dataclass(frozen=True)
class Explained:
    """Why a reader's results differ: patterns of its ways of reading, the tables and what it said; and the reason."""

    reader: str
    way: str
    table: str
    why: str
    reason: str
    always: bool = True  # False where a run may lack it

    def fits(self, cell: Cell) -> bool:
        """True for a cell that differs for this reason."""
        return all(
            re.search(pattern, str(cell[name]))
            for pattern, name in ((self.reader, "reader"), (self.way, "way"), (self.table, "table"), (self.why, "why"))
        )


EXPLAINED = (
    Explained(
        "Hudi",
        r"^input format(_ro)?$",
        "",
        "requested schema is not compatible|is not a group",
        "With a timestamp among the columns the input format reads by Avro, and asks for lists in another form than "
        "the three levels that Parquet defines and the files have. Without a timestamp it reads them. "
        "With `parquet.avro.write-old-list-structure` and `parquet.avro.add-list-element-records` false, 0.15.0 read "
        "an unpartitioned table, its timestamps to the millisecond, and mixed up the columns of partitioned ones.",
    ),
    Explained(
        r"Hudi 1\.",
        "^input format",
        "_parts_",
        "place, does not have a defined type",
        "From 1.0 on the input format looks for the partition column's type in a setting of Hive's that Spark doesn't "
        "make. Not tried in Hive itself.",
    ),
    Explained(
        r"Hudi 1\.",
        "^input format_rt$",
        "",
        "TimestampWritable cannot be cast",
        "From 1.0 on the input format hands out timestamps. The catalog declares those of `_rt` tables as numbers, "
        "which Athena's reader needs.",
    ),
    Explained(
        r"Hudi 1\.[12]",
        r"^input format(_ro)?$",
        "",
        "rows; at$",
        "From 1.1 on the input format cuts timestamps to milliseconds.",
    ),
    Explained(
        r"Hudi 1\.[12]",
        "^input format_r",
        "mor_parts_",
        "Cannot inspect .*NullWritable",
        "From 1.1 on the input format hands out nulls in a form that the Hive classes in Spark refuse, where base "
        "files were compacted. Not looked into further.",
    ),
    Explained(
        r"Hudi 1\.2",
        "^input format_rt$",
        "",
        "field offset on a hidden class",
        "Seen once: Hudi measures an object by JOL, which Java 17 refused. Its other such readings end as the line for "
        "timestamps says.",
        always=False,
    ),
)

_HEAD = """# Readers

Results of `make readers`. The job's own code writes the same changes into tables of version 6 with each release of
Hudi that it is tested on, and every reader is asked for all rows and columns, deleted ones included. The changes are
loads, updates, a late change, deletions and moves between partitions; then a column is added whose files are those of
one partition alone (`added`), or an int becomes a long as well (`widened`). Columns are numbers, text, decimals,
timestamps, dates and lists. Small parts are merged by Arrow, those named `spark` in Spark's tasks. Merge-on-read
tables (`mor`) have pending logs, but those named `compaction`; one has a record index, and one a history table.
Expected rows are computed from the changes. Made from [readers.json](readers.json). Don't edit by hand.

Hudi 0.14.0 is that of Athena's default reader, here with Spark 3.4.4; all others run in Spark 3.5.8. `data source` is
Spark's reader of Hudi. `input format` is Hudi's for Hive, in a table as the catalog declares it, read by the Hive
classes in Spark: Hive and old Presto read so. `_rt` is the merged table of a merge-on-read one, and `_ro` its base
files, read where all logs are compacted. Athena, Trino and Redshift were not tried. DuckDB reads no Hudi table itself;
`sluice query` hands it what hudi-rs reads.
"""


def cells() -> list[Cell]:
    """The kept results."""
    return list(json.loads(RESULTS.read_text(encoding="utf-8")))


def explained(cell: Cell) -> Explained | None:
    """The first reason that fits a cell."""
    return next((reason for reason in EXPLAINED if reason.fits(cell)), None)


def text(results: Iterable[Cell]) -> str:
    """The document from the kept results."""
    results = list(results)
    writers = sorted({cell["writer"] for cell in results})
    ways = list(dict.fromkeys((cell["reader"], cell["way"]) for cell in results))
    equal = sum(cell["result"] == EQUAL for cell in results)
    lines = [
        _HEAD,
        f"**{equal} of {len(results)} readings are equal** to the expected rows.",
        "",
        f"| reader | way | {' | '.join(f'tables by Hudi {writer}, equal' for writer in writers)} |",
        "|---|---|" + "---:|" * len(writers),
    ]
    for reader, way in ways:
        counted = [
            [cell for cell in results if (cell["reader"], cell["way"], cell["writer"]) == (reader, way, writer)]
            for writer in writers
        ]
        numbers = [f"{len(cells)}, {sum(cell['result'] == EQUAL for cell in cells)}" for cells in counted]
        lines.append(f"| {reader} | {way} | {' | '.join(numbers)} |")
    return "\n".join([*lines, "", "## What differs", "", *_differences(results)])


def _differences(results: Iterable[Cell]) -> Iterable[str]:
    yield "| reader | way | tables | what | why |"
    yield "|---|---|---|---|---|"
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in results:
        if cell["result"] != EQUAL:
            groups.setdefault((cell["way"], explained(cell) or cell["why"], cell["result"]), []).append(cell)
    for (way, reason, result), cells in groups.items():
        readers = ", ".join(dict.fromkeys(cell["reader"] for cell in cells))
        tables = ", ".join(f"`{name}`" for name in dict.fromkeys(cell["table"] for cell in cells))
        why = reason.reason if isinstance(reason, Explained) else f"**not explained**: {reason}"
        yield f"| {readers} | {way} | {tables} | {result} | {why} |"


def write_document() -> None:
    """Write the document."""
    DOCUMENT.write_text(text(cells()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_document()
