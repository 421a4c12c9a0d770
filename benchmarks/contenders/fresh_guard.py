"""A process that has imported the task SDK, and then takes a key by the guard: it prints when each part was done."""

from __future__ import annotations

import json
import sys
import time

from airflow.sdk import DAG, BaseHook, BaseOperator  # noqa: F401 - what every task has loaded

MARKS = [("airflow.sdk", time.monotonic(), time.process_time())]
STATEMENTS = iter(("first look", "statement"))


def mark(part: str) -> None:
    """Note that a part is done."""
    MARKS.append((part, time.monotonic(), time.process_time()))


def main(dsn: str, key: str) -> None:
    """Take the key."""
    from sqlalchemy import event  # noqa: PLC0415 - it is what is measured

    from airflow_rankguard.guard.answers import Answer, RunState  # noqa: PLC0415
    from airflow_rankguard.guard.engines import create_guard_engine  # noqa: PLC0415
    from airflow_rankguard.guard.outcomes import Acquired  # noqa: PLC0415
    from airflow_rankguard.guard.service import Guard  # noqa: PLC0415
    from airflow_rankguard.guard.values import GuardKey, Life, Owner  # noqa: PLC0415

    mark("import")
    engine = create_guard_engine(dsn)
    mark("driver")  # SQLAlchemy imports psycopg when the engine is made
    event.listen(engine, "connect", lambda *_: mark("connect"))
    event.listen(engine, "after_cursor_execute", lambda *_: mark(next(STATEMENTS)))
    owner = Owner(deployment="benchmark", dag_id="dag", run_id=key, guard_id="guard")
    wanted = GuardKey(kind="benchmark", resource=key)
    outcome = Guard(engine, "benchmark").acquire(
        wanted, owner, Life(try_number=1), lambda _: Answer(state=RunState.RUNNING)
    )
    assert isinstance(outcome, Acquired)
    mark("answer")
    print(json.dumps(MARKS))


if __name__ == "__main__":
    main(*sys.argv[1:])
