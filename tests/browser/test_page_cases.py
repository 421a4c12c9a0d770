"""What goes wrong with run guards, seen on the page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import text

from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.values import GuardedRun, GuardKey, Life, Member
from tests.browser.conftest import Visit
from tests.browser.reading import OF_RUN, PAGE, at, force, panel, row, submit
from tests.browser.stage import Shops, run_path

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

LIFE = Life(try_number=1)
ALIVE = re.compile("its holder is alive", re.IGNORECASE)
FREE = "The key is free"
LONG_AGO = """
UPDATE guard.guarded_runs SET claimed_at = claimed_at - make_interval(days => 9),
 started_at = started_at - make_interval(days => 9) WHERE id = :id
"""


def key(tenant: str) -> GuardKey:
    """The key of one test."""
    return GuardKey(kind="shop", resource="nl", tenant=tenant)


def living(shops: Shops, name: str) -> GuardedRun:
    """A holder whose DagRun works for another key, and does not end before its gate is opened."""
    held = shops.hold(name, of=key(name))
    shops.airflow.rest.trigger("rank_check", run_id=name, conf={"shop": "own", "tenant": f"{name}-own", "gate": name})
    return held


def test_a_run_that_can_never_end(shops: Shops, visit: Visit) -> None:
    """No start takes its key over; it stands among those held unusually long, alive, and is freed from there."""
    held = living(shops, "forever")
    shops.change(LONG_AGO, id=held.id)
    refused = shops.airflow.rest.wait_for(shops.start("export_feed", shop="nl", tenant="forever"), timeout=120)
    page = visit(f"{PAGE}?tenant=forever&panel=refused")
    expect(row(page, refused.run_id)).to_contain_text("forever")
    panel(page, "Held unusually long")
    expect(row(page, "9 d")).to_contain_text("alive")
    dialog = force(page, str(held.key))
    dialog.get_by_label("Reason").fill("its task is gone")
    dialog.get_by_label(ALIVE).check()
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text(FREE)
    assert shops.guard.look(held.key) is None
    shops.gates.open("forever")


def test_a_refused_start_is_told_by_whom(shops: Shops, visit: Visit) -> None:
    """The refusal leads to the run that holds the key; its tab says since when, and frees it."""
    holder = shops.at_work("rank_check", shop="nl", tenant="whom", gate="whom")
    refused = shops.start("export_feed", shop="nl", tenant="whom")
    page = visit(f"{PAGE}?tenant=whom&panel=refused")
    row(page, refused.run_id).get_by_role("link", name=holder.run_id).click()
    at(page, run_path(holder))
    page.get_by_role("link", name="Run guards").click()
    at(page, f"{run_path(holder)}{OF_RUN}")
    expect(row(page, "whom/")).to_contain_text("since")
    dialog = force(page, "whom/shop/nl")
    dialog.get_by_label("Reason").fill("in the way")
    dialog.get_by_label(ALIVE).check()
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text("The doors are closed")
    shops.gates.open("whom")
    expect(page.get_by_role("region", name="History, table")).to_contain_text("in the way")


def test_different_troubles_have_different_words(shops: Shops, visit: Visit) -> None:
    """A filter that is none, a row in another's hands, tables missing, database down, foreign, lost: each its own."""
    held = shops.hold("own-holder", of=key("troubles"))
    shops.hold("foreigner", of=GuardKey(kind="shop", resource="de", tenant="troubles"), deployment="other")
    stranger = replace(held.owner, run_id="never-held")
    with pytest.raises(GuardLost):
        shops.guard.enter(held.key, stranger, LIFE, Member(task_id="guarded.work"), lambda _: shops.alive)
    page = visit(f"{PAGE}?tenant={'x' * 1001}")
    said = [told(page.get_by_role("alert"), "bad-request")]
    page = visit(f"{PAGE}?tenant=troubles")
    expect(row(page, "foreigner")).to_contain_text("foreign")
    expect(row(page, "own-holder")).not_to_contain_text("foreign")
    page.get_by_role("button", name=f"Details of {held.key}").click()
    expect(page.get_by_role("dialog").get_by_role("listitem").filter(has_text="lost")).to_contain_text("never-held")
    page.keyboard.press("Escape")
    said.append(_contended(shops, page, held))
    shops.change("ALTER TABLE guard.guarded_runs RENAME TO away")
    try:
        page.get_by_role("button", name="Refresh").click()
        said.append(told(page.get_by_role("alert"), "schema-wrong"))
    finally:
        shops.change("ALTER TABLE guard.away RENAME TO guarded_runs")
    with shops.database_down():
        page.get_by_role("button", name="Refresh").click()
        said.append(told(page.get_by_role("alert"), "database-unavailable"))
    assert len(set(said)) == 4


def told(alert: Locator, code: str) -> str:
    """The sentence of a trouble."""
    expect(alert).to_contain_text(code)
    sentence: str = alert.locator("span").first.inner_text()
    return sentence


def _contended(shops: Shops, page: Page, held: GuardedRun) -> str:
    with shops.engine.begin() as other:
        other.execute(text("SELECT 1 FROM guard.guarded_runs WHERE id = :id FOR UPDATE"), {"id": held.id})
        dialog = force(page, str(held.key))
        dialog.get_by_label("Reason").fill("in the way")
        submit(dialog).click()
        said = told(dialog.get_by_role("alert"), "row-locked")
    page.keyboard.press("Escape")
    return said


def test_freeing_a_key_by_hand(shops: Shops, visit: Visit) -> None:
    """It takes a reason, and a tick over a living holder, who then loses; who, when and why stay readable."""
    held = living(shops, "by-hand")
    page = visit(f"{PAGE}?tenant=by-hand")
    expect(row(page, "by-hand")).to_contain_text("alive")
    dialog = force(page, str(held.key))
    dialog.get_by_label(ALIVE).check()
    expect(submit(dialog)).to_be_disabled()
    dialog.get_by_label("Reason").fill("stuck since noon")
    dialog.get_by_label(ALIVE).uncheck()
    expect(submit(dialog)).to_be_disabled()
    dialog.get_by_label(ALIVE).check()
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text(FREE)
    dialog.get_by_role("button", name="Close").last.click()
    panel(page, "History")
    expect(row(page, "stuck since noon").locator("[data-head=Ended]")).to_contain_text(re.compile(r"\d"))
    page.get_by_role("button", name=f"Details of {held.key}").click()
    forced = page.get_by_role("dialog").get_by_role("listitem").filter(has_text="forced")
    expect(forced).to_contain_text("by admin")
    expect(forced).to_contain_text("stuck since noon")
    with pytest.raises(GuardLost, match=r"freed by force at .*stuck since noon \(by admin\)"):
        shops.guard.enter(held.key, held.owner, LIFE, Member(task_id="guarded.work"), lambda _: shops.alive)
    shops.gates.open("by-hand")
