"""What pages say of the code is so, and the site needs nobody else."""

import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex

from airflow_rankguard.guard.tables import active_key_index
from airflow_rankguard.guard.values import Timings
from airflow_rankguard.hooks.rankguard import DRIVER_EXTRAS, OWN_EXTRAS, TIMING_EXTRAS
from harness.offline_site import loaded_from_elsewhere
from tests.docs.failures import PAGE, SECTIONS, page, results
from tests.docs.test_snippets import ROOT
from tests.lifecycle.playing import Line
from tests.lifecycle.rows import ROWS
from tests.lifecycle.services import SERVICES

SUCCESS = Line(
    scenario="success",
    backend="postgres",
    listener=False,
    processes=2,
    lives=2,
    violations=[],
    to_free=1.25,
    freed_by="released",
    in_release=0.5,
    to_next=3.0,
    took=9.0,
    failure=None,
)
ABROAD = (
    '<script src="https://example.org/x.js"></script>',
    '<img alt="" src=//example.org/x.png>',
    '<link rel="stylesheet" href="https://example.org/x.css">',
    '<link rel="preconnect" href="https://example.org" crossorigin>',
)
AT_HOME = (
    '<a href="https://example.org">a link</a>',
    '<script src="assets/x.js"></script>',
    '<link rel="canonical" href="https://example.org">',
    '<link rel="stylesheet" href="assets/x.css">',
)


def test_the_failures_are_those_that_are_played() -> None:
    """docs/failures.md is what `python -m tests.docs.failures` makes of the suite and of its results."""
    assert PAGE.read_text() == page(results())


def test_every_row_of_the_suite_has_a_section() -> None:
    """No failure is played without being told."""
    told = [row.name for rows in SECTIONS.values() for row in rows]
    assert sorted(told) == sorted(row.name for row in (*ROWS, *SERVICES))


def test_the_measured_seconds_are_in_the_table() -> None:
    """Those of a row's own setting; a row that nobody has played has none."""
    others = replace(SUCCESS, backend="sqlite", to_free=9.0), replace(SUCCESS, listener=True, to_free=8.0)
    told = page([asdict(line) for line in (SUCCESS, *others)])
    assert re.search(r"^\| Success \| .* \| 1\.2 s \| released \| 3\.0 s \|$", told, re.MULTILINE)
    assert re.search(r"^\| Failure \| .* \|  \|  \|  \|$", told, re.MULTILINE)


def test_the_index_is_the_one_that_is_shown() -> None:
    """The page about it shows the statement that makes it."""
    [shown] = re.findall(
        r"^```sql\n(.*?)^```", (ROOT / "docs" / "why-an-index.md").read_text(), re.MULTILINE | re.DOTALL
    )
    made = str(CreateIndex(active_key_index).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]  # SQLAlchemy gives it no types
    assert shown.split() == made.split()


def test_the_extras_are_those_that_are_read() -> None:
    """The page on PostgreSQL has every extra of the connection, and the bounds' defaults."""
    section = (ROOT / "docs" / "postgresql.md").read_text().partition("\n## Tell Airflow\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    told = {name: default for names, _, default in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(told) == OWN_EXTRAS | TIMING_EXTRAS | DRIVER_EXTRAS
    defaults = {name: getattr(Timings(), name).total_seconds() for name in TIMING_EXTRAS}
    assert {name: float(told[name]) for name in TIMING_EXTRAS} == defaults


@pytest.mark.parametrize("text", ABROAD)
def test_a_site_that_loads_from_elsewhere_is_found(text: str, tmp_path: Path) -> None:
    """A script, a picture, a style sheet, a font's server."""
    (tmp_path / "page.html").write_text(text)
    assert len(list(loaded_from_elsewhere(tmp_path / "page.html"))) == 1


def test_a_style_sheet_that_loads_from_elsewhere_is_found(tmp_path: Path) -> None:
    """By a font, or by another style sheet."""
    (tmp_path / "x.css").write_text(
        "@import '//example.org/y.css'; a { src: url(https://example.org/x.woff) url(x.png) }"
    )
    assert len(list(loaded_from_elsewhere(tmp_path / "x.css"))) == 2


@pytest.mark.parametrize("text", AT_HOME)
def test_links_and_own_files_are_no_loading(text: str, tmp_path: Path) -> None:
    """What a reader may follow, and what the site has itself."""
    (tmp_path / "page.html").write_text(text)
    assert list(loaded_from_elsewhere(tmp_path / "page.html")) == []
