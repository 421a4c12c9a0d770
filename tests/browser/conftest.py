"""Fixtures: one Airflow, one Chromium, and pages in it as one of Airflow's users sees them.

Without the extra `browser` there are no tests in here: `make test-browser` installs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

import psycopg
import pytest

from tests.browser.stage import Shops, opened_stage
from tests.databases import Session, plain

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

collect_ignore_glob = [] if find_spec("playwright") else ["test_page*.py"]

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# A loaded machine draws slowly.
PATIENCE = 60_000


class Visit(Protocol):
    """Open a path of Airflow's as somebody; as nobody without a user."""

    def __call__(
        self,
        path: str,
        *,
        user: str | None = "admin",
        theme: str = "light",
        size: tuple[int, int] = (1360, 860),
        url: str | None = None,
    ) -> Page: ...


@pytest.fixture(scope="session")
def shops(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shops]:
    """The running Airflow."""
    folder = tmp_path_factory.mktemp("browser")
    metadata = session.server.set(database=f"{session.folder.name}_browser")
    with psycopg.connect(plain(session.server), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {metadata.database}")
    with session.database("postgres", folder) as guard, opened_stage(folder, guard, metadata) as opened:
        yield opened
    session.drop(str(metadata.database))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Debian's Chromium."""
    from playwright.sync_api import expect, sync_playwright  # noqa: PLC0415 - not there without the extra

    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Browser, shops: Shops) -> Iterator[Visit]:
    """Open pages; an error that one of them throws or prints fails the test."""
    contexts = []
    errors: list[str] = []

    def opened(
        path: str,
        *,
        user: str | None = "admin",
        theme: str = "light",
        size: tuple[int, int] = (1360, 860),
        url: str | None = None,
    ) -> Page:
        base = url or shops.airflow.url
        width, height = size
        context = chromium.new_context(viewport={"width": width, "height": height})
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        if user:
            token = shops.token(user, base)
            context.add_cookies([{"name": "_token", "value": token, "url": base, "httpOnly": True, "sameSite": "Lax"}])
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{base}{path}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not errors
