"""The page's files, without a browser: they are found, they are shipped, and they ask nobody else for anything."""

import re
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from airflow_rankguard.plugin import RankGuardPlugin

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "airflow_rankguard" / "api" / "static"
FILES = sorted(STATIC.iterdir())
IMPORTED = re.compile(r'from "\./([^"]+)"')
XML = "http://www.w3.org/2000/svg"


@pytest.mark.parametrize(
    ("base_url", "root"), [("", ""), ("http://localhost:8080/", ""), ("https://example.org/airflow", "/airflow")]
)
def test_what_the_plugin_names_is_there(base_url: str, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundle and icons are files of the page, under the path that Airflow is served at."""
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", base_url)
    for entry in RankGuardPlugin().react_apps:
        for address in (entry["bundle_url"], entry["icon"], entry["icon_dark_mode"]):
            folder, _, name = address.rpartition("/")
            assert folder == f"{root}/rankguard/static"
            assert (STATIC / name).is_file()


def test_its_two_places_have_one_name_and_two_addresses() -> None:
    """Airflow keeps the component under the entry's name and runs a bundle once; an address it takes only once."""
    entries = RankGuardPlugin().react_apps
    assert {entry["destination"] for entry in entries} == {"nav", "dag_run"}
    assert len({entry["name"] for entry in entries}) == 1
    assert len({entry["url_route"] for entry in entries}) == 2
    assert f'globalThis["{entries[0]["name"]}"] = ' in (STATIC / "run-guards.js").read_text()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_asks_nobody_else(file: Path) -> None:
    """Everything comes from this Airflow; no text is ever taken for HTML."""
    text = file.read_text().replace(XML, "")
    assert "//" not in re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    for word in ("innerHTML", "insertAdjacentHTML", "eval(", "document.write", "@import", "url("):
        assert word not in text
    for name in IMPORTED.findall(text):
        assert (STATIC / name).is_file()


def test_every_file_is_shipped() -> None:
    """The wheel has them all."""
    builder = WheelBuilder(str(ROOT))
    shipped = {Path(file.path).resolve() for file in builder.recurse_included_files()}
    assert set(FILES) <= shipped
