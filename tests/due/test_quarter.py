"""A quarter of a thousand scheduled configs: eight processes claim at once, die, and are replaced."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, update

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.rank import store
from airflow_rankguard.rank.tables import rank_schedules
from tests.databases import Database
from tests.due.checker import violations
from tests.due.ledger import Did, read
from tests.due.plans import BEGIN, Member, Quarter, members

SEED = int(os.environ.get("RANKGUARD_DUE_SEED") or random.randrange(1 << 32))
MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
BROKEN = "broken"


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: it outlives killed processes as well, and a disk would set the pace."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    with TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def write_configs(connection: Connection, everybody: list[Member]) -> None:
    """Store the configs, their keywords and schedules, and beside them one whose time zone nobody knows."""
    for member in (*everybody, replace(everybody[0], config=replace(everybody[0].config, id=BROKEN))):
        name = member.config.id
        store.add_config(connection, member.config)
        if member.keywords:
            store.import_keywords(connection, name, [f"keyword {n}" for n in range(member.keywords)])
        store.set_schedule(connection, name, member.schedule, max_cost=member.max_cost, now=BEGIN)
    nowhere = update(rank_schedules).where(rank_schedules.c.config_id == BROKEN).values(time_zone="Europe/Nowhere")
    connection.execute(nowhere)


def let_it_go_by(quarter: Quarter, order: Path) -> dict[str, Any]:
    """Run a quarter, and give what its controller says."""
    order.write_text(json.dumps(asdict(quarter), default=str))
    done = subprocess.run(
        [sys.executable, "-m", "tests.due.controller", str(order)], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, f"seed {SEED}: {done.stderr}"
    assert done.stderr == ""
    said: dict[str, Any] = json.loads(done.stdout)
    return said


@pytest.mark.quarter
@pytest.mark.timeout(3600)
def test_every_due_time_is_served_once_or_has_a_reason(database: Database, engine: Engine, tmp_path: Path) -> None:
    """Through kills, held keys, changes of the clocks and an outage: no drift, no second run, no broken promise."""
    url = database.task_url.render_as_string(hide_password=False)
    quarter = Quarter(url=url, schema=database.schema, folder=tmp_path / "quarter", seed=SEED)
    quarter.folder.mkdir()
    everybody, spoken = list(members(quarter.configs)), GuardDatabase(engine)
    spoken.transaction(write_configs, everybody)
    before = spoken.look(store.list_schedules)
    said = let_it_go_by(quarter, tmp_path / "quarter.json")
    lines = read(quarter.folder)
    broken = [*said["overlaps"], *violations(everybody, {name: row.next_due_at for name, row in before.items()}, lines)]
    assert not broken, "\n".join([f"RANKGUARD_DUE_SEED={SEED}, {len(broken)} violations", *broken[:20]])
    did = Counter(line.did for line in lines)
    assert min(said["deaths"], did[Did.GAVE_BACK], did[Did.SKIPPED]) > 20, "the quarter was too calm to show anything"
    assert did[Did.FOUND], "nobody died between a run's creation and the word that it is there"
    left = spoken.look(store.list_schedules)[BROKEN]
    assert left.next_due_at == before[BROKEN].next_due_at
    assert left.last_skip_reason == "error: BadSchedule: there is no time zone 'Europe/Nowhere'"
