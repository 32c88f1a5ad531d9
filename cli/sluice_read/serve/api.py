"""The HTTP API: tables, their columns, and pages of their rows, by key or condition, now, as of or since a moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import BoundedSemaphore
from typing import Annotated, Any, Protocol

from fastapi import FastAPI, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sluice_read.diff import key_columns
from sluice_read.errors import NoRow, ServerBusy
from sluice_read.moments import Span, moment_of, span_of
from sluice_read.place import SilverPlace, find_table, tables_in
from sluice_read.reading import Shown, SilverTable, open_table
from sluice_read.serve.answers import Answer, AnswerCache
from sluice_read.serve.pages import Cursor, PageLimits, RowCondition, RowsAsked, read_page
from sluice_read.serve.problems import MEDIA_TYPE, Problem, answer_problems

DEFAULT_ROWS = 100
# Each answer says so itself: a shared cache keeps nothing, a browser asks whether its copy is still right.
_CACHING = "private, no-cache"
_MOMENT = "an instant of 17 digits, or a time with its zone"

TableName = Annotated[str, Path(description="database.table; of a merge-on-read table also with _ro or _rt")]
IfNoneMatch = Annotated[str | None, Header(description="The ETag of an answer that the client has")]


@dataclass(frozen=True)
class ServeLimits:
    """Limits of a server: rows of a page, tables read at once, answers kept and their bytes, and those of each page."""

    max_rows: int = 10_000
    at_once: int = 4
    cached_bytes: int = 64 * 1024**2
    cached_answers: int = 10_000  # of about half a KiB each besides their bytes
    page: PageLimits = field(default_factory=PageLimits)


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
        (),
        description="`column:operator:value` (eq, ne, lt, le, gt, ge), `column:is:null`, `column:is:set`. All hold",
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


class TableDetails(BaseModel):
    """A table's columns and key, as of its newest commit."""

    table: str
    instant: str
    at: str
    key: list[str]
    columns: list[ColumnDetails]


class RowPage(BaseModel):
    """Rows in the order of their record keys as text, all as of one instant."""

    table: str
    instant: str
    at: str
    rows: list[dict[str, Any]]
    next: str | None = Field(description="The cursor of the next page, which is read as of the same instant")


class OneRow(BaseModel):
    """One row."""

    table: str
    instant: str
    at: str
    row: dict[str, Any]


class _Read(Protocol):
    def __call__(self, opened: SilverTable) -> bytes: ...


