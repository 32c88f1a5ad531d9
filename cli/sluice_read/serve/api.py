"""The HTTP API: tables, their columns, pages of their rows, by key or condition, at a moment, and saved queries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import BoundedSemaphore
from typing import Annotated, Any, Protocol

from fastapi import FastAPI, Header, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.middleware.trustedhost import TrustedHostMiddleware

from sluice.hudi.timeline import COMPACTION, Timeline, instant_ms
from sluice_read.diff import key_columns
from sluice_read.errors import InvalidParameters, NoRow, ServerBusy
from sluice_read.moments import Span, moment_of, span_of
from sluice_read.place import READ_OPTIMIZED, SilverPlace, TableFolder, files_of, find_table, tables_in
from sluice_read.reading import SilverTable, open_table
from sluice_read.serve.access import OPEN, BearerToken
from sluice_read.serve.answers import Answer, AnswerCache
from sluice_read.serve.metrics import MEDIA_TYPE as METRICS_TYPE
from sluice_read.serve.metrics import RequestMetrics
from sluice_read.serve.models import Health, OneRow, QueryAnswer, RowPage, RowQuery, RowsQuery, TableDetails, TableNames
from sluice_read.serve.pages import Cursor, PageLimits, RowCondition, RowsAsked, read_page
from sluice_read.serve.problems import MEDIA_TYPE, Problem, answer_problems
from sluice_read.serve.queries import SavedQuery, answer_query

_NAMES_KEPT = 1_000
# Each answer says so itself: a shared cache keeps nothing, a browser asks whether its copy is still right.
_CACHING = "private, no-cache"

TableName = Annotated[str, Path(description="database.table; of a merge-on-read table also with _ro or _rt")]
IfNoneMatch = Annotated[str | None, Header(description="The ETag of an answer that the client has")]


@dataclass(frozen=True)
class ServeLimits:
    """Limits of a server: rows of a page, tables read at once, answers kept and their bytes, and those of each page.

    `fresh_s`: for how many seconds a table's newest instant counts without another look; 0 looks at each request.
    """

    max_rows: int = 10_000
    at_once: int = 4
    cached_bytes: int = 64 * 1024**2
    cached_answers: int = 10_000  # of about half a KiB each besides their bytes
    fresh_s: float = 0
    page: PageLimits = field(default_factory=PageLimits)


class _Read(Protocol):
    def __call__(self, opened: SilverTable) -> bytes: ...


class Tables:
    """Answers about the tables of a place."""

    def __init__(self, place: SilverPlace, limits: ServeLimits) -> None:
        self._place, self._limits = place, limits
        self._cache = AnswerCache(limits.cached_bytes, limits.cached_answers)
        self._reading = BoundedSemaphore(limits.at_once)
        self._seen: dict[str, tuple[float, str | None]] = {}  # by table, when and what its newest instant was
        self._folders: dict[str, tuple[float, tuple[TableFolder, str]]] = {}  # by the name in a request
        self.metrics = RequestMetrics()

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

    def query(self, saved: SavedQuery, request: Request, if_none_match: IfNoneMatch = None) -> Response:
        """Answer a saved query."""
        pairs = [*request.path_params.items(), *request.query_params.multi_items()]
        given = dict(pairs)
        if sorted(name for name, _ in pairs) != sorted(saved.parameters):
            wanted = ", ".join(saved.parameters) or "none"
            raise InvalidParameters(f"{saved.name} takes each of these parameters once: {wanted}")
        places = [self._table(table) for table in saved.tables]
        folders = [folder for folder, _ in places]
        question = ("query", saved.name, *(given[name] for name in saved.parameters))

        def read() -> Answer:
            instants = {folder.table: self._newest(folder, at_once=True) for folder in folders}
            # Before the rows: they may lack what a compaction that ends meanwhile brings.
            late = any(_awaits_compaction(folder.timeline(), view) for folder, view in places if view)
            limit, limits = self._limits.max_rows, self._limits.page
            rows = answer_query(self._place, saved, given, rows=limit, limits=limits)
            members = {"query": saved.name, "instants": instants, "rows": _Raw(f"[{','.join(rows.rows)}]")}
            return Answer("" if late else _joined(instants.values()), _members(**members, more=rows.cut))

        return self._from_memory(question, folders, if_none_match, read)

    def health(self) -> Health:
        """Say whether the server lives and reaches the silver bucket."""
        next(files_of(self._place).folders(""), None)
        return Health(status="ok")

    def exposition(self) -> Response:
        """The server's metrics for Prometheus."""
        newest = {table: instant_ms(instant) / 1000 for table, (_, instant) in dict(self._seen).items() if instant}
        gauges = {
            "sluice_serve_table_newest_seconds": ("Unix time of the newest commit of tables that were asked", newest)
        }
        return Response(self.metrics.text(gauges), media_type=METRICS_TYPE)

    def _answer(self, request: Request, name: str, span: Span, etag: str | None, read: _Read) -> Response:
        """Answer from the cache where the table has no newer instant, else by reading it."""
        folder, view = self._table(name)

        def opening() -> Answer:
            opened = open_table(self._place, name, span=span)
            timeline = opened.listing.timeline
            seen = timeline.newest_change
            newest = opened.listing.newest_until(None) if seen is None else seen.time
            return Answer("" if _awaits_compaction(timeline, view) else newest, read(opened))

        question = (folder.table, view, request.url.path, request.url.query)
        return self._from_memory(question, [folder], etag, opening)

    def _from_memory(
        self, question: tuple[str, ...], folders: Sequence[TableFolder], etag: str | None, read: Callable[[], Answer]
    ) -> Response:
        newest = _joined(self._newest(folder) for folder in folders)
        if newest:
            if _matches(etag, newest):
                self.metrics.count_answer("unchanged")
                return Response(status_code=304, headers=_headers(newest))
            cached = self._cache.get(question, newest)
            if cached is not None:
                self.metrics.count_answer("memory")
                return _response(cached)
        with self._one_of_few():
            answer = read()
        if answer.newest:
            self._cache.keep(question, answer)
        self.metrics.count_answer("read")
        return _response(answer)

    def _table(self, name: str) -> tuple[TableFolder, str]:
        """The folder and view that a name chooses, as `find_table` found it at most `fresh_s` ago."""
        now = time.monotonic()
        place = self._folders.get(name)
        if place is None or now - place[0] >= self._limits.fresh_s:
            if len(self._folders) >= _NAMES_KEPT:  # a name may be spelled in many ways
                self._folders.clear()
            if place is not None and self._limits.fresh_s:
                self._folders[name] = (now, place[1])
            self._folders[name] = place = (now, find_table(self._place, name))
        return place[1]

    def _newest(self, folder: TableFolder, *, at_once: bool = False) -> str | None:
        """The newest completed instant of a table, as it was at most `fresh_s` ago, or `at_once`.

        While one request looks at the table again, others go on with the instant before: a burst looks once.
        """
        now = time.monotonic()
        seen_at, instant = self._seen.get(folder.table, (float("-inf"), None))
        if at_once or now - seen_at >= self._limits.fresh_s:
            if instant is not None and self._limits.fresh_s:
                self._seen[folder.table] = (now, instant)
            change = folder.timeline().newest_change
            instant = None if change is None else change.time
            self._seen[folder.table] = (now, instant)
        return instant

    @contextmanager
    def _one_of_few(self) -> Iterator[None]:
        if not self._reading.acquire(timeout=self._limits.page.seconds):
            raise ServerBusy(f"{self._limits.at_once} tables are being read")
        try:
            yield
        finally:
            self._reading.release()


