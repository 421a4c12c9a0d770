"""One of the tasks, a process of its own: it hears its order, gets ready, waits for a word, and makes its calls."""

import fcntl
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from uuid import UUID

from sqlalchemy import Engine

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.hooks.dataforseo import DataForSeoHook
from airflow_rankguard.rank import store
from airflow_rankguard.rank.check import queries_of
from airflow_rankguard.rank.serp import SerpQuery
from airflow_rankguard.rank.spending import Spending
from tests.answers import Answers
from tests.guard.stage import Stage, key


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a task is told.

    :param url: of the guard database, with its schema.
    :param run_id: the guarded run that all tasks belong to, and spend for.
    :param number: this task's, from 0.
    :param counter: the file that counts the searches that were taken; what is left is for whoever comes.
    """

    url: str
    schema: str | None
    run_id: str
    config_id: str
    ceiling: str
    number: int
    counter: str


def searches(engine: Engine, order: Order) -> list[SerpQuery]:
    """Give the config's searches."""
    with engine.begin() as connection:
        config = store.get_config(connection, order.config_id)
        return queries_of(config, store.list_keywords(connection, order.config_id))


def taken(wanted: Sequence[SerpQuery], counter: Path) -> Iterator[SerpQuery]:
    """Take one search after the other, each for one of the tasks, so that all ask until there are no more."""
    with counter.open("r+") as shared:
        while True:
            fcntl.flock(shared, fcntl.LOCK_EX)
            shared.seek(0)
            place = int(shared.read() or 0)
            shared.seek(0)
            shared.write(str(place + 1))
            shared.flush()
            fcntl.flock(shared, fcntl.LOCK_UN)
            if place >= len(wanted):
                return
            yield wanted[place]


def main() -> None:
    """Pay as the rank check does, with no connection kept open, and read every page."""
    order = Order(**json.loads(sys.stdin.readline()))
    engine = create_guard_engine(order.url, schema=order.schema)
    stage, ledger = Stage(engine, Answers()), Database(engine)
    presence = stage.enter(task=f"check_{order.number}").presence
    spending = Spending(ledger, UUID(order.run_id), order.config_id, Decimal(order.ceiling))
    wanted = searches(engine, order)
    held = lambda: stage.guard.assert_held(key(), presence)  # noqa: E731 - what `current_guard().assert_held` is
    with DataForSeoHook("serp").open_source(spending, ledger, assert_held=held) as source:
        print("ready", flush=True)
        sys.stdin.readline()
        for query in taken(wanted, Path(order.counter)):
            assert source.fetch(query).items


if __name__ == "__main__":
    main()
