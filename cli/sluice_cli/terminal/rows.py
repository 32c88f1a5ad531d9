"""Output of rows, batch by batch: a table, JSON lines, CSV or a Parquet file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sluice.errors import UsageError
from sluice_cli.errors import NotWritten, plain_reason
from sluice_cli.terminal.guard import escaped, exact_stdout
from sluice_cli.terminal.options import option
from sluice_cli.terminal.output import json_text, say, stderr_console
from sluice_cli.terminal.tables import print_table
from sluice_cli.terminal.words import counted

if TYPE_CHECKING:  # Arrow takes as long to load as all the rest
    import pyarrow as pa


TERMINAL_ROWS = 1000  # in a terminal; the other forms hold all rows
_CSV_SPECIAL = frozenset(',"\r\n')
# Cells that a spreadsheet evaluates (OWASP, CSV injection), unless they are a number.
_FORMULA, _NUMBER = re.compile(r"[=+\-@\t\r\n＝＋－＠]"), re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")

JsonLines = Annotated[bool, option("--json", "One JSON object per line.")]
WithDeleted = Annotated[
    bool, option("--with-deleted", "Also rows that the source deleted, with the column `__deleted`.")
]
Lineage = Annotated[bool, option("--lineage", "Also the origin of each row: the `_sluice_*` and `_hoodie_*` columns.")]
Csv = Annotated[bool, option("--csv", 'CSV with a header. NULL is an empty field, empty text is "".')]
Spreadsheet = Annotated[
    bool,
    option(
        "--spreadsheet",
        "CSV for a spreadsheet: text that begins like a formula gets a `'` in front, and control characters are "
        "escaped.",
    ),
]
Parquet = Annotated[
    Path | None, option("--parquet FILE", "Write a Parquet file instead, with the columns' types.", dir_okay=False)
]


@dataclass(frozen=True)
class Form:
    """The form of the output: one of these, or a table."""

    json_lines: bool = False
    csv: bool = False
    parquet: Path | None = None
    spreadsheet: bool = False

    def __post_init__(self) -> None:
        if self.json_lines + (self.csv or self.spreadsheet) + (self.parquet is not None) > 1:
            raise UsageError("--json, --csv and --parquet exclude each other", next_step="Give one of them")


def write_rows(reader: pa.RecordBatchReader, form: Form, *, whole_numbers: frozenset[int] = frozenset()) -> int:
    """Write all rows as they are read, one batch in memory at a time. Returns their number.

    A Parquet file gets its name when it is complete. `whole_numbers` are the columns whose decimals are integers too
    long for 64 bits. Raises NotWritten.
    """
    from sluice_read.values import column_names, rows_of

    names = column_names(reader.schema.names)
    if form.parquet is not None:
        return _write_parquet(reader, names, form.parquet)
    count = 0

    def counted_rows() -> Iterator[tuple[Any, ...]]:
        nonlocal count
        for batch in reader:
            for row in rows_of(batch, whole_numbers=whole_numbers):
                count += 1
                yield row

    rows = counted_rows()
    if form.json_lines:
        for row in rows:
            sys.stdout.write(json_text(dict(zip(names, row, strict=True))) + "\n")
    elif form.csv or form.spreadsheet:
        write_csv(names, rows, spreadsheet=form.spreadsheet)
    else:
        _print_rows(names, rows)
    return count


def write_csv(names: Iterable[str], rows: Iterable[Iterable[Any]], *, spreadsheet: bool = False) -> None:
    """Write CSV by RFC 4180 with line feeds, values unescaped but in a terminal.

    NULL is an empty field and empty text a pair of quotes; the csv module can't tell them apart. With `spreadsheet` no
    cell is a formula, and control characters are escaped everywhere.
    """
    to = sys.stdout if spreadsheet else exact_stdout()
    for row in chain([names], rows):
        to.write(",".join(_csv_field(value, spreadsheet) for value in row) + "\n")


def _csv_field(value: Any, spreadsheet: bool) -> str:
    if value is None:
        return ""
    text = repr(value) if isinstance(value, float) else cell(value)
    if spreadsheet:
        text = escaped(f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text)
    return '"' + text.replace('"', '""') + '"' if not text or not _CSV_SPECIAL.isdisjoint(text) else text


def _print_rows(names: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
    limit = TERMINAL_ROWS if sys.stdout.isatty() else None
    print_table(names, (tuple(map(cell, row)) for row in islice(rows, limit)), whole=True)
    if limit is not None and next(rows, None) is not None:
        say(f"Only the first {limit:,} rows are shown. --json, --csv and --parquet give all of them")


def cell(value: Any) -> str:
    """The text of a value in a table."""
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _write_parquet(reader: pa.RecordBatchReader, names: tuple[str, ...], file: Path) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    NotWritten.refuse_other_than(file)
    part = file.with_name(f"{file.name}.part")
    schema = pa.schema(
        [item.with_name(name) for item, name in zip(reader.schema, names, strict=True)], metadata=reader.schema.metadata
    )
    count = 0
    try:
        with pq.ParquetWriter(part, schema, compression="zstd") as writer, stderr_console().status("Writing") as status:
            for batch in reader:
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
                count += batch.num_rows
                status.update(f"{counted(count, 'row')} written")
        part.replace(file)
    except OSError as error:
        raise NotWritten(f"{file} can't be written: {plain_reason(error)}", file=str(file)) from error
    finally:
        part.unlink(missing_ok=True)
    return count
