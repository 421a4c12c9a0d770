"""Freeing a key by hand on the page "Run guards": what it takes, what it says, and what comes of it."""

from datetime import timedelta

import pytest
from playwright.sync_api import expect

from airflow_rankguard.guard.errors import StillInside
from airflow_rankguard.guard.service import Guard
from airflow_rankguard.guard.values import GuardKey, Timings
from tests.browser.conftest import Visit
from tests.browser.reading import PAGE, force, panel, row, submit
from tests.browser.stage import DEPLOYMENT, Shops

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

CLOSED = "The doors are closed"
FREE = "The key is free"


def test_a_living_holder_takes_a_reason_and_a_tick_and_is_drained(shops: Shops, visit: Visit) -> None:
    """An administrator frees a living holder's key: its doors close, its work goes on, who and why is kept."""
    run = shops.at_work("rank_check", shop="nl", tenant="drained", gate="drained")
    page = visit(f"{PAGE}?tenant=drained")
    dialog = force(page, "drained/shop/nl")
    expect(dialog).to_contain_text("The key is free when those inside (guarded.work) have left.")
    expect(submit(dialog)).to_be_disabled()
    expect(submit(dialog)).to_have_accessible_description("Still needed: a reason and the tick above")
    dialog.get_by_label("Reason").fill("its shop has burnt down")
    expect(submit(dialog)).to_be_disabled()
    expect(submit(dialog)).to_have_accessible_description("Still needed: the tick above")
    dialog.get_by_label("I know that its holder is alive").check()
    expect(submit(dialog)).to_have_accessible_description("")
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text(CLOSED)
    expect(dialog.get_by_role("status")).to_contain_text("guarded.work")
    dialog.get_by_role("button", name="Close").last.click()
    shops.gates.open("drained")
    panel(page, "History")
    ended = row(page, run.run_id)
    expect(ended).to_contain_text("failed")
    expect(ended).to_contain_text("its shop has burnt down")
    page.get_by_role("button", name="Details of drained/shop/nl").click()
    expect(page.get_by_role("dialog")).to_contain_text("by admin")
    logged = shops.airflow.rest.call("GET", "/eventLogs", params={"event": "rankguard.force_release"})["event_logs"]
    assert run.run_id in [entry["run_id"] for entry in logged]


def test_now_is_a_third_tick_and_says_what_it_risks(shops: Shops, visit: Visit) -> None:
    """`now` frees the key while somebody is inside, and is not to be had without having read that work may overlap."""
    run = shops.at_work("rank_check", shop="nl", tenant="now", gate="now")
    page = visit(f"{PAGE}?tenant=now")
    dialog = force(page, "now/shop/nl")
    dialog.get_by_label("Reason").fill("cannot wait")
    dialog.get_by_label("I know that its holder is alive").check()
    dialog.get_by_label("Their work may overlap with the next holder's.").check()
    expect(dialog).to_contain_text("The key is free at once, though those inside (guarded.work) may still be at work.")
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text(FREE)
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_text("No key is held.")).to_be_visible()
    panel(page, "History")
    expect(row(page, run.run_id)).to_contain_text("forced")
    shops.gates.open("now")


def test_the_dialog_goes_on_until_the_key_is_free(shops: Shops, visit: Visit) -> None:
    """While it drains, the dialog shows the row as it is by now; once those inside have left, how the run ended."""
    shops.at_work("rank_check", shop="nl", tenant="followed", gate="followed")
    page = visit(f"{PAGE}?tenant=followed")
    dialog = force(page, "followed/shop/nl")
    dialog.get_by_label("Reason").fill("its shop has burnt down")
    dialog.get_by_label("I know that its holder is alive").check()
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text(CLOSED)
    expect(dialog).to_contain_text("draining")
    for said in ("alive", "What will happen", "Reason"):
        expect(dialog).not_to_contain_text(said)
    dialog.get_by_role("button", name="Look again").click()
    expect(dialog.get_by_role("button", name="Looking")).to_be_visible()
    expect(dialog.get_by_role("button", name="Look again")).to_be_enabled()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    shops.gates.open("followed")
    expect(dialog.get_by_role("status")).to_contain_text(FREE)
    expect(dialog.get_by_role("status")).to_contain_text(
        "It ended as failed (forced: its shop has burnt down (by admin))."
    )
    expect(dialog).not_to_contain_text("draining")
    expect(page.get_by_text("No key is held.")).to_be_visible()


