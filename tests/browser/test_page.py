"""The page "Run guards" on a running Airflow, in Debian's Chromium: what it shows, and to whom."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from airflow_rankguard.guard.values import GuardKey
from tests.browser.conftest import Visit
from tests.browser.reading import OF_RUN, PAGE, at, panel, row
from tests.browser.stage import Shops, run_path

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

SERVED = ("summary", "runs/active", "runs/ended", "waiters", "refusals", "static/run-guards.js", "openapi.json")


def test_a_guard_appears_and_goes(shops: Shops, visit: Visit) -> None:
    """A run that takes a key appears by itself, with who is inside, and goes into the history when it has left."""
    page = visit(f"{PAGE}?tenant=appears")
    expect(page.get_by_text("No key is held.")).to_be_visible()
    run = shops.at_work("rank_check", shop="nl", tenant="appears", gate="appears")
    held = row(page, run.run_id)
    expect(held).to_contain_text("alive")
    expect(held).to_contain_text("its DagRun is running")
    expect(held).to_contain_text("guarded.work")
    expect(held).to_contain_text("1000000")
    expect(held.locator("[data-head=Key]")).to_have_text("appears/shop/nl")
    expect(held.get_by_title("Fencing token")).to_have_text("1000000")
    shops.gates.open("appears")
    expect(page.get_by_text("No key is held.")).to_be_visible()
    panel(page, "History")
    expect(row(page, run.run_id)).to_contain_text(re.compile("completed.*released"))


def test_the_page_is_found_in_the_menu_and_leads_to_runs(shops: Shops, visit: Visit) -> None:
    """Browse has it; a holder's name leads to its DagRun, whose own tab shows what that run holds."""
    run = shops.at_work("rank_check", shop="nl", tenant="menu", gate="menu")
    page = visit("/")
    page.get_by_role("button", name="Browse").click()
    entry = page.get_by_role("menuitem", name="Run guards")
    assert entry.locator("img").evaluate("async (icon) => (await icon.decode(), icon.naturalWidth)")
    entry.click()
    expect(page.get_by_role("heading", name="Run guards")).to_be_visible()
    row(page, "menu").get_by_role("link", name=run.run_id).click()
    at(page, run_path(run))
    page.get_by_role("link", name="Run guards").click()
    at(page, f"{run_path(run)}{OF_RUN}")
    expect(page.get_by_role("region", name="Active, table")).to_contain_text("guarded.work")
    shops.gates.open("menu")
    expect(page.get_by_role("region", name="History, table")).to_contain_text("released")


def test_a_refusal_appears(shops: Shops, visit: Visit) -> None:
    """A refused run is shown with the run that refused it, on the page and on its own tab."""
    holder = shops.at_work("rank_check", shop="nl", tenant="refusal", gate="refusal")
    page = visit(f"{PAGE}?tenant=refusal&panel=refused")
    expect(page.get_by_text("Nobody was refused in the last day.")).to_be_visible()
    refused = shops.start("export_feed", shop="nl", tenant="refusal")
    expect(row(page, refused.run_id)).to_contain_text(holder.run_id)
    expect(page.get_by_role("tab", name="Refused")).to_contain_text("1")
    page.goto(f"{shops.airflow.url}{run_path(refused)}{OF_RUN}")
    expect(page.get_by_role("region", name="Refused, 24 h, table")).to_contain_text(holder.run_id)
    shops.gates.open("refusal")


def test_a_waiters_turn_comes(shops: Shops, visit: Visit) -> None:
    """Those who wait are shown in order, each behind the one before; when the holder leaves, the first one holds."""
    holder = shops.at_work("rank_check", shop="nl", tenant="line", gate="line")
    first = shops.in_line(shop="nl", tenant="line", gate="line-first")
    second = shops.in_line(shop="nl", tenant="line", gate="line-second")
    page = visit(f"{PAGE}?tenant=line&panel=waiting")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").nth(0)).to_contain_text(first.run_id)
    expect(page.locator("tbody tr").nth(0).locator("[data-head=Behind]")).to_contain_text(holder.run_id)
    expect(page.locator("tbody tr").nth(1).locator("[data-head=Run]")).to_contain_text(second.run_id)
    expect(page.locator("tbody tr").nth(1).locator("[data-head=Behind]")).to_contain_text(first.run_id)
    shops.gates.open("line")
    expect(page.locator("tbody tr")).to_have_count(1)
    panel(page, "Active")
    expect(row(page, first.run_id)).to_contain_text("2000000")
    shops.gates.open("line-first")
    shops.gates.open("line-second")


