"""Running a race, and what every race must have kept."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.databases import Database
from tests.races.attempts import writes
from tests.races.checker import Bounds, violations
from tests.races.history import History, read
from tests.races.plans import TIMINGS, Race, Weather

SEED = int(os.environ.get("RANKGUARD_RACE_SEED") or random.randrange(1 << 32))
BOUNDS = Bounds(
    drain=round(TIMINGS.drain_timeout.total_seconds() * 1e9), grace=round(TIMINGS.startup_grace.total_seconds() * 1e9)
)
Raced = Callable[..., History]


@pytest.fixture
def raced(database: Database, owner_engine: Engine, tmp_path: Path) -> Raced:
    """Run a race of the given weather as the tasks' role, and read its history."""
    writes.create(owner_engine)
    (tmp_path / "history").mkdir()

    def run(weather: Weather, **ordered: Any) -> History:
        race = Race(
            url=database.task_url.render_as_string(hide_password=False),
            schema=database.schema,
            folder=tmp_path / "history",
            seed=SEED,
            weather=weather,
            **ordered,
        )
        order = tmp_path / "race.json"
        order.write_text(json.dumps(asdict(race), default=str))
        done = subprocess.run(
            [sys.executable, "-m", "tests.races.controller", str(order)], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
        return read(race.folder)

    return run


def assert_kept(history: History) -> None:
    """Fail with the first broken promises, and with the seed that gives the same jobs again."""
    broken = violations(history, BOUNDS)
    assert not broken, "\n".join([f"RANKGUARD_RACE_SEED={SEED}, {len(broken)} violations", *broken[:20]])


def outcomes(history: History, verb: str) -> list[str | None]:
    """What all calls of a verb came to."""
    return [call.outcome for call in history.calls if call.verb == verb]
