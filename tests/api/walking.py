"""A walk over the app's own table of routes, wherever the app is mounted: no route is listed here."""

from collections.abc import Iterable, Mapping
from typing import Any

import httpx
from fastapi import FastAPI
from fastapi.routing import APIRoute

Route = tuple[str, str]
"""Its method and its path."""

FORCE = {"reason": "its machine burnt down", "even_if_alive": True}
START = {"dag_id": "open", "run_id": "request__1", "kind": "rank_check", "resource": "new"}
FORCING = ("POST", "/runs/{id}/force-release")
STARTING = ("POST", "/starts")
BODIES: Mapping[Route, Any] = {FORCING: FORCE, STARTING: START}
DONE: Mapping[Route, int] = {FORCING: 200, STARTING: 201}
"""What a change is answered with when it was made; whatever else there is only reads."""


def routes_of(app: FastAPI) -> list[Route]:
    """What a table of routes lets in; something else than a route of FastAPI's would ask nobody for a login."""
    found = []
    for route in app.routes:
        assert isinstance(route, APIRoute), route
        found += [(method, route.path) for method in sorted(route.methods)]
    return found


def walk(
    client: httpx.Client, routes: Iterable[Route], names: Mapping[str, object], bodies: Mapping[Route, Any] = BODIES
) -> dict[Route, int]:
    """Call each route with what it needs.

    :param names: what its path names.
    :returns: the status of each answer.
    """
    return {
        (method, path): client.request(method, path.format_map(names), json=bodies.get((method, path))).status_code
        for method, path in routes
    }
