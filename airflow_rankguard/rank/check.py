"""The loop of a rank check; fetching and writing belong to its caller."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from typing import TYPE_CHECKING

from airflow_rankguard.rank.errors import NotYet, SerpError, SourceStopped
from airflow_rankguard.rank.positions import find_position
from airflow_rankguard.rank.serp import SerpQuery
from airflow_rankguard.rank.values import KeywordFailure, Progress, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_rankguard.rank.keywords import Keyword
    from airflow_rankguard.rank.serp import SerpSource
    from airflow_rankguard.rank.values import Pair, RankConfig

BATCH = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The end of a rank check: how far it came, and what could not be checked, earlier tries included.

    :param waiting: how many searches have no page yet.
    :param stopped: why the source gave no more pages before everything was asked; None when everything was.
    """

    progress: Progress
    failures: tuple[KeywordFailure, ...]
    waiting: int = 0
    stopped: SourceStopped | None = None

    def __str__(self) -> str:
        progress = self.progress
        text = f"{progress.checked} of {progress.total} checked for {progress.cost.normalize():f} USD"
        if self.waiting:
            text += f", {self.waiting} not ready yet"
        if self.stopped:
            text += f", {progress.open - self.waiting} not asked: {self.stopped}"
        if not self.failures:
            return text
        reasons = "; ".join(f"{bad.keyword} on {bad.device}: {bad.reason}" for bad in self.failures)
        return f"{text}, {progress.failed} could not be checked: {reasons}"


def check(
    config: RankConfig,
    keywords: Sequence[Keyword],
    source: SerpSource,
    write: Callable[[Sequence[Snapshot], Progress], None],
    *,
    done: Mapping[Pair, str | None] | None = None,
    spent: Decimal = Decimal(0),
    batch: int = BATCH,
) -> Summary:
    """Measure each keyword on each device that is not measured yet; only a source that stops ends it early.

    A search that is not ready yet is left open.

    :param write: called with a batch of snapshots and the progress that includes them. The first call has no
        snapshots: who may not write any more learns it before the first paid search. What it raises ends the
        check.
    :param done: what earlier tries of this run measured: None, or the reason why it could not be checked.
    :param spent: what they have cost, in US dollars.
    :param batch: snapshots per write; with 1 each paid page is kept, and the right to go on asked for, at once.
    """
    reasons = dict(done or {})
    todo = [query for query in queries_of(config, keywords) if query.pair not in reasons]
    progress = _so_far(reasons, len(todo), spent)
    write((), progress)
    pending: list[Snapshot] = []
    waiting, stopped = 0, None
    for query in todo:
        try:
            snapshot, cost = _measure(config, query, source)
        except NotYet:
            waiting += 1
            continue
        except SourceStopped as stop:
            stopped = stop
            break
        reasons[query.pair] = snapshot.reason
        progress = progress.after(snapshot, cost)
        pending.append(snapshot)
        if len(pending) == batch:
            write(pending, progress)
            pending = []
    if pending:
        write(pending, progress)
    failures = _failures(reasons, keywords)
    return Summary(progress=progress, failures=failures, waiting=waiting, stopped=stopped)


def queries_of(config: RankConfig, keywords: Sequence[Keyword]) -> list[SerpQuery]:
    """Give the searches that a config's check is made of."""
    return [
        SerpQuery(
            keyword=keyword.text,
            device=device,
            location_code=config.location_code,
            language_code=config.language_code,
            depth=config.depth,
            keyword_id=keyword.id,
        )
        for keyword, device in product(keywords, config.devices)
    ]


def _so_far(reasons: Mapping[Pair, str | None], todo: int, spent: Decimal) -> Progress:
    failed = sum(reason is not None for reason in reasons.values())
    return Progress(total=len(reasons) + todo, checked=len(reasons) - failed, failed=failed, cost=spent)


def _measure(config: RankConfig, query: SerpQuery, source: SerpSource) -> tuple[Snapshot, Decimal]:
    unchecked = Snapshot(keyword_id=query.keyword_id, device=query.device, depth=config.depth)
    try:
        result = source.fetch(query)
    except SerpError as error:
        return replace(unchecked, reason=error.reason), error.cost
    if other := result.differs_from(query):
        return replace(unchecked, reason=f"the answer is for {other}"), result.cost
    return replace(unchecked, position=find_position(result.items, config.domain, config.depth)), result.cost


def _failures(reasons: Mapping[Pair, str | None], keywords: Sequence[Keyword]) -> tuple[KeywordFailure, ...]:
    names = {keyword.id: keyword.text for keyword in keywords}
    return tuple(
        KeywordFailure(keyword=names.get(number, f"dropped keyword {number}"), device=device, reason=reason)
        for (number, device), reason in reasons.items()
        if reason is not None
    )
