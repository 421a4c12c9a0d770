"""A process that has imported the task SDK, and then takes a key as raw.py does: it prints when each part was done."""

from __future__ import annotations

import json
import sys
import time

from airflow.sdk import DAG, BaseHook, BaseOperator  # noqa: F401 - what every task has loaded

MARKS = [("airflow.sdk", time.monotonic(), time.process_time())]


def mark(part: str) -> None:
    """Note that a part is done."""
    MARKS.append((part, time.monotonic(), time.process_time()))


def main(dsn: str, key: str) -> None:
    """Take the key."""
    import psycopg  # noqa: PLC0415 - it is what is measured
    from raw import Raw  # noqa: PLC0415

    mark("import")
    raw = Raw()
    raw.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
    mark("connect")
    assert raw.take(key)
    mark("statement")
    print(json.dumps(MARKS))


if __name__ == "__main__":
    main(*sys.argv[1:])
