"""Reading lists through the API."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import Engine, update

from airflow_rankguard.guard.tables import guarded_runs
from airflow_rankguard.guard.values import GuardedRun
from tests.api.stage import key

KEYS = [key("a", tenant="t1"), key("b", tenant="t1"), key("a", kind="export", tenant="t2"), key("z")]


def pages(client: TestClient, path: str, **query: Any) -> Iterator[dict[str, Any]]:
    """Turn the pages of a list to the last."""
    for _ in range(20):
        answer = client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        yield answer.json()
        if answer.json()["next"] is None:
            return
        query["after"] = answer.json()["next"]
    raise AssertionError("the pages do not end")


def rows(client: TestClient, path: str, **query: Any) -> list[dict[str, Any]]:
    """All rows of a list, two at a time."""
    return [row for page in pages(client, path, limit=2, **query) for row in page["rows"]]


def age(engine: Engine, run: GuardedRun, by: timedelta) -> None:
    """Let a run have begun so much earlier."""
    with engine.begin() as connection:
        connection.execute(update(guarded_runs).where(guarded_runs.c.id == run.id).values(started_at=run.since - by))


def moment(row: dict[str, Any], field: str) -> datetime:
    """A time of an answer; as text, one on the full second would sort behind the rest of that second."""
    return datetime.fromisoformat(row[field])
