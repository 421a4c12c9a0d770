"""The FastAPI app that Airflow's API server serves below ``rankguard/``; Airflow asks for no login there, it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response

from airflow_rankguard.api import forcing, reading, starting
from airflow_rankguard.api.models import ProblemDetails
from airflow_rankguard.api.problems import HANDLERS, MEDIA_TYPE, PROBLEMS, Problem
from airflow_rankguard.api.security import logged_in, sent_from_here

STATIC = Path(__file__).with_name("static")
MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}

router = APIRouter(include_in_schema=False)


def create_app() -> FastAPI:
    """Make the app."""
    app = FastAPI(
        title="Rank Guard",
        summary="Who holds which key, who waits and who was refused; freeing a key, and starting under one.",
        version="1",
        openapi_url=None,  # nor any docs then, which would be open to anybody
        redirect_slashes=False,  # which would answer anybody, and with an address out of the request's own header
        dependencies=[Depends(logged_in), Depends(sent_from_here)],
        exception_handlers=HANDLERS,
        responses=_described(),
    )
    for part in (reading.router, forcing.router, starting.router, router):
        app.include_router(part)
    return app


def _described() -> dict[int | str, dict[str, Any]]:
    """Say in the OpenAPI document what a problem looks like."""
    codes: dict[int, list[str]] = {}
    for code, (status, _) in PROBLEMS.items():
        codes.setdefault(status, []).append(code)
    schema = ProblemDetails.model_json_schema()
    return {
        int(status): {"description": ", ".join(names), "content": {MEDIA_TYPE: {"schema": schema}}}
        for status, names in codes.items()
    }


@router.get("/openapi.json")
def openapi(request: Request) -> dict[str, Any]:
    """Describe the app to a machine."""
    app: FastAPI = request.app
    return {**app.openapi(), "servers": [{"url": request.scope.get("root_path", "")}]}


@router.get("/static/{name}")
def static(name: str) -> Response:
    """A file of the page, always whole: who asks for a part of it gets what it is a part of."""
    # Not by asking for the name: one that is too long for a file system is an error there.
    file = next((file for file in STATIC.iterdir() if file.name == name), None)
    if file is None or file.suffix not in MEDIA_TYPES:
        raise Problem("not-found", "There is no such file.")
    return Response(file.read_bytes(), media_type=MEDIA_TYPES[file.suffix], headers={"Cache-Control": "no-cache"})
