"""Eight tasks, each a process, that together ask for ten thousand paid calls as fast as they may.

They take five minutes of one core. On a machine that has none to spare they cannot ask fast enough.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.values import GuardedRun
from airflow_rankguard.rank import store
from airflow_rankguard.rank.spending import Spending
from airflow_rankguard.rank.tables import rank_spendings
from airflow_rankguard.rank.values import Device, RankConfig
from tests.answers import Answers
from tests.databases import Database
from tests.dataforseo.provider import LOGIN, PASSWORD
from tests.guard.stage import Stage
from tests.rank.windows import most_in_a_window
from tests.rate.minutes import MINUTE, full_minutes
from tests.rate.task import Order

TASKS, CALLS = 8, 10_000
MOST, LEAST = 2000, 1900
PRICE = Decimal("0.002")
SHOP = RankConfig(
    id="shop-nl",
    domain="coolblue.nl",
    location_code=2528,
    language_code="nl",
    devices=(Device.DESKTOP, Device.MOBILE),
    depth=10,
)
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a module of this folder as a process; what it complains about is in `complaints`."""
    with ExitStack() as started, (tmp_path / "complaints").open("w") as complaints:

        def made(module: str) -> subprocess.Popen[str]:
            command, pipe = [sys.executable, "-m", f"tests.rate.{module}"], subprocess.PIPE
            process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=complaints, text=True)
            started.callback(process.wait)
            started.callback(process.kill)
            return process

        yield made


@pytest.fixture
def run(engine: Engine) -> GuardedRun:
    """A run that holds the key of a config with as many searches as there will be calls."""
    with engine.begin() as connection:
        store.add_config(connection, SHOP)
        store.import_keywords(connection, SHOP.id, [f"keyword {n}" for n in range(CALLS // len(SHOP.devices))])
    return Stage(engine, Answers()).held()


def tell(process: subprocess.Popen[str], line: str = "") -> None:
    """Say a line to a process."""
    assert process.stdin
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def said(process: subprocess.Popen[str]) -> str:
    """A line that a process says."""
    assert process.stdout
    return process.stdout.readline().strip()


def connection_to(port: str) -> str:
    """The Airflow connection to the server, as an environment variable has it."""
    account = {"conn_type": "http", "login": LOGIN, "password": PASSWORD}
    return json.dumps({**account, "schema": "http", "host": "127.0.0.1", "port": int(port)})


def let_them_call(start: Start, orders: list[Order], complaints: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Send all tasks off together, and give what the server has seen when they are done."""
    server = start("server")
    monkeypatch.setenv("AIRFLOW_CONN_SERP", connection_to(said(server)))
    tasks = [start("task") for _ in orders]
    for task, order in zip(tasks, orders, strict=True):
        tell(task, json.dumps(asdict(order)))
    assert [said(task) for task in tasks] == ["ready"] * len(tasks), complaints.read_text()
    for task in tasks:
        tell(task)
    assert [task.wait() for task in tasks] == [0] * len(tasks), complaints.read_text()
    return json.loads(server.communicate()[0])


@pytest.mark.rate
@pytest.mark.timeout(900)
def test_no_minute_has_too_many_calls_and_every_full_one_nearly_as_many(
    database: Database,
    engine: Engine,
    run: GuardedRun,
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never above 2,000 in any 60 seconds, at least 1,900 in each full minute; each call is paid for once."""
    ceiling, counter = CALLS * PRICE, tmp_path / "counter"
    counter.touch()
    first = Order(
        url=database.task_url.render_as_string(hide_password=False),
        schema=database.schema,
        run_id=str(run.id),
        config_id=SHOP.id,
        ceiling=str(ceiling),
        number=0,
        counter=str(counter),
    )
    orders = [replace(first, number=number) for number in range(TASKS)]
    seen = let_them_call(start, orders, tmp_path / "complaints", monkeypatch)
    minutes = full_minutes(seen["arrivals"])
    most = most_in_a_window([(arrival, 1) for arrival in seen["arrivals"]], MINUTE)
    print(f"\nAt most {most} calls in any {MINUTE:g} seconds; in each full minute {', '.join(map(str, minutes))}.")
    assert seen["paid"] == [1] * CALLS
    assert len(seen["arrivals"]) == CALLS
    assert most <= MOST
    assert min(minutes, default=0) >= LEAST, f"{minutes} calls in the full minutes; was the machine busy otherwise?"
    assert Spending(GuardDatabase(engine), run.id, SHOP.id, ceiling).spent() == ceiling
    with engine.begin() as connection:
        unsettled = select(func.count()).where(rank_spendings.c.settled_at.is_(None))
        assert connection.execute(unsettled).scalar_one() == 0
