"""Answers that are no success: problem details (RFC 9457) in our own words, each with a code of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any
from uuid import uuid4

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from airflow_rankguard.guard.database import RowLocked
from airflow_rankguard.guard.errors import BadKey, DatabaseUnavailable, NotCreated, SchemaError, StartUnknown

log = logging.getLogger(__name__)

Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]

MEDIA_TYPE = "application/problem+json"
PROBLEMS: dict[str, tuple[HTTPStatus, str]] = {
    "not-logged-in": (HTTPStatus.UNAUTHORIZED, "You are not logged in"),
    "forbidden": (HTTPStatus.FORBIDDEN, "You may not do this"),
    "not-from-this-site": (HTTPStatus.FORBIDDEN, "The request does not come from this site"),
    "not-found": (HTTPStatus.NOT_FOUND, "There is none"),
    "method-not-allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "The method is not allowed"),
    "holder-alive": (HTTPStatus.CONFLICT, "The holder is alive"),
    "holder-foreign": (HTTPStatus.CONFLICT, "The holder belongs to another deployment"),
    "not-held": (HTTPStatus.CONFLICT, "The run does not hold its key"),
    "bad-request": (HTTPStatus.UNPROCESSABLE_ENTITY, "The request is not understood"),
    "bad-key": (HTTPStatus.UNPROCESSABLE_ENTITY, "The key names nothing"),
    "not-created": (HTTPStatus.UNPROCESSABLE_ENTITY, "Airflow refused to create the run"),
    "no-connection": (HTTPStatus.SERVICE_UNAVAILABLE, "There is no connection to the guard database"),
    "bad-connection": (HTTPStatus.SERVICE_UNAVAILABLE, "The guard cannot use its connection"),
    "database-unavailable": (HTTPStatus.SERVICE_UNAVAILABLE, "The guard database is unavailable"),
    "row-locked": (HTTPStatus.SERVICE_UNAVAILABLE, "The run is being changed"),
    "schema-wrong": (HTTPStatus.SERVICE_UNAVAILABLE, "The guard's tables are not right"),
    "contended": (HTTPStatus.SERVICE_UNAVAILABLE, "The key is contended"),
    "start-unknown": (HTTPStatus.SERVICE_UNAVAILABLE, "Whether the run was created is not known"),
    "unexpected": (HTTPStatus.INTERNAL_SERVER_ERROR, "Something unexpected happened"),
}
OF_STATUS = {
    HTTPStatus.UNAUTHORIZED: "not-logged-in",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.NOT_FOUND: "not-found",
    HTTPStatus.METHOD_NOT_ALLOWED: "method-not-allowed",
}


class Problem(Exception):
    """What a caller is told instead of what it asked for.

    :param code: one of ``PROBLEMS``.
    :param detail: a sentence for people, with no secret in it.
    :param more: further members of the answer.
    """

    def __init__(self, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.code, self.detail, self.more = code, detail, more

    def answer(self) -> JSONResponse:
        """The answer that says it."""
        status, title = PROBLEMS[self.code]
        content = {
            "type": f"urn:rankguard:problem:{self.code}",
            "title": title,
            "status": status,
            "detail": self.detail,
            "code": self.code,
            **self.more,
        }
        return JSONResponse(content, status_code=status.value, media_type=MEDIA_TYPE)


def bad_request(where: str, what: str) -> Problem:
    """The problem of a request that has one thing wrong."""
    return Problem("bad-request", f"{where}: {what}", errors=[{"where": where, "what": what}])


async def _said(_: Request, problem: Problem) -> JSONResponse:
    return problem.answer()


async def _of_http(request: Request, error: HTTPException) -> JSONResponse:
    if error.status_code == HTTPStatus.BAD_REQUEST:
        return bad_request("body", str(error.detail)).answer()
    code = OF_STATUS.get(HTTPStatus(error.status_code))
    if code is None:
        return await _unexpected(request, error)
    answer = Problem(code, str(error.detail)).answer()
    answer.headers.update(error.headers or {})
    return answer


async def _of_validation(_: Request, error: RequestValidationError) -> JSONResponse:
    wrong = [{"where": ".".join(map(str, one["loc"])), "what": one["msg"]} for one in error.errors()]
    return Problem("bad-request", "; ".join(f"{one['where']}: {one['what']}" for one in wrong), errors=wrong).answer()


def _own_words(code: str) -> Handler:
    """The guard's sentence is for the caller: it names the key, the run, and what Airflow said about the request."""

    async def answer(_: Request, error: Exception) -> JSONResponse:
        return Problem(code, str(error)).answer()

    return answer


def _logged(code: str, detail: str) -> Handler:
    """The error's sentence may quote a driver, with addresses and names in it: it is for the log alone."""

    async def answer(_: Request, error: Exception) -> JSONResponse:
        log.warning("Rank Guard's API answered %s: %s", code, error)
        return Problem(code, detail).answer()

    return answer


async def _unexpected(_: Request, error: Exception) -> JSONResponse:
    name = str(uuid4())
    log.error("Rank Guard's API met an unexpected error, %s.", name, exc_info=error)
    return Problem("unexpected", f"The API server's log says more, under {name}.", id=name).answer()


HANDLERS: dict[int | type[Exception], Handler] = {
    Problem: _said,
    HTTPException: _of_http,
    RequestValidationError: _of_validation,
    BadKey: _own_words("bad-key"),
    NotCreated: _own_words("not-created"),
    StartUnknown: _logged(
        "start-unknown", "Whether the run was created is not known. Try again with the same run_id: that finds out."
    ),
    RowLocked: _logged("row-locked", "Another transaction holds the run. Nothing was changed; try again."),
    DatabaseUnavailable: _logged(
        "database-unavailable", "The guard database cannot be reached or written. Nothing was changed; try again later."
    ),
    SchemaError: _logged(
        "schema-wrong",
        "The guard's tables are missing, of another version, or without the index that is the lock."
        " `rankguard db check` says which, and what mends it.",
    ),
    Exception: _unexpected,
}