def api(
    place: SilverPlace,
    limits: ServeLimits | None = None,
    *,
    hosts: tuple[str, ...] = ("*",),
    page: bool = True,
    queries: Sequence[SavedQuery] = (),
    token: str | None = None,
) -> FastAPI:
    """The ASGI application over the tables of a place.

    `hosts` are the names that a request may give the server: a page of another site that has its own name resolve to
    this machine gets no answer. `page` offers Swagger UI at `/docs`, whose script the browser loads from a public CDN.
    Requests but those of `/health` must carry the `token`, if there is one.
    """
    app = FastAPI(
        title="Sluice",
        summary="Silver tables, read only",
        version="1",
        docs_url="/docs" if page else None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    tables = Tables(place, limits or ServeLimits())
    if token is not None:
        app.add_middleware(BearerToken, token=token)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_middleware(tables.metrics.around)
    answer_problems(app)
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
    app.add_api_route("/health", tables.health)
    app.add_api_route("/metrics", tables.exposition, response_class=PlainTextResponse)
    for saved in queries:
        _add_query(app, tables, saved, {**unchanged, **problems})
    if token is not None:
        _document_token(app)
    return app


def _add_query(app: FastAPI, tables: Tables, saved: SavedQuery, responses: dict[int | str, dict[str, Any]]) -> None:
    """Add the paths of a saved query; the first is documented."""

    def answer(request: Request, if_none_match: IfNoneMatch = None) -> Response:
        return tables.query(saved, request, if_none_match)

    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in saved.parameters
    ]
    for number, path in enumerate(saved.paths):
        app.add_api_route(
            path,
            answer,
            response_model=QueryAnswer,
            responses=responses,
            summary=saved.name.replace("_", " ").capitalize(),
            description=f"The SELECT of {saved.name}.sql, over {', '.join(saved.tables) or 'no table'}",
            name=saved.name,
            include_in_schema=number == 0,
            openapi_extra={"parameters": parameters},
        )


def _document_token(app: FastAPI) -> None:
    """Say in the OpenAPI document that requests carry a bearer token."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        document = plain()
        schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes["token"] = {"type": "http", "scheme": "bearer"}
        document["security"] = [{"token": []}]
        for path in OPEN:
            document["paths"][path]["get"]["security"] = []
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's own way to change the document


def _awaits_compaction(timeline: Timeline, view: str) -> bool:
    """Whether the base files alone may change without a newer instant: a compaction has that of its plan."""
    return view == READ_OPTIMIZED and any(item.action == COMPACTION for item in timeline.pending)


class _Raw(str):
    """JSON that is written as it is."""


def _joined(instants: Iterable[str | None]) -> str:
    """The newest instants of some tables as one text; "" where any of them has none."""
    listed = list(instants)
    return "-".join(map(str, listed)) if None not in listed else ""


def _body(opened: SilverTable, **rest: Any) -> bytes:
    head = {"table": f"{opened.table}{opened.view}", "instant": opened.instant, "at": moment_of(opened.instant)}
    return _members(**head, **rest)


def _members(**members: Any) -> bytes:
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
