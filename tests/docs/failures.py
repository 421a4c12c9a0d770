"""``python -m tests.docs.failures`` writes docs/failures.md: the lifecycle suite's rows, and what it measured."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.lifecycle.playing import Scenario
from tests.lifecycle.rows import endings, marks, removals, shapes
from tests.lifecycle.services import SERVICES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "failures.md"
RESULTS = DOCS / "failures.json"

SECTIONS: Mapping[str, Sequence[Scenario]] = {
    "Work and runs that end, processes that die": endings.ROWS,
    "What a person does to a run: mark, clear, queue again": marks.ROWS,
    "Runs and DAGs that go away, and come back": removals.ROWS,
    "Other shapes than one task in one group": shapes.ROWS,
    "Services that go away, and come back": SERVICES,
}
WORDS = {"api": "API", "dag": "DAG", "dagrun": "DagRun", "sigkill": "SIGKILL", "sigterm": "SIGTERM"}
MEASURED = ("free after", "by", "next work after")

HEAD = """\
# Every failure that is played

Each row is a play of `make test-lifecycle`: a real Airflow, real processes, a run that holds a key, and somebody else
who wants it all the time. The work writes down ten times a second that it is alive. In no row may the work of two lives
overlap, may work outlive its key, or may the key stay locked. `python -m tests.docs.failures` makes this page from the
suite itself.

"""
WITHOUT_SECONDS = """\
The seconds depend on the machine. To have yours in the table:

```sh
RANKGUARD_TEST_TABLE=docs/failures.json make test-lifecycle
.venv/bin/python -m tests.docs.failures
```
"""
WITH_SECONDS = """\
The seconds are those of one run of the suite, with the guard on PostgreSQL. *Free after* counts from the last sign of
life of a run's work to the end of its hold. *By* is who ended it: the run's own release, somebody who found it stale
(reclaimed), or a person (forced). *Next work after* counts to the first sign of life of the next holder's work.
"""

Line = Mapping[str, Any]


def page(results: Sequence[Line]) -> str:
    """The whole page.

    :param results: the suite's lines; where there are none the tables have no seconds.
    """
    lines = {(line["scenario"], line["listener"]): line for line in results if line["backend"] == "postgres"}
    tables = ("\n".join((f"\n## {title}\n", *_table(rows, lines), "")) for title, rows in SECTIONS.items())
    return HEAD + (WITH_SECONDS if lines else WITHOUT_SECONDS) + "".join(tables)


def _table(rows: Sequence[Scenario], lines: Mapping[tuple[str, bool], Line]) -> Iterator[str]:
    columns = ("what happens", "how it goes", *(MEASURED if lines else ()))
    yield _row(columns)
    yield "|" + "---|" * len(columns)
    for row in rows:
        measured = _measured(lines.get((row.name, row.only_listening))) if lines else ()
        yield _row((_words(row), _said(row), *measured))


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _words(row: Scenario) -> str:
    words = " ".join(WORDS.get(word, word) for word in row.name.split("_"))
    return words[0].upper() + words[1:] + (" (listener on)" if row.only_listening else "")


def _said(row: Scenario) -> str:
    return " ".join((row.play.__doc__ or "").split())


def _measured(line: Line | None) -> tuple[str, ...]:
    if line is None:
        return ("",) * len(MEASURED)
    return _seconds(line["to_free"]), line["freed_by"], _seconds(line["to_next"])


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def results() -> list[Line]:
    """The suite's lines, where somebody has left them."""
    found: list[Line] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return found


if __name__ == "__main__":
    PAGE.write_text(page(results()))