def test_a_viewer_sees_but_cannot(shops: Shops, visit: Visit) -> None:
    """A viewer reads the same rows without a button to free a key, and is refused when asking for it all the same."""
    held = shops.hold("viewed", of=GuardKey(kind="shop", resource="nl", tenant="viewer"))
    page = visit(f"{PAGE}?tenant=viewer", user="viewer")
    expect(row(page, "viewed")).to_contain_text("Details")
    expect(page.get_by_role("button", name="Force release")).to_have_count(0)
    answer = page.evaluate(
        """async (id) => {
          const headers = { "Content-Type": "application/json", "X-Rankguard-Request": "1" };
          const body = JSON.stringify({ reason: "I want it" });
          const asked = await fetch(`rankguard/runs/${id}/force-release`, { method: "POST", headers, body });
          return (await asked.json()).code;
        }""",
        str(held.id),
    )
    assert answer == "forbidden"
    seen = shops.guard.look_run(held.id)
    assert seen is not None
    assert seen.run.active


def test_nobody_gets_anything(shops: Shops, visit: Visit) -> None:
    """Without a login there are 401s and the login page, and no line of the page's code."""
    for path in SERVED:
        assert httpx.get(f"{shops.airflow.url}/rankguard/{path}", trust_env=False).status_code == 401
    page = visit(PAGE, user=None)
    expect(page).to_have_url(re.compile("/login"))


def test_ten_thousand_guards_are_read_by_pages(shops: Shops, visit: Visit) -> None:
    """However many keys are held, the page asks for 25 of them at a time, and turns to the next ones and back."""
    held = shops.hold("many", of=GuardKey(kind="shop", resource="many", tenant="many"))
    shops.multiply(held, 10_000)
    page = visit(f"{PAGE}?tenant=many")
    expect(page.locator("tbody tr")).to_have_count(25)
    expect(page.get_by_role("tab", name="Active")).to_contain_text("10,000+")
    first = page.locator("[data-head=Key]").nth(0)
    before = first.inner_text()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Page 2")).to_be_visible()
    expect(first).not_to_have_text(before, use_inner_text=True)
    page.get_by_role("button", name="Previous").click()
    expect(page.get_by_role("button", name="Previous")).to_be_disabled()
    expect(first).to_have_text(before, use_inner_text=True)
    shops.change("DELETE FROM guard.guarded_runs WHERE tenant = 'many'")
    expect(page.get_by_text("No key is held.")).to_be_visible()


def test_what_is_held_unusually_long_shows(shops: Shops, visit: Visit) -> None:
    """A key that is held for more than a day is counted in red, and stands in its own panel, the longest held first."""
    for name, days in {"two": 2, "nine": 9, "none": 0}.items():
        held = shops.hold(name, of=GuardKey(kind="shop", resource=name, tenant="long"))
        since = "UPDATE guard.guarded_runs SET claimed_at = claimed_at - make_interval(days => :days),"
        since += " started_at = started_at - make_interval(days => :days) WHERE id = :id"
        shops.change(since, days=days, id=held.id)
    page = visit(f"{PAGE}?tenant=long")
    panel(page, "Held unusually long")
    expect(page.get_by_role("tab", name="Held unusually long")).to_contain_text("2")
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody tr").nth(0)).to_contain_text("9 d")
    expect(page.locator("tbody tr").nth(1)).to_contain_text("2 d")


def test_filters_are_exact_and_stay_in_the_address(shops: Shops, visit: Visit) -> None:
    """What is typed filters by equality, survives a reload, and is taken out again."""
    for resource in ("nl", "nl-outlet"):
        shops.hold(resource, of=GuardKey(kind="shop", resource=resource, tenant="filters"))
    page = visit(f"{PAGE}?tenant=filters")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("Resource").fill("nl")
    page.get_by_label("Resource").press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.get_by_label("Resource")).to_have_value("nl")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("button", name="Clear").click()
    expect(page.get_by_label("Tenant")).to_have_value("")
    expect(row(page, "nl-outlet").first).to_be_visible()


def test_text_is_text(shops: Shops, visit: Visit) -> None:
    """A key, a run or a reason in HTML is shown as it is written, and nothing in it runs."""
    markup = "<img src=x onerror=\"document.title='hurt'\">"
    held = shops.hold(markup, of=GuardKey(kind="<b>shop</b>", resource=markup, tenant="markup"))
    page = visit(f"{PAGE}?tenant=markup")
    expect(row(page, markup)).to_contain_text("<b>shop</b>")
    shops.guard.force_release(held.id, lambda _: shops.alive, reason=markup, by=markup, now=True)
    panel(page, "History")
    expect(row(page, markup).locator("[data-head=Reason]")).to_contain_text(markup)
    page.get_by_role("button", name="Details").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"by {markup}")
    assert page.title() != "hurt"
    assert page.locator(".rg img").count() == 0
