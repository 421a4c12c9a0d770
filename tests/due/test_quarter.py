"""A quarter of a thousand scheduled configs: eight processes claim at once, die, and are replaced."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import Connection, Engine, update

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.rank import store
from airflow_rankguard.rank.tables import rank_schedules
from tests.databases import Database
from tests.due.checker import coalesced, violations
from tests.due.ledger import Did, Line, read
from tests.due.plans import BEGIN, DAY, END, Member, Quarter, members

SEED = int(os.environ.get("RANKGUARD_DUE_SEED") or random.randrange(1 << 32))
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: it outlives killed processes as well, and a disk would set the pace."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def write_members(connection: Connection, everybody: list[Member]) -> None:
    """Store the configs, their keywords and schedules."""
    for member in everybody:
        name = member.config.id
        store.add_config(connection, member.config)
        if member.keywords:
            store.import_keywords(connection, name, [f"keyword {n}" for n in range(member.keywords)])
        store.set_schedule(connection, name, member.schedule, max_cost=member.max_cost, now=BEGIN)


@pytest.mark.timeout(900)
def test_every_due_time_is_served_once_or_has_a_reason(database: Database, engine: Engine, tmp_path: Path) -> None:
    """Through kills, held keys, both changes of the clocks and an outage: no drift, no second run, no broken promise."""
    quarter = Quarter(
        url=database.task_url.render_as_string(hide_password=False),
        schema=database.schema,
        folder=tmp_path / "quarter",
        seed=SEED,
    )
    quarter.folder.mkdir()
    everybody = list(members(quarter.configs))
    spoken = GuardDatabase(engine)
    spoken.transaction(write_members, everybody)
    firsts = {name: row.next_due_at for name, row in spoken.look(store.list_schedules).items()}
    order = tmp_path / "quarter.json"
    order.write_text(json.dumps(asdict(quarter), default=str))
    done = subprocess.run(
        [sys.executable, "-m", "tests.due.controller", str(order)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    said, lines = json.loads(done.stdout), read(quarter.folder)
    broken = [*said["overlaps"], *violations(everybody, firsts, lines)]
    assert not broken, "\n".join([f"RANKGUARD_DUE_SEED={SEED}, {len(broken)} violations", *broken[:20]])
    print(
        said["deaths"],
        len(lines),
        coalesced(lines),
        len([l for l in lines if l.did is Did.FOUND]),
        len([l for l in lines if l.did is Did.GAVE_BACK]),
    )
