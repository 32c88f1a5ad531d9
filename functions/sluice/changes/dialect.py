"""Where a record of a change holds its rows and the metadata of its source.

Debezium's envelope holds both inside; every other record is itself the row, with the metadata beside its columns. What
reads records asks the dialect of their schema (`sluice.schema.avro.WriterSchema.dialect`), so that another form of
changes is another value here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ChangeDialect:
    """`sides` are the fields with the row after a change and with the one before it; None where the record is the row.

    `source` is the field with the metadata of the source; None where they are fields of the record.
    """

    sides: tuple[str, str] | None = None
    source: str | None = None

    @property
    def holds_rows(self) -> bool:
        """Whether rows are fields of a record, and not the record itself."""
        return self.sides is not None

    def row(self, record: Mapping[str, Any]) -> Any:
        """The row after the change, else the one before it; None where the record holds neither."""
        if self.sides is None:
            return record
        after, before = self.sides
        row = record.get(after)
        return record.get(before) if row is None else row

    def before(self, record: Mapping[str, Any]) -> Any:
        """The row before the change; None where the record doesn't hold it."""
        return None if self.sides is None else record.get(self.sides[1])

    def rows(self, record: Any) -> tuple[Any, ...]:
        return (record,) if self.sides is None else tuple(row for side in self.sides if (row := record.get(side)))

    def metadata(self, record: Mapping[str, Any]) -> Any:
        """What holds the metadata of the source; None where an envelope lacks it."""
        return record if self.source is None else record.get(self.source)


ROWS = ChangeDialect()
ENVELOPES = ChangeDialect(("after", "before"), "source")
