"""The page "Run guards" when something is wrong, and when nobody looks."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from airflow_rankguard.guard.values import GuardKey
from tests.browser.conftest import Visit
from tests.browser.reading import PAGE, row
from tests.browser.stage import Shops

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def asked(page: Page) -> list[str]:
    """The API's paths that the page asks for from now on."""
    paths: list[str] = []
    page.on(
        "request", lambda request: paths.append(urlsplit(request.url).path) if "/rankguard/" in request.url else None
    )
    return paths


def test_a_database_that_is_down_is_said_and_what_was_seen_stays(shops: Shops, visit: Visit) -> None:
    """503 is told above the rows that were seen before; they are fresh again once the database is."""
    shops.hold("seen", of=GuardKey(kind="shop", resource="nl", tenant="down"))
    page = visit(f"{PAGE}?tenant=down")
    expect(row(page, "seen")).to_be_visible()
    with shops.database_down():
        page.get_by_role("button", name="Refresh").click()
        expect(page.get_by_role("alert")).to_contain_text("The guard database cannot be read")
        expect(page.get_by_role("alert")).to_contain_text("database-unavailable")
        expect(row(page, "seen")).to_be_visible()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(row(page, "seen")).to_be_visible()


def test_a_login_that_has_ended_is_said_with_the_way_back(visit: Visit) -> None:
    """401 leads to the login, and from there back to what was shown."""
    page = visit(f"{PAGE}?tenant=ended")
    expect(page.get_by_text("No key is held.")).to_be_visible()
    page.context.clear_cookies()
    page.get_by_role("button", name="Refresh").click()
    again = page.get_by_role("link", name="Log in again")
    expect(again).to_be_visible()
    assert "tenant%3Dended" in str(again.get_attribute("href"))


def test_nobody_looking_means_nobody_asking(shops: Shops, visit: Visit) -> None:
    """A hidden tab asks for nothing; looked at again, it asks at once. Paused, it waits to be told."""
    page = visit("/")
    page.clock.install()
    page.goto(f"{shops.airflow.url}{PAGE}?tenant=hidden")
    expect(page.get_by_text("No key is held.")).to_be_visible()
    page.evaluate(HIDE, True)
    paths = asked(page)
    page.clock.run_for(120_000)
    assert not paths
    with page.expect_request("**/rankguard/runs/active?*"):
        page.evaluate(HIDE, False)
    page.get_by_role("button", name="Pause").click()
    page.wait_for_load_state("networkidle")
    paths.clear()
    page.clock.run_for(120_000)
    assert not paths
    with page.expect_request("**/rankguard/runs/active?*"):
        page.get_by_role("button", name="Go on").click()


def test_a_server_in_trouble_is_asked_less_and_less(shops: Shops, visit: Visit) -> None:
    """After failures the page waits twice as long each time: within two minutes it asks a few times, not two dozen."""
    page = visit("/")
    page.clock.install()
    page.goto(f"{shops.airflow.url}{PAGE}?tenant=less")
    expect(page.get_by_text("No key is held.")).to_be_visible()
    paths = asked(page)
    page.context.set_offline(True)
    for _ in range(24):
        page.clock.run_for(5_000)
        page.wait_for_timeout(100)
    page.context.set_offline(False)
    assert 2 <= paths.count("/rankguard/runs/active") <= 6
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