def test_doors_that_are_closed_already_are_told_of(shops: Shops, visit: Visit) -> None:
    """Who comes second reads who closed the doors and why; both are in what happened, each with the name once."""
    key = GuardKey(kind="shop", resource="nl", tenant="second")
    shops.at_work("rank_check", shop="nl", tenant="second", gate="second")
    hasty = Guard(shops.engine, DEPLOYMENT, timings=Timings(patience=timedelta(0)))
    seen = hasty.look(key)
    assert seen is not None
    with pytest.raises(StillInside):
        hasty.force_release(seen.run.id, lambda _: shops.alive, reason="its shop has moved", by="ann", now=False)
    page = visit(f"{PAGE}?tenant=second")
    dialog = force(page, "second/shop/nl")
    expect(dialog).to_contain_text("The doors are closed already (by ann: its shop has moved).")
    expect(dialog).to_contain_text("Your reason is added to what happened.")
    expect(dialog).not_to_contain_text("at once")
    expect(dialog.get_by_label("I know")).to_have_count(0)
    expect(submit(dialog)).to_have_accessible_description("Still needed: a reason")
    dialog.get_by_label("Reason").fill("it has burnt down, too")
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text(CLOSED)
    shops.gates.open("second")
    expect(dialog.get_by_role("status")).to_contain_text("It ended as failed (forced: its shop has moved (by ann)).")
    dialog.get_by_role("button", name="Close").last.click()
    panel(page, "History")
    page.get_by_role("button", name="Details of second/shop/nl").click()
    happened = page.get_by_role("dialog").get_by_role("list")
    expect(happened).to_contain_text("by ann: its shop has moved")
    expect(happened).to_contain_text("by admin: it has burnt down, too")
    expect(happened).not_to_contain_text("(by ")


def test_a_stale_key_is_freed_by_keyboard_alone(shops: Shops, visit: Visit) -> None:
    """Tab, Enter and Escape are enough; the focus stays in the dialog and comes back to where it was."""
    shops.hold("gone", of=GuardKey(kind="shop", resource="nl", tenant="keyboard"))
    page = visit(f"{PAGE}?tenant=keyboard")
    expect(row(page, "gone")).to_contain_text("stale")
    button = page.get_by_role("button", name="Force release of keyboard/shop/nl")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(12):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    dialog.get_by_label("Reason").focus()
    page.keyboard.type("nobody is left")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(submit(dialog)).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("status")).to_contain_text(FREE)
    expect(dialog.get_by_role("button", name="Close").last).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("heading", name="Run guards")).to_be_focused()


def test_a_holder_that_left_meanwhile_is_said(shops: Shops, visit: Visit) -> None:
    """Who confirms too late is told how the run has ended; nothing of the next holder is touched."""
    key = GuardKey(kind="shop", resource="nl", tenant="late")
    held = shops.hold("early", of=key)
    page = visit(f"{PAGE}?tenant=late")
    expect(row(page, "early")).to_contain_text("stale")
    dialog = force(page, "late/shop/nl")
    dialog.get_by_label("Reason").fill("too late")
    shops.guard.release(held.id, held.token, lambda _: shops.alive)
    following = shops.hold("following", of=key)
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text("There is nothing to free any more")
    expect(dialog.get_by_role("status")).to_contain_text("It ended as completed (released).")
    expect(dialog.get_by_role("alert")).to_have_count(0)
    holder = shops.guard.look(key)
    assert holder is not None
    assert holder.run == following


def test_a_holder_that_came_to_life_meanwhile_takes_the_tick(shops: Shops, visit: Visit) -> None:
    """What was seen as stale and is alive by now is not freed by one click: the tick is asked for, then it is."""
    shops.hold("back", of=GuardKey(kind="shop", resource="nl", tenant="back"))
    page = visit(f"{PAGE}?tenant=back")
    expect(row(page, "back")).to_contain_text("stale")
    dialog = force(page, "back/shop/nl")
    dialog.get_by_label("Reason").fill("it looked stale")
    shops.airflow.rest.trigger("rank_check", run_id="back", conf={"tenant": "back", "gate": "back", "shop": "other"})
    submit(dialog).click()
    expect(dialog.get_by_role("alert")).to_contain_text("holder-alive")
    dialog.get_by_label("I know that its holder is alive").check()
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text(FREE)
    shops.gates.open("back")


def test_another_deployments_holder_is_said_to_be_one(shops: Shops, visit: Visit) -> None:
    """A key that another Airflow holds is marked, and freed only by who says that this is known."""
    shops.hold("elsewhere", of=GuardKey(kind="shop", resource="nl", tenant="foreign"), deployment="other")
    page = visit(f"{PAGE}?tenant=foreign")
    expect(row(page, "elsewhere")).to_contain_text("foreign")
    dialog = force(page, "foreign/shop/nl")
    dialog.get_by_label("Reason").fill("that Airflow is gone")
    expect(submit(dialog)).to_be_disabled()
    dialog.get_by_label("I know that nobody here can tell whether its holder is alive").check()
    submit(dialog).click()
    expect(dialog.get_by_role("status")).to_contain_text(FREE)


def test_a_right_that_was_taken_away_meanwhile_is_said(shops: Shops, visit: Visit) -> None:
    """The server decides, not the button: 403 is told in the dialog, and nothing is freed."""
    held = shops.hold("kept", of=GuardKey(kind="shop", resource="nl", tenant="demoted"))
    page = visit(f"{PAGE}?tenant=demoted")
    dialog = force(page, "demoted/shop/nl")
    dialog.get_by_label("Reason").fill("I was an administrator")
    token = shops.token("viewer", shops.airflow.url)
    page.context.add_cookies(
        [{"name": "_token", "value": token, "url": shops.airflow.url, "httpOnly": True, "sameSite": "Lax"}]
    )
    submit(dialog).click()
    expect(dialog.get_by_role("alert")).to_contain_text("forbidden")
    seen = shops.guard.look_run(held.id)
    assert seen is not None
    assert seen.run.active
