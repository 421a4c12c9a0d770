"""A rank check as the running task makes it: what there is to do, and what is done, written while it holds its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_rankguard.rank import store
from airflow_rankguard.rank.check import check, queries_of
from airflow_rankguard.rank.errors import UnknownKeywords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from decimal import Decimal
    from uuid import UUID

    from sqlalchemy import Engine

    from airflow_rankguard.fence import CurrentGuard
    from airflow_rankguard.rank.check import Summary
    from airflow_rankguard.rank.keywords import Keyword
    from airflow_rankguard.rank.serp import SerpQuery, SerpSource
    from airflow_rankguard.rank.values import Pair, Progress, RankConfig, RankRun, Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class Checking:
    """A rank check that has begun, now or in an earlier try.

    :param ceiling: the most that a check of the config's schedule may pay, in US dollars.
    :param done: what earlier tries have measured: None, or the reason why it could not be checked.
    """

    guard: CurrentGuard
    engine: Engine
    config: RankConfig
    keywords: tuple[Keyword, ...]
    ceiling: Decimal | None
    run: RankRun
    done: Mapping[Pair, str | None]
    say: Callable[[str], None]

    @property
    def run_id(self) -> UUID:
        """The guarded run that it is."""
        return self.guard.presence.guarded_run_id

    def todo(self) -> list[SerpQuery]:
        """Give the searches that are not done."""
        return [query for query in queries_of(self.config, self.keywords) if query.pair not in self.done]

    def go_on(self, source: SerpSource, batch: int, lost: Mapping[Pair, str | None] | None = None) -> Summary:
        """Measure what is not measured yet.

        :param lost: searches that must not be made, and why.
        """
        own = {query.pair for query in self.todo()}
        known = {pair: why for pair, why in (lost or {}).items() if pair in own} | dict(self.done)
        spent = self.run.progress.cost
        return check(self.config, self.keywords, source, self._write, done=known, spent=spent, batch=batch)

    def _write(self, snapshots: Sequence[Snapshot], progress: Progress) -> None:
        """Write under the guard; with the last one it is finished, so that nobody calls the run failed any more."""
        with self.engine.begin() as connection:
            self.guard.protect(connection)
            store.write_snapshots(connection, self.run_id, self.config.id, snapshots, progress)
            if not progress.open:
                store.finish_run(connection, self.run_id)
                self.guard.note_work_done(connection)
        self.say(f"{self.config.id}: {progress.total - progress.open} of {progress.total} checked")


def begin(
    guard: CurrentGuard, engine: Engine, config_id: str, keyword_ids: Sequence[int] | None, say: Callable[[str], None]
) -> Checking:
    """Begin a check, or go on with the one that the guarded run has begun.

    :param keyword_ids: the keywords that are checked; None means all.
    :param say: is told how far it is, at each write.
    :raises UnknownConfig: there is no such config.
    :raises UnknownKeywords: it has no such keywords.
    """
    with engine.begin() as connection:
        guard.protect(connection)
        config = store.get_config(connection, config_id)
        keywords = _wanted(config_id, store.list_keywords(connection, config_id), keyword_ids)
        run_id = guard.presence.guarded_run_id
        return Checking(
            guard=guard,
            engine=engine,
            config=config,
            keywords=keywords,
            ceiling=store.get_max_cost(connection, config_id),
            run=store.begin_run(connection, run_id, config_id, guard.token),
            done=store.list_done(connection, run_id),
            say=say,
        )


def _wanted(config_id: str, keywords: Sequence[Keyword], keyword_ids: Sequence[int] | None) -> tuple[Keyword, ...]:
    if keyword_ids is None:
        return tuple(keywords)
    unknown = set(keyword_ids) - {keyword.id for keyword in keywords}
    if unknown:
        raise UnknownKeywords(config_id, sorted(unknown))
    return tuple(keyword for keyword in keywords if keyword.id in keyword_ids)
