"""How the page "Run guards" looks: pictures of it, and what axe says about it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from airflow_rankguard.guard.values import GuardKey
from tests.browser.conftest import Visit
from tests.browser.reading import OF_RUN, PAGE, at, force, panel, row
from tests.browser.stage import PREFIX, Shops, pictures_folder, run_path

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

HERE = f"{PAGE}?tenant=webshop"
KEY = "webshop/shop/shop-nl"
SERIOUS = ("serious", "critical")
NARROW = (420, 900)
PROGRESS = """
INSERT INTO guard.rank_runs (guarded_run_id, config_id, token, total, checked, failed, cost, started_at, updated_at)
SELECT id, :config, token, 500, 312, 4, 0.6240, now(), now() FROM guard.guarded_runs
WHERE run_id = :run_id AND ended_at IS NULL
"""
CONFIG = """
INSERT INTO guard.rank_configs
  (id, domain, location_code, language_code, devices, depth, tenant, enabled, created_at)
VALUES (:config, 'shop.example', 2528, 'nl', 'desktop', 20, 'webshop', true, now())
"""
# A browser draws what a colour means: canvas gives it as red, green and blue, however the theme writes it.
FAINT = """
() => {
  const drawn = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    drawn.clearRect(0, 0, 1, 1);
    drawn.fillStyle = colour;
    drawn.fillRect(0, 0, 1, 1);
    return [...drawn.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const [red, green, blue] = rgba(colour).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const ground = (node) => {
    const { backgroundColor } = getComputedStyle(node);
    return rgba(backgroundColor)[3] === 255 ? backgroundColor : ground(node.parentElement);
  };
  const contrast = (colour, node) => {
    const [dark, bright] = [light(colour), light(ground(node.parentElement))].sort((one, other) => one - other);
    return (bright + 0.05) / (dark + 0.05);
  };
  const edges = ["input", "select", "textarea", "td button:not(.rg-ghost)"].map((name) => [name, "borderTopColor"]);
  return [...edges, [".rg-dot", "backgroundColor"]].flatMap(([name, part]) => {
    const found = [...document.querySelectorAll(`.rg :is(${name})`)].filter((node) => node.checkVisibility());
    if (!found.length) return [`no ${name}`];
    const ratios = found.map((node) => contrast(getComputedStyle(node)[part], node));
    return ratios.some((ratio) => ratio < 3) ? [`${name}: ${Math.min(...ratios).toFixed(2)}`] : [];
  });
}
"""
COVERED = """
() => [...document.querySelectorAll(".rg tbody tr")].flatMap((row) => {
  const { left, top, right, bottom } = row.querySelector(".rg-actions").getBoundingClientRect();
  return [...row.querySelectorAll("td:not(.rg-actions)")].filter((cell) => {
    const box = cell.getBoundingClientRect();
    return box.right > left + 1 && box.left < right - 1 && box.bottom > top + 1 && box.top < bottom - 1;
  }).map((cell) => cell.dataset.head);
})
"""
AGED = """
UPDATE guard.guarded_runs SET claimed_at = claimed_at - make_interval(mins => :minutes),
  started_at = started_at - make_interval(mins => :minutes) WHERE run_id = :run_id
"""


@pytest.fixture(scope="module")
def busy(shops: Shops) -> Iterator[str]:
    """A busy day of one tenant: holders of each kind, a line, refusals, a history. Gives a holder's page."""
    tenant = "webshop"
    run = shops.at_work("rank_check", shop="shop-nl", tenant=tenant, gate="busy")
    shops.at_work("publish_prices", shop="shop-be", tenant=tenant, gate="busy")
    shops.change(CONFIG, config="shop-nl")
    shops.change(PROGRESS, config="shop-nl", run_id=run.run_id)
    shops.change(AGED, run_id=run.run_id, minutes=47)
    for _ in range(2):
        shops.in_line(shop="shop-nl", tenant=tenant)
        refused = shops.start("export_feed", shop="shop-be", tenant=tenant)
        shops.airflow.rest.wait_for(refused)
    for name, minutes in {"nightly": 3 * 24 * 60 + 95, "morning": 12}.items():
        held = shops.hold(f"manual__{name}", of=GuardKey(kind="sync", resource=name, tenant=tenant))
        shops.change(AGED, run_id=held.owner.run_id, minutes=minutes)
    shops.hold("manual__elsewhere", of=GuardKey(kind="feed", resource="shop-de", tenant=tenant), deployment="other")
    ended = shops.start("export_feed", shop="shop-fr", tenant=tenant)
    shops.airflow.rest.wait_for(ended)
    forced = shops.hold("manual__forced", of=GuardKey(kind="feed", resource="shop-uk", tenant=tenant))
    shops.guard.force_release(forced.id, lambda _: shops.alive, reason="its machine burnt down", by="ann", now=True)
    yield run_path(run)
    shops.gates.open("busy")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures go."""
    return pictures_folder(tmp_path_factory.mktemp("pictures"))


def serious(page: Page) -> list[str]:
    """What axe finds wrong with the page, or with the dialog that is open; Airflow's own frame is not ours."""
    found = Axe().run(page, context=".rg").response["violations"]
    return [
        f"{each['id']}: {each['help']}: {node['html']}"
        for each in found
        if each["impact"] in SERIOUS
        for node in each["nodes"]
    ]


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize(
    ("theme", "size"), [("light", (1360, 860)), ("dark", (1360, 860)), ("light", NARROW), ("dark", NARROW)]
)
def test_everybody_can_use_it(visit: Visit, pictures: Path, theme: str, size: tuple[int, int]) -> None:
    """In light and dark, wide and narrow, with rows of every kind, axe has nothing serious to say about any panel."""
    page = visit(HERE, theme=theme, size=size)
    name = f"{theme}-narrow" if size == NARROW else theme
    for title in ("Waiting", "Refused", "Held unusually long", "History", "Active"):
        panel(page, title)
        expect(page.get_by_role("table")).to_be_visible()
        assert serious(page) == []
    page.mouse.move(0, 0)
    page.screenshot(path=pictures / f"run-guards-{name}.png")
    page.get_by_role("button", name=f"Details of {KEY}").click()
    expect(page.get_by_role("dialog")).to_contain_text("What happened")
    assert serious(page) == []
    page.keyboard.press("Escape")
    dialog = force(page, KEY)
    dialog.get_by_label("Reason").fill("its machine burnt down")
    assert serious(page) == []
    page.screenshot(path=pictures / f"run-guards-force-{name}.png")


@pytest.mark.usefixtures("busy")
def test_nothing_is_cut_off_on_a_narrow_page(visit: Visit) -> None:
    """Each row is a card: nothing stands beyond the edge, and the button to free a key is within it."""
    page = visit(HERE, size=NARROW)
    expect(row(page, "shop-nl").first).to_be_visible()
    assert page.evaluate(
        "(() => { const rg = document.querySelector('.rg'); return rg.scrollWidth <= rg.clientWidth })()"
    )
    box = page.get_by_role("button", name=f"Force release of {KEY}").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= NARROW[0]


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("width", [800, 952, 960, 1100, 1240, 1360])
def test_the_buttons_stand_over_no_cell(visit: Visit, width: int) -> None:
    """However wide the page, as cards or as a table, what a row says can be read beside its buttons."""
    page = visit(HERE, size=(width, 900))
    expect(page.locator(".rg progress")).to_be_visible()
    assert page.evaluate(COVERED) == []


@pytest.mark.usefixtures("busy")
def test_a_chosen_tab_is_seen_whole(visit: Visit) -> None:
    """On a narrow page the tabs scroll until the chosen one is within them, also when the address has chosen it."""
    page = visit(f"{HERE}&panel=ended", size=(390, 900))
    for title in ("History", "Active", "Refused", "Held unusually long"):
        tab = page.get_by_role("tab", name=title)
        if title != "History":
            tab.evaluate("(tab) => tab.click()")
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(tab).to_be_in_viewport(ratio=0.99)


@pytest.mark.usefixtures("busy")
def test_the_order_is_chosen_below_what_the_panel_says(visit: Visit) -> None:
    """On a narrow page the list of orders leaves the sentence its whole line."""
    page = visit(HERE, size=(390, 900))
    order = page.get_by_label("Order").bounding_box()
    said = page.get_by_text("Who holds which key now").first.bounding_box()
    assert order is not None
    assert said is not None
    assert order["y"] >= said["y"] + said["height"]


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_what_can_be_used_has_an_edge_that_is_seen(visit: Visit, theme: str) -> None:
    """The edges of fields, boxes and buttons, and the live dot, stand out by 3:1 (WCAG 2.2, 1.4.11)."""
    page = visit(HERE, theme=theme)
    expect(force(page, KEY).get_by_role("checkbox").first).to_be_visible()
    assert page.evaluate(FAINT) == []


def test_a_dag_runs_tab_shows_what_is_its_own(busy: str, visit: Visit, pictures: Path) -> None:
    """The tab of a DagRun has that run's guards alone, without a column that would name it again."""
    page = visit(f"{busy}{OF_RUN}")
    expect(page.locator("tbody tr[data-id]")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="Holder")).to_have_count(0)
    assert serious(page) == []
    page.screenshot(path=pictures / "run-guards-of-run.png")


def test_it_works_under_a_prefix(busy: str, shops: Shops, visit: Visit, pictures: Path) -> None:
    """Below a path, code, data and links are found below that path, too."""
    page = visit(HERE, url=shops.prefixed)
    holder = row(page, "shop-nl").first
    expect(holder).to_be_visible()
    page.screenshot(path=pictures / "run-guards-prefix.png")
    holder.get_by_role("link").click()
    at(page, f"{PREFIX}{busy}")
    page.get_by_role("link", name="Run guards").click()
    expect(page.locator("tbody tr[data-id]")).to_have_count(1)
