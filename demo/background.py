"""``up`` and ``down``: the demo's Airflow in the background, held by a keeper process that outlives its terminal."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from demo.hold import hold, holder
from demo.place import CONFIG, ROOT, Place
from demo.teller import Teller

START_TIMEOUT = 240.0
STOP_TIMEOUT = 30.0
POLL = 0.2
CLICKS = (
    f"Dags, rank_check, Trigger, Config: {CONFIG}. Its Graph shows acquire, check, release.",
    "Trigger rank_check_paced and, while it runs, rank_check: it is skipped; the log of its acquire says why.",
    "That acquire's tab Details has the button Blocking run, which leads to the run that holds the key.",
    "Browse, Run guards: who holds what, who was refused; Force release frees a key.",
    "Trigger rank_check_killed and, when it has failed, rank_check: the log of its acquire names what it reclaimed.",
)


def up(folder: Path, teller: Teller) -> None:
    """Open Airflow in the background, if it is not open already, and print how to get in.

    :raises ChildProcessError: it did not start.
    :raises TimeoutError: it did not start in time.
    """
    teller.title("Rank Guard: an Airflow to look around in")
    if holder(_lock(folder)) is None:
        with teller.waiting("Airflow starts in the background."):
            _open(folder)
    else:
        teller.say("Airflow is up already.")
    _tell(folder, teller)


def down(folder: Path, teller: Teller) -> None:
    """End what ``up`` has opened, if it is open.

    :raises TimeoutError: it does not end.
    """
    keeper = holder(_lock(folder))
    if keeper is None:
        teller.say("Airflow is not up: there is nothing to end.")
    else:
        with teller.waiting("Airflow ends."):
            os.kill(keeper, signal.SIGTERM)
            for _ in _looks(STOP_TIMEOUT, f"Airflow does not end; its keeper is process {keeper}"):
                if holder(_lock(folder)) is None:
                    break
        teller.shown("Airflow is down, and all of its processes are gone.")
    shutil.rmtree(folder / "up", ignore_errors=True)


def keep(folder: Path) -> None:
    """Hold Airflow open until SIGTERM; the keeper process runs this.

    :raises AlreadyHeld: another keeper does.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    place = Place(folder / "up")
    with hold(_lock(folder)):
        place.prepare(print)
        password = secrets.token_urlsafe(12)
        with place.airflow(password=password) as airflow:
            entrance = {"url": airflow.url, "user": "admin", "password": password, "guard": place.guard_url}
            draft = place.folder / "entrance.draft"
            draft.touch(mode=0o600)
            draft.write_text(json.dumps(entrance))
            draft.rename(_entrance(folder))
            while True:
                signal.pause()


def _open(folder: Path) -> None:
    _entrance(folder).unlink(missing_ok=True)
    log = folder / "keeper.log"
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "demo", "keep", "--folder", str(folder)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        for _ in _looks(START_TIMEOUT, f"Airflow does not start: see {log}"):
            if _entrance(folder).exists():
                return
            if keeper.poll() is not None:
                raise ChildProcessError(f"Airflow did not start: see {log}")
    except BaseException:
        keeper.terminate()
        keeper.wait()
        raise


def _tell(folder: Path, teller: Teller) -> None:
    for _ in _looks(START_TIMEOUT, "Airflow is still starting"):
        if _entrance(folder).exists():
            break
    entrance = json.loads(_entrance(folder).read_text())
    teller.shown(f"Airflow is at {entrance['url']}, log in as {entrance['user']} with {entrance['password']}")
    teller.say("What to click:")
    for click in CLICKS:
        teller.quote(click)
    teller.say("The same from a terminal:")
    teller.quote(f"RANKGUARD_URL={entrance['guard']} {Path(sys.executable).with_name('rankguard')} list")
    teller.say("It stays open when this terminal closes. Its end: make down.")


def _lock(folder: Path) -> Path:
    return folder / "up.lock"


def _entrance(folder: Path) -> Path:
    return folder / "up" / "entrance.json"


def _looks(timeout: float, complaint: str) -> Iterator[None]:
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        yield
        time.sleep(POLL)
    raise TimeoutError(complaint)
