"""A million configs are due, and eight claimers take a hundred at a time: how many rows all of them get in a second.

The guard judges each config and finds the next time of its own schedule; what is done by hand says what that costs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from airflow_rankguard.guard import schema
from airflow_rankguard.guard.engines import create_guard_engine
from benchmarks.driving import Driven
from benchmarks.figures import Figure, figure
from benchmarks.loading import filling
from benchmarks.peers import SCRIPTS, Contender
from benchmarks.stage import Stage, interleaved

CLAIMS = "eight claimers: claim 100 of 1 M due"
GUARD, RAW, JUDGED = "guard", "SKIP LOCKED, by hand", "SKIP LOCKED and due times, by hand"
WHOLE = "all that the guard reads and writes, by hand"
CLAIMERS, SIZE, SECONDS, LEAD = 8, 100, 1.0, 0.2
SCRIPT = {GUARD: "due_guard.py", RAW: "due_raw.py", JUDGED: "due_judged.py", WHOLE: "due_by_hand.py"}

CONFIGS = """
INSERT INTO rank_configs (id, domain, location_code, language_code, devices, depth, tenant, enabled, created_at)
SELECT 'config-' || n, 'shop.nl', 2528, 'nl', 'desktop', 20, '', true, now() FROM generate_series(1, %s) AS n
"""
KEYWORDS = """
INSERT INTO rank_keywords (config_id, keyword, ordinal, active)
SELECT 'config-' || n, 'keyword', 0, true FROM generate_series(1, %s) AS n
"""
SCHEDULES = """
INSERT INTO rank_schedules (config_id, schedule, time_zone, next_due_at)
SELECT 'config-' || n, 'daily', 'UTC', now() - (%s - n) * interval '10 milliseconds' FROM generate_series(1, %s) AS n
"""


def play(stage: Stage) -> Iterator[Figure]:
    """Measure all ways on one table, in turn."""
    configs = stage.times(1_000_000, 100_000)
    with stage.database() as dsn, ExitStack() as stack:
        write_due(dsn, configs)
        crowds = {name: _crowd(stack, name, dsn) for name in SCRIPT}
        yield from _storms(crowds, stage.times(6, 2), SECONDS if not stage.quick else SECONDS / 4)


def write_due(dsn: str, configs: int) -> None:
    """Write daily configs of a keyword each that are all due, the first one for the longest time."""
    engine = create_guard_engine(dsn)
    schema.upgrade(engine)
    engine.dispose()
    with filling(dsn, "rank_configs", "rank_keywords", "rank_schedules") as connection:
        connection.execute(CONFIGS, (configs,))
        connection.execute(KEYWORDS, (configs,))
        connection.execute(SCHEDULES, (configs, configs))


def _crowd(stack: ExitStack, name: str, dsn: str) -> Sequence[Driven]:
    script = SCRIPTS / SCRIPT[name]
    claimer = Contender(name=name, script=script, durable=True, excludes=True, says="claims what is due", pins=None)
    return [stack.enter_context(Driven(claimer, dsn=dsn)) for _ in range(CLAIMERS)]


def _storms(crowds: Mapping[str, Sequence[Driven]], rounds: int, seconds: float) -> Iterator[Figure]:
    """Nothing is ever given back, so that whoever claims what was claimed before, by anybody, has a duplicate."""
    claims: Counter[str] = Counter()
    duplicates, errors = dict.fromkeys(crowds, 0), dict.fromkeys(crowds, 0)

    def storm(name: str, _turn: int) -> list[float]:
        begin = time.monotonic() + LEAD
        for claimer in crowds[name]:
            claimer.send("storm", size=SIZE, begin=begin, end=begin + seconds)
        answers = [claimer.receive() for claimer in crowds[name]]
        claimed = [config for answer in answers for config in answer["claimed"]]
        before = sum(count - 1 for count in claims.values())
        claims.update(claimed)
        duplicates[name] += sum(count - 1 for count in claims.values()) - before
        errors[name] += sum(len(answer["errors"]) for answer in answers)
        return [len(claimed) / (max(answer["until"] for answer in answers) - begin)]

    interleaved(list(crowds), 1, storm)  # each warms up
    for name, speeds in interleaved(list(crowds), rounds, storm).items():
        yield figure(CLAIMS, name, speeds, unit="rows/s", overlaps=duplicates[name], errors=errors[name])
