"""Errors as `application/problem+json` (RFC 9457), with Sluice's code and next step."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from sluice.errors import NoTarget, SluiceError, UsageError
from sluice_read import errors
from sluice_read.silver import aws_call_failed

MEDIA_TYPE = "application/problem+json"
_STATUS: dict[type[SluiceError], HTTPStatus] = {
    errors.UnknownPath: HTTPStatus.NOT_FOUND,
    errors.ReadOnly: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.UnknownTable: HTTPStatus.NOT_FOUND,
    errors.NoCommit: HTTPStatus.NOT_FOUND,
    errors.NoRow: HTTPStatus.NOT_FOUND,
    errors.NotRetained: HTTPStatus.GONE,
    errors.UnsettledMoment: HTTPStatus.CONFLICT,
    errors.PageTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.ServerBusy: HTTPStatus.SERVICE_UNAVAILABLE,
    errors.TookTooLong: HTTPStatus.GATEWAY_TIMEOUT,
    NoTarget: HTTPStatus.BAD_GATEWAY,
    errors.NoToken: HTTPStatus.UNAUTHORIZED,
}
_RETRY_AFTER_S = 5
_log = logging.getLogger(__name__)


class Problem(BaseModel):
    """What went wrong, and what to do next."""

    type: str = Field(description="`urn:sluice:error:` and the code; the page on errors lists all codes")
    title: str
    status: int
    detail: str
    code: str
    next_step: str
    facts: dict[str, Any] = Field(default_factory=dict)


def problem_of(error: SluiceError) -> Problem:
    """Describe an error. What the request caused is 4xx, anything else 5xx."""
    mapped = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), None)
    status = mapped or (HTTPStatus.BAD_REQUEST if isinstance(error, UsageError) else HTTPStatus.INTERNAL_SERVER_ERROR)
    return _problem(error.code, status, error.message, error.next_step, error.facts)


def answered(problem: Problem) -> Response:
    """The response of a problem."""
    body = json.dumps(problem.model_dump(), ensure_ascii=False, default=str).encode()
    headers = {"Cache-Control": "no-store"}
    if problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(_RETRY_AFTER_S)
    return Response(body, status_code=problem.status, media_type=MEDIA_TYPE, headers=headers)


def answer_problems(app: FastAPI) -> None:
    """Have an application answer every error as a problem."""

    async def expected(request: Request, error: Exception) -> Response:
        assert isinstance(error, SluiceError)
        return answered(problem_of(error))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        mistakes = [{"parameter": ".".join(map(str, one["loc"][1:])), "mistake": one["msg"]} for one in error.errors()]
        detail = "; ".join(f"{one['parameter']}: {one['mistake']}" for one in mistakes)
        return answered(problem_of(errors.InvalidParameters(detail)))

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        kinds = {HTTPStatus.NOT_FOUND: errors.UnknownPath, HTTPStatus.METHOD_NOT_ALLOWED: errors.ReadOnly}
        kind = kinds.get(HTTPStatus(error.status_code), errors.InvalidParameters)
        return answered(problem_of(kind(str(error.detail))))

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, (BotoCoreError, ClientError))
        failure = aws_call_failed(error)
        _log.error("%s failed: %s", request.url.path, failure)
        # The message names roles and addresses, which concern the operator alone.
        step = "The server's log on stderr has the reason and the next step"
        return answered(_problem(failure.code, HTTPStatus.BAD_GATEWAY, "AWS refused, or didn't answer", step, {}))

    async def unexpected(request: Request, error: Exception) -> Response:
        _log.error("%s failed", request.url.path, exc_info=error)
        return answered(problem_of(errors.Unexpected(f"Unexpected: {type(error).__name__}")))

    app.add_exception_handler(SluiceError, expected)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(BotoCoreError, failed)
    app.add_exception_handler(ClientError, failed)
    app.add_exception_handler(Exception, unexpected)


def _problem(code: str, status: HTTPStatus, detail: str, next_step: str, facts: dict[str, Any]) -> Problem:
    return Problem(
        type=f"urn:sluice:error:{code}",
        title=status.phrase,
        status=status,
        detail=detail,
        code=code,
        next_step=next_step,
        facts=facts,
    )
