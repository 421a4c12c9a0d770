"""Mapped tasks, retries, clears, crashes and lost answers in any order: never a paid call above the ceiling."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from itertools import cycle
from threading import Barrier

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_rankguard.guard.database import Database as GuardDatabase
from airflow_rankguard.guard.engines import create_guard_engine
from airflow_rankguard.rank import calling, queued, rate
from airflow_rankguard.rank.check import Summary
from airflow_rankguard.rank.values import Pair, RankConfig
from tests.databases import Database
from tests.dataforseo.conftest import Connect
from tests.dataforseo.deaths import POINTS
from tests.dataforseo.mapped import DEPTHS, ENOUGH, KEYWORDS, LIVE, QUEUE, CountingProvider, Death, MappedCheck
from tests.dataforseo.provider import Provider, served
from tests.machines import run_machine

EXAMPLES = {"sqlite": 20, "postgres": 20}
STEPS = 25
MODES = ("live", "queued")
# Of twelve searches one costs 0.002 live or 0.0006 through the queue; by the price list more where it is deep.
CEILINGS = [Decimal(tenths) / 10_000 for tenths in (60, 36, 120, 250, 20, 5, 0)]
tasks, modes = st.integers(min_value=0, max_value=len(KEYWORDS) - 1), st.sampled_from(MODES)
deaths = st.none() | st.tuples(st.sampled_from(sorted(POINTS)), st.integers(min_value=1, max_value=2))
minutes, keywords = st.sampled_from((5, 0, 20)), st.sets(st.sampled_from(KEYWORDS))
faults_live, faults_queued = (st.lists(st.sampled_from(sorted(some)), max_size=2) for some in (LIVE, QUEUE))


class MoneyMachine(RuleBasedStateMachine):
    """A DagRun's mapped tasks, and a provider that counts what it is paid.

    :param check: of a database that nobody else uses.
    """

    def __init__(self, check: MappedCheck) -> None:
        super().__init__()
        self.check, self.ceiling = check, Decimal(0)
        self.before: Counter[tuple[str, str]] = Counter()
        self.excused: Counter[Pair] = Counter()

    @initialize(depth=st.sampled_from(DEPTHS), ceiling=st.sampled_from(CEILINGS))
    def begin(self, depth: int, ceiling: Decimal) -> None:
        """A DagRun begins."""
        self.check.begin(depth)
        self.ceiling = ceiling

    @rule(task=tasks, death=deaths, faults=faults_live)
    def attempt_live(self, task: int, death: Death, faults: Sequence[str]) -> None:
        """A task asks for its pages at once, and may die."""
        self._attempt({task: ("live", death)}, faults)

    @rule(task=tasks, minutes=minutes, ready=keywords, death=deaths, faults=faults_queued)
    def attempt_queued(self, task: int, minutes: int, ready: set[str], death: Death, faults: Sequence[str]) -> None:
        """A task posts its searches or comes back for their pages, of which the provider has some, and may die."""
        self._pass_time(minutes, ready)
        self._attempt({task: ("queued", death)}, faults)

    @rule(
        alone=tasks,
        both=st.tuples(modes, modes),
        minutes=minutes,
        ready=keywords,
        death=deaths,
        faults=faults_live | faults_queued,
    )
    def attempt_together(
        self,
        alone: int,
        both: tuple[str, str],
        minutes: int,
        ready: set[str],
        death: Death,
        faults: Sequence[str],
    ) -> None:
        """All tasks but one do what they do, at once, and one of them may die."""
        self._pass_time(minutes, ready)
        first, second = (task for task in range(len(KEYWORDS)) if task != alone)
        self._attempt({first: (both[0], death), second: (both[1], None)}, faults)

    def _pass_time(self, minutes: int, ready: set[str]) -> None:
        self.check.pass_time(minutes)
        done = self.check.provider.queue.done
        assert done is not None
        done |= ready

    def _attempt(self, tried: dict[int, tuple[str, Death]], faults: Sequence[str]) -> None:
        for task, fault in zip(cycle(tried), faults, strict=False):
            self.check.fails(task, fault)
        settled, together = self.check.settled(), Barrier(len(tried))

        def run(task: int) -> bool:
            mode, death = tried[task]
            together.wait(timeout=60)
            return self.check.attempt(task, mode, self.ceiling, death) is None

        with ThreadPoolExecutor(len(tried)) as pool:
            died = [task for task, has_died in zip(tried, pool.map(run, tried), strict=True) if has_died]
        for task in died:
            self._excuse(task, tried[task][1], settled)

    def _excuse(self, task: int, death: Death, settled: Counter[Pair]) -> None:
        """Only the page whose price a dying process kept, and not its row, is paid for again."""
        new = (self.check.settled() - settled).keys() - self.check.done().keys()
        excused = new & self.check.pairs([task]).keys()
        assert not excused or (len(excused) == 1 and death and death[0] == "before its row is written")
        self.excused.update(excused)

    @rule()
    def clear(self) -> None:
        """The run is cleared, and all is measured anew; what it paid for counts on."""
        self.check.clear()
        self.before, self.excused = self.check.provider.paid.copy(), Counter()

    @rule(more=st.sampled_from(CEILINGS[:-1]))
    def raise_ceiling(self, more: Decimal) -> None:
        """Somebody lets the run spend more."""
        self.ceiling += more

    @invariant()
    def nothing_is_paid_above_the_ceiling(self) -> None:
        """The provider has been paid no more than the ledger says, and that is no more than the ceiling."""
        assert self.check.provider.due <= self.check.spent <= self.ceiling

    @invariant()
    def nothing_is_paid_for_twice(self) -> None:
        """In the queue once over all lives and deaths; at once in each life, but for what a death excuses."""
        assert set(self.check.provider.queue.paid.values()) <= {1}
        paid = self.check.provider.paid - self.before
        for pair, search in self.check.pairs().items():
            assert paid[search] <= 1 + self.excused[pair], search

    def teardown(self) -> None:
        """With money, time and a provider in order a run ends: each search has its row, and the run is whole."""
        self.check.mend()
        for task, mode in zip(range(len(KEYWORDS)), cycle(MODES), strict=False):
            self.check.attempt(task, mode, ENOUGH)
            self.check.pass_time(20)  # what an earlier try has posted is waited for in both modes
            summary = self.check.attempt(task, mode, ENOUGH)
            assert isinstance(summary, Summary)
            assert (summary.waiting, summary.progress.open, summary.stopped) == (0, 0, None)
        assert self.check.done().keys() == self.check.pairs().keys()
        assert self.check.is_whole()


@pytest.fixture
def provider() -> Iterator[Provider]:
    """The server."""
    with served(CountingProvider()) as opened:
        yield opened


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits: not between two tries of a call, nor for the account's turn."""

    class Fast(rate.Rate):
        def __init__(self, database: GuardDatabase, account: str, per_minute: int = 10**7) -> None:
            super().__init__(database, account, per_minute)

    monkeypatch.setattr(rate, "Rate", Fast)
    monkeypatch.setattr(calling, "BACK_OFF", lambda _: 0)
    monkeypatch.setattr(queued, "LISTS_PER_MINUTE", 10**7)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("unhurried")
def test_nothing_is_paid_above_the_ceiling_in_any_order(
    database: Database, backend: str, shop: RankConfig, connect: Connect, provider: CountingProvider
) -> None:
    """Three tasks of a run, live or queued, their deaths, clears and lost answers: what it owes stays in its bounds."""
    connect()
    engine = create_guard_engine(database.task_url, schema=database.schema, pooled=True)
    machine = partial(MoneyMachine, MappedCheck(engine, shop, provider))
    run_machine(machine, examples=EXAMPLES[backend], steps=STEPS)
    engine.dispose()
