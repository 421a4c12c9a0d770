"""Who is measured: each contender, what it is, and the interpreter that runs it.

A peer's library has a virtual environment of its own under `.bench`, made when its interpreter is first asked for.
"""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "contenders"
ENVIRONMENTS = Path(__file__).parents[1] / ".bench"


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One way to run one thing at a time.

    :param script: what speaks the protocol of contenders/serving.py.
    :param durable: whether a key stays taken when its holder's connection or the server dies.
    :param excludes: whether it promises that a key has one holder.
    :param says: what it is, in half a sentence.
    :param pins: the requirements of its virtual environment; None for one that the project's own interpreter runs.
    """

    name: str
    script: Path
    durable: bool
    excludes: bool
    says: str
    pins: Path | None


def _own(name: str, says: str, *, durable: bool = True, excludes: bool = True) -> Contender:
    script = SCRIPTS / f"{name}.py"
    return Contender(name=name, script=script, durable=durable, excludes=excludes, says=says, pins=None)


def _library(name: str, says: str) -> Contender:
    script, pins = SCRIPTS / f"{name}_job.py", SCRIPTS / "requirements" / f"{name}.txt"
    return Contender(name=name, script=script, durable=True, excludes=True, says=says, pins=pins)


CONTENDERS: Mapping[str, Contender] = {
    contender.name: contender
    for contender in (
        _own("bare", "one INSERT and its COMMIT", excludes=False),
        _own("two_commits", "an INSERT and an UPDATE, the floor of a durable lock", excludes=False),
        _own("raw", "a partial unique index, by hand in psycopg 3"),
        _own("guard", "airflow_rankguard"),
        _library("chancy", "jobs with a unique key"),
        _library("procrastinate", "jobs with a lock and a queueing lock"),
        _library("pgqueuer", "jobs with a dedupe key"),
        _own("advisory_insert", "a session advisory lock, and a row that says who had it", durable=False),
        _own("advisory", "a session advisory lock alone", durable=False),
        _own("read_then_decide", "a SELECT, and an INSERT when it finds nobody", excludes=False),
    )
}


def interpreter(contender: Contender) -> Path:
    """Give the Python that runs a contender's script.

    The first call for a peer installs its pins, which takes some seconds.

    :raises subprocess.CalledProcessError: when they cannot be installed.
    """
    if contender.pins is None:
        return Path(sys.executable)
    folder = ENVIRONMENTS / contender.name
    python, stamp = folder / "bin" / "python", folder / ".installed"
    wanted = f"{sys.version}\n{contender.pins.read_text()}"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        quietly = ("--quiet", "--quiet", "--disable-pip-version-check")
        subprocess.run([python, "-m", "pip", "install", *quietly, "-r", contender.pins], check=True)
        stamp.write_text(wanted)
    return python