class Tables:
    """Answers about the tables of a place."""

    def __init__(self, place: SilverPlace, limits: ServeLimits) -> None:
        self._place, self._limits = place, limits
        self._cache = AnswerCache(limits.cached_bytes, limits.cached_answers)
        self._reading = BoundedSemaphore(limits.at_once)

    def names(self) -> TableNames:
        """List the tables."""
        return TableNames(tables=list(tables_in(self._place)))

    def details(self, request: Request, table: TableName, if_none_match: IfNoneMatch = None) -> Response:
        """Show a table's columns and key."""
        return self._answer(request, table, Span(), if_none_match, _details)

    def row(
        self, request: Request, table: TableName, query: Annotated[RowQuery, Query()], if_none_match: IfNoneMatch = None
    ) -> Response:
        """Find one row by its key."""

        def read(opened: SilverTable) -> bytes:
            page = read_page(opened, RowsAsked(1, query.shown, key=query.key), self._limits.page)
            if not page.rows:
                raise NoRow(
                    f"{opened.table} has no row {', '.join(query.key)}",
                    table=opened.table,
                    key=list(query.key),
                    next_step=f"Its key is {', '.join(key_columns(opened))}; `with_deleted` shows deleted rows",
                )
            return _body(opened, row=_Raw(page.rows[0]))

        return self._answer(request, table, span_of(as_of=query.as_of), if_none_match, read)

    def rows(
        self,
        request: Request,
        table: TableName,
        query: Annotated[RowsQuery, Query()],
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """Read a page of rows."""
        span = span_of(as_of=query.as_of, since=query.since, until=query.until)
        cursor = None if query.cursor is None else Cursor.of(query.cursor)
        rows = RowsAsked(
            limit=min(query.limit, self._limits.max_rows),
            shown=query.shown,
            conditions=tuple(map(RowCondition.of, query.where)),
            after=cursor,
        )

        def read(opened: SilverTable) -> bytes:
            page = read_page(opened, rows, self._limits.page)
            following = None if page.following is None else page.following.text
            return _body(opened, rows=_Raw(f"[{','.join(page.rows)}]"), next=following)

        pinned = span if cursor is None else replace(span, as_of=cursor.instant)
        return self._answer(request, table, pinned, if_none_match, read)

    def _answer(self, request: Request, name: str, span: Span, etag: str | None, read: _Read) -> Response:
        """Answer from the cache where the table has no newer instant, else by reading it."""
        folder, view = find_table(self._place, name)
        question = (folder.table, view, request.url.path, request.url.query)
        newest = folder.timeline().newest_change
        if newest is not None:
            if _matches(etag, newest.time):
                return Response(status_code=304, headers=_headers(newest.time))
            cached = self._cache.get(question, newest.time)
            if cached is not None:
                return _response(cached)
        with self._one_of_few():
            opened = open_table(self._place, name, span=span)
            seen = opened.listing.timeline.newest_change
            answer = Answer(opened.listing.newest_until(None) if seen is None else seen.time, read(opened))
        self._cache.keep(question, answer)
        return _response(answer)

    @contextmanager
    def _one_of_few(self) -> Iterator[None]:
        if not self._reading.acquire(timeout=self._limits.page.seconds):
            raise ServerBusy(f"{self._limits.at_once} tables are being read")
        try:
            yield
        finally:
            self._reading.release()


def api(
    place: SilverPlace, limits: ServeLimits | None = None, *, hosts: tuple[str, ...] = ("*",), page: bool = True
) -> FastAPI:
    """The ASGI application over the tables of a place.

    `hosts` are the names that a request may give the server: a page of another site that has its own name resolve to
    this machine gets no answer. `page` offers Swagger UI at `/docs`, whose script the browser loads from a public CDN.
    """
    app = FastAPI(
        title="Sluice",
        summary="Silver tables, read only",
        version="1",
        docs_url="/docs" if page else None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    answer_problems(app)
    tables = Tables(place, limits or ServeLimits())
    problem = {"model": Problem, "content": {MEDIA_TYPE: {}}}
    problems: dict[int | str, dict[str, Any]] = {status: problem for status in (400, 404, 409, 410, 502, 503, 504)}
    unchanged: dict[int | str, dict[str, Any]] = {304: {"description": "The table has not changed"}}
    app.add_api_route("/tables", tables.names)
    for path, endpoint, model in (
        ("/tables/{table}", tables.details, TableDetails),
        ("/tables/{table}/rows", tables.rows, RowPage),
        ("/tables/{table}/row", tables.row, OneRow),
    ):
        app.add_api_route(path, endpoint, response_model=model, responses={**unchanged, **problems})
    return app


class _Raw(str):
    """JSON that is written as it is."""


def _body(opened: SilverTable, **rest: Any) -> bytes:
    members = {
        "table": f"{opened.table}{opened.view}",
        "instant": opened.instant,
        "at": moment_of(opened.instant),
        **rest,
    }
    texts = (
        f"{json.dumps(name)}:{value if isinstance(value, _Raw) else json.dumps(value, ensure_ascii=False)}"
        for name, value in members.items()
    )
    return f"{{{','.join(texts)}}}".encode()


def _details(opened: SilverTable) -> bytes:
    columns = [{"name": item.name, "type": str(item.type), "nullable": item.nullable} for item in opened.schema()]
    return _body(opened, key=list(key_columns(opened)), columns=columns)


def _response(answer: Answer) -> Response:
    return Response(answer.body, media_type="application/json", headers=_headers(answer.newest))


def _headers(newest: str) -> dict[str, str]:
    return {"ETag": f'"{newest}"', "Cache-Control": _CACHING, "X-Content-Type-Options": "nosniff"}


def _matches(etag: str | None, newest: str) -> bool:
    """Whether `If-None-Match` names the newest instant."""
    return etag is not None and any(item.strip().removeprefix("W/") == f'"{newest}"' for item in etag.split(","))
