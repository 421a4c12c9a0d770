"""One of the tasks, a process of its own: it hears its order, gets ready, waits for a word, and makes its calls."""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from sqlalchemy import Engine

from airflow_rankguard.guard.database import Database
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.hooks.dataforseo import DataForSeoHook
from airflow_rankguard.rank import store
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
    :param tasks: how many there are.
    """

    url: str
    schema: str | None
    run_id: str
    config_id: str
    ceiling: str
    number: int
    tasks: int


def searches(engine: Engine, order: Order) -> Iterator[SerpQuery]:
    """Give a task's share of the config's searches."""
    with engine.begin() as connection:
        config = store.get_config(connection, order.config_id)
        keywords = store.list_keywords(connection, order.config_id)
    for keyword in keywords[order.number :: order.tasks]:
        for device in config.devices:
            yield SerpQuery(
                keyword=keyword.text,
                device=device,
                location_code=config.location_code,
                language_code=config.language_code,
                depth=config.depth,
                keyword_id=keyword.id,
            )


def main() -> None:
    """Pay as the rank check does, with no connection kept open, and read every page."""
    order = Order(**json.loads(sys.stdin.readline()))
    engine = create_guard_engine(order.url, schema=order.schema)
    stage, ledger = Stage(engine, Answers()), Database(engine)
    presence = stage.enter(task=f"check_{order.number}").presence
    spending = Spending(ledger, UUID(order.run_id), order.config_id, Decimal(order.ceiling))
    wanted = list(searches(engine, order))
    held = lambda: stage.guard.assert_held(key(), presence)  # noqa: E731 - what `current_guard().assert_held` is
    with DataForSeoHook("serp").open_source(spending, ledger, assert_held=held) as source:
        print("ready", flush=True)
        sys.stdin.readline()
        for query in wanted:
            assert source.fetch(query).items


if __name__ == "__main__":
    main()
