"""What requests to the API may ask, and what its answers hold, as its description shows them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from sluice_read.reading import Shown

DEFAULT_ROWS = 100  # of a page
_MOMENT = "an instant of 17 digits, or a time with its zone"


class _Moments(BaseModel):
    """The moment of a row, and which columns are shown. A parameter that isn't listed is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    as_of: str | None = Field(None, description=f"The rows as they were: {_MOMENT}")
    column: tuple[str, ...] = Field((), description="Only this column; repeat it for more, in their order")
    with_deleted: bool = Field(False, description="Also rows that the source deleted, with the column `__deleted`")
    lineage: bool = Field(False, description="Also the columns `_sluice_*` and `_hoodie_*`")

    @property
    def shown(self) -> Shown:
        return Shown(with_deleted=self.with_deleted, lineage=self.lineage, columns=self.column or None)


class RowQuery(_Moments):
    """Which row, and how it is shown."""

    key: tuple[str, ...] = Field(
        min_length=1, description="The row's key; of several columns repeat it, in their order"
    )


class RowsQuery(_Moments):
    """Which rows of a table, and how they are shown."""

    since: str | None = Field(
        None, description=f"Only rows whose last change is after it, deleted ones included: {_MOMENT}"
    )
    until: str | None = Field(None, description=f"Only changes until it: {_MOMENT}")
    where: tuple[str, ...] = Field(
        (), description="`column:operator:value` (eq, ne, lt, le, gt, ge), `column:is:null`, `column:is:set`. All hold"
    )
    limit: int = Field(DEFAULT_ROWS, ge=1, description="Rows of a page")
    cursor: str | None = Field(None, max_length=16_384, description="`next` of the page before, the rest unchanged")


class TableNames(BaseModel):
    """The tables of the stack."""

    tables: list[str]


class ColumnDetails(BaseModel):
    """One column: its Arrow type."""

    name: str
    type: str
    nullable: bool


class _OfTable(BaseModel):
    """The table of an answer, and the instant that it is read as of."""

    table: str
    instant: str
    at: str


class TableDetails(_OfTable):
    """A table's columns and key, as of its newest commit."""

    key: list[str]
    columns: list[ColumnDetails]


class RowPage(_OfTable):
    """Rows in the order of their record keys as text, all as of one instant."""

    rows: list[dict[str, Any]]
    next: str | None = Field(description="The cursor of the next page, which is read as of the same instant")


class OneRow(_OfTable):
    """One row."""

    row: dict[str, Any]


class QueryAnswer(BaseModel):
    """The rows of a saved query, and the newest instant of each of its tables; `more` where rows are left out."""

    query: str
    instants: dict[str, str | None]
    rows: list[dict[str, Any]]
    more: bool


class Health(BaseModel):
    """The server answers, and reaches the silver bucket."""

    status: str
