"""A rank check as the running task makes it: what there is to do, and what is done, written while it holds its key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_rankguard.rank import store
from airflow_rankguard.rank.check import check, queries_of
from airflow_rankguard.rank.errors import SerpError, UnknownKeywords
from airflow_rankguard.rank.hearing import LOST

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from decimal import Decimal
    from uuid import UUID

    from sqlalchemy import Engine

    from airflow_rankguard.fence import CurrentGuard
    from airflow_rankguard.rank.check import Summary
    from airflow_rankguard.rank.keywords import Keyword
    from airflow_rankguard.rank.serp import SerpQuery, SerpResult, SerpSource
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

    def go_on(self, source: SerpSource, batch: int, lost: Collection[Pair] = ()) -> Summary:
        """Measure what is not measured yet.

        :param lost: searches that must not be made, since nobody knows whether they are paid for.
        """
        sparing = _Sparing(source, lost)
        spent = self.run.progress.cost
        return check(self.config, self.keywords, sparing, self._write, done=self.done, spent=spent, batch=batch)

    def _write(self, snapshots: Sequence[Snapshot], progress: Progress) -> None:
        """Write under the guard; with the last one it is finished, so that nobody calls the run failed any more."""
        with self.engine.begin() as connection:
            self.guard.protect(connection)
            store.write_snapshots(connection, self.run_id, self.config.id, snapshots, progress, part_of(self.guard))
            if not progress.open:
                store.finish_run(connection, self.run_id, part_of(self.guard))
                # Of mapped tasks nobody knows here whether others are still to come.
                if self.guard.presence.member.map_index < 0:
                    self.guard.note_work_done(connection)
        self.say(f"{self.config.id}: {progress.total - progress.open} of {progress.total} checked")


@dataclass(frozen=True, slots=True)
class _Sparing:
    """A source that is not asked for what is lost."""

    source: SerpSource
    lost: Collection[Pair]

    def fetch(self, query: SerpQuery) -> SerpResult:
        if query.pair in self.lost:
            raise SerpError(LOST)
        return self.source.fetch(query)


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
            run=store.begin_run(connection, run_id, config_id, guard.token, part_of(guard)),
            done=_own(store.list_done(connection, run_id), keyword_ids),
            say=say,
        )


def part_of(guard: CurrentGuard) -> str:
    """The task's share of the run's check."""
    member = guard.presence.member
    return member.task_id if member.map_index < 0 else f"{member.task_id}[{member.map_index}]"


def _own(done: dict[Pair, str | None], keyword_ids: Sequence[int] | None) -> dict[Pair, str | None]:
    """Leave out what other tasks of the run have measured."""
    return {pair: why for pair, why in done.items() if keyword_ids is None or pair[0] in keyword_ids}


def _wanted(config_id: str, keywords: Sequence[Keyword], keyword_ids: Sequence[int] | None) -> tuple[Keyword, ...]:
    if keyword_ids is None:
        return tuple(keywords)
    unknown = set(keyword_ids) - {keyword.id for keyword in keywords}
    if unknown:
        raise UnknownKeywords(config_id, sorted(unknown))
    return tuple(keyword for keyword in keywords if keyword.id in keyword_ids)
