"""What the routes that change something have in common."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute

from airflow_rankguard.api.security import HEADER, logged_in

DESCRIBED: dict[str, Any] = {
    "parameters": [
        {
            "name": HEADER,
            "in": "header",
            "required": True,
            "schema": {"type": "string", "const": "1"},
            "description": "No page of another site can send it.",
        }
    ]
}
"""For OpenAPI, which hears nothing of what the app itself looks for in a request."""

_ask_for_login = APIRoute("/", lambda: None, dependencies=[Depends(logged_in)]).get_route_handler()


class Change(APIRoute):
    """A route that reads a body only of those who are logged in.

    FastAPI reads it before it asks for anything, and would tell anybody what is wrong with it.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Make what answers a request."""
        answer = super().get_route_handler()

        async def ask_and_answer(request: Request) -> Response:
            await _ask_for_login(request)
            return await answer(request)

        return ask_and_answer
