"""A copy of the code and a PostgreSQL of its own, in which one mutant at a time meets its tests."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import URL, make_url

from harness.postgres import LocalPostgres
from tests.databases import JSON_LOG, SCHEMAS, SESSION, Session, plain
from tests.mutants.mutant import ROOT, Mutant

COPIED = ("airflow_rankguard", "dags", "docs", "harness", "tests")
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "tests.mutants.unshrunk", "-o", "timeout=60")
LONGEST_RUN = 900.0
GREEN, RED = 0, 1
NOTICED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one run of pytest said.

    :param exit_code: pytest's own: ``RED`` only when a test failed, not when one could not be found.
    :param seconds: how long it took.
    """

    exit_code: int
    output: str
    seconds: float

    @property
    def noticed_by(self) -> str:
        """The test that turned red."""
        found = NOTICED.search(self.output)
        return found[1] if found else ""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where tests run.

    :param root: the copy's root.
    :param session: its PostgreSQL, and the tables as the whole code makes them.
    """

    root: Path
    session: Session

    def run(self, tests: Iterable[str], *, new_tables: bool = False) -> Result:
        """Run tests on the copy as it stands, up to the first red one.

        :param new_tables: let the copy's own migrations make the tables, for this run alone.
        """
        tables = (
            ("RANKGUARD_TEST_DSN", plain(self.session.server)) if new_tables else (SESSION, str(self.session.folder))
        )
        began = time.monotonic()
        done = self._python(*PYTEST, *tests, **dict([tables]))
        return Result(exit_code=done.returncode, output=done.stdout, seconds=time.monotonic() - began)

    def run_without(self, mutant: Mutant) -> Result:
        """Run a mutant's tests on the copy with the mutant's line taken out; the copy is whole again afterwards."""
        file = self.root / mutant.file
        whole = file.read_text()
        _write(file, mutant.text(self.root))
        try:
            return self.run(mutant.tests, new_tables="migrations" in file.parts)
        finally:
            _write(file, whole)

    def imported(self) -> Path:
        """Where the package comes from in here: an installed checkout must not stand in for the copy."""
        return Path(self._python("-c", "import airflow_rankguard; print(airflow_rankguard.__file__)").stdout.strip())

    def _python(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if name not in (SESSION, "PYTEST_ADDOPTS")}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env=inherited | variables | {"PYTHONPATH": str(self.root)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LONGEST_RUN,
        )


@contextmanager
def opened_bench() -> Iterator[Bench]:
    """Copy the checkout, start a PostgreSQL, and make sure that the copy is what tests import."""
    with TemporaryDirectory(prefix="rankguard_mutants_") as folder, LocalPostgres(settings=JSON_LOG) as server:
        root = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", root)
        bench = Bench(root=root, session=_session(root / "session", make_url(server.url("postgres"))))
        imported = bench.imported()
        assert imported == root / "airflow_rankguard" / "__init__.py", f"tests would import {imported}"
        yield bench


def _session(folder: Path, server: URL) -> Session:
    """A session with all templates made, so that no mutant makes one that others use."""
    folder.mkdir()
    (folder / "server").write_text(plain(server))
    session = Session(folder=folder, server=server)
    for backend in SCHEMAS:
        with session.database(backend, folder.parent):
            pass
    return session


def _write(file: Path, text: str) -> None:
    file.write_text(text)
    # Byte code of the same second and size would be taken for this text's.
    Path(cache_from_source(str(file))).unlink(missing_ok=True)
