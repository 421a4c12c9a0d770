"""What the tests read on the page."""

from __future__ import annotations

from urllib.parse import unquote

from playwright.sync_api import Locator, Page

PAGE = "/plugin/run-guards"
OF_RUN = "/plugin/run-guards-of-run"


def at(page: Page, path: str) -> None:
    """Wait until the page shows a path of Airflow's, however the browser writes it."""
    page.wait_for_url(lambda url: unquote(url).endswith(unquote(path)))


def panel(page: Page, name: str) -> None:
    """Choose a panel."""
    page.get_by_role("tab", name=name).click()


def row(page: Page, said: str) -> Locator:
    """The rows in which something is said."""
    return page.get_by_role("row").filter(has_text=said)


def force(page: Page, key: str) -> Locator:
    """Ask for the forced release of a key, and give the dialog."""
    page.get_by_role("button", name=f"Force release of {key}").click()
    return page.get_by_role("dialog", name="Force release")


def submit(dialog: Locator) -> Locator:
    """The button that frees the key."""
    return dialog.get_by_role("button", name="Force release")
