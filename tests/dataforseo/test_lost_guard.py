"""A check whose key is taken away in the middle: it writes nothing more, and pays for nothing more."""

from collections.abc import Callable, Sequence

import httpx
import pytest
from sqlalchemy import Engine

from airflow_rankguard.guard.errors import GuardLost
from airflow_rankguard.guard.outcomes import Ended
from airflow_rankguard.rank import store
from airflow_rankguard.rank.check import check
from airflow_rankguard.rank.dataforseo import DataForSeoSource
from airflow_rankguard.rank.values import Progress, RankConfig, Snapshot
from tests.answers import Answers
from tests.dataforseo.conftest import Purse
from tests.dataforseo.provider import Call, Provider, http
from tests.guard.stage import Stage, key

KEYWORDS = ("a", "b", "c", "d")


class Checking:
    """A task's process at its check, as ``RankCheckOperator`` runs it with a source that costs money."""

    def __init__(self, engine: Engine, config: RankConfig) -> None:
        self.stage, self.config = Stage(engine, Answers()), config
        self.run = self.stage.held()
        self.presence = self.stage.enter().presence
        self.purse = Purse()
        with engine.begin() as connection:
            store.add_config(connection, config)
            store.import_keywords(connection, config.id, KEYWORDS)
            self.keywords = store.list_keywords(connection, config.id)
            store.begin_run(connection, self.run.id, config.id, self.run.token)

    def lose(self) -> None:
        """Let somebody else take the key, sure that this process is dead."""
        freed = self.stage.guard.force_release(self.run.id, self.stage.answers, reason="dead", by="test", now=True)
        assert isinstance(freed, Ended)
        self.stage.held("r2")

    def write(self, batch: Sequence[Snapshot], progress: Progress) -> None:
        """Write a batch under the guard."""
        with self.stage.engine.begin() as connection:
            self.stage.guard.protect(connection, key(), self.presence)
            store.write_snapshots(connection, self.run.id, self.config.id, batch, progress)

    def assert_held(self) -> None:
        """What ``current_guard()`` offers."""
        self.stage.guard.assert_held(key(), self.presence)

    def written(self) -> int:
        """How many snapshots there are."""
        with self.stage.engine.begin() as connection:
            return len(store.list_done(connection, self.run.id))


@pytest.fixture
def checking(engine: Engine, shop: RankConfig) -> Checking:
    """A check that is about to begin, and holds the key."""
    return Checking(engine, shop)


@pytest.fixture
def make_source(client: httpx.Client, checking: Checking) -> Callable[..., DataForSeoSource[int]]:
    """Make a source that pays from the check's ledger; it waits as told."""

    def make(sleep: Callable[[float], None] = lambda _: None) -> DataForSeoSource[int]:
        purse = checking.purse
        return DataForSeoSource(client, purse, purse, assert_held=checking.assert_held, sleep=sleep)

    return make


def lost_during(checking: Checking) -> Callable[[Call], None]:
    """Take the key away while a call is at the provider."""

    def fault(call: Call) -> None:
        call.pay()
        checking.lose()
        call.send(call.answer())

    return fault


@pytest.mark.parametrize("batch", [1, 10])
def test_a_key_lost_during_a_call_is_missed_before_the_next(
    checking: Checking, provider: Provider, make_source: Callable[..., DataForSeoSource[int]], batch: int
) -> None:
    """The call under way is the last one paid for, also where snapshots are written ten by ten."""
    provider.fails("b", lost_during(checking))
    with pytest.raises(GuardLost):
        check(checking.config, checking.keywords, make_source(), checking.write, batch=batch)
    assert [call["keyword"] for call in provider.calls] == ["a", "b"]
    assert checking.written() == (1 if batch == 1 else 0)


def test_a_key_lost_between_two_tries_is_missed_before_the_second(
    checking: Checking, provider: Provider, make_source: Callable[..., DataForSeoSource[int]]
) -> None:
    """A wait may be long: each try asks the guard anew, and when there is no call nothing is paid for."""
    provider.fails("b", http(429))
    with pytest.raises(GuardLost):
        check(checking.config, checking.keywords, make_source(lambda _: checking.lose()), checking.write, batch=1)
    assert [call["keyword"] for call in provider.calls] == ["a", "b"]
    assert dict(provider.paid) == {("a", "desktop"): 1}
    assert len(checking.purse.reserved) == len(checking.purse.settled) == 3
    assert checking.purse.spent == provider.due
    assert checking.written() == 1


def test_one_page_at_a_time_asks_the_guard_before_each_call(
    checking: Checking, provider: Provider, source: DataForSeoSource[int]
) -> None:
    """Also with a source that knows no guard: the write of one page comes before the next call."""
    provider.fails("b", lost_during(checking))
    with pytest.raises(GuardLost):
        check(checking.config, checking.keywords, source, checking.write, batch=1)
    assert [call["keyword"] for call in provider.calls] == ["a", "b"]
    assert checking.written() == 1


def test_a_key_that_is_held_loses_nothing(
    checking: Checking, provider: Provider, make_source: Callable[..., DataForSeoSource[int]]
) -> None:
    """The same check, undisturbed, has all its snapshots."""
    check(checking.config, checking.keywords, make_source(), checking.write, batch=1)
    assert checking.written() == len(KEYWORDS) == provider.paid.total()
